package volumegroup

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// planRemoval takes the volume group off the node, one change after another, and never while a volume is in it.
//
// After a crash at any point the next look continues: the class is in the file or not, the pool is there or not, the
// volume group is there or not. Only the labels of its physical volumes cannot be told from those of other people once
// the group is gone; therefore their UUIDs are noted before (Seen.Released).
func planRemoval(w Wanted, s Seen) Plan {
	vg := groupOf(w, s)
	if problems := duplicates(w, s); len(problems) > 0 {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	switch {
	case vg == nil:
		return planLabels(s)
	case notOurs(w, vg) != "":
		// Somebody else's: it stays as it is.
		return withdrawn(s, Plan{Finished: true})
	}
	p := Plan{State: v1alpha1.VGStatusProgressing}
	if problem := frozen(w, vg); problem != "" {
		return Plan{State: v1alpha1.VGStatusDegraded,
			Problems: []Problem{{Event: EventManualCleanup, Message: problem}}}
	}
	if volumes := userVolumes(w, vg); len(volumes) > 0 {
		return planWait(w, s, vg, volumes)
	}
	if broken := brokenGroup(w, s, vg); len(broken) > 0 {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: broken}
	}
	if w.Spec.ThinPoolConfig != nil && vg.LV(w.Spec.ThinPoolConfig.Name) != nil {
		p.Action = Action{Kind: RemovePool}
	} else {
		p.Action = Action{Kind: RemoveVG, PVs: vg.PVs}
	}
	return withdrawn(s, p)
}

// planLeaving is for a node that the device class no longer selects. Volumes that are there stay, are served and
// managed; new ones are refused. When the last is deleted, the volume group is removed as with its device class.
// One whose devices are away may have volumes, and is waited for.
func planLeaving(w Wanted, s Seen) Plan {
	vg := groupOf(w, s)
	if problems := namesakes(w, s); len(problems) > 0 {
		return Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	if vg == nil && vanished(s) {
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
			"are made, and the volume group is removed when the last is deleted", w.Node, joined(volumes))
	}
	return p
}

// vanished tells whether a volume group that was there is gone, and not by our doing: what we remove is noted before.
func vanished(s Seen) bool {
	return s.Class != nil || slices.ContainsFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return !slices.Contains(s.Released, pv.UUID)
	})
}

// withdrawn puts the withdrawal of the class before anything else: no volume shall be made in what is being removed.
func withdrawn(s Seen, p Plan) Plan {
	if s.Class == nil {
		return p
	}
	return Plan{State: v1alpha1.VGStatusProgressing, Action: Action{Kind: WithdrawClass}}
}

// planWait waits for the volumes to be deleted. That goes through the class, so it is published if it is not.
func planWait(w Wanted, s Seen, vg *lvm.VG, volumes []string) Plan {
	p := Plan{
		State: v1alpha1.VGStatusProgressing,
		Problems: []Problem{{Event: EventManualCleanup,
			Message: fmt.Sprintf("volume group %s on node %s is not removed while it has logical volumes: %s; "+
				"delete their PersistentVolumeClaims, PersistentVolumes and VolumeSnapshots, or run on "+
				"the node: lvremove", w.Name, w.Node, joined(volumes))}},
	}
	if s.Class == nil {
		p.Action = publication(w, s, vg)
	}
	return p
}

// userVolumes are all logical volumes but the pool.
func userVolumes(w Wanted, vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if w.Spec.ThinPoolConfig != nil && lv.Name == w.Spec.ThinPoolConfig.Name && lv.Attr.IsThinPool() {
			continue
		}
		names = append(names, lv.Name)
	}
	slices.Sort(names)
	return names
}

// planLabels is for a node without the volume group: what remains are the labels that it left.
func planLabels(s Seen) Plan {
	if left := labelsLeft(s); left.Kind != Nothing {
		return withdrawn(s, Plan{State: v1alpha1.VGStatusProgressing, Action: left})
	}
	return withdrawn(s, Plan{Finished: true})
}
