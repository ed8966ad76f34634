package plan

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// isDeleted returns true if all physical volumes of the missing volume group belong to no volume group.
func isDeleted(s NodeState) bool {
	return len(s.Before.PhysicalVolumes) > 0 &&
		!slices.ContainsFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
			return unassigned(s, pv.UUID) == nil
		})
}

// unassigned returns the physical volume with this UUID if it belongs to no volume group, or nil.
func unassigned(s NodeState, uuid string) *lvm.PV {
	at := slices.IndexFunc(s.Report.Unassigned, func(pv lvm.PV) bool { return pv.UUID == uuid })
	if at < 0 {
		return nil
	}
	return &s.Report.Unassigned[at]
}

// metadataProblem returns why a deleted volume group cannot be restored, or "".
func metadataProblem(w Desired, s NodeState) string {
	where := fmt.Sprintf("volume group %s on node %s", w.Name, w.Node)
	if problem := groupProblem(w, s, nil); problem != "" {
		return problem
	}
	switch a := s.Archive; {
	case a.Err != nil:
		return fmt.Sprintf("%s: its earlier metadata cannot be used: %v", where, a.Err)
	case a.Metadata == nil:
		return where + ": its earlier metadata was not read yet"
	case len(a.ThinPools) > 0:
		return fmt.Sprintf("%s had the thin pool %s: when a volume group is deleted, LVM deletes the volumes in the "+
			"metadata of the pool too, so the metadata of the volume group does not bring them back; restore their "+
			"data from a backup; to create the volume group again, %s", where, joined(a.ThinPools), recoveryHint(w))
	}
	for _, uuid := range s.Archive.PVs {
		switch pv := unassigned(s, uuid); {
		case pv == nil:
			return fmt.Sprintf("%s: its physical volume %s (%s) is not attached, has lost its label, or belongs to "+
				"another volume group now: all its physical volumes are needed", where, uuid, beforeOf(s, uuid).Name)
		case s.Failing[NumberOf(*pv)] != nil:
			return fmt.Sprintf("%s: device %s (physical volume %s) is failing: %v", where, pv.Name, uuid,
				s.Failing[NumberOf(*pv)])
		}
	}
	return ""
}

// NewMetadataPlan returns with which metadata a deleted volume group is restored. It returns in problem why it cannot
// be. objects are the volumes of the device class according to the API.
func NewMetadataPlan(w Desired, s NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	if problem := metadataProblem(w, s); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created,
		VolumeGroupUUID: s.Archive.UUID, MetadataSource: describe(s.Archive.Metadata)}
	for _, uuid := range s.Archive.PVs {
		p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: uuid, Name: unassigned(s, uuid).Name,
			DeviceID: beforeOf(s, uuid).DeviceID})
	}
	p.ID = v1alpha1.PlanID(v1alpha1.RecoveryRestoreMetadata, w.Node, w.Name, p)
	countVolumes(p, s.Archive.Metadata, objects)
	return p, ""
}

// restoreAction is the next action of an approved recovery of a volume group that is missing, or is empty.
func restoreAction(w Desired, s NodeState) Action {
	if allowsMetadata(w, s) {
		return Action{Kind: RestoreGroup}
	}
	return labelAction(w, s, nil)
}

// allowsMetadata returns true if the approval is for the metadata that would be restored now.
func allowsMetadata(w Desired, s NodeState) bool {
	r := w.Recovery
	if r == nil || r.Action != v1alpha1.RecoveryRestoreMetadata {
		return false
	}
	p, problem := NewMetadataPlan(w, s, nil, r.Created)
	return problem == "" && p.ID == r.PlanID
}

// metadataStatus is RecoveryStatus for the restore of a deleted volume group.
func (o Outcome) metadataStatus(w Desired, r *v1alpha1.LVMRecovery, volumes []v1alpha1.RecoveryVolume,
	status v1alpha1.LVMRecoveryStatus, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	vg := GroupOf(w, o.Node)
	if vg != nil && (w.Recovery == nil || w.Recovery.Replaces) {
		return o.rollbackStatus(w, r, volumes, status, now)
	}
	switch {
	case w.Recovery != nil && vg != nil && vg.UUID == status.Plan.VolumeGroupUUID:
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
		status.Message = fmt.Sprintf("volume group %s on node %s was restored; volumes that it does not have: %d",
			w.Name, w.Node, status.Plan.LostVolumeCount)
	case allowsMetadata(w, o.Node):
		setRunning(&status, o.progress(nil), now)
	default:
		w.Recovery = nil
		renewPlan(&status, r.Spec.ApprovedPlan, now, func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
			return NewMetadataPlan(w, o.Node, volumes, created)
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
