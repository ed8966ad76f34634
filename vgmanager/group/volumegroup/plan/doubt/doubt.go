// Package doubt decides whether the metadata of a volume group may be from an earlier time than its data, and which
// changes wait while it is. The recovery AcceptMetadata ends the doubt.
package doubt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Of returns why the metadata of the volume group may be from an earlier time than its data, or "". Then space that
// the metadata calls free can have data, and the extents of a logical volume can have the data of another one. What
// cannot be read is doubtful too.
func Of(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	for _, why := range []string{Replacement(d, s), seenDoubt(d, s, vg)} {
		if why != "" {
			return why
		}
	}
	if vg != nil && errors.Is(s.Pool.Fault, lvm.ErrTransaction) && !vg.IsPoolActive(state.PoolName(d)) {
		return fmt.Sprintf("the metadata of volume group %s on node %s does not fit that of its thin pool %s: one of "+
			"them is from an earlier time", d.Name, d.Node, state.PoolName(d))
	}
	return ""
}

// Replacement is the part of doubt that follows from volumes of the API which the volume group does not have.
func Replacement(d state.Desired, s state.NodeState) string {
	switch replaced := s.Metadata.Replaced; {
	case replaced.Err != nil:
		return fmt.Sprintf("volume group %s on node %s does not have all volumes of the device class, and it is not "+
			"known whether its metadata was replaced with that of an earlier time: %v", d.Name, d.Node, replaced.Err)
	case len(replaced.Volumes) > 0:
		return fmt.Sprintf("the metadata of volume group %s on node %s was replaced with that of an earlier time, and "+
			"space that it calls free can have data: %s", d.Name, d.Node, recovery.RollbackHint(d))
	}
	return ""
}

// HeldBack returns why changes that are not made while the metadata is in doubt have to wait, or "". An approved
// recovery that removes lost devices does not wait: the data is lost, and the metadata cannot be restored without them.
func HeldBack(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	if lostdevices.Recovers(d, s, vg) {
		return ""
	}
	return Of(d, s, vg)
}

// Unaccounted returns why the volume group must not be removed although LVM lists no volume of it, or "": objects of
// the cluster have volumes that no volume group of the node has, or the objects are not known.
func Unaccounted(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	if why := Of(d, s, vg); why != "" {
		return why
	}
	where := fmt.Sprintf("volume group %s on node %s is not removed", d.Name, d.Node)
	if s.Owners.Err != nil {
		return fmt.Sprintf("%s: whether objects of the cluster have volumes in it is not known: %v", where,
			s.Owners.Err)
	}
	var names []string
	for volume, owner := range s.Owners.Volumes {
		if mayBeIn(d, owner) && !ownership.IsListed(s.Report, volume) {
			names = append(names, owner.Describe())
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("%s: it does not have the volumes of objects of the cluster, so its metadata may be from an "+
		"earlier time: %s: %s; if these volumes are not needed, delete their claims", where, state.Joined(names),
		recovery.RollbackHint(d))
}

// mayBeIn returns true if the volume of an object was created in the volume group of the device class on this node, or
// may have been: a PersistentVolume without LogicalVolume has no device class.
func mayBeIn(d state.Desired, o state.VolumeOwner) bool {
	if o.LogicalVolume == "" {
		return o.PersistentVolume != "" && o.VolumeNode == d.Node
	}
	return o.Created && o.Node == d.Node && (o.DeviceClass == d.Name || o.DeviceClass == "" && d.Spec.Default)
}

// DeletionProblem returns why no orphan of the volume group can be deleted or imported, or "".
func DeletionProblem(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	if problems := ownership.Namesakes(d, s); len(problems) > 0 {
		return problems[0].Message
	}
	switch {
	case vg == nil && len(s.Report.Named(d.Name)) > 0:
		return where + ": there is another volume group with this name: rename it, or detach its devices"
	case vg == nil:
		return where + " does not exist or is missing"
	case ownership.Foreign(d, vg) != "":
		return ownership.Foreign(d, vg)
	}
	if problems := health.BrokenGroup(d, s, vg); len(problems) > 0 {
		return problems[0].Message
	}
	if why := Of(d, s, vg); why != "" {
		return why
	}
	if s.Owners.Err != nil {
		return fmt.Sprintf("%s: whether its volumes belong to objects of the cluster is not known: %v", where,
			s.Owners.Err)
	}
	return ""
}
