package selection

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// keepSectorSize excludes devices whose logical sectors have another size than those of the volume group, before
// anything is wiped: LVM does not create or extend a group with both (allow_mixed_block_sizes in lvm.conf(5)).
func (c *Choice) keepSectorSize(desired state.Desired, s state.NodeState, vg *lvm.VG) {
	size := c.sectorSize(s, vg)
	if size == 0 {
		return
	}
	isOther := func(d device.Device) bool { return d.SectorSize != 0 && d.SectorSize != size }
	leave := func(d device.Device, name string, reasons []device.Reason) {
		reasons = append(slices.Clone(reasons), device.Reason{Code: device.OtherSectorSize, Message: fmt.Sprintf(
			"has logical sectors of %d bytes, but those of the other devices of device class %s have %d: LVM does not "+
				"use both in one volume group; use it in another device class", d.SectorSize, desired.Name, size)})
		c.exclude(name, reasons)
		if isRequired(s, d) {
			c.problem(state.EventDevicePathCheckFailed,
				"device %s of node %s cannot be used for device class %s: it %s", name, desired.Node, desired.Name,
				device.Messages(reasons))
		}
	}
	c.Candidates = slices.DeleteFunc(c.Candidates, func(d device.Device) bool {
		if isOther(d) {
			leave(d, d.Name, nil)
		}
		return isOther(d)
	})
	c.Wipes = slices.DeleteFunc(c.Wipes, func(t state.WipeTarget) bool {
		if isOther(t.Device) {
			leave(t.Device, t.Path, t.Reasons)
		}
		return isOther(t.Device)
	})
}

// sectorSize returns the sector size of the volume group, or for a new group that of most of its devices, and the
// smaller one if both have as many. It returns 0 if the sizes are not known, or the group has several.
func (c *Choice) sectorSize(s state.NodeState, vg *lvm.VG) int64 {
	count := map[int64]int{}
	add := func(d device.Device) {
		if d.SectorSize > 0 {
			count[d.SectorSize]++
		}
	}
	if vg != nil {
		for _, pv := range vg.PVs {
			number := state.NumberOf(pv)
			at := slices.IndexFunc(s.Devices, func(d device.Device) bool { return !pv.Missing && d.Number == number })
			if at >= 0 {
				add(s.Devices[at])
			}
		}
		if len(count) > 1 {
			return 0 // the administrator allowed it in lvm.conf
		}
	}
	if len(count) == 0 {
		for _, d := range c.Candidates {
			add(d)
		}
		for _, t := range c.Wipes {
			add(t.Device)
		}
	}
	sizes := slices.SortedFunc(maps.Keys(count), func(a, b int64) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	if len(sizes) == 0 {
		return 0
	}
	return sizes[0]
}

// isRequired returns true if a selector names a device under paths.
func isRequired(s state.NodeState, d device.Device) bool {
	return slices.ContainsFunc(s.Disks.Paths, func(p state.Path) bool {
		return p.Err == nil && !p.Optional && p.Number == d.Number
	})
}
