package ownership

import (
	"fmt"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// RecordedUUID returns the UUID of the device class' volume group on this node from the node status or, if it was
// lost, from the class that this agent published. It returns "" if there is no record.
func RecordedUUID(s state.NodeState) string {
	if s.Before.UUID == "" && s.Class != nil {
		return s.Class.VolumeGroupUUID
	}
	return s.Before.UUID
}

// GroupOf returns the volume group of a device class: the recorded or the adopted one. Another group with the same
// name is not used. Without a record, or if the loss of the recorded group was approved, it is the group with the name,
// if there is only one.
func GroupOf(d state.Desired, s state.NodeState) *lvm.VG {
	recorded := RecordedUUID(s)
	named := NamedGroups(d, s.Report)
	for _, vg := range named {
		if vg.UUID == recorded {
			return vg
		}
	}
	if len(named) == 1 && (recorded == "" || AdoptedByUUID(d, named[0].UUID) || replaces(d, named[0])) {
		return named[0]
	}
	return nil
}

// Namesakes reports other volume groups with the name of the device class. If several exist, LVM does not change any
// of them by name. A single one could be confused with the missing one.
func Namesakes(d state.Desired, s state.NodeState) []state.Problem {
	named := NamedGroups(d, s.Report)
	recorded := RecordedUUID(s)
	if len(named) > 1 {
		return Duplicates(d, s)
	}
	if len(named) == 1 && GroupOf(d, s) == nil && NotOurs(d, named[0]) == "" {
		return []state.Problem{NamesakeProblem(fmt.Sprintf(
			"volume group %s (%s) of the device class is missing on node %s, which has another one of this name: %s. "+
				"Attach the disks of the missing one again; or, to use the other one instead, add to the device "+
				"class: adopt: [{node: %s, volumeGroupUUID: %s}]",
			d.Name, recorded, d.Node, Described(named[0]), d.Node, named[0].UUID))}
	}
	return nil
}

// Duplicates reports several volume groups with the name of the device class.
func Duplicates(d state.Desired, s state.NodeState) []state.Problem {
	named := NamedGroups(d, s.Report)
	recorded := RecordedUUID(s)
	if len(named) < 2 {
		return nil
	}
	var list []string
	for _, vg := range named {
		text := Described(vg)
		if vg.UUID == recorded {
			text += ", which belongs to the device class"
		}
		list = append(list, text)
	}
	return []state.Problem{NamesakeProblem(fmt.Sprintf(
		"node %s has %d volume groups with the name %s, so LVM cannot change any of them: %s. "+
			"Detach the disks of the one that does not belong here; or, to use it with its volumes, create a device "+
			"class with another name for this node, with adopt: [{node: %s, volumeGroupUUID: UUID}]; or rename it on "+
			"the node: vgrename UUID NEWNAME", d.Node, len(named), d.Name, strings.Join(list, "; "), d.Node))}
}

// NamesakeProblem returns the problem of several volume groups with one name.
func NamesakeProblem(message string) state.Problem {
	p := state.DeviceProblem(v1alpha1.ReasonDuplicateVolumeGroup, message, nil)
	p.AffectsClass = true
	return p
}

// Described returns a description of a volume group with its devices and tags.
func Described(vg *lvm.VG) string {
	return fmt.Sprintf("%s (on %s, tags %s)", vg.UUID, strings.Join(lvm.PVNames(vg.PVs), ", "),
		strings.Join(vg.Tags, ", "))
}

// replaces returns true if the recovery allows the loss of a whole volume group, and another one was created for the
// device class since.
func replaces(d state.Desired, vg *lvm.VG) bool {
	r := d.Open.Approved
	return r != nil && r.WholeGroup && NotOurs(d, vg) == "" && TagValue(vg, wellknown.NodeTagPrefix) == d.Node
}
