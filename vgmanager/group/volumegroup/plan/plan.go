// Package plan decides the next change of a volume group on this node and the status to report.
//
// Its functions depend only on their arguments: the desired state (state.Desired) and an observation of the node
// (state.NodeState). They read no files, run no programs and have no clock; the rules of test/arch ensure that. Package
// volumegroup observes the node, performs the action of the plan and writes the status.
//
// New is the entry point. Each subject is a package below this one, and decides about its part of a volume group; this
// package has their order (order.go), and all actions of LVMRecoveries (recoveries.go). A subject imports state, and
// other subjects only if it depends on their decisions.
package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/existing"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/hiddengroup"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/placement"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/poolrepair"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/redundancy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/rollback"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// New returns the plan. It depends only on its arguments.
//
// Rules: A volume group is created only on blank devices. After that, it shrinks only by an empty device whose
// removal was requested. A volume group without the owner tag, or of another cluster or node, is never changed. A
// missing volume group is not recreated. While a disk is missing or duplicate, the only changes are those that
// restore the redundancy of volumes. A pool is created once. It is extended when its volume group was extended, or by
// automatic extension. A class is published when volumes can be created in it. It stays published while it is broken,
// because requests must find its volumes. Removal starts when no volume is left.
func New(w state.Desired, s state.NodeState) state.Plan {
	switch {
	case w.UsesExisting():
		return existing.Plan(w, s)
	case w.Deleting:
		return planRemoval(w, s)
	case w.Leaving:
		return planLeaving(w, s)
	}
	if p := selection.PlanNamesake(w, s); p != nil {
		return *p
	}
	vg := ownership.GroupOf(w, s)
	if problems := ownership.Namesakes(w, s); len(problems) > 0 {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	if problem := ownership.Foreign(w, s.Report.VG(w.Name)); problem != "" {
		return state.Plan{
			State: v1alpha1.VGStatusFailed, Problems: []state.Problem{{Event: state.EventForeignVolumeGroup,
				Message: problem}},
			Lost: vg == nil && lostdevices.WasThere(w, s),
		}
	}
	chosen := selection.Choose(w, s, vg)
	if p := ownership.PlanRename(w, s, vg); p != nil {
		p.Excluded = chosen.Excluded
		return *p
	}
	if hidden := hiddengroup.Find(w, s); vg == nil && len(hidden) > 0 {
		return hiddengroup.Plan(w, s, hidden, chosen)
	}
	if vg == nil && lostdevices.WasThere(w, s) {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: append(health.LostGroup(w, s),
			chosen.Problems...), Excluded: chosen.Excluded, Lost: true, Action: rollback.RestoreAction(w, s)}
	}
	if vg == nil {
		p := planCreation(w, s, chosen)
		// The status keeps the lost devices until the group exists again.
		p.Lost = w.Open.Approved != nil && lostdevices.WasThere(state.WithoutRecovery(w), s)
		return p
	}
	return planUpkeep(w, s, vg, chosen)
}

