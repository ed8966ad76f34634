package rollback

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/labels"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// metadataProblem returns why a deleted volume group cannot be restored, or "".
func metadataProblem(d state.Desired, s state.NodeState) string {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	if problem := labels.GroupProblem(d, s, nil); problem != "" {
		return problem
	}
	switch a := s.Metadata.Archive; {
	case a.Err != nil:
		return fmt.Sprintf("%s: its earlier metadata cannot be used: %v", where, a.Err)
	case a.Metadata == nil:
		return where + ": its earlier metadata was not read yet"
	case len(a.ThinPools) > 0:
		return fmt.Sprintf("%s had the thin pool %s: when a volume group is deleted, LVM deletes the volumes in the "+
			"metadata of the pool too, so the metadata of the volume group does not bring them back; restore their "+
			"data from a backup; to create the volume group again, %s", where, state.Joined(a.ThinPools),
			recovery.LostDevicesHint(d))
	}
	for _, uuid := range s.Metadata.Archive.PVs {
		switch pv := health.Unassigned(s, uuid); {
		case pv == nil:
			return fmt.Sprintf("%s: its physical volume %s (%s) is not attached, has lost its label, or belongs to "+
				"another volume group now: all its physical volumes are needed", where, uuid, state.BeforeOf(s,
				uuid).Name)
		case s.Health.Failing[state.NumberOf(*pv)] != nil:
			return fmt.Sprintf("%s: device %s (physical volume %s) is failing: %v", where, pv.Name, uuid,
				s.Health.Failing[state.NumberOf(*pv)])
		}
	}
	return ""
}

// newDeletedPlan returns with which metadata a deleted volume group is restored. It returns in problem why it cannot
// be. objects are the volumes of the device class according to the API.
func newDeletedPlan(d state.Desired, s state.NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	if problem := metadataProblem(d, s); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created,
		VolumeGroupUUID: s.Metadata.Archive.UUID, MetadataSource: recovery.Describe(s.Metadata.Archive.Metadata)}
	for _, uuid := range s.Metadata.Archive.PVs {
		p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: uuid, Name: health.Unassigned(s, uuid).Name,
			DeviceID: state.BeforeOf(s, uuid).DeviceID})
	}
	p.ID = recoveryplan.ID(v1alpha1.RecoveryRestoreMetadata, d.Node, d.Name, p)
	labels.CountVolumes(p, s.Metadata.Archive.Metadata, objects)
	return p, ""
}

// RestoreAction is the next action of an approved recovery of a volume group that is missing, or is empty.
func RestoreAction(d state.Desired, s state.NodeState) state.Action {
	if allowsMetadata(d, s) {
		return state.Action{Kind: state.RestoreGroup, Change: lvm.GroupRestore{VG: d.Name,
			UUID: s.Metadata.Archive.UUID, File: s.Metadata.Archive.File}}
	}
	return labels.Action(d, s, nil)
}

// allowsMetadata returns true if the approval is for the metadata that would be restored now.
func allowsMetadata(d state.Desired, s state.NodeState) bool {
	r := d.Open.Approved
	if r == nil || r.Action != v1alpha1.RecoveryRestoreMetadata {
		return false
	}
	p, problem := newDeletedPlan(d, s, nil, r.Created)
	return problem == "" && p.ID == r.PlanID
}

// Status is RecoveryStatus for the restore of a deleted volume group.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	if vg != nil && (d.Open.Approved == nil || d.Open.Approved.Replaces) {
		return rollbackStatus(o, d, r)
	}
	switch {
	case d.Open.Approved != nil && vg != nil && vg.UUID == status.Plan.VolumeGroupUUID:
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &r.Now
		status.Message = fmt.Sprintf("volume group %s on node %s was restored; volumes that it does not have: %d",
			d.Name, d.Node, status.Plan.LostVolumeCount)
	case allowsMetadata(d, o.Node):
		recovery.SetRunning(&status, recovery.Progress(o, nil), r.Now)
	default:
		d.Open.Approved = nil
		recovery.RenewPlan(&status, r.Recovery.Spec.ApprovedPlan, r.Now,
			func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
				return newDeletedPlan(d, o.Node, r.Volumes, created)
			}, metadataConsequence)
	}
	return status
}

// metadataConsequence describes the plan of a restore of a volume group.
func metadataConsequence(p *v1alpha1.RecoveryPlan) string {
	return fmt.Sprintf("the volume group is restored with the metadata in %s; volumes restored: %d, volumes that the "+
		"metadata does not have: %d; data that was written to the devices since then, or discarded, is not restored",
		p.MetadataSource, p.KeptVolumeCount, p.LostVolumeCount)
}
