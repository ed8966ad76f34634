package state

import (
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Hidden has the physical volumes that LVM on this node does not list, because of its devices file, a filter, or the
// host that owns their volume group. Their labels were read directly from the devices.
type Hidden struct {
	// PVs are the physical volumes that could be read.
	PVs map[device.Number]lvm.LabeledPV
	// Err is set if the labels could not be read.
	Err error
}

// DeviceOfPV returns the device of a hidden physical volume.
func (h Hidden) DeviceOf(s NodeState, uuid string) (device.Device, bool) {
	for _, d := range s.Devices {
		if pv, ok := h.PVs[d.Number]; ok && pv.UUID == uuid {
			return d, true
		}
	}
	return device.Device{}, false
}

// HiddenDevices returns the devices with the label of a physical volume that LVM does not list, sorted by name. It
// omits a copy of a listed physical volume, and disks of virtual machines on logical volumes.
func HiddenDevices(s NodeState) []device.Device {
	numbers := map[device.Number]bool{}
	uuids := map[string]bool{}
	for _, pv := range s.Report.PVs() {
		if !pv.Missing {
			numbers[NumberOf(pv)] = true
			uuids[pv.UUID] = true
		}
	}
	var hidden []device.Device
	for _, d := range s.Devices {
		path := slices.ContainsFunc(d.Children, func(c device.Child) bool { return c.Type == "mpath" })
		if d.Signature == device.SignatureLVM && d.Type != "lvm" && !path && !numbers[d.Number] && !uuids[d.UUID] {
			hidden = append(hidden, d)
		}
	}
	return hidden
}
