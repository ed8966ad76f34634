// Package ownership decides whether a volume group belongs to the device class on this node: by its tags, by the
// record of its UUID, and by consent to adopt or to destroy it.
package ownership

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// IsListed returns true if a volume group of the node has the volume.
func IsListed(report *lvm.Report, volume string) bool {
	return slices.ContainsFunc(report.VGs, func(vg lvm.VG) bool { return vg.LV(volume) != nil })
}

// OwnerTags returns the tags for the owner and the device class of a volume group.
func OwnerTags(d state.Desired) []string {
	return []string{
		wellknown.OwnerTag, wellknown.ClusterTagPrefix + d.Cluster.ID, wellknown.ClassTagPrefix + d.Name,
		wellknown.NodeTagPrefix + d.Node,
	}
}

// TagValue returns the value of the tag with a prefix.
func TagValue(vg *lvm.VG, prefix string) string {
	for _, tag := range vg.Tags {
		if value, ok := strings.CutPrefix(tag, prefix); ok {
			return value
		}
	}
	return ""
}

// Foreign returns why a volume group with the right name must not be changed, or "".
func Foreign(d state.Desired, vg *lvm.VG) string {
	if vg == nil {
		return ""
	}
	if problem := NotOurs(d, vg); problem != "" {
		return problem
	}
	return Frozen(d, vg)
}

// NotOurs returns the owner of a volume group that does not belong to this node, or "".
//
// A group that has only the owner tag was created by an earlier version without the other tags. It belongs to this
// node.
func NotOurs(d state.Desired, vg *lvm.VG) string {
	cluster := TagValue(vg, wellknown.ClusterTagPrefix)
	node := TagValue(vg, wellknown.NodeTagPrefix)
	switch {
	case !vg.HasTag(wellknown.OwnerTag) && SharerOf(d, vg.Name) != "":
		return fmt.Sprintf("volume group %s exists on node %s, and device class %s uses it (existingVolumeGroup): "+
			"rename device class %s", vg.Name, d.Node, SharerOf(d, vg.Name), d.Name)
	case !vg.HasTag(wellknown.OwnerTag):
		return fmt.Sprintf("volume group %s exists on node %s without the tag %q, so LVMS does not manage it: "+
			"remove it or rename the device class; to use it with its volumes, run on the node: "+
			"vgchange --addtag %s %s; to use it without changing it, create a device class with "+
			"existingVolumeGroup: %s; %s",
			d.Name, d.Node, wellknown.OwnerTag, wellknown.OwnerTag, d.Name, d.Name, WipeHint(d, vg.UUID))
	case cluster != "" && !d.IsThisCluster(cluster) && !Adopted(d, vg):
		return fmt.Sprintf("OtherClusterVG: volume group %s (%s) on node %s belongs to the cluster %s, not to this "+
			"cluster (%s), so it is not changed. Detach its disks or rename the device class; or, if no other cluster "+
			"uses the disks, to use the group here with its volumes, add to the device class: "+
			"adopt: [{node: %s, volumeGroupUUID: %s}], or, for all nodes that it was on: adoptClusters: [%s]; %s%s",
			d.Name, vg.UUID, d.Node, cluster, d.Cluster.ID, d.Node, vg.UUID, cluster, WipeHint(d, vg.UUID),
			activeHere(d.Node, vg))
	case node != "" && node != d.Node && !Adopted(d, vg):
		return fmt.Sprintf(
			"VGMoved: volume group %s (%s) was moved to node %s from node %s with its disks, so it is not changed. "+
				"Attach the disks to %s again; or, to use the group here with its volumes, add to the device "+
				"class: adopt: [{node: %s, volumeGroupUUID: %s}]; %s%s",
			d.Name, vg.UUID, d.Node, node, node, d.Node, vg.UUID, WipeHint(d, vg.UUID), activeHere(d.Node, vg))
	}
	return ""
}

// ActiveOfOthers returns what to do about the active logical volumes of a volume group on a node, as the end of a
// message. It returns "" if none is active, or if no tag says that the group belongs to another node or to a cluster
// that is not one of these.
func ActiveOfOthers(vg *lvm.VG, node string, clusters ...string) string {
	if vg == nil || !vg.HasTag(wellknown.OwnerTag) {
		return ""
	}
	owner := TagValue(vg, wellknown.NodeTagPrefix)
	cluster := TagValue(vg, wellknown.ClusterTagPrefix)
	if (owner == "" || owner == node) && (cluster == "" || slices.Contains(clusters, cluster)) {
		return ""
	}
	return activeHere(node, vg)
}

// activeHere is the part of ActiveOfOthers about the logical volumes. Hosts activate the volume groups that they find
// when they start.
func activeHere(node string, vg *lvm.VG) string {
	var active []string
	for i := range vg.LVs {
		if vg.LVs[i].Attr.Active() {
			active = append(active, vg.LVs[i].Name)
		}
	}
	if len(active) == 0 {
		return ""
	}
	return fmt.Sprintf(". Logical volumes of it are active on node %s: %s. If another node sees the same disks, both "+
		"can write to them and destroy the data: unless something uses them here, run on node %s: vgchange -an %s",
		node, state.Joined(active), node, vg.Name)
}

// SharerOf returns the name of another device class of this node that uses an existing volume group with this name, or
// "".
func SharerOf(d state.Desired, group string) string {
	at := slices.IndexFunc(d.Sharers, func(o state.Sharer) bool { return o.Group == group })
	if at < 0 {
		return ""
	}
	return d.Sharers[at].Name
}

