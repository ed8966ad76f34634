package plan

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolrepair"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// planRemoval removes the volume group from the node, one change after another. It never removes a group with
// volumes, and not before the API server was asked for objects whose volumes the group does not have (unaccounted).
//
// After a crash, the next observation shows what is left: the class in the file, the pool, the volume group. Only the
// labels of the physical volumes are not recognizable after the group is removed, so their UUIDs are recorded before
// (state.Records.Released).
func planRemoval(d state.Desired, s state.NodeState) state.Plan {
	vg := ownership.GroupOf(d, s)
	if problems := ownership.Duplicates(d, s); len(problems) > 0 {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	switch {
	case vg == nil:
		return planRemoved(d, s)
	case ownership.NotOurs(d, vg) != "":
		// The group belongs to another owner and is not changed.
		return state.Withdrawn(s, state.Plan{Finished: true})
	}
	p := state.Plan{State: v1alpha1.VGStatusProgressing}
	if problem := ownership.Frozen(d, vg); problem != "" {
		return state.Plan{State: v1alpha1.VGStatusDegraded,
			Problems: []state.Problem{{Event: state.EventManualCleanup, Message: problem}}}
	}
	if lostdevices.Recovers(d, s, vg) {
		return planRecovery(d, s, vg)
	}
	if volumes := userVolumes(d, vg); len(volumes) > 0 {
		return planWait(d, s, vg, volumes)
	}
	if broken := health.BrokenGroup(d, s, vg); len(broken) > 0 {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: broken}
	}
	if why := doubt.Unaccounted(d, s, vg); why != "" {
		return planUnaccounted(d, s, vg, why)
	}
	kept := poolrepair.KeptMetadata(d, vg)
	if len(kept) > 0 || d.Spec.ThinPoolConfig != nil && vg.LV(d.Spec.ThinPoolConfig.Name) != nil {
		p.Action = state.Action{Kind: state.RemovePool, Target: state.Volumes(kept)}
	} else {
		p.Action = state.Action{Kind: state.RemoveVG, Target: state.PVs(vg.PVs), Change: lvm.VGRemove{VG: d.Name}}
	}
	return state.Withdrawn(s, p)
}

// planRemoved is the plan for a node that has no such volume group, or no longer.
func planRemoved(d state.Desired, s state.NodeState) state.Plan {
	if d.Deleting && vanished(s) && !lostdevices.Recovers(d, s, nil) && doubt.Unaccounted(d, s, nil) != "" {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: health.LostGroup(d, s), Lost: true}
	}
	return planLabels(s)
}

// planLeaving is the plan for a node that the device class no longer selects. Existing volumes stay and remain
// available; new ones are refused. After the last volume is deleted, the volume group is removed as if the device
// class were deleted. A group whose devices are missing may have volumes, so it is not treated as removed.
func planLeaving(d state.Desired, s state.NodeState) state.Plan {
	vg := ownership.GroupOf(d, s)
	if problems := ownership.Namesakes(d, s); len(problems) > 0 {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	if vg == nil && vanished(s) && !lostdevices.Recovers(d, s, nil) {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: health.LostGroup(d, s), Lost: true}
	}
	if vg == nil || ownership.NotOurs(d, vg) != "" {
		return planRemoval(d, s)
	}
	volumes := userVolumes(d, vg)
	if len(volumes) == 0 {
		return planRemoval(d, s)
	}
	p := planUpkeep(d, s, vg, selection.Choice{})
	if p.State == v1alpha1.VGStatusReady {
		p.Note = fmt.Sprintf("the device class no longer selects node %s: its volumes stay (%s), no new ones "+
			"are created, and the volume group is removed when the last volume is deleted", d.Node,
			state.Joined(volumes))
	}
	return p
}

// vanished returns true if a volume group is missing that the agent did not remove. The agent records what it
// removes.
func vanished(s state.NodeState) bool {
	return s.Class != nil || slices.ContainsFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return !slices.Contains(s.Records.Released, pv.UUID)
	})
}

// planRecovery performs the approved recovery of a volume group that is to be removed.
func planRecovery(d state.Desired, s state.NodeState, vg *lvm.VG) state.Plan {
	requests := members.Plan(d, s, vg)
	return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: append(health.BrokenGroup(d, s, vg),
		requests.Problems...), Action: state.NextOf(s, requests.Actions), Notes: requests.Notes, Waiting: true}
}

// planUnaccounted keeps a volume group that is to be removed and lacks volumes of the cluster, for the reason why. It
// is maintained as before, so that its metadata can be restored. The class accepts no new volumes, and claims of
// volumes that the group does not have can be deleted.
func planUnaccounted(d state.Desired, s state.NodeState, vg *lvm.VG, why string) state.Plan {
	p := planUpkeep(d, s, vg, selection.Choice{})
	p.State = v1alpha1.VGStatusDegraded
	if !slices.ContainsFunc(p.Problems, func(q state.Problem) bool { return q.Message == why }) {
		p.Problems = append(p.Problems, state.Problem{Event: state.EventInconsistentVolumes,
			Condition: v1alpha1.ConditionVolumesHealthy, Reason: v1alpha1.ReasonVolumesBroken, Message: why})
	}
	return p
}

// planWait waits until the volumes are deleted. Until then they are maintained and their health is reported as before;
// only new ones are refused.
func planWait(d state.Desired, s state.NodeState, vg *lvm.VG, volumes []string) state.Plan {
	p := planUpkeep(d, s, vg, selection.Choice{})
	if p.State == v1alpha1.VGStatusReady {
		p.State = v1alpha1.VGStatusProgressing
	}
	p.Problems = append(p.Problems, state.Problem{Event: state.EventManualCleanup, Message: fmt.Sprintf(
		"volume group %s on node %s is not removed while it has logical volumes: %s; delete their "+
			"PersistentVolumeClaims, PersistentVolumes and VolumeSnapshots", d.Name, d.Node, state.Joined(volumes))})
	return p
}

// IsRemoval returns true if the volume group is to be removed and LVM lists no volume of it, so that its devices and
// their health no longer matter.
func IsRemoval(d state.Desired, s state.NodeState) bool {
	vg := ownership.GroupOf(d, s)
	return (d.Deleting || d.Leaving) && !d.UsesExisting() &&
		(vg == nil || vg.MissingPVs == 0 && len(userVolumes(d, vg)) == 0)
}

// userVolumes returns all logical volumes except the pool and its previous metadata.
func userVolumes(d state.Desired, vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if d.Spec.ThinPoolConfig != nil && lv.Name == d.Spec.ThinPoolConfig.Name && lv.Attr.IsThinPool() ||
			poolrepair.IsKeptMetadata(d, lv) {
			continue
		}
		names = append(names, lv.Name)
	}
	slices.Sort(names)
	return names
}

// planLabels is the plan for a node without the volume group: it removes the labels that the group left.
func planLabels(s state.NodeState) state.Plan {
	if left := labelsLeft(s); left.Kind != state.Nothing {
		return state.Withdrawn(s, state.Plan{State: v1alpha1.VGStatusProgressing, Action: left})
	}
	return state.Withdrawn(s, state.Plan{Finished: true})
}
