package view

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// This file keeps thick volumes of one group apart: on physical volumes that no other volume of the group uses.

// admitApart returns the devices to pass to LVM for more bytes of a volume. The physical volumes with other volumes of
// its group are used only if it does not fit elsewhere, and not at all if the policy is required: then the error is
// ResourceExhausted, and the provisioner selects another node. It is also the error if the bytes do not fit at all.
// place returns the placement on a set of physical volumes.
func (v Class) admitApart(spread deviceclass.Spread, name string, more lvm.Bytes,
	place func(diskSet) Placement) ([]string, error) {
	if taken := takenBy(v.VG, spread, name); len(taken) > 0 {
		p := place(AllDisks(v.VG).keep(func(uuid string) bool { return len(taken[uuid]) == 0 }))
		if more <= p.Room {
			return p.Devices, nil
		}
		if spread.Required {
			return nil, v.notApart(spread, name, more, p, taken)
		}
	}
	p := place(AllDisks(v.VG))
	return p.Devices, v.admit(more, p.Room, p.Where)
}

// takenBy returns the other volumes of a volume's group on the physical volumes of the volume group, by UUID. It omits
// the physical volumes that the volume is on: an extension there does not bring it together with others.
func takenBy(vg *lvm.VG, spread deviceclass.Spread, name string) map[string][]string {
	if spread.Group == "" || !spread.Devices {
		return nil
	}
	others := map[string]bool{}
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if lv.Name != name && deviceclass.SpreadOf(lv.Tags).Group == spread.Group {
			others[lv.Name] = true
		}
	}
	if len(others) == 0 {
		return nil
	}
	taken := map[string][]string{}
	for _, pv := range vg.PVs {
		users := vg.VolumesOn(pv.UUID)
		if slices.Contains(users, name) {
			continue
		}
		if users = slices.DeleteFunc(users, func(user string) bool { return !others[user] }); len(users) > 0 {
			taken[pv.UUID] = users
		}
	}
	return taken
}

// notApart says which volumes are in the way.
func (v Class) notApart(spread deviceclass.Spread, name string, more lvm.Bytes, p Placement,
	taken map[string][]string) error {
	var devices []string
	for _, pv := range v.VG.PVs {
		if users := taken[pv.UUID]; len(users) > 0 {
			devices = append(devices, fmt.Sprintf("%s (%s)", pv.Name, shortened(users)))
		}
	}
	slices.Sort(devices)
	return fault.New(fault.ResourceExhausted, "device class %s: %d bytes are requested for logical volume %s/%s, "+
		"but only %d are free %s, apart from the devices with other volumes of the spread group %s, which it must not "+
		"share: %s: add a device, delete one of these volumes, or use the policy preferred",
		v.Config.Name, more, v.VG.Name, name, p.Room, p.Where, spread.Group, shortened(devices))
}

// RefuseThinSpread returns InvalidArgument if a volume of a thin pool must be kept apart on devices. All volumes of a
// thin pool are on its devices, on each node, so another node cannot help.
func (v Class) RefuseThinSpread(tags []string) error {
	spread := deviceclass.SpreadOf(tags)
	if v.Pool == nil || !spread.Devices || !spread.Required {
		return nil
	}
	return fault.New(fault.InvalidArgument, "device class %s: the volumes of thin pool %s/%s are on the same "+
		"devices, so they cannot be kept apart from other volumes of the spread group %s: use a thick device class, "+
		"spread the volumes over nodes, or use the policy preferred", v.Config.Name, v.VG.Name, v.Pool.Name,
		spread.Group)
}
