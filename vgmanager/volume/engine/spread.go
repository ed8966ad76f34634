package engine

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// This file keeps thick volumes of one group apart: on physical volumes that no other volume of the group uses.

// admitApart returns the devices to pass to LVM for more bytes of a volume. The physical volumes with other volumes of
// its group are used only if it does not fit elsewhere, and not at all if the policy is required: then the error is
// ResourceExhausted, and the provisioner selects another node. It is also the error if the bytes do not fit at all.
// place returns the placement on a set of physical volumes.
func (l classView) admitApart(spread deviceclass.Spread, name string, more lvm.Bytes,
	place func(diskSet) placement) ([]string, error) {
	if taken := l.takenBy(spread, name); len(taken) > 0 {
		p := place(allDisks(l.vg).keep(func(uuid string) bool { return len(taken[uuid]) == 0 }))
		if more <= p.room {
			return p.devices, nil
		}
		if spread.Required {
			return nil, l.notApart(spread, name, more, p, taken)
		}
	}
	p := place(allDisks(l.vg))
	return p.devices, l.admit(more, p.room, p.where)
}

// takenBy returns the other volumes of a volume's group on the physical volumes of the volume group, by UUID. It omits
// the physical volumes that the volume is on: an extension there does not bring it together with others.
func (l classView) takenBy(spread deviceclass.Spread, name string) map[string][]string {
	if spread.Group == "" || !spread.Devices {
		return nil
	}
	others := map[string]bool{}
	for i := range l.vg.LVs {
		lv := &l.vg.LVs[i]
		if lv.Name != name && deviceclass.SpreadOf(lv.Tags).Group == spread.Group {
			others[lv.Name] = true
		}
	}
	if len(others) == 0 {
		return nil
	}
	taken := map[string][]string{}
	for _, pv := range l.vg.PVs {
		users := l.vg.VolumesOn(pv.UUID)
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
func (l classView) notApart(spread deviceclass.Spread, name string, more lvm.Bytes, p placement,
	taken map[string][]string) error {
	var devices []string
	for _, pv := range l.vg.PVs {
		if users := taken[pv.UUID]; len(users) > 0 {
			devices = append(devices, fmt.Sprintf("%s (%s)", pv.Name, shortened(users)))
		}
	}
	slices.Sort(devices)
	return status.Errorf(codes.ResourceExhausted, "device class %s: %d bytes are requested for logical volume %s/%s, "+
		"but only %d are free %s, apart from the devices with other volumes of the spread group %s, which it must not "+
		"share: %s: add a device, delete one of these volumes, or use the policy preferred",
		l.class.Name, more, l.vg.Name, name, p.room, p.where, spread.Group, shortened(devices))
}

// refuseThinSpread returns InvalidArgument if a volume of a thin pool must be kept apart on devices. All volumes of a
// thin pool are on its devices, on each node, so another node cannot help.
func (l classView) refuseThinSpread(tags []string) error {
	spread := deviceclass.SpreadOf(tags)
	if l.pool == nil || !spread.Devices || !spread.Required {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "device class %s: the volumes of thin pool %s/%s are on the same "+
		"devices, so they cannot be kept apart from other volumes of the spread group %s: use a thick device class, "+
		"spread the volumes over nodes, or use the policy preferred", l.class.Name, l.vg.Name, l.pool.Name,
		spread.Group)
}
