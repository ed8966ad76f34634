package plan

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// planRemoval removes the volume group from the node, one change after another. It never removes a group with
// volumes, and not before the API server was asked for objects whose volumes the group does not have (unaccounted).
//
// After a crash, the next observation shows what is left: the class in the file, the pool, the volume group. Only the
// labels of the physical volumes are not recognizable after the group is removed, so their UUIDs are recorded before
// (NodeState.Released).
func planRemoval(w Desired, s NodeState) Plan {
	vg := GroupOf(w, s)
	if problems := duplicates(w, s); len(problems) > 0 {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	switch {
	case vg == nil && w.Deleting && vanished(s) && !recovers(w, s, nil) && unaccounted(w, s, nil) != "":
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: lostGroup(w, s), Lost: true}
	case vg == nil:
		return planLabels(s)
	case notOurs(w, vg) != "":
		// The group belongs to another owner and is not changed.
		return withdrawn(s, Plan{Finished: true})
	}
	p := Plan{State: v1alpha1.VGStatusProgressing}
	if problem := frozen(w, vg); problem != "" {
		return Plan{State: v1alpha1.VGStatusDegraded,
			Problems: []Problem{{Event: EventManualCleanup, Message: problem}}}
	}
	if recovers(w, s, vg) {
		return planRecovery(w, s, vg)
	}
	if volumes := userVolumes(w, vg); len(volumes) > 0 {
		return planWait(w, s, vg, volumes)
	}
	if broken := brokenGroup(w, s, vg); len(broken) > 0 {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: broken}
	}
	if why := unaccounted(w, s, vg); why != "" {
		return planUnaccounted(w, s, vg, why)
	}
	kept := keptMetadata(w, vg)
	if len(kept) > 0 || w.Spec.ThinPoolConfig != nil && vg.LV(w.Spec.ThinPoolConfig.Name) != nil {
		p.Action = Action{Kind: RemovePool, Volumes: kept}
	} else {
		p.Action = Action{Kind: RemoveVG, PVs: vg.PVs}
	}
	return withdrawn(s, p)
}

// planLeaving is the plan for a node that the device class no longer selects. Existing volumes stay and remain
// available; new ones are refused. After the last volume is deleted, the volume group is removed as if the device
// class were deleted. A group whose devices are missing may have volumes, so it is not treated as removed.
func planLeaving(w Desired, s NodeState) Plan {
	vg := GroupOf(w, s)
	if problems := namesakes(w, s); len(problems) > 0 {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	if vg == nil && vanished(s) && !recovers(w, s, nil) {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: lostGroup(w, s), Lost: true}
	}
	if vg == nil || notOurs(w, vg) != "" {
		return planRemoval(w, s)
	}
	volumes := userVolumes(w, vg)
	if len(volumes) == 0 {
		return planRemoval(w, s)
	}
	p := planUpkeep(w, s, vg, choice{})
	if p.State == v1alpha1.VGStatusReady {
		p.Note = fmt.Sprintf("the device class no longer selects node %s: its volumes stay (%s), no new ones "+
			"are created, and the volume group is removed when the last volume is deleted", w.Node, joined(volumes))
	}
	return p
}

// vanished returns true if a volume group is missing that the agent did not remove. The agent records what it
// removes.
func vanished(s NodeState) bool {
	return s.Class != nil || slices.ContainsFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return !slices.Contains(s.Released, pv.UUID)
	})
}

// planRecovery performs the approved recovery of a volume group that is to be removed.
func planRecovery(w Desired, s NodeState, vg *lvm.VG) Plan {
	requests := planDevices(w, s, vg)
	return Plan{State: v1alpha1.VGStatusDegraded, Problems: append(brokenGroup(w, s, vg), requests.problems...),
		Action: nextOf(s, requests.actions), notes: requests.notes, Waiting: true}
}

// withdrawn withdraws the class before any other change, so that no volume is created in a group that is being
// removed.
func withdrawn(s NodeState, p Plan) Plan {
	if s.Class == nil {
		return p
	}
	return Plan{State: v1alpha1.VGStatusProgressing, Action: Action{Kind: WithdrawClass}}
}

// planUnaccounted keeps a volume group that is to be removed and lacks volumes of the cluster, for the reason why. It
// is maintained as before, so that its metadata can be restored. The class accepts no new volumes, and claims of
// volumes that the group does not have can be deleted.
func planUnaccounted(w Desired, s NodeState, vg *lvm.VG, why string) Plan {
	p := planUpkeep(w, s, vg, choice{})
	p.State = v1alpha1.VGStatusDegraded
	if !slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Message == why }) {
		p.Problems = append(p.Problems, Problem{Event: EventInconsistentVolumes,
			Condition: v1alpha1.ConditionVolumesHealthy, Reason: v1alpha1.ReasonVolumesBroken, Message: why})
	}
	return p
}

// planWait waits until the volumes are deleted. Until then they are maintained and their health is reported as before;
// only new ones are refused.
func planWait(w Desired, s NodeState, vg *lvm.VG, volumes []string) Plan {
	p := planUpkeep(w, s, vg, choice{})
	if p.State == v1alpha1.VGStatusReady {
		p.State = v1alpha1.VGStatusProgressing
	}
	p.Problems = append(p.Problems, Problem{Event: EventManualCleanup, Message: fmt.Sprintf(
		"volume group %s on node %s is not removed while it has logical volumes: %s; delete their "+
			"PersistentVolumeClaims, PersistentVolumes and VolumeSnapshots", w.Name, w.Node, joined(volumes))})
	return p
}

// IsRemoval returns true if the volume group is to be removed and LVM lists no volume of it, so that its devices and
// their health no longer matter.
func IsRemoval(w Desired, s NodeState) bool {
	vg := GroupOf(w, s)
	return (w.Deleting || w.Leaving) && !w.UsesExisting() &&
		(vg == nil || vg.MissingPVs == 0 && len(userVolumes(w, vg)) == 0)
}

// userVolumes returns all logical volumes except the pool and its previous metadata.
func userVolumes(w Desired, vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if w.Spec.ThinPoolConfig != nil && lv.Name == w.Spec.ThinPoolConfig.Name && lv.Attr.IsThinPool() ||
			isKeptMetadata(w, lv) {
			continue
		}
		names = append(names, lv.Name)
	}
	slices.Sort(names)
	return names
}

// planLabels is the plan for a node without the volume group: it removes the labels that the group left.
func planLabels(s NodeState) Plan {
	if left := labelsLeft(s); left.Kind != Nothing {
		return withdrawn(s, Plan{State: v1alpha1.VGStatusProgressing, Action: left})
	}
	return withdrawn(s, Plan{Finished: true})
}
