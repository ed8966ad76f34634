package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// groupsOn returns the volume groups with physical volumes on a device or its partitions.
func groupsOn(s state.NodeState, d device.Device) []state.PresentGroup {
	var groups []state.PresentGroup
	for _, g := range presentGroups(s) {
		if slices.ContainsFunc(g.Devices, func(o device.Device) bool { return state.IsOn(o, d) }) {
			groups = append(groups, g)
		}
	}
	return groups
}

// presentGroups returns the volume groups of the node, also those that LVM does not list.
func presentGroups(s state.NodeState) []state.PresentGroup {
	var groups []state.PresentGroup
	for i := range s.Report.VGs {
		vg := &s.Report.VGs[i]
		g := state.PresentGroup{Name: vg.Name, UUID: vg.UUID, Tags: vg.Tags, VG: vg}
		for _, d := range s.Devices {
			if slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return state.NumberOf(pv) == d.Number }) {
				g.Devices = append(g.Devices, d)
			}
		}
		groups = append(groups, g)
	}
	for _, d := range s.Devices {
		pv, ok := s.Disks.Hidden.PVs[d.Number]
		if !ok || pv.VGUUID == "" {
			continue
		}
		at := slices.IndexFunc(groups, func(g state.PresentGroup) bool { return g.UUID == pv.VGUUID })
		if at < 0 {
			at = len(groups)
			groups = append(groups,
				state.PresentGroup{Name: pv.VGName, UUID: pv.VGUUID, Tags: pv.VGTags, SystemID: pv.SystemID})
		}
		groups[at].Devices = append(groups[at].Devices, d)
	}
	return groups
}

// PlanNamesake is the plan while a volume group that is to be destroyed has the name of the device class: LVM would
// confuse it with the one of the device class. It returns nil if there is none.
func PlanNamesake(d state.Desired, s state.NodeState) *state.Plan {
	groups := presentGroups(s)
	at := slices.IndexFunc(groups, func(g state.PresentGroup) bool {
		return g.Name == d.Name &&
			ownership.ToBeDestroyed(d, g)
	})
	own := ownership.GroupOf(d, s)
	if at < 0 || groups[at].VG == nil && own != nil {
		return nil
	}
	c := Choose(d, s, own)
	p := &state.Plan{State: v1alpha1.VGStatusProgressing, Excluded: c.Excluded, Problems: c.Problems,
		Lost: own == nil && lostdevices.WasThere(d, s)}
	for _, target := range c.Wipes {
		if target.Destroys(groups[at].UUID) {
			p.Action = wipeAction(target)
			return p
		}
	}
	p.State = state.Failed(own != nil)
	problem := state.Problem{Event: state.EventForeignVolumeGroup,
		Message: fmt.Sprintf(
			"%s on node %s is not destroyed, although "+"wipeVolumeGroups of device class %s lists it: %s", groups[at],
			d.Node, d.Name, notDestroyed(d, s, groups[at]))}
	if own != nil {
		problem = ownership.NamesakeProblem(problem.Message)
	}
	p.Problems = append([]state.Problem{problem}, p.Problems...)
	return p
}

// notDestroyed returns why a volume group is not destroyed.
func notDestroyed(d state.Desired, s state.NodeState, g state.PresentGroup) string {
	if refusal := destructionRefusal(d, s, g); refusal != "" {
		return refusal
	}
	return "see excluded for why its devices cannot be wiped"
}

