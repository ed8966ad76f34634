package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// PresentGroup is a volume group on devices of the node.
type PresentGroup struct {
	Name, UUID string
	Tags       []string
	// SystemID is the host that owns a group that LVM does not list (lvmsystemid(7)), or "".
	SystemID string
	// VG is the group in LVM's report, or nil if LVM does not list it. Its logical volumes are not known then.
	VG *lvm.VG
	// Devices have its physical volumes that are attached.
	Devices []device.Device
}

// String returns the name and the UUID.
func (g PresentGroup) String() string { return fmt.Sprintf("volume group %s (%s)", g.Name, g.UUID) }

// isActive returns true if a logical volume is active.
func (g PresentGroup) isActive() bool {
	active := func(lv lvm.LV) bool { return lv.Attr.Active() }
	return g.VG != nil && (slices.ContainsFunc(g.VG.LVs, active) || slices.ContainsFunc(g.VG.Hidden, active))
}

// has returns true if the device is one of the group's logical volumes.
func (g PresentGroup) has(number device.Number) bool {
	same := func(lv lvm.LV) bool { return lv.Major != 0 && device.NewNumber(lv.Major, lv.Minor) == number }
	return g.VG != nil && (slices.ContainsFunc(g.VG.LVs, same) || slices.ContainsFunc(g.VG.Hidden, same))
}

// groupsOn returns the volume groups with physical volumes on a device or its partitions.
func groupsOn(s NodeState, d device.Device) []PresentGroup {
	var groups []PresentGroup
	for _, g := range presentGroups(s) {
		if slices.ContainsFunc(g.Devices, func(o device.Device) bool { return isOn(o, d) }) {
			groups = append(groups, g)
		}
	}
	return groups
}

// isOn returns true if part is the device or one of its partitions.
func isOn(part, d device.Device) bool {
	return part.Number == d.Number || slices.Contains(d.Partitions, part.Name)
}

// presentGroups returns the volume groups of the node, also those that LVM does not list.
func presentGroups(s NodeState) []PresentGroup {
	var groups []PresentGroup
	for i := range s.Report.VGs {
		vg := &s.Report.VGs[i]
		g := PresentGroup{Name: vg.Name, UUID: vg.UUID, Tags: vg.Tags, VG: vg}
		for _, d := range s.Devices {
			if slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return NumberOf(pv) == d.Number }) {
				g.Devices = append(g.Devices, d)
			}
		}
		groups = append(groups, g)
	}
	for _, d := range s.Devices {
		pv, ok := s.Hidden.PVs[d.Number]
		if !ok || pv.VGUUID == "" {
			continue
		}
		at := slices.IndexFunc(groups, func(g PresentGroup) bool { return g.UUID == pv.VGUUID })
		if at < 0 {
			at = len(groups)
			groups = append(groups,
				PresentGroup{Name: pv.VGName, UUID: pv.VGUUID, Tags: pv.VGTags, SystemID: pv.SystemID})
		}
		groups[at].Devices = append(groups[at].Devices, d)
	}
	return groups
}

// listsGroup returns true if wipeVolumeGroups of a selector has the UUID of a volume group, or its name. A name does
// not stand for a volume group of this cluster.
func listsGroup(w Desired, selector *v1alpha1.DeviceSelector, g PresentGroup) bool {
	return slices.ContainsFunc(selector.WipeVolumeGroups, func(r v1alpha1.VolumeGroupReference) bool {
		return string(r) == g.UUID || string(r) == g.Name && !isOfCluster(w, g.Tags)
	})
}

// isByUUID returns true if a selector lists the UUID of the volume group.
func isByUUID(selector *v1alpha1.DeviceSelector, g PresentGroup) bool {
	return slices.Contains(selector.WipeVolumeGroups, v1alpha1.VolumeGroupReference(g.UUID))
}

// isOfCluster returns true if a volume group with these tags belongs to this cluster. Earlier versions did not record
// the cluster.
func isOfCluster(w Desired, tags []string) bool {
	cluster := tagValue(&lvm.VG{Tags: tags}, v1alpha1.ClusterTagPrefix)
	return isOfProduct(tags) && (cluster == "" || w.isThisCluster(cluster))
}

// toBeDestroyed returns true if a selector of the device class lists a volume group in wipeVolumeGroups, and the volume
// group is not the one that the device class uses. It returns false for an adopted one.
func toBeDestroyed(w Desired, g PresentGroup) bool {
	if w.Deleting || w.Leaving || adopted(w, &lvm.VG{Name: g.Name, UUID: g.UUID, Tags: g.Tags}) {
		return false
	}
	// A volume group that LVM does not list is not used before it is adopted.
	if g.VG != nil && g.Name == w.Name && notOurs(w, g.VG) == "" {
		return false
	}
	return slices.ContainsFunc(w.Selectors,
		func(d v1alpha1.DeviceSelector) bool { return listsGroup(w, &d, g) })
}

