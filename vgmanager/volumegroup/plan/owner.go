package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// OwnerTags returns the tags for the owner and the device class of a volume group.
func OwnerTags(w Desired) []string {
	return []string{
		v1alpha1.OwnerTag, v1alpha1.ClusterTagPrefix + w.Cluster, v1alpha1.ClassTagPrefix + w.Name,
		v1alpha1.NodeTagPrefix + w.Node,
	}
}

// tagValue returns the value of the tag with a prefix.
func tagValue(vg *lvm.VG, prefix string) string {
	for _, tag := range vg.Tags {
		if value, ok := strings.CutPrefix(tag, prefix); ok {
			return value
		}
	}
	return ""
}

// foreign returns why a volume group with the right name must not be changed, or "".
func foreign(w Desired, vg *lvm.VG) string {
	if vg == nil {
		return ""
	}
	if problem := notOurs(w, vg); problem != "" {
		return problem
	}
	return frozen(w, vg)
}

// notOurs returns the owner of a volume group that does not belong to this node, or "".
//
// A group that has only the owner tag was created by an earlier version without the other tags. It belongs to this
// node.
func notOurs(w Desired, vg *lvm.VG) string {
	cluster := tagValue(vg, v1alpha1.ClusterTagPrefix)
	node := tagValue(vg, v1alpha1.NodeTagPrefix)
	switch {
	case !vg.HasTag(v1alpha1.OwnerTag):
		return fmt.Sprintf("volume group %s exists on node %s without the tag %q, so LVMS does not manage it: "+
			"remove it or rename the device class; to use it with its volumes, run on the node: "+
			"vgchange --addtag %s %s",
			w.Name, w.Node, v1alpha1.OwnerTag, v1alpha1.OwnerTag, w.Name)
	case cluster != "" && cluster != w.Cluster && !adopted(w, vg):
		return fmt.Sprintf("OtherClusterVG: volume group %s (%s) on node %s belongs to the cluster %s, not to this "+
			"cluster (%s), so it is not changed. Detach its disks or rename the device class; or, if no other cluster "+
			"uses the disks, to use the group here with its volumes, add to the device class: "+
			"adopt: [{node: %s, volumeGroupUUID: %s}]",
			w.Name, vg.UUID, w.Node, cluster, w.Cluster, w.Node, vg.UUID)
	case node != "" && node != w.Node && !adopted(w, vg):
		return fmt.Sprintf(
			"VGMoved: volume group %s (%s) was moved to node %s from node %s with its disks, so it is not changed. "+
				"Attach the disks to %s again; or, to use the group here with its volumes, add to the device "+
				"class: adopt: [{node: %s, volumeGroupUUID: %s}]",
			w.Name, vg.UUID, w.Node, node, node, w.Node, vg.UUID)
	}
	return ""
}

func adopted(w Desired, vg *lvm.VG) bool {
	return slices.ContainsFunc(w.Spec.Adopt, func(a v1alpha1.VolumeGroupAdoption) bool {
		return a.Node == w.Node && a.VolumeGroupUUID == vg.UUID
	})
}

// frozen returns why LVM would not change a volume group of this node, or "".
func frozen(w Desired, vg *lvm.VG) string {
	switch {
	case vg.Attr.Exported():
		return fmt.Sprintf("volume group %s on node %s is exported: run on the node: vgimport %s",
			w.Name, w.Node, w.Name)
	case vg.Attr.Shared():
		return fmt.Sprintf(
			"volume group %s on node %s is shared between hosts by a lock manager, which is not supported", w.Name,
			w.Node)
	case !vg.Attr.Writable():
		return fmt.Sprintf("volume group %s on node %s is read-only: run on the node: vgchange --permission rw %s",
			w.Name, w.Node, w.Name)
	}
	return ""
}

// tagging adds missing tags to a volume group of this node, and removes outdated ones.
func tagging(w Desired, vg *lvm.VG) Action {
	a := Action{}
	wanted := OwnerTags(w)
	for _, tag := range wanted {
		if !vg.HasTag(tag) {
			a.AddTags = append(a.AddTags, tag)
		}
	}
	for _, tag := range vg.Tags {
		ours := strings.HasPrefix(tag, v1alpha1.ClassTagPrefix) || strings.HasPrefix(tag, v1alpha1.NodeTagPrefix) ||
			strings.HasPrefix(tag, v1alpha1.ClusterTagPrefix)
		if ours && !slices.Contains(wanted, tag) {
			a.RemoveTags = append(a.RemoveTags, tag)
		}
	}
	if len(a.AddTags)+len(a.RemoveTags) > 0 {
		a.Kind = TagVG
	}
	return a
}
