package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// This file decides on which physical volumes a thick volume gets its extents.

// Placement is the physical volumes for the extents of a volume.
type Placement struct {
	// Room is the maximum size in bytes: of a new volume, or by which a volume is extended.
	Room lvm.Bytes
	// Devices are the physical volumes to pass to LVM. If empty, LVM chooses.
	Devices []string
	// Where says in a refusal where the room is.
	Where string
}

// diskSet is the physical volumes on which a volume can get extents, sorted by free extents in descending order.
type diskSet struct {
	disks []lvm.FreeDisk
	// limited: LVM could allocate on other physical volumes too, so these are named in its command.
	limited bool
}

// names returns the physical volumes to pass to LVM, or none if LVM can use all.
func (s diskSet) names() []string {
	if !s.limited {
		return nil
	}
	return namesOf(s.disks)
}

// total returns the number of free extents.
func (s diskSet) total() int64 {
	var sum int64
	for _, d := range s.disks {
		sum += d.Free
	}
	return sum
}

// keep returns the physical volumes, by UUID, for which is returns true.
func (s diskSet) keep(is func(uuid string) bool) diskSet {
	kept := slices.DeleteFunc(slices.Clone(s.disks), func(d lvm.FreeDisk) bool { return !is(d.UUID) })
	return diskSet{disks: kept, limited: true}
}

// AllDisks returns the physical volumes on which LVM allocates: neither missing nor cordoned.
func AllDisks(vg *lvm.VG) diskSet { return diskSet{disks: vg.FreeDisks()} }

// isSingle returns true if a volume of the class with this layout is on one physical volume. The images of a layout
// with several are always on different ones.
func (v Class) isSingle(layout lvm.Layout) bool {
	return v.Config.IsSingleDevice() && layout.Images <= 1
}

// placeNew returns the placement of a new volume whose images have this number of extents. For a volume with
// redundancy, it names one physical volume for each image if that is sufficient. The loss of one then affects only one
// image.
func (v Class) placeNew(layout lvm.Layout, image int64, on diskSet) Placement {
	p := Placement{Devices: on.names(), Where: "in volume group " + v.VG.Name}
	if v.isSingle(layout) {
		p.Where = fmt.Sprintf("on one device of volume group %s, and a volume cannot continue on another one "+
			"(allocation SingleDevice)", v.VG.Name)
		on.disks = on.disks[:min(1, len(on.disks))]
		p.Devices = namesOf(on.disks)
	}
	p.Room = createRoom(layout, v.VG.ExtentSize, on.disks)
	switch {
	case layout.Meta:
		if one := onePerImage(layout, v.VG.ExtentSize, on.disks, image); one != nil {
			p.Devices = one
		}
	case layout.Images > 1:
		p.Where = fmt.Sprintf("on %d devices of volume group %s at the same time, over which the volume is striped",
			layout.Images, v.VG.Name)
	}
	return p
}

// PlaceGrowth returns how far a volume can be extended. A striped volume keeps its stripes. With allocation
// SingleDevice, a linear volume is extended only on the physical volumes that it has extents on. There are several of
// them if the volume was created with another allocation, or its extents were moved.
func (v Class) PlaceGrowth(lv *lvm.LV, on diskSet) Placement {
	if lv.IsRAID() {
		return imageGrowth(v.VG, lv, on)
	}
	p := Placement{Devices: on.names(), Where: "in volume group " + v.VG.Name}
	layout := lvm.Layout{Type: "linear", Images: max(1, lv.Stripes), Data: max(1, lv.Stripes)}
	switch {
	case layout.Images > 1:
		p.Where = fmt.Sprintf("on %d devices of volume group %s at the same time, over which logical volume %s is "+
			"striped: add devices, or delete volumes on these", layout.Images, v.VG.Name, lv.Name)
	case v.isSingle(layout) && !lv.Attr.Locked(): // LVM refuses to extend a locked volume
		own := on.keep(func(uuid string) bool { return slices.Contains(lv.PVs, uuid) })
		p.Devices = own.names()
		p.Where = fmt.Sprintf("on %s, which logical volume %s/%s does not leave (allocation SingleDevice): request "+
			"less, delete other volumes on this device, or change the allocation of the device class to Any",
			devicesText(v.VG, lv.PVs), v.VG.Name, lv.Name)
		on = own
	}
	p.Room = createRoom(layout, v.VG.ExtentSize, on.disks)
	return p
}

// devicesText returns the names of physical volumes, by UUID, for a message.
func devicesText(vg *lvm.VG, uuids []string) string {
	var names []string
	for _, pv := range vg.PVs {
		if slices.Contains(uuids, pv.UUID) {
			names = append(names, pv.Name)
		}
	}
	return shortened(names)
}

// maxShown is the maximum number of names in a message.
const maxShown = 8

// shortened returns names for a message.
func shortened(names []string) string {
	if len(names) <= maxShown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxShown], ", "), len(names)-maxShown)
}
