package volumegroup

import (
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/noderecord"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// release has the UUIDs of the physical volumes of a group that is being removed. It is empty if no group with the name
// is.
type release struct {
	VolumeGroup     string   `json:"volumeGroup"`
	PhysicalVolumes []string `json:"physicalVolumes"`
}

func newReleases(dir string) noderecord.Records[release] {
	return noderecord.New[release](dir, "released", "the physical volumes of the removed volume group")
}

func releaseOf(vg string, pvs []lvm.PV) release {
	note := release{VolumeGroup: vg}
	for _, pv := range pvs {
		note.PhysicalVolumes = append(note.PhysicalVolumes, pv.UUID)
	}
	return note
}

// newAdditions are the identities of the devices to which the last command wrote that created or extended a volume
// group. Identities that can change or that another disk can get are left out.
func newAdditions(dir string) noderecord.Records[[]string] {
	return noderecord.New[[]string](dir, "adding", "the devices that were being added to volume group")
}

func additionOf(s state.NodeState, devices []device.Device) []string {
	var ids []string
	for _, d := range devices {
		if id := s.Disks.Identities[d.Number]; strings.HasPrefix(id, "wwn:") || strings.HasPrefix(id, "serial:") {
			ids = append(ids, id)
		}
	}
	return ids
}

// removals records the devices that were removed from a volume group on request. A request can name a device by the
// UUID of its physical volume, which no longer exists after the label is removed.
type removals struct {
	noderecord.Records[[]state.Removal]
}

func newRemovals(dir string) removals {
	return removals{noderecord.New[[]state.Removal](dir, "removed", "the devices that were removed from volume group")}
}

// add records a removal. It deletes the records that no request names.
func (r removals) add(vg string, one state.Removal, named func(uuid string) bool) error {
	list, err := r.Read(vg)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(o state.Removal) bool { return o.UUID == one.UUID || !named(o.UUID) })
	return r.Write(vg, append(list, one))
}