// namedGroups returns the volume groups with the name of the device class, without those that are to be destroyed.
func namedGroups(w Desired, report *lvm.Report) []*lvm.VG {
	return slices.DeleteFunc(report.Named(w.Group()), func(vg *lvm.VG) bool { return toBeDestroyed(w, presented(vg)) })
}

func presented(vg *lvm.VG) PresentGroup {
	return PresentGroup{Name: vg.Name, UUID: vg.UUID, Tags: vg.Tags, VG: vg}
}

// planNamesake is the plan while a volume group that is to be destroyed has the name of the device class: LVM would
// confuse it with the one of the device class. It returns nil if there is none.
func planNamesake(w Desired, s NodeState) *Plan {
	groups := presentGroups(s)
	at := slices.IndexFunc(groups, func(g PresentGroup) bool { return g.Name == w.Name && toBeDestroyed(w, g) })
	own := GroupOf(w, s)
	if at < 0 || groups[at].VG == nil && own != nil {
		return nil
	}
	c := choose(w, s, own)
	p := &Plan{State: v1alpha1.VGStatusProgressing, Excluded: c.excluded, Problems: c.problems,
		Lost: own == nil && wasThere(w, s)}
	for _, target := range c.wipes {
		if target.destroys(groups[at].UUID) {
			p.Action = wipeAction(target)
			return p
		}
	}
	p.State = failed(own != nil)
	problem := Problem{Event: EventForeignVolumeGroup, Message: fmt.Sprintf("%s on node %s is not destroyed, although "+
		"wipeVolumeGroups of device class %s lists it: %s", groups[at], w.Node, w.Name, notDestroyed(w, s, groups[at]))}
	if own != nil {
		problem = namesakeProblem(problem.Message)
	}
	p.Problems = append([]Problem{problem}, p.Problems...)
	return p
}

// notDestroyed returns why a volume group is not destroyed.
func notDestroyed(w Desired, s NodeState, g PresentGroup) string {
	if refusal := destructionRefusal(w, s, g); refusal != "" {
		return refusal
	}
	return "see excluded for why its devices cannot be wiped"
}

// destructionRefusal returns why a volume group that a selector lists in wipeVolumeGroups is not destroyed, or "".
// DestructionProblem has the rules that depend on a fresh read.
func destructionRefusal(w Desired, s NodeState, g PresentGroup) string {
	here := isOfCluster(w, g.Tags) && tagValue(&lvm.VG{Tags: g.Tags}, v1alpha1.NodeTagPrefix) == w.Node
	class := tagValue(&lvm.VG{Tags: g.Tags}, v1alpha1.ClassTagPrefix)
	var others []string
	unlisted, foreignHost := false, g.SystemID != ""
	for _, d := range g.Devices {
		selector, path := selectorOf(w, s, d)
		if path == "" || !listsGroup(w, &selector, g) {
			others = append(others, d.Name)
		}
		unlisted = unlisted || !isByUUID(&selector, g)
	}
	switch {
	case sharerOf(w, g.Name) != "":
		return fmt.Sprintf("%s is used by device class %s of this node (existingVolumeGroup)", g, sharerOf(w, g.Name))
	case here && slices.ContainsFunc(w.Others, func(o Other) bool { return o.Name == class || o.Name == g.Name }):
		return fmt.Sprintf("%s belongs to device class %s of this node", g, class)
	case len(others) > 0:
		return fmt.Sprintf("%s also has the devices %s: it is only destroyed if all its devices are in paths or "+
			"optionalPaths of selectors with wipeVolumeGroups that list it", g, joined(others))
	case foreignHost && unlisted:
		return fmt.Sprintf("%s belongs to another host (system ID %s), which may be using it: if it does not, add the "+
			"UUID to wipeVolumeGroups instead of the name", g, g.SystemID)
	case g.VG == nil:
		return ""
	case g.VG.Attr.Shared():
		return fmt.Sprintf("%s is shared between hosts by a lock manager", g)
	}
	return openProblem(g.VG)
}

// openProblem returns which logical volumes of a volume group are in use, or "".
func openProblem(vg *lvm.VG) string {
	var open []string
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if lv.Attr.Open() && !lv.Attr.IsThinPool() {
			open = append(open, vg.Name+"/"+lv.Name)
		}
	}
	if len(open) == 0 {
		return ""
	}
	return fmt.Sprintf("logical volumes of volume group %s (%s) are in use: %s: unmount them, or end what uses them "+
		"(see dmsetup ls --tree and lsof on the node)", vg.Name, vg.UUID, joined(open))
}

