package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// WipeTarget is a device to wipe.
type WipeTarget struct {
	Device device.Device
	// Path is the path that names the device.
	Path string
	// Reasons are the current reasons against the device.
	Reasons []device.Reason
	// Groups are the volume groups with physical volumes on the device or its partitions that are destroyed.
	Groups []PresentGroup
	// named: the selector lists the UUID of each of these volume groups, and the device has no other content.
	named bool
}

// newWipeTarget returns the device of a path as a target. It returns false if its selector does not allow the device to
// be wiped, or if its content is not the only reason against it.
func newWipeTarget(w Desired, s NodeState, path Path, d device.Device, reasons []device.Reason) (WipeTarget, bool) {
	selector := selectorAt(w, path.Selector)
	t := WipeTarget{Device: d, Path: path.Path, named: true}
	for _, g := range groupsOn(s, d) {
		if listsGroup(w, &selector, g) && toBeDestroyed(w, g) {
			t.Groups = append(t.Groups, g)
			t.named = t.named && isByUUID(&selector, g)
		}
	}
	var others []device.Reason
	for _, r := range reasons {
		if r.Code == device.HasHolders && t.holdsOnly(s) {
			continue // The logical volumes are deactivated first.
		}
		t.Reasons = append(t.Reasons, r)
		if !t.coversPV(r) {
			others = append(others, r)
		}
	}
	t.named = t.named && len(t.Groups) > 0 && len(others) == 0
	if mayWipe(&selector) {
		return t, len(others) == 0 || onlyContent(others)
	}
	return t, len(t.Groups) > 0 && len(others) == 0
}

// coversPV returns true for the reason that the device itself is a physical volume of a volume group that is destroyed.
func (t WipeTarget) coversPV(r device.Reason) bool {
	return (r.Code == device.InVolumeGroup || r.Code == device.UnknownPV) &&
		slices.ContainsFunc(t.Groups, func(g PresentGroup) bool { return g.onDevice(t.Device.Number) })
}

func (g PresentGroup) onDevice(number device.Number) bool {
	return slices.ContainsFunc(g.Devices, func(d device.Device) bool { return d.Number == number })
}

// holdsOnly returns true if all devices on the target are logical volumes of the volume groups that are destroyed.
func (t WipeTarget) holdsOnly(s NodeState) bool {
	for _, c := range t.Device.Children {
		if c.Type == "part" {
			continue
		}
		at := slices.IndexFunc(s.Devices, func(d device.Device) bool { return d.Name == c.Name })
		if at < 0 || !slices.ContainsFunc(t.Groups,
			func(g PresentGroup) bool { return g.has(s.Devices[at].Number) }) {
			return false
		}
	}
	return true
}

// IsNamed returns true if the consent is for exactly this content: it lists the UUIDs of the volume groups.
func (t WipeTarget) IsNamed() bool { return t.named }

// destroys returns true if the wipe destroys the volume group with a UUID.
func (t WipeTarget) destroys(uuid string) bool {
	return slices.ContainsFunc(t.Groups, func(g PresentGroup) bool { return g.UUID == uuid })
}

// wipeActions returns the next step of each wipe.
func wipeActions(targets []WipeTarget) []Action {
	var list []Action
	for _, t := range targets {
		list = append(list, wipeAction(t))
	}
	return list
}

// wipeAction returns the next step of a wipe: logical volumes are deactivated first.
func wipeAction(t WipeTarget) Action {
	for _, g := range t.Groups {
		if g.isActive() {
			return Action{Kind: DeactivateVG, VGUUID: g.UUID, Wipe: t}
		}
	}
	return Action{Kind: WipeDevice, Wipe: t}
}

// Found returns the sorted reasons against the device, for wipe records.
func (t WipeTarget) Found() []string {
	var found []string
	for _, r := range t.Reasons {
		found = append(found, r.String())
	}
	slices.Sort(found)
	return found
}

// wipeRefusal returns why a device is not wiped although its selector allows it, or "".
func wipeRefusal(w Desired, s NodeState, vg *lvm.VG, target WipeTarget) string {
	for _, g := range target.Groups {
		if why := destructionRefusal(w, s, g); why != "" {
			return why
		}
	}
	if why := protectedOn(w, s, target); why != "" {
		return why
	}
	if why := alreadyWiped(w, s, target); why != "" {
		return why
	}
	if byKernelName(target) && hasMembers(s, vg) && !target.named && !w.requiresApproval() {
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
func protectedOn(w Desired, s NodeState, target WipeTarget) string {
	pvs := PhysicalVolumes(s.Report)
	for _, part := range s.Devices {
		if !isOn(part, target.Device) {
			continue
		}
		why := ""
		if pv, listed := pvs[part.Number]; listed {
			why = Protected(w, s.Report, target, pv)
		} else if part.Signature == device.SignatureLVM {
			why = s.Hidden.protected(w, target, part.Number)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// Protected returns why a physical volume that LVM lists is not wiped, or "".
func Protected(w Desired, report *lvm.Report, target WipeTarget, pv device.PV) string {
	if pv.Group != "" && target.destroys(pv.GroupUUID) {
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
	return protectedGroup(w, pv.Group, vg.Tags)
}

// ProtectedByLabels returns why a device is not wiped according to the labels that were just read from it, or "".
// labeled: the device has the signature of a physical volume.
func ProtectedByLabels(w Desired, target WipeTarget, pvs []lvm.LabeledPV, number device.Number, labeled bool) string {
	at := slices.IndexFunc(pvs, func(pv lvm.LabeledPV) bool { return device.NewNumber(pv.Major, pv.Minor) == number })
	switch {
	case at >= 0:
		return protectedLabel(w, target, pvs[at])
	case labeled:
		return unresolvedPV
	}
	return ""
}

// protectedLabel returns why a physical volume is not wiped according to the label on its device, or "".
func protectedLabel(w Desired, target WipeTarget, pv lvm.LabeledPV) string {
	switch {
	case pv.VGUUID != "" && target.destroys(pv.VGUUID):
		return ""
	case pv.Unresolved:
		return unresolvedPV
	case pv.VGName == "":
		return ""
	}
	return protectedGroup(w, pv.VGName, pv.VGTags)
}

// protectedGroup returns why the physical volumes of a volume group are not wiped, or "". The volume groups of this
// product are protected, from this and from other nodes, and so is a group with the name of the device class.
func protectedGroup(w Desired, name string, tags []string) string {
	switch {
	case isOfProduct(tags):
		return fmt.Sprintf("it is a physical volume of volume group %s, which belongs to this product (tags %s)", name,
			strings.Join(tags, ", "))
	case sharerOf(w, name) != "":
		return fmt.Sprintf("it is a physical volume of volume group %s, which device class %s uses "+
			"(existingVolumeGroup)", name, sharerOf(w, name))
	case name == w.Name:
		return fmt.Sprintf("it is a physical volume of volume group %s, which has the name of the device class", name)
	}
	return ""
}

// isOfProduct returns true if a volume group with these tags belongs to this product, in any cluster.
func isOfProduct(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == v1alpha1.OwnerTag || strings.HasPrefix(tag, v1alpha1.ClusterTagPrefix)
	})
}

func isSubset(list, of []string) bool {
	return !slices.ContainsFunc(list, func(e string) bool { return !slices.Contains(of, e) })
}