// destructionRefusal returns why a volume group that a selector lists in wipeVolumeGroups is not destroyed, or "".
// DestructionProblem has the rules that depend on a fresh read.
func destructionRefusal(desired state.Desired, s state.NodeState, g state.PresentGroup) string {
	here := ownership.IsOfCluster(desired, g.Tags) && ownership.TagValue(&lvm.VG{Tags: g.Tags},
		wellknown.NodeTagPrefix) == desired.Node
	class := ownership.TagValue(&lvm.VG{Tags: g.Tags}, wellknown.ClassTagPrefix)
	var others []string
	unlisted, foreignHost := false, g.SystemID != ""
	for _, d := range g.Devices {
		selector, path := selectorOf(desired, s, d)
		if path == "" || !ownership.ListsGroup(desired, &selector, g) {
			others = append(others, d.Name)
		}
		unlisted = unlisted || !ownership.IsByUUID(&selector, g)
	}
	switch {
	case ownership.SharerOf(desired, g.Name) != "":
		return fmt.Sprintf("%s is used by device class %s of this node (existingVolumeGroup)", g,
			ownership.SharerOf(desired, g.Name))
	case here && slices.ContainsFunc(desired.Others,
		func(o state.Other) bool { return o.Name == class || o.Name == g.Name }):
		return fmt.Sprintf("%s belongs to device class %s of this node", g, class)
	case len(others) > 0:
		return fmt.Sprintf("%s also has the devices %s: it is only destroyed if all its devices are in paths or "+
			"optionalPaths of selectors with wipeVolumeGroups that list it", g, state.Joined(others))
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
		"(see dmsetup ls --tree and lsof on the node)", vg.Name, vg.UUID, state.Joined(open))
}

// selectorOf returns the selector that names a device, or the disk that contains it, and the path. The path is "" if
// there is none.
func selectorOf(desired state.Desired, s state.NodeState, d device.Device) (v1alpha1.DeviceSelector, string) {
	for _, p := range s.Disks.Paths {
		if p.Err != nil {
			continue
		}
		at := slices.IndexFunc(s.Devices, func(o device.Device) bool { return o.Number == p.Number })
		if p.Number == d.Number || at >= 0 && state.IsOn(d, s.Devices[at]) {
			return state.SelectorAt(desired, p.Selector), p.Path
		}
	}
	return v1alpha1.DeviceSelector{}, ""
}

// DestructionProblem returns why a volume group must not be destroyed, or "". before is the volume group as it was
// planned, and vg is it now, or nil. owners are the objects of the cluster.
//
// Whatever the tags say, a volume that belongs to an object of this cluster is not destroyed.
func DestructionProblem(before state.PresentGroup, vg *lvm.VG, owners state.Owners) string {
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
		known := func(d device.Device) bool { return d.Number == state.NumberOf(pv) }
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
		text += " with the logical volumes " + state.Joined(names)
	}
	return text
}

// withWays adds to the reasons against a named device how a volume group of another owner on it can be used or
// destroyed.
func withWays(desired state.Desired, s state.NodeState, d device.Device, reasons []device.Reason) []device.Reason {
	groups := groupsOn(s, d)
	list := slices.Clone(reasons)
	for i := range list {
		if list[i].Code != device.InVolumeGroup || len(groups) == 0 || ownership.IsOfCluster(desired, groups[0].Tags) {
			continue
		}
		g := groups[0]
		if state.IsOfProduct(g.Tags) {
			list[i].Message += fmt.Sprintf("; to use it with its volumes, add to a device class: adopt: [{node: %s, "+
				"volumeGroupUUID: %s}]", desired.Node, g.UUID)
		} else {
			list[i].Message += fmt.Sprintf("; to use it with its volumes, create a device class with "+
				"existingVolumeGroup: %s", g.Name)
		}
		list[i].Message += "; " + ownership.WipeHint(desired, g.UUID)
	}
	return list
}

// Ways returns how the volume group of a physical volume can be used or destroyed, for the list of devices. group is
// the volume group, or nil if LVM does not list it. It returns "" for a volume group that a device class of the node
// uses.
func Ways(classes []ClassState, pv device.PV, group *lvm.VG) string {
	used := func(c ClassState) bool {
		vg := ownership.GroupOf(c.Desired, c.Node)
		return vg != nil && vg.UUID == pv.GroupUUID
	}
	if pv.GroupUUID == "" || slices.ContainsFunc(classes, used) {
		return ""
	}
	use := "add the UUID to adopt of a device class"
	if group != nil && !state.IsOfProduct(group.Tags) {
		use = fmt.Sprintf("set existingVolumeGroup: %s in a device class", group.Name)
	}
	return fmt.Sprintf(" (%s), which no device class uses: to use it with its volumes, %s; to destroy it with its "+
		"volumes, add the UUID to wipeVolumeGroups of the deviceSelector", pv.GroupUUID, use)
}
