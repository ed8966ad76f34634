package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Hidden has the physical volumes that LVM on this node does not list, because of its devices file, a filter, or the
// host that owns their volume group. Their labels were read directly from the devices.
type Hidden struct {
	// PVs are the physical volumes that could be read.
	PVs map[device.Number]lvm.LabeledPV
	// Err is set if the labels could not be read.
	Err error
}

// protected returns why a device with a label that LVM does not list is not wiped, or "".
func (h Hidden) protected(w Desired, target WipeTarget, number device.Number) string {
	pv, known := h.PVs[number]
	switch {
	case h.Err != nil:
		return fmt.Sprintf(
			"it is a physical volume that LVM on this node does not list, and its label could not be read: %v", h.Err)
	case !known:
		return unresolvedPV
	}
	return protectedLabel(w, target, pv)
}

// deviceOf returns the device of a hidden physical volume.
func (h Hidden) deviceOf(s NodeState, uuid string) (device.Device, bool) {
	for _, d := range s.Devices {
		if pv, ok := h.PVs[d.Number]; ok && pv.UUID == uuid {
			return d, true
		}
	}
	return device.Device{}, false
}

// LabelsToRead returns the devices with the label of a physical volume that LVM does not list, sorted by name, if the
// plan depends on them. Their labels are read directly from the devices, into NodeState.Hidden.
func LabelsToRead(w Desired, s NodeState) []device.Device {
	if !needsHidden(w, s) {
		return nil
	}
	return hiddenDevices(s)
}

// needsHidden returns true if hidden physical volumes matter, because a volume group is missing or incomplete, or
// because devices may be wiped.
func needsHidden(w Desired, s NodeState) bool {
	vg := GroupOf(w, s)
	return vg == nil || vg.MissingPVs > 0 ||
		slices.ContainsFunc(w.Selectors,
			func(d v1alpha1.DeviceSelector) bool { return mayWipe(&d) || len(d.WipeVolumeGroups) > 0 })
}

// hiddenDevices returns the devices with the label of a physical volume that LVM does not list, sorted by name. It
// omits a copy of a listed physical volume, and disks of virtual machines on logical volumes.
func hiddenDevices(s NodeState) []device.Device {
	numbers := map[device.Number]bool{}
	uuids := map[string]bool{}
	for _, pv := range s.Report.PVs() {
		if !pv.Missing {
			numbers[NumberOf(pv)] = true
			uuids[pv.UUID] = true
		}
	}
	var hidden []device.Device
	for _, d := range s.Devices {
		path := slices.ContainsFunc(d.Children, func(c device.Child) bool { return c.Type == "mpath" })
		if d.Signature == device.SignatureLVM && d.Type != "lvm" && !path && !numbers[d.Number] && !uuids[d.UUID] {
			hidden = append(hidden, d)
		}
	}
	return hidden
}

// hiddenVG is a volume group of a device class that LVM does not list.
type hiddenVG struct {
	lvm.VG
	systemID string
	devices  []device.Device
}

// hiddenGroup returns the volume groups of this product that have the name of a device class, or that it adopts, and
// that LVM does not list.
func hiddenGroup(w Desired, s NodeState) []hiddenVG {
	var groups []hiddenVG
	for _, d := range s.Devices {
		pv, ok := s.Hidden.PVs[d.Number]
		if !ok || pv.VGName != w.Name && !adoptedByUUID(w, pv.VGUUID) || !isOfProduct(pv.VGTags) ||
			toBeDestroyed(w, PresentGroup{Name: pv.VGName, UUID: pv.VGUUID, Tags: pv.VGTags}) {
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

// planHidden is the plan if LVM does not list the volume group of the device class, although its disks have it. No
// new group is created. If adopt has its UUID, the disks are added to the devices file.
func planHidden(w Desired, s NodeState, groups []hiddenVG, c choice) Plan {
	p := Plan{State: v1alpha1.VGStatusFailed, Excluded: c.excluded, Lost: wasThere(w, s)}
	for _, g := range groups {
		problem := notOurs(w, &g.VG)
		if problem == "" && adopted(w, &g.VG) {
			p.State = v1alpha1.VGStatusProgressing
			p.Action = Action{Kind: UnhideVG, Hidden: g.devices, VGUUID: g.UUID}
			return p
		}
		p.Problems = append(p.Problems, g.problem(w, problem, p.Lost))
	}
	if p.Lost {
		p.State = v1alpha1.VGStatusDegraded
	}
	p.Problems = append(p.Problems, c.problems...)
	return p
}

// problem describes a hidden volume group: its owner, if it is not this node, and how to make LVM list the group.
func (g hiddenVG) problem(w Desired, foreign string, lost bool) Problem {
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
			w.Name, g.UUID, w.Node, w.Node, g.UUID)
	}
	p := Problem{Event: EventForeignVolumeGroup, Message: foreign + "; " + hint}
	if lost {
		p = deviceProblem(v1alpha1.ReasonDeviceMissing, p.Message, nil)
		p.AffectsClass = true
	}
	return p
}
