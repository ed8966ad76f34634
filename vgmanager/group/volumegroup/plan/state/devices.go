package state

import (
	"path"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// PhysicalVolumes returns LVM's information about the devices, by number.
func PhysicalVolumes(report *lvm.Report) map[device.Number]device.PV {
	pvs := map[device.Number]device.PV{}
	add := func(list []lvm.PV, group string) {
		for _, pv := range list {
			if number := NumberOf(pv); number != "" {
				pvs[number] = device.PV{UUID: pv.UUID, Group: pv.VGName, GroupUUID: group, InUse: pv.InUse}
			}
		}
	}
	for i := range report.VGs {
		add(report.VGs[i].PVs, report.VGs[i].UUID)
	}
	add(report.Unassigned, "")
	return pvs
}

// NumberOf returns the device number of a physical volume, or "" if it is missing.
func NumberOf(pv lvm.PV) device.Number {
	if pv.Major == 0 {
		return ""
	}
	return device.NewNumber(pv.Major, pv.Minor)
}

// SelectorAt returns the selector with an index, or an empty one.
func SelectorAt(d Desired, i int) v1alpha1.DeviceSelector {
	if i < len(d.Selectors) {
		return d.Selectors[i]
	}
	return v1alpha1.DeviceSelector{}
}

// DeviceNote is the state of a physical volume in the status that is not from LVM.
type DeviceNote struct {
	State   v1alpha1.PhysicalVolumeState
	Message string
	Moved   *int32
}

// HasName returns true if a device has a name, link or identity now.
func HasName(s NodeState, d device.Device, name string) bool {
	id := s.Disks.Identities[d.Number]
	return id != "" && name == id || slices.Contains(NamesOfDevice(d), path.Clean(name))
}

// NamesOfDevice returns all paths of a device.
func NamesOfDevice(d device.Device) []string {
	return slices.Concat([]string{d.Name, d.KernelName}, d.ByID, d.ByPath, d.Links)
}

// Removal is a device that was removed from a group.
type Removal struct {
	UUID string `json:"uuid"`
	// ID is the identity of the device. Names are the paths that led to it.
	ID    string   `json:"id,omitempty"`
	Names []string `json:"names"`
}

// NewRemoval returns the record of a device that is removed from its group.
func NewRemoval(s NodeState, pv lvm.PV) Removal {
	d := DeviceOfPV(s, pv)
	return Removal{UUID: pv.UUID, ID: s.Disks.Identities[d.Number], Names: NamesOfDevice(d)}
}

// DeviceOfPV returns the device of a physical volume. It returns an empty Device if the physical volume is missing.
func DeviceOfPV(s NodeState, pv lvm.PV) device.Device {
	number := NumberOf(pv)
	if at := slices.IndexFunc(s.Devices, func(d device.Device) bool {
		return number != "" && d.Number == number
	}); at >= 0 {
		return s.Devices[at]
	}
	return device.Device{}
}

// DeviceProblem returns a Problem of the condition DevicesHealthy.
func DeviceProblem(reason, message string, volumes []string) Problem {
	return Problem{Event: EventInconsistentVolumes, Condition: v1alpha1.ConditionDevicesHealthy, Reason: reason,
		Message: message, Volumes: volumes}
}

// LastName returns the last known device of a missing physical volume.
func LastName(s NodeState, pv lvm.PV) string {
	if name := s.Records.Names[pv.UUID]; name != "" {
		return name
	}
	return BeforeOf(s, pv.UUID).Name
}

// BeforeOf returns the last status of a physical volume, or an empty one.
func BeforeOf(s NodeState, uuid string) v1alpha1.PhysicalVolumeStatus {
	for _, pv := range s.Before.PhysicalVolumes {
		if pv.UUID == uuid {
			return pv
		}
	}
	return v1alpha1.PhysicalVolumeStatus{}
}