// Adopted returns true if the device class adopts the volume group: by its UUID, or as one of a cluster.
func Adopted(d state.Desired, vg *lvm.VG) bool {
	return AdoptedByUUID(d, vg.UUID) || adoptedFromCluster(d, vg)
}

// AdoptedByUUID returns true if the device class adopts the volume group with a UUID.
func AdoptedByUUID(d state.Desired, uuid string) bool {
	return slices.ContainsFunc(d.Spec.Adopt, func(a v1alpha1.VolumeGroupAdoption) bool {
		return a.Node == d.Node && a.VolumeGroupUUID == uuid
	})
}

// adoptedFromCluster returns true if the volume group belonged to the same device class and node of a cluster that
// adoptClusters lists.
func adoptedFromCluster(d state.Desired, vg *lvm.VG) bool {
	cluster := TagValue(vg, wellknown.ClusterTagPrefix)
	return vg.Name == d.Name && vg.HasTag(wellknown.OwnerTag) &&
		slices.Contains(d.Spec.AdoptClusters, v1alpha1.ClusterIdentity(cluster)) &&
		TagValue(vg, wellknown.ClassTagPrefix) == d.Name && TagValue(vg, wellknown.NodeTagPrefix) == d.Node
}

// PlanRename is the plan for an adopted volume group with the name of another device class. It is renamed, because a
// volume group has the name of its device class. It returns nil if the class has its own group, or adopts none of
// another name. The group of another device class of this node is not renamed.
func PlanRename(d state.Desired, s state.NodeState, vg *lvm.VG) *state.Plan {
	if vg != nil {
		return nil
	}
	for i := range s.Report.VGs {
		g := &s.Report.VGs[i]
		if g.Name == d.Name || !Adopted(d, g) {
			continue
		}
		if problem := notRenamed(d, g); problem != "" {
			return &state.Plan{State: v1alpha1.VGStatusFailed,
				Problems: []state.Problem{{Event: state.EventForeignVolumeGroup, Message: problem}}}
		}
		return &state.Plan{State: v1alpha1.VGStatusProgressing, Action: state.Action{Kind: state.RenameVG,
			Change: lvm.VGRename{UUID: g.UUID, Name: d.Name}}}
	}
	return nil
}

// notRenamed returns why an adopted volume group of another name must not be renamed, or "".
func notRenamed(d state.Desired, g *lvm.VG) string {
	where := fmt.Sprintf(
		"volume group %s (%s) on node %s, which device class %s adopts,", g.Name, g.UUID, d.Node, d.Name)
	class := TagValue(g, wellknown.ClassTagPrefix)
	here := d.IsThisCluster(TagValue(g, wellknown.ClusterTagPrefix)) && TagValue(g, wellknown.NodeTagPrefix) == d.Node
	switch {
	case !g.HasTag(wellknown.OwnerTag):
		return fmt.Sprintf("%s is not renamed, because it does not have the tag %q: to use it, run on the node: "+
			"vgchange --addtag %s %s", where, wellknown.OwnerTag, wellknown.OwnerTag, g.UUID)
	case here && slices.ContainsFunc(d.Others, func(o state.Other) bool { return o.Name == class || o.Name == g.Name }):
		return fmt.Sprintf(
			"%s is not renamed, because it belongs to device class %s of this node: remove it from adopt",
			where, class)
	case SharerOf(d, g.Name) != "":
		return fmt.Sprintf("%s is not renamed, because device class %s of this node uses it (existingVolumeGroup): "+
			"remove it from adopt", where, SharerOf(d, g.Name))
	case g.MissingPVs > 0:
		return fmt.Sprintf("%s is not renamed while physical volumes are missing: %d. Attach them", where, g.MissingPVs)
	}
	return Frozen(d, g)
}

// Frozen returns why LVM would not change a volume group of this node, or "".
func Frozen(d state.Desired, vg *lvm.VG) string {
	switch {
	case vg.Attr.Exported():
		return fmt.Sprintf("volume group %s on node %s is exported: run on the node: vgimport %s",
			vg.Name, d.Node, vg.Name)
	case vg.Attr.Shared():
		return fmt.Sprintf(
			"volume group %s on node %s is shared between hosts by a lock manager, which is not supported", vg.Name,
			d.Node)
	case !vg.Attr.Writable():
		return fmt.Sprintf("volume group %s on node %s is read-only: run on the node: vgchange --permission rw %s",
			vg.Name, d.Node, vg.Name)
	}
	return ""
}

// Tagging adds missing tags to a volume group of this node, and removes outdated ones.
func Tagging(d state.Desired, vg *lvm.VG) state.Action {
	tags := lvm.VGChangeTags{VG: d.Name}
	wanted := OwnerTags(d)
	for _, tag := range wanted {
		if !vg.HasTag(tag) {
			tags.Add = append(tags.Add, tag)
		}
	}
	for _, tag := range vg.Tags {
		ours := strings.HasPrefix(tag, wellknown.ClassTagPrefix) || strings.HasPrefix(tag, wellknown.NodeTagPrefix) ||
			strings.HasPrefix(tag, wellknown.ClusterTagPrefix)
		if ours && !slices.Contains(wanted, tag) {
			tags.Remove = append(tags.Remove, tag)
		}
	}
	if len(tags.Add)+len(tags.Remove) == 0 {
		return state.Action{}
	}
	return state.Action{Kind: state.TagVG, Change: tags}
}
