package plan

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd/deviceclass"
)

// This file plans where thick volumes are (thickConfig).

// setPlacement sets stripes, lvcreate options and allocation of a thick class. Without thickConfig, it removes those
// that an earlier thickConfig set, which the allocation shows, and keeps others.
func setPlacement(class *deviceclass.Class, config *v1alpha1.ThickConfig) {
	if config == nil && class.Allocation == "" {
		return
	}
	class.Allocation, class.Stripe, class.StripeSize, class.LVCreateOptions = "", nil, "", nil
	if config == nil {
		return
	}
	class.Allocation = deviceclass.AllocationAny
	if config.Allocation == v1alpha1.AllocationSingleDevice {
		class.Allocation = deviceclass.AllocationSingleDevice
	}
	if stripes := uint(config.DataStripes()); stripes > 1 {
		class.Stripe = &stripes
		class.StripeSize = fmt.Sprintf("%dk", config.StripeBytes()>>10)
	}
	class.LVCreateOptions = slices.Clone(config.LVCreateOptions)
}

// thickProblems reports that no volume can be created, because the volume group has fewer devices than stripes.
func thickProblems(w Desired, vg *lvm.VG) []Problem {
	least, why := v1alpha1.MinimumDevices(nil, nil, w.Spec.ThickConfig)
	if len(vg.PVs) >= least {
		return nil
	}
	return []Problem{{Event: EventNoAvailableDevices, Message: fmt.Sprintf(
		"no volume can be created in volume group %s on node %s: %s requires at least %d devices, and it has %d: add "+
			"devices to the device class, or reduce thickConfig.stripes", w.Name, w.Node, why, least, len(vg.PVs))}}
}
