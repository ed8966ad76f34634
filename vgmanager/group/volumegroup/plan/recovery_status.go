package plan

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ApprovedRecovery returns what an LVMRecovery allows, or nil if its current plan is not approved.
func ApprovedRecovery(r *v1alpha1.LVMRecovery) *Recovery {
	p := r.Status.Plan
	if p == nil || p.ID == "" || r.Spec.ApprovedPlan != p.ID || r.Status.Phase == v1alpha1.RecoverySucceeded {
		return nil
	}
	return NewRecovery(r.Name, r.Spec.Action, p)
}

// RecoveryStatus returns the status of the LVMRecovery that is next for the volume group. volumes are the volumes of
// the device class on this node according to the API. An approval is valid only for the loss that the approved plan
// lists; otherwise there is a new plan.
func (o Outcome) RecoveryStatus(w Desired, r *v1alpha1.LVMRecovery, volumes []v1alpha1.RecoveryVolume,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	status := *r.Status.DeepCopy()
	if o.ObserveFailed {
		// The phase stays. A failed observation changes no plan.
		status.Message = fmt.Sprintf("node %s could not be observed: %v", w.Node, o.Err)
		return withCondition(status, r.Generation, now)
	}
	switch r.Spec.Action {
	case v1alpha1.RecoveryRepairThinPool:
		return withCondition(o.repairStatus(w, r, volumes, status, now), r.Generation, now)
	case v1alpha1.RecoveryFreePoolSpace:
		return withCondition(o.spaceStatus(w, r, status, now), r.Generation, now)
	case v1alpha1.RecoveryRestoreLabels:
		return withCondition(o.labelStatus(w, r, volumes, status, now), r.Generation, now)
	case v1alpha1.RecoveryRestoreMetadata:
		return withCondition(o.metadataStatus(w, r, volumes, status, now), r.Generation, now)
	case v1alpha1.RecoveryAcceptMetadata:
		return withCondition(o.acceptStatus(w, r, status, now), r.Generation, now)
	case v1alpha1.RecoveryImportVolumes:
		return withCondition(o.importStatus(w, r, status, now), r.Generation, now)
	case v1alpha1.RecoveryDeleteOrphans:
		return withCondition(o.orphanStatus(w, r, status, now), r.Generation, now)
	case v1alpha1.RecoveryCheckFileSystems:
		return withCondition(o.checkStatus(w, r, status, now), r.Generation, now)
	}
	switch vg := GroupOf(w, o.Node); {
	case w.Recovery != nil && w.Recovery.hasEnded(vg):
		status.Phase, status.Message = v1alpha1.RecoverySucceeded, succeeded(w, status.Plan)
		status.CompletionTime = &now
	case w.Recovery != nil && recovers(w, o.Node, vg):
		setRunning(&status, o.progress(vg), now)
	default:
		if w.Recovery != nil && w.Recovery.Unattended {
			status.Plan = nil // another ID
		}
		w.Recovery = nil
		renewPlan(&status, r.Spec.ApprovedPlan, now, func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
			return NewRecoveryPlan(w, o.Node, volumes, created)
		}, consequence)
	}
	return withCondition(status, r.Generation, now)
}

// setRunning sets the phase of a recovery that is being carried out.
func setRunning(status *v1alpha1.LVMRecoveryStatus, progress string, now metav1.Time) {
	status.Phase, status.Message = v1alpha1.RecoveryRunning, progress
	if status.StartTime == nil {
		status.StartTime = &now
	}
}

// renewPlan sets the current plan, which is not approved, or why there is none. The plan stays the same, with its
// creation time, as long as it has the same content.
func renewPlan(status *v1alpha1.LVMRecoveryStatus, approved string, now metav1.Time,
	newPlan func(created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string),
	consequence func(*v1alpha1.RecoveryPlan) string) {
	status.StartTime = nil
	created := now
	if status.Plan != nil {
		created = status.Plan.CreationTime
	}
	p, problem := newPlan(created)
	if problem != "" {
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, problem, nil
		return
	}
	if status.Plan == nil || status.Plan.ID != p.ID {
		p, _ = newPlan(now)
		status.Plan = p
	}
	awaitApproval(status, approved, consequence(p))
}

