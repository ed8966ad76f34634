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
func New(d state.Desired, s state.NodeState) state.Plan {
	switch {
	case d.UsesExisting():
		return existing.Plan(d, s)
	case d.Deleting:
		return planRemoval(d, s)
	case d.Leaving:
		return planLeaving(d, s)
	}
	if p := selection.PlanNamesake(d, s); p != nil {
		return *p
	}
	vg := ownership.GroupOf(d, s)
	if problems := ownership.Namesakes(d, s); len(problems) > 0 {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: problems, Lost: vg == nil}
	}
	if problem := ownership.Foreign(d, s.Report.VG(d.Name)); problem != "" {
		return state.Plan{
			State: v1alpha1.VGStatusFailed, Problems: []state.Problem{{Event: state.EventForeignVolumeGroup,
				Message: problem}},
			Lost: vg == nil && lostdevices.WasThere(d, s),
		}
	}
	chosen := selection.Choose(d, s, vg)
	if p := ownership.PlanRename(d, s, vg); p != nil {
		p.Excluded = chosen.Excluded
		return *p
	}
	if hidden := hiddengroup.Find(d, s); vg == nil && len(hidden) > 0 {
		return hiddengroup.Plan(d, s, hidden, chosen)
	}
	if vg == nil && lostdevices.WasThere(d, s) {
		return state.Plan{State: v1alpha1.VGStatusDegraded, Problems: append(health.LostGroup(d, s),
			chosen.Problems...), Excluded: chosen.Excluded, Lost: true, Action: rollback.RestoreAction(d, s)}
	}
	if vg == nil {
		p := planCreation(d, s, chosen)
		// The status keeps the lost devices until the group exists again.
		p.Lost = d.Open.Approved != nil && lostdevices.WasThere(state.WithoutRecovery(d), s)
		return p
	}
	return planUpkeep(d, s, vg, chosen)
}

// planCreation is the plan for a node without the volume group.
func planCreation(d state.Desired, s state.NodeState, c selection.Choice) state.Plan {
	p := state.Plan{State: v1alpha1.VGStatusFailed, Excluded: c.Excluded, Problems: c.Problems, Waiting: c.Waiting,
		Doubtful: c.Doubtful, AwaitsListing: len(c.Unlisted) > 0}
	tooFew := redundancy.StartProblem(d, s, len(c.Candidates))
	unfinished := labelRemoval(s, func(pv lvm.PV) bool { return isUnfinished(s, pv) })
	switch {
	case d.Taint != "":
		return state.Plan{State: v1alpha1.VGStatusReady, Excluded: c.Excluded, Note: fmt.Sprintf(
			"node %s has the taint %s, which spec.tolerations of the LVMCluster does not tolerate: no volume group "+
				"of device class %s is created there", d.Node, d.Taint, d.Name)}
	case s.Disks.Hidden.Err != nil:
		// A disk that LVM does not list may have a group with the name.
		p.Problems = append(p.Problems, state.Problem{Event: state.EventObserveFailed, Message: fmt.Sprintf(
			"volume group %s is not created on node %s: %v", d.Name, d.Node, s.Disks.Hidden.Err)})
	case unfinished.Kind != state.Nothing:
		p.State, p.Problems, p.Action = v1alpha1.VGStatusProgressing, nil, unfinished
	case len(s.Health.Mapped) > 0:
		// The removal of all devices of the previous group was requested or approved. LVM does not create a group
		// while its volumes are mapped.
		p.Action = state.Action{Kind: state.Unmap, Target: state.Volumes(s.Health.Mapped)}
	case len(c.Unlisted) > 0:
		// A group gets all its devices when it is created: policy Static adds none later.
		p.State, p.Note = v1alpha1.VGStatusProgressing, selection.WaitForListing(d, c)
	case len(c.Wipes) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = state.NextOf(s, selection.WipeActions(c.Wipes))
	case len(c.Problems) > 0:
	case len(c.Unapproved) > 0 && (len(c.Candidates) == 0 || tooFew != ""):
		p.State = v1alpha1.VGStatusProgressing
		p.Note = selection.WaitForApproval(d, c)
	case len(c.Candidates) > 0 && tooFew != "":
		p.Problems = []state.Problem{{Event: state.EventNoAvailableDevices, Message: tooFew}}
	case len(c.Candidates) > 0:
		p.State = v1alpha1.VGStatusProgressing
		p.Action = state.Action{Kind: state.CreateVG, Target: state.Devices(c.Candidates), Change: lvm.VGCreate{
			Name: d.Name, Devices: device.Names(c.Candidates), Tags: ownership.OwnerTags(d),
			MetadataSize: members.MetadataSize(c.Candidates, nil)}}
	case c.Waiting:
		p.State = v1alpha1.VGStatusProgressing
		p.Note = "waiting until the new devices have been attached for a minute"
	default:
		return withoutDevices(p, d, c)
	}
	return p
}

