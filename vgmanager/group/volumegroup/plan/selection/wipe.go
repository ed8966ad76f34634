package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// protected returns why a device with a label that LVM does not list is not wiped, or "".
func protected(h state.Hidden, d state.Desired, target state.WipeTarget, number device.Number) string {
	pv, known := h.PVs[number]
	switch {
	case h.Err != nil:
		return fmt.Sprintf(
			"it is a physical volume that LVM on this node does not list, and its label could not be read: %v", h.Err)
	case !known:
		return unresolvedPV
	}
	return protectedLabel(d, target, pv)
}

// newWipeTarget returns the device of a path as a target. It returns false if its selector does not allow the device to
// be wiped, or if its content is not the only reason against it.
func newWipeTarget(desired state.Desired, s state.NodeState, path state.Path, d device.Device,
	reasons []device.Reason) (state.WipeTarget, bool) {
	selector := state.SelectorAt(desired, path.Selector)
	t := state.WipeTarget{Device: d, Path: path.Path, Named: true}
	for _, g := range groupsOn(s, d) {
		if ownership.ListsGroup(desired, &selector, g) && ownership.ToBeDestroyed(desired, g) {
			t.Groups = append(t.Groups, g)
			t.Named = t.Named && ownership.IsByUUID(&selector, g)
		}
	}
	var others []device.Reason
	for _, r := range reasons {
		if r.Code == device.HasHolders && holdsOnly(t, s) {
			continue // The logical volumes are deactivated first.
		}
		t.Reasons = append(t.Reasons, r)
		if !coversPV(t, r) {
			others = append(others, r)
		}
	}
	t.Named = t.Named && len(t.Groups) > 0 && len(others) == 0
	if state.MayWipe(&selector) {
		return t, len(others) == 0 || onlyContent(others)
	}
	return t, len(t.Groups) > 0 && len(others) == 0
}

// coversPV returns true for the reason that the device itself is a physical volume of a volume group that is destroyed.
func coversPV(t state.WipeTarget, r device.Reason) bool {
	return (r.Code == device.InVolumeGroup || r.Code == device.UnknownPV) &&
		slices.ContainsFunc(t.Groups, func(g state.PresentGroup) bool { return g.OnDevice(t.Device.Number) })
}

// holdsOnly returns true if all devices on the target are logical volumes of the volume groups that are destroyed.
func holdsOnly(t state.WipeTarget, s state.NodeState) bool {
	for _, c := range t.Device.Children {
		if c.Type == "part" {
			continue
		}
		at := slices.IndexFunc(s.Devices, func(d device.Device) bool { return d.Name == c.Name })
		if at < 0 || !slices.ContainsFunc(t.Groups,
			func(g state.PresentGroup) bool { return g.Has(s.Devices[at].Number) }) {
			return false
		}
	}
	return true
}

// WipeActions returns the next step of each wipe.
func WipeActions(targets []state.WipeTarget) []state.Action {
	var list []state.Action
	for _, t := range targets {
		list = append(list, wipeAction(t))
	}
	return list
}

// wipeAction returns the next step of a wipe: logical volumes are deactivated first.
func wipeAction(t state.WipeTarget) state.Action {
	for _, g := range t.Groups {
		if g.IsActive() {
			t.Active = g.UUID
			return state.Action{Kind: state.DeactivateVG, Target: t, Change: lvm.GroupDeactivate{Group: g.Other()}}
		}
	}
	return state.Action{Kind: state.WipeDevice, Target: t}
}

// wipeRefusal returns why a device is not wiped although its selector allows it, or "".
func wipeRefusal(d state.Desired, s state.NodeState, vg *lvm.VG, target state.WipeTarget) string {
	for _, g := range target.Groups {
		if why := destructionRefusal(d, s, g); why != "" {
			return why
		}
	}
	if why := protectedOn(d, s, target); why != "" {
		return why
	}
	if why := alreadyWiped(d, s, target); why != "" {
		return why
	}
	if byKernelName(target) && hasMembers(s, vg) && !target.Named && !d.RequiresApproval() {
		return fmt.Sprintf("a name of the kernel can lead to another disk after each start, and the volume group "+
			"exists already: name the disk by a link in /dev/disk/by-id or /dev/disk/by-path instead of %s",
			target.Path)
	}
	return ""
}

// unresolvedPV is the reason for a physical volume whose volume group is not known.
const unresolvedPV = "it is a physical volume, and LVM cannot determine its volume group"

// protectedOn returns why a device is not wiped because of a physical volume on it or on one of its partitions, or
// "".
func protectedOn(d state.Desired, s state.NodeState, target state.WipeTarget) string {
	pvs := state.PhysicalVolumes(s.Report)
	for _, part := range s.Devices {
		if !state.IsOn(part, target.Device) {
			continue
		}
		why := ""
		if pv, listed := pvs[part.Number]; listed {
			why = Protected(d, s.Report, target, pv)
		} else if part.Signature == device.SignatureLVM {
			why = protected(s.Disks.Hidden, d, target, part.Number)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// Protected returns why a physical volume that LVM lists is not wiped, or "".
func Protected(d state.Desired, report *lvm.Report, target state.WipeTarget, pv device.PV) string {
	if pv.Group != "" && target.Destroys(pv.GroupUUID) {
		return ""
	}
	if pv.Group == "" {
		if pv.InUse {
			return unresolvedPV
		}
		return ""
	}
	vg := report.VG(pv.Group)
	if vg == nil {
		return fmt.Sprintf("it is a physical volume of volume group %s, which cannot be examined", pv.Group)
	}
	return protectedGroup(d, pv.Group, vg.Tags)
}

// ProtectedByLabels returns why a device is not wiped according to the labels that were just read from it, or "".
// labeled: the device has the signature of a physical volume.
func ProtectedByLabels(d state.Desired, target state.WipeTarget, pvs []lvm.LabeledPV, number device.Number,
	labeled bool) string {
	at := slices.IndexFunc(pvs, func(pv lvm.LabeledPV) bool { return device.NewNumber(pv.Major, pv.Minor) == number })
	switch {
	case at >= 0:
		return protectedLabel(d, target, pvs[at])
	case labeled:
		return unresolvedPV
	}
	return ""
}

// protectedLabel returns why a physical volume is not wiped according to the label on its device, or "".
func protectedLabel(d state.Desired, target state.WipeTarget, pv lvm.LabeledPV) string {
	switch {
	case pv.VGUUID != "" && target.Destroys(pv.VGUUID):
		return ""
	case pv.Unresolved:
		return unresolvedPV
	case pv.VGName == "":
		return ""
	}
	return protectedGroup(d, pv.VGName, pv.VGTags)
}

// protectedGroup returns why the physical volumes of a volume group are not wiped, or "". The volume groups of this
// product are protected, from this and from other nodes, and so is a group with the name of the device class.
func protectedGroup(d state.Desired, name string, tags []string) string {
	switch {
	case state.IsOfProduct(tags):
		return fmt.Sprintf("it is a physical volume of volume group %s, which belongs to this product (tags %s)", name,
			strings.Join(tags, ", "))
	case ownership.SharerOf(d, name) != "":
		return fmt.Sprintf("it is a physical volume of volume group %s, which device class %s uses "+
			"(existingVolumeGroup)", name, ownership.SharerOf(d, name))
	case name == d.Name:
		return fmt.Sprintf("it is a physical volume of volume group %s, which has the name of the device class", name)
	}
	return ""
}
