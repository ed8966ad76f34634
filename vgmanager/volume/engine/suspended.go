package engine

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// SuspendedDevices returns the suspended devices that hold data of a volume, which may be none. The report includes
// every change of this process. It returns NotFound if the volume does not exist.
func (e *Engine) SuspendedDevices(ctx context.Context, class, name string) ([]string, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var devices []string
	err := e.withFreshRetry(ctx, class, func(l classView) error {
		lv := l.volume(name)
		if lv == nil || !l.has(lv) {
			return status.Errorf(codes.NotFound, "device class %s has no logical volume %s in volume group %s",
				l.class.Name, name, l.vg.Name)
		}
		devices = l.suspendedDevices()[name]
		return nil
	})
	return devices, err
}

// suspendedDevices returns the suspended devices that hold data of volumes, by volume. All volumes of a thin pool have
// data on each of its devices.
func (l classView) suspendedDevices() map[string][]string {
	found := map[string][]string{}
	for _, pv := range l.vg.PVs {
		if !slices.Contains(pv.Tags, deviceclass.SuspendedTag) {
			continue
		}
		for _, name := range l.vg.VolumesOn(pv.UUID) {
			found[name] = append(found[name], pv.Name)
		}
	}
	return found
}

// suspendedPool returns ResourceExhausted if the thin pool of the class has data on a suspended device: a new volume
// would be suspended from its creation. The provisioner then selects another node.
func (l classView) suspendedPool() error {
	if l.pool == nil {
		return nil
	}
	var devices []string
	for _, pv := range l.vg.PVs {
		if slices.Contains(pv.Tags, deviceclass.SuspendedTag) && l.vg.HasDataOn(l.pool.Name, pv.UUID) {
			devices = append(devices, pv.Name)
		}
	}
	if len(devices) == 0 {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "device class %s: no new volume is created in thin pool %s/%s, "+
		"because it has data on the suspended device %s: resume the device (kubectl lvms resume device)",
		l.class.Name, l.vg.Name, l.pool.Name, strings.Join(devices, ", "))
}
