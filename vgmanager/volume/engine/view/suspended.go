package view

import (
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// SuspendedDevices returns the suspended devices that hold data of volumes, by volume. All volumes of a thin pool have
// data on each of its devices.
func (v Class) SuspendedDevices() map[string][]string {
	found := map[string][]string{}
	for _, pv := range v.VG.PVs {
		if !slices.Contains(pv.Tags, wellknown.SuspendedTag) {
			continue
		}
		for _, name := range v.VG.VolumesOn(pv.UUID) {
			found[name] = append(found[name], pv.Name)
		}
	}
	return found
}

// suspendedPool returns ResourceExhausted if the thin pool of the class has data on a suspended device: a new volume
// would be suspended from its creation. The provisioner then selects another node.
func (v Class) suspendedPool() error {
	if v.Pool == nil {
		return nil
	}
	var devices []string
	for _, pv := range v.VG.PVs {
		if slices.Contains(pv.Tags, wellknown.SuspendedTag) && v.VG.HasDataOn(v.Pool.Name, pv.UUID) {
			devices = append(devices, pv.Name)
		}
	}
	if len(devices) == 0 {
		return nil
	}
	return fault.New(fault.ResourceExhausted, "device class %s: no new volume is created in thin pool %s/%s, "+
		"because it has data on the suspended device %s: resume the device (kubectl lvms resume device)",
		v.Config.Name, v.VG.Name, v.Pool.Name, strings.Join(devices, ", "))
}