// withoutDevices completes the plan for a node that has no usable device for the volume group.
func withoutDevices(p state.Plan, d state.Desired, c selection.Choice) state.Plan {
	if c.Blocked > 0 || requires(d) {
		p.Problems = []state.Problem{{Event: state.EventNoAvailableDevices, Message: fmt.Sprintf(
			"volume group %s does not exist on node %s, because there were no available devices to create it: attach "+
				"a blank disk, or see excluded for why each device cannot be used", d.Name, d.Node)}}
		return p
	}
	p.State, p.Note = v1alpha1.VGStatusReady,
		fmt.Sprintf("node %s has no volume group of device class %s, and needs none: there were no available devices "+
			"to create it", d.Node, d.Name)
	return p
}

// requires returns true if the device class requires a device on every node.
func requires(d state.Desired) bool {
	return slices.ContainsFunc(d.Selectors, func(s v1alpha1.DeviceSelector) bool { return len(s.Paths) > 0 })
}

// planUpkeep is the plan for a volume group of this node.
func planUpkeep(d state.Desired, s state.NodeState, vg *lvm.VG, c selection.Choice) state.Plan {
	requests := members.Plan(d, s, vg)
	broken := health.BrokenGroup(d, s, vg)
	p := state.Plan{Excluded: c.Excluded, Notes: requests.Notes, LookedAtHealth: true,
		Waiting:  c.Waiting || requests.Waiting || s.Orphans.Waits != "",
		Doubtful: c.Doubtful, AwaitsListing: len(c.Unlisted) > 0}
	p.Problems = slices.Concat(broken, c.Problems, requests.Problems, health.BrokenVolumes(d, s, vg),
		doubt.ReplacedProblems(d, s, vg), doubt.SeenProblems(d, s, vg), thinpool.Problems(d, s, vg),
		thinpool.StripesProblems(d, vg), placement.ThickProblems(d, vg), redundancy.Problems(d, vg),
		members.MetadataAreaProblems(d, vg), health.UnknownHealth(d, s))
	actions := dueActions(situation{desired: d, s: s, vg: vg, choice: c, requests: requests, broken: len(broken) > 0,
		repairing: poolrepair.Repairs(d, s, vg)})
	p.Action = state.NextOf(s, actions)
	p.Problems = append(p.Problems, state.Failures(s, actions, p.Action)...)
	p.State = state.StateOf(p)
	if p.State == v1alpha1.VGStatusReady {
		p.Note = cmp.Or(requests.Note, devicerequests.Unmatched(d, s, vg), members.CacheNote(vg))
	}
	return p
}

// labelsLeft removes the labels of devices that were removed from the group, and unfinished ones.
func labelsLeft(s state.NodeState) state.Action {
	return labelRemoval(s, func(pv lvm.PV) bool {
		return slices.Contains(s.Records.Released, pv.UUID) || isUnfinished(s, pv)
	})
}

func labelRemoval(s state.NodeState, isLeft func(lvm.PV) bool) state.Action {
	var left state.LabeledPVs
	for _, pv := range s.Report.Unassigned {
		if isLeft(pv) {
			left = append(left, pv)
		}
	}
	if len(left) == 0 {
		return state.Action{}
	}
	return state.Action{Kind: state.RemovePVs, Target: left}
}

// HasUnfinished returns true if the label of a device has to be removed before the device can be added again.
func HasUnfinished(s state.NodeState) bool {
	return slices.ContainsFunc(s.Report.Unassigned, func(pv lvm.PV) bool { return isUnfinished(s, pv) })
}

// isUnfinished returns true for a physical volume of which LVM has written the label, but not the metadata of the
// volume group, because the command that added the device was killed. LVM does not use such a device.
func isUnfinished(s state.NodeState, pv lvm.PV) bool {
	number := state.NumberOf(pv)
	return pv.InUse && pv.VGName == "" && number != "" &&
		slices.Contains(s.Records.Adding, s.Disks.Identities[number])
}

// HasInactive returns true if a volume is inactive that should be active. The agent activates such volumes on a node
// without LVM's autoactivation, or if the group was incomplete at boot.
func HasInactive(vg *lvm.VG) bool {
	return slices.ContainsFunc(vg.LVs, func(lv lvm.LV) bool { return shouldBeActive(lv) && !lv.Attr.Active() })
}

// shouldBeActive returns false for volumes that LVM refuses to activate, and for volumes with the activation-skip
// flag.
func shouldBeActive(lv lvm.LV) bool { return lv.Health == "" && !lv.Attr.SkipsActivation() }