// selectorOf returns the selector that names a device, or the disk that contains it, and the path. The path is "" if
// there is none.
func selectorOf(w Desired, s NodeState, d device.Device) (v1alpha1.DeviceSelector, string) {
	for _, p := range s.Paths {
		if p.Err != nil {
			continue
		}
		at := slices.IndexFunc(s.Devices, func(o device.Device) bool { return o.Number == p.Number })
		if p.Number == d.Number || at >= 0 && isOn(d, s.Devices[at]) {
			return selectorAt(w, p.Selector), p.Path
		}
	}
	return v1alpha1.DeviceSelector{}, ""
}

// DestructionProblem returns why a volume group must not be destroyed, or "". before is the volume group as it was
// planned, and vg is it now, or nil. owners are the objects of the cluster.
//
// Whatever the tags say, a volume that belongs to an object of this cluster is not destroyed.
func DestructionProblem(before PresentGroup, vg *lvm.VG, owners Owners) string {
	switch {
	case vg == nil:
		return fmt.Sprintf("%s is no longer on %s", before, strings.Join(device.Names(before.Devices), ", "))
	case !slices.Equal(vg.Tags, before.Tags) || vg.Name != before.Name:
		return fmt.Sprintf("%s was changed since the wipe was planned", before)
	case owners.Err != nil:
		return fmt.Sprintf("whether the logical volumes of %s belong to objects of this cluster is not known: %v",
			before, owners.Err)
	}
	for _, pv := range vg.PVs {
		known := func(d device.Device) bool { return d.Number == NumberOf(pv) }
		if !pv.Missing && !slices.ContainsFunc(before.Devices, known) {
			return fmt.Sprintf("%s has another device since the wipe was planned: %s", before, pv.Name)
		}
	}
	for i := range vg.LVs {
		if owner := owners.Of[vg.LVs[i].Name]; owner != "" {
			return fmt.Sprintf("logical volume %s of %s belongs to %s: it is in use by this cluster", vg.LVs[i].Name,
				before, owner)
		}
	}
	return openProblem(vg)
}

// DescribeDestroyed returns a description of a volume group for the record of its destruction.
func DescribeDestroyed(vg *lvm.VG) string {
	var names []string
	for i := range vg.LVs {
		names = append(names, vg.LVs[i].Name)
	}
	text := fmt.Sprintf("volume group %s (%s)", vg.Name, vg.UUID)
	if len(names) > 0 {
		text += " with the logical volumes " + joined(names)
	}
	return text
}

// withWays adds to the reasons against a named device how a volume group of another owner on it can be used or
// destroyed.
func withWays(w Desired, s NodeState, d device.Device, reasons []device.Reason) []device.Reason {
	groups := groupsOn(s, d)
	list := slices.Clone(reasons)
	for i := range list {
		if list[i].Code != device.InVolumeGroup || len(groups) == 0 || isOfCluster(w, groups[0].Tags) {
			continue
		}
		g := groups[0]
		if isOfProduct(g.Tags) {
			list[i].Message += fmt.Sprintf("; to use it with its volumes, add to a device class: adopt: [{node: %s, "+
				"volumeGroupUUID: %s}]", w.Node, g.UUID)
		} else {
			list[i].Message += fmt.Sprintf("; to use it with its volumes, create a device class with "+
				"existingVolumeGroup: %s", g.Name)
		}
		list[i].Message += "; " + wipeHint(w, g.UUID)
	}
	return list
}

// Ways returns how the volume group of a physical volume can be used or destroyed, for the list of devices. group is
// the volume group, or nil if LVM does not list it. It returns "" for a volume group that a device class of the node
// uses.
func Ways(classes []ClassState, pv device.PV, group *lvm.VG) string {
	used := func(c ClassState) bool {
		vg := GroupOf(c.Desired, c.Node)
		return vg != nil && vg.UUID == pv.GroupUUID
	}
	if pv.GroupUUID == "" || slices.ContainsFunc(classes, used) {
		return ""
	}
	use := "add the UUID to adopt of a device class"
	if group != nil && !isOfProduct(group.Tags) {
		use = fmt.Sprintf("set existingVolumeGroup: %s in a device class", group.Name)
	}
	return fmt.Sprintf(" (%s), which no device class uses: to use it with its volumes, %s; to destroy it with its "+
		"volumes, add the UUID to wipeVolumeGroups of the deviceSelector", pv.GroupUUID, use)
}

// wipeHint returns how to destroy a volume group, for a message about one that the device class does not use.
func wipeHint(w Desired, uuid string) string {
	return fmt.Sprintf("to destroy it with all its logical volumes, name its devices in paths of the deviceSelector "+
		"of device class %s, and add there: wipeVolumeGroups: [%s]", w.Name, uuid)
}