// awaitApproval sets the phase of a recovery whose current plan is not approved.
func awaitApproval(status *v1alpha1.LVMRecoveryStatus, approved, consequence string) {
	id := status.Plan.ID
	status.Phase = v1alpha1.RecoveryAwaitingApproval
	status.Message = fmt.Sprintf("%s; to approve this, set spec.approvedPlan to %s", consequence, id)
	if approved != "" && approved != id {
		status.Message = fmt.Sprintf("the approved plan %s is not the current one: %s", approved, status.Message)
	}
}

// hasEnded returns true if all devices were removed from the volume group. A device that is attached again ends the
// recovery without success.
//
// If the whole group was lost because it was deleted, LVM creates the new one on the same physical volumes. The new one
// has none of the lost volumes, or no volumes at all if none is known to be lost.
func (r *Recovery) hasEnded(vg *lvm.VG) bool {
	if vg == nil {
		return false
	}
	isLost := func(lv lvm.LV) bool {
		return !lv.Attr.IsThinPool() && (len(r.Names) == 0 || slices.Contains(r.Names, lv.Name))
	}
	if r.WholeGroup && vg.MissingPVs == 0 && !slices.ContainsFunc(vg.LVs, isLost) {
		return true
	}
	return !slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return slices.Contains(r.Devices, pv.UUID) })
}

// progress returns what an approved recovery does or waits for.
func (o Outcome) progress(vg *lvm.VG) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	if vg == nil {
		return cmp.Or(joined(o.Plan.messages()), "the volume group is being created again")
	}
	for _, pv := range vg.PVs {
		if note := o.Plan.notes[pv.UUID]; pv.Missing && note.message != "" {
			return note.message
		}
	}
	return "in progress: " + string(o.Plan.Action.Kind)
}

// consequence describes a plan in a sentence.
func consequence(p *v1alpha1.RecoveryPlan) string {
	devices := fmt.Sprintf("%d missing devices are removed from the volume group", len(p.Devices))
	if len(p.Devices) == 1 {
		devices = "1 missing device is removed from the volume group"
	}
	switch {
	case p.LostVolumeCount == 0 && len(p.ThinPools) == 0:
		return devices + ", and no volume is lost" + failingToo(p)
	case p.VolumeGroupUUID == "":
		return fmt.Sprintf("the volume group is created again on other devices, and its volumes are lost: %d",
			p.LostVolumeCount)
	}
	return fmt.Sprintf("%s; volumes lost: %d, volumes kept: %d%s", devices, p.LostVolumeCount, p.KeptVolumeCount,
		failingToo(p))
}

// failingToo describes the devices that stay although they are failing, or returns "".
func failingToo(p *v1alpha1.RecoveryPlan) string {
	var names []string
	for _, d := range p.FailingDevices {
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; failing, and not removed: %s: request the removal of what is failing afterwards, which "+
		"moves its data to other devices", joined(names))
}

func succeeded(w Desired, p *v1alpha1.RecoveryPlan) string {
	removed := fmt.Sprintf("the missing devices were removed from volume group %s on node %s", w.Name, w.Node)
	if p.LostVolumeCount == 0 {
		return removed + ", and no volume was lost"
	}
	return fmt.Sprintf("%s; volumes lost: %d: delete their PersistentVolumeClaims, and restore the data from a backup",
		removed, p.LostVolumeCount)
}

// withCondition sets the condition Succeeded, and keeps conditions that the operator sets.
func withCondition(status v1alpha1.LVMRecoveryStatus, generation int64, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	c := metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse,
		Reason: string(cmp.Or(status.Phase, v1alpha1.RecoveryNotApplicable)), ObservedGeneration: generation,
		Message: text.Truncate(status.Message, maxConditionMessage)}
	if status.Phase == v1alpha1.RecoverySucceeded {
		c.Status = metav1.ConditionTrue
	}
	conditions := []metav1.Condition{withTransition(c, status.Conditions, now)}
	for _, other := range status.Conditions {
		if other.Type != c.Type {
			conditions = append(conditions, other)
		}
	}
	status.Conditions = conditions
	return status
}

// RejectedRecovery returns the status of an LVMRecovery that has no effect at the moment, and why.
func RejectedRecovery(r *v1alpha1.LVMRecovery, why string, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	status := *r.Status.DeepCopy()
	status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, why, nil
	return withCondition(status, r.Generation, now)
}
