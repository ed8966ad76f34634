package ownership

import (
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// HasDuplicates returns true if a physical volume of the group is on two devices.
func HasDuplicates(s state.NodeState, vg *lvm.VG) bool {
	return slices.ContainsFunc(s.Devices, func(d device.Device) bool { _, copied := CopyOf(d, vg); return copied })
}

// CopyOf returns true if a device has a physical volume of the group that LVM uses on another device. What users of
// logical volumes write to them does not count.
func CopyOf(d device.Device, vg *lvm.VG) (string, bool) {
	if d.Signature != device.SignatureLVM || d.UUID == "" || d.Type == "mpath" || d.Type == "lvm" {
		return "", false
	}
	for _, pv := range vg.PVs {
		if pv.UUID == d.UUID && !pv.Missing && state.NumberOf(pv) != d.Number && !isUnder(d, pv) {
			return pv.UUID, true
		}
	}
	return "", false
}

// isUnder returns true if the physical volume's device is built on d. Both then have the same label, for example d is
// a path of a multipath device.
func isUnder(d device.Device, pv lvm.PV) bool {
	return slices.ContainsFunc(d.Children, func(c device.Child) bool { return c.Type != "part" && c.Name == pv.Name })
}