// planCreation is the plan for a node without the volume group.
func planCreation(w state.Desired, s state.NodeState, c selection.Choice) state.Plan {
	p := state.Plan{State: v1alpha1.VGStatusFailed, Excluded: c.Excluded, Problems: c.Problems, Waiting: c.Waiting,
		Doubtful: c.Doubtful, AwaitsListing: len(c.Unlisted) > 0}
	switch {
	case w.Taint != "":
		return state.Plan{State: v1alpha1.VGStatusReady, Excluded: c.Excluded, Note: fmt.Sprintf(
			"node %s has the taint %s, which spec.tolerations of the LVMCluster does not tolerate: no volume group "+
				"of device class %s is created there", w.Node, w.Taint, w.Name)}
	case s.Disks.Hidden.Err != nil:
		// A disk that LVM does not list may have a group with the name.
		p.Problems = append(p.Problems, state.Problem{Event: state.EventObserveFailed, Message: fmt.Sprintf(
			"volume group %s is not created on node %s: %v", w.Name, w.Node, s.Disks.Hidden.Err)})
	case len(s.Health.Mapped) > 0:
		// The removal of all devices of the previous group was requested or approved. LVM does not create a group
		// while its volumes are mapped.
		p.Action = state.Action{Kind: state.Unmap, Target: state.Volumes(s.Health.Mapped)}
	case len(c.Unlisted) > 0:
		// A group gets all its devices when it is created: policy Static adds none later.
		p.State, p.Note = v1alpha1.VGStatusProgressing, selection.WaitForListing(w, c)
	case len(c.Wipes) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = state.NextOf(s, selection.WipeActions(c.Wipes))
	case len(c.Problems) > 0:
	case len(c.Unapproved) > 0 && (len(c.Candidates) == 0 || redundancy.StartProblem(w, s, len(c.Candidates)) != ""):
		p.State = v1alpha1.VGStatusProgressing
		p.Note = selection.WaitForApproval(w, c)
	case len(c.Candidates) > 0 && redundancy.StartProblem(w, s, len(c.Candidates)) != "":
		p.Problems = []state.Problem{{Event: state.EventNoAvailableDevices, Message: redundancy.StartProblem(w, s,
			len(c.Candidates))}}
	case len(c.Candidates) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = state.Action{Kind: state.CreateVG, Target: state.Devices(c.Candidates), Change: lvm.VGCreate{
			Name: w.Name, Devices: device.Names(c.Candidates), Tags: ownership.OwnerTags(w),
			MetadataSize: members.MetadataSize(c.Candidates, nil)}}
	case c.Waiting:
		p.State = v1alpha1.VGStatusProgressing
		p.Note = "waiting until the new devices have been attached for a minute"
	case c.Blocked > 0 || requires(w):
		p.Problems = []state.Problem{{Event: state.EventNoAvailableDevices, Message: fmt.Sprintf(
			"volume group %s does not exist on node %s, because there were no available devices to create it: attach "+
				"a blank disk, or see excluded for why each device cannot be used", w.Name, w.Node)}}
	default:
		// If the node has no usable device and the device class requires none, the node is ready.
		p.State, p.Note = v1alpha1.VGStatusReady,
			fmt.Sprintf("node %s has no volume group of device class %s, and needs none: there were no available "+
				"devices to create it", w.Node, w.Name)
	}
	return p
}

// requires returns true if the device class requires a device on every node.
func requires(w state.Desired) bool {
	return slices.ContainsFunc(w.Selectors, func(s v1alpha1.DeviceSelector) bool { return len(s.Paths) > 0 })
}

// planUpkeep is the plan for a volume group of this node.
func planUpkeep(w state.Desired, s state.NodeState, vg *lvm.VG, c selection.Choice) state.Plan {
	requests := members.Plan(w, s, vg)
	broken := health.BrokenGroup(w, s, vg)
	p := state.Plan{Excluded: c.Excluded, Notes: requests.Notes, LookedAtHealth: true,
		Waiting:  c.Waiting || requests.Waiting || s.Orphans.Waits != "",
		Doubtful: c.Doubtful, AwaitsListing: len(c.Unlisted) > 0}
	p.Problems = slices.Concat(broken, c.Problems, requests.Problems, health.BrokenVolumes(w, s, vg),
		doubt.ReplacedProblems(w, s, vg), doubt.SeenProblems(w, s, vg), thinpool.Problems(w, s, vg),
		thinpool.StripesProblems(w, vg), placement.ThickProblems(w, vg), redundancy.Problems(w, vg),
		members.MetadataAreaProblems(w, vg), health.UnknownHealth(w, s))
	actions := dueActions(situation{w: w, s: s, vg: vg, choice: c, requests: requests, broken: len(broken) > 0,
		repairing: poolrepair.Repairs(w, s, vg)})
	p.Action = state.NextOf(s, actions)
	p.Problems = append(p.Problems, state.Failures(s, actions, p.Action)...)
	p.State = state.StateOf(p)
	if p.State == v1alpha1.VGStatusReady {
		p.Note = cmp.Or(requests.Note, devicerequests.Unmatched(w, s, vg), members.CacheNote(vg))
	}
	return p
}

// labelsLeft removes the labels of devices that were removed from the group.
func labelsLeft(s state.NodeState) state.Action {
	var left state.LabeledPVs
	for _, pv := range s.Report.Unassigned {
		if slices.Contains(s.Records.Released, pv.UUID) {
			left = append(left, pv)
		}
	}
	if len(left) == 0 {
		return state.Action{}
	}
	return state.Action{Kind: state.RemovePVs, Target: left}
}

// HasInactive returns true if a volume is inactive that should be active. The agent activates such volumes on a node
// without LVM's autoactivation, or if the group was incomplete at boot.
func HasInactive(vg *lvm.VG) bool {
	return slices.ContainsFunc(vg.LVs, func(lv lvm.LV) bool { return shouldBeActive(lv) && !lv.Attr.Active() })
}

// shouldBeActive returns false for volumes that LVM refuses to activate, and for volumes with the activation-skip
// flag.
func shouldBeActive(lv lvm.LV) bool { return lv.Health == "" && !lv.Attr.SkipsActivation() }
