package ownership

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ListsGroup returns true if wipeVolumeGroups of a selector has the UUID of a volume group, or its name. A name does
// not stand for a volume group of this cluster.
func ListsGroup(d state.Desired, selector *v1alpha1.DeviceSelector, g state.PresentGroup) bool {
	return slices.ContainsFunc(selector.WipeVolumeGroups, func(r v1alpha1.VolumeGroupReference) bool {
		return string(r) == g.UUID || string(r) == g.Name && !IsOfCluster(d, g.Tags)
	})
}

// IsByUUID returns true if a selector lists the UUID of the volume group.
func IsByUUID(selector *v1alpha1.DeviceSelector, g state.PresentGroup) bool {
	return slices.Contains(selector.WipeVolumeGroups, v1alpha1.VolumeGroupReference(g.UUID))
}

// IsOfCluster returns true if a volume group with these tags belongs to this cluster. Earlier versions did not record
// the cluster.
func IsOfCluster(d state.Desired, tags []string) bool {
	cluster := TagValue(&lvm.VG{Tags: tags}, wellknown.ClusterTagPrefix)
	return state.IsOfProduct(tags) && (cluster == "" || d.IsThisCluster(cluster))
}

// ToBeDestroyed returns true if a selector of the device class lists a volume group in wipeVolumeGroups, and the volume
// group is not the one that the device class uses. It returns false for an adopted one.
func ToBeDestroyed(desired state.Desired, g state.PresentGroup) bool {
	if desired.Deleting || desired.Leaving || Adopted(desired, &lvm.VG{Name: g.Name, UUID: g.UUID, Tags: g.Tags}) {
		return false
	}
	// A volume group that LVM does not list is not used before it is adopted.
	if g.VG != nil && g.Name == desired.Name && NotOurs(desired, g.VG) == "" {
		return false
	}
	return slices.ContainsFunc(desired.Selectors,
		func(d v1alpha1.DeviceSelector) bool { return ListsGroup(desired, &d, g) })
}

// NamedGroups returns the volume groups with the name of the device class, without those that are to be destroyed.
func NamedGroups(d state.Desired, report *lvm.Report) []*lvm.VG {
	return slices.DeleteFunc(report.Named(d.Group()), func(vg *lvm.VG) bool { return ToBeDestroyed(d, presented(vg)) })
}

func presented(vg *lvm.VG) state.PresentGroup {
	return state.PresentGroup{Name: vg.Name, UUID: vg.UUID, Tags: vg.Tags, VG: vg}
}

// WipeHint returns how to destroy a volume group, for a message about one that the device class does not use.
func WipeHint(d state.Desired, uuid string) string {
	return fmt.Sprintf("to destroy it with all its logical volumes, name its devices in paths of the deviceSelector "+
		"of device class %s, and add there: wipeVolumeGroups: [%s]", d.Name, uuid)
}
