package selection

import (
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// WithLabels returns the devices with the labels that an administrator gave them. A device without a unique identity
// has none.
func WithLabels(devices []device.Device, labels []v1alpha1.DeviceLabels) []device.Device {
	if len(labels) == 0 {
		return devices
	}
	identities := device.Identities(devices)
	labeled := slices.Clone(devices)
	for i := range labeled {
		labeled[i].Labels = LabelsOf(labels, identities[labeled[i].Number])
	}
	return labeled
}

// LabelsOf returns the labels of the device with an identity.
func LabelsOf(labels []v1alpha1.DeviceLabels, id string) map[string]string {
	at := slices.IndexFunc(labels, func(l v1alpha1.DeviceLabels) bool { return id != "" && l.ID == id })
	if at < 0 {
		return nil
	}
	values := map[string]string{}
	for key, value := range labels[at].Labels {
		values[key] = string(value)
	}
	return values
}

// NeedsLabels returns true if the labels of devices decide which devices the device class uses.
func NeedsLabels(d state.Desired) bool {
	return !d.Deleting && (haveLabels(d.Selectors) ||
		slices.ContainsFunc(d.Others, func(o state.Other) bool { return haveLabels(o.Selectors) }))
}

func haveLabels(selectors []v1alpha1.DeviceSelector) bool {
	return slices.ContainsFunc(selectors, func(s v1alpha1.DeviceSelector) bool { return len(s.Labels) > 0 })
}
