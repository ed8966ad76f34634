// Package hiddengroup decides about a volume group that LVM on this node does not list, because a devices file or a
// filter hides its devices.
package hiddengroup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// LabelsToRead returns the devices with the label of a physical volume that LVM does not list, sorted by name, if the
// plan depends on them. Their labels are read directly from the devices, into state.Disks.Hidden.
func LabelsToRead(d state.Desired, s state.NodeState) []device.Device {
	if !needsHidden(d, s) {
		return nil
	}
	return state.HiddenDevices(s)
}

// needsHidden returns true if hidden physical volumes matter, because a volume group is missing or incomplete, or
// because devices may be wiped.
func needsHidden(desired state.Desired, s state.NodeState) bool {
	vg := ownership.GroupOf(desired, s)
	return vg == nil || vg.MissingPVs > 0 ||
		slices.ContainsFunc(desired.Selectors,
			func(d v1alpha1.DeviceSelector) bool { return state.MayWipe(&d) || len(d.WipeVolumeGroups) > 0 })
}

// hiddenVG is a volume group of a device class that LVM does not list.
type hiddenVG struct {
	lvm.VG
	systemID string
	devices  []device.Device
}

// Find returns the volume groups of this product that have the name of a device class, or that it adopts, and
// that LVM does not list.
func Find(desired state.Desired, s state.NodeState) []hiddenVG {
	var groups []hiddenVG
	for _, d := range s.Devices {
		pv, ok := s.Disks.Hidden.PVs[d.Number]
		if !ok || pv.VGName != desired.Name && !ownership.AdoptedByUUID(desired, pv.VGUUID) ||
			!state.IsOfProduct(pv.VGTags) ||
			ownership.ToBeDestroyed(desired, state.PresentGroup{Name: pv.VGName, UUID: pv.VGUUID, Tags: pv.VGTags}) {
			continue
		}
		at := slices.IndexFunc(groups, func(g hiddenVG) bool { return g.UUID == pv.VGUUID })
		if at < 0 {
			at = len(groups)
			groups = append(groups, hiddenVG{VG: lvm.VG{Name: pv.VGName, UUID: pv.VGUUID, Tags: pv.VGTags},
				systemID: pv.SystemID})
		}
		groups[at].devices = append(groups[at].devices, d)
	}
	return groups
}

// Plan is the plan if LVM does not list the volume group of the device class, although its disks have it. No
// new group is created. If adopt has its UUID, the disks are added to the devices file.
func Plan(d state.Desired, s state.NodeState, groups []hiddenVG, c selection.Choice) state.Plan {
	p := state.Plan{State: v1alpha1.VGStatusFailed, Excluded: c.Excluded, Lost: lostdevices.WasThere(d, s)}
	for _, g := range groups {
		problem := ownership.NotOurs(d, &g.VG)
		if problem == "" && ownership.Adopted(d, &g.VG) {
			p.State = v1alpha1.VGStatusProgressing
			p.Action = state.Action{Kind: state.UnhideVG, Target: state.HiddenGroup{UUID: g.UUID, Devices: g.devices}}
			return p
		}
		p.Problems = append(p.Problems, g.problem(d, problem, p.Lost))
	}
	if p.Lost {
		p.State = v1alpha1.VGStatusDegraded
	}
	p.Problems = append(p.Problems, c.Problems...)
	return p
}

// problem describes a hidden volume group: its owner, if it is not this node, and how to make LVM list the group.
func (g hiddenVG) problem(desired state.Desired, foreign string, lost bool) state.Problem {
	names := strings.Join(device.Names(g.devices), " ")
	var commands []string
	for _, d := range g.devices {
		commands = append(commands, "lvmdevices --adddev "+d.Name)
	}
	hint := fmt.Sprintf(
		"LVM on this node does not list its devices %s: see its devices file (%s), the filter in lvm.conf",
		names, strings.Join(commands, "; "))
	if g.systemID != "" {
		hint += fmt.Sprintf(", and the system ID of the volume group, %s (lvmsystemid(7))", g.systemID)
	}
	if foreign == "" {
		foreign = fmt.Sprintf("volume group %s (%s) is on the disks of node %s, but LVM there does not list it: to "+
			"use it with its volumes, add to the device class: adopt: [{node: %s, volumeGroupUUID: %s}]",
			desired.Name, g.UUID, desired.Node, desired.Node, g.UUID)
	}
	p := state.Problem{Event: state.EventForeignVolumeGroup, Message: foreign + "; " + hint}
	if lost {
		p = state.DeviceProblem(v1alpha1.ReasonDeviceMissing, p.Message, nil)
		p.AffectsClass = true
	}
	return p
}
