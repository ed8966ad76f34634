package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/filesystems"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/labels"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/orphans"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolrepair"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolspace"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/rollback"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/volumeimport"
)

// kind is one action of LVMRecoveries.
type kind struct {
	// open adds what an open LVMRecovery requests, approved or not, to the desired state. It may be nil.
	open func(*state.Desired, *v1alpha1.LVMRecovery)
	// status returns the new status of the LVMRecovery. An approval is valid only for the loss that the approved plan
	// lists; otherwise there is a new plan.
	status func(state.Outcome, state.Desired, recovery.Request) v1alpha1.LVMRecoveryStatus
}

// recoveries are all actions of LVMRecoveries. Their changes are in order.
var recoveries = map[v1alpha1.RecoveryAction]kind{
	v1alpha1.RecoveryRemoveLostDevices: {status: lostdevices.Status},
	v1alpha1.RecoveryRepairThinPool:    {status: poolrepair.Status},
	v1alpha1.RecoveryFreePoolSpace:     {status: poolspace.Status},
	v1alpha1.RecoveryRestoreLabels:     {status: labels.Status},
	v1alpha1.RecoveryRestoreMetadata:   {status: rollback.Status},
	v1alpha1.RecoveryAcceptMetadata:    {status: doubt.AcceptStatus},
	v1alpha1.RecoveryImportVolumes:     {open: volumeimport.Open, status: volumeimport.Status},
	v1alpha1.RecoveryDeleteOrphans:     {open: orphans.Open, status: orphans.Status},
	v1alpha1.RecoveryCheckFileSystems:  {open: filesystems.Open, status: filesystems.Status},
}

// ApprovedRecovery returns what an LVMRecovery allows, or nil if its current plan is not approved.
func ApprovedRecovery(r *v1alpha1.LVMRecovery) *state.Recovery {
	p := r.Status.Plan
	if p == nil || p.ID == "" || r.Spec.ApprovedPlan != p.ID || r.Status.Phase == v1alpha1.RecoverySucceeded {
		return nil
	}
	return state.NewRecovery(r.Name, r.Spec.Action, p)
}

// Open adds the LVMRecovery that is next for the volume group to the desired state, and what it allows.
func Open(d *state.Desired, r *v1alpha1.LVMRecovery, approved *state.Recovery) {
	d.Open.Approved = approved
	d.Open.Action = r.Spec.Action
	if open := recoveries[r.Spec.Action].open; open != nil {
		open(d, r)
	}
}

// RecoveryStatus returns the status of the LVMRecovery that is next for the volume group. volumes are the volumes of
// the device class on this node according to the API.
func RecoveryStatus(o state.Outcome, d state.Desired, r *v1alpha1.LVMRecovery, volumes []v1alpha1.RecoveryVolume,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	status := *r.Status.DeepCopy()
	if o.ObserveFailed {
		// The phase stays. A failed observation changes no plan.
		status.Message = fmt.Sprintf("node %s could not be observed: %v", d.Node, o.Err)
		return recovery.WithCondition(status, r.Generation, now)
	}
	known, is := recoveries[r.Spec.Action]
	if !is {
		return RejectedRecovery(r, fmt.Sprintf("the node agent of node %s does not know the action %s: update the "+
			"operator and its node agents", d.Node, r.Spec.Action), now)
	}
	status = known.status(o, d, recovery.Request{Recovery: r, Volumes: volumes, Status: status, Now: now})
	return recovery.WithCondition(status, r.Generation, now)
}

// RejectedRecovery returns the status of an LVMRecovery that has no effect at the moment, and why.
func RejectedRecovery(r *v1alpha1.LVMRecovery, why string, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	status := *r.Status.DeepCopy()
	status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, why, nil
	return recovery.WithCondition(status, r.Generation, now)
}
