// Package placement decides on which devices thick volumes are: their stripes, their allocation, and where the
// extents of a drained device are moved.
package placement

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// This file plans where thick volumes are (thickConfig).

// SetPlacement sets stripes, lvcreate options and allocation of a thick class. Without thickConfig, it removes those
// that an earlier thickConfig set, which the allocation shows, and keeps others.
func SetPlacement(class *deviceclass.Class, config *v1alpha1.ThickConfig) {
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
	if stripes := uint(classspec.Stripes(config.Stripes)); stripes > 1 {
		class.Stripe = &stripes
		class.StripeSize = fmt.Sprintf("%dk", classspec.StripeBytes(config.StripeSize)>>10)
	}
	class.LVCreateOptions = slices.Clone(config.LVCreateOptions)
}

// ThickProblems reports that no volume can be created, because the volume group has fewer devices than stripes.
func ThickProblems(d state.Desired, vg *lvm.VG) []state.Problem {
	least, why := classspec.MinimumDevices(nil, nil, d.Spec.ThickConfig)
	if len(vg.PVs) >= least {
		return nil
	}
	return []state.Problem{{Event: state.EventNoAvailableDevices, Message: fmt.Sprintf(
		"no volume can be created in volume group %s on node %s: %s requires at least %d devices, and it has %d: add "+
			"devices to the device class, or reduce thickConfig.stripes", d.Name, d.Node, why, least, len(vg.PVs))}}
}

// MoveTarget returns the physical volume to which all extents of another one are moved, or "" if LVM chooses. It
// returns one if volumes must be on one device, or apart from those of their spread group, and LVM's choice may not
// keep that. It is the one with the most free space, and holds neither data of the same volumes, such as another stripe
// or image, nor volumes that must be apart from them. If there is none, LVM chooses: a device that fails has to be
// drained.
func MoveTarget(desired state.Desired, vg *lvm.VG, pv lvm.PV) string {
	volumes := vg.VolumesOn(pv.UUID)
	groups := spreadGroups(vg, volumes)
	if !isSingleDevice(desired) && len(groups) == 0 {
		return ""
	}
	for _, d := range vg.FreeDisks() {
		if d.UUID == pv.UUID || lvm.Bytes(d.Free)*vg.ExtentSize < pv.Used {
			continue
		}
		users := vg.VolumesOn(d.UUID)
		shared := slices.ContainsFunc(users, func(user string) bool { return slices.Contains(volumes, user) })
		if !shared && !meetApart(groups, spreadGroups(vg, users)) {
			return d.Name
		}
	}
	return ""
}

// isSingleDevice returns true if each thick volume of the device class is on one device.
func isSingleDevice(d state.Desired) bool {
	return d.Spec.ThickConfig != nil && d.Spec.ThickConfig.Allocation == v1alpha1.AllocationSingleDevice
}

// spreadGroups returns the groups of volumes that are kept apart on devices. The value is true if one of the volumes
// must be.
func spreadGroups(vg *lvm.VG, volumes []string) map[string]bool {
	groups := map[string]bool{}
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if spread := deviceclass.SpreadOf(lv.Tags); spread.Devices && slices.Contains(volumes, lv.Name) {
			groups[spread.Group] = groups[spread.Group] || spread.Required
		}
	}
	return groups
}

// meetApart returns true if two sets of groups have a group in common of which a volume must be apart.
func meetApart(a, b map[string]bool) bool {
	for group, required := range a {
		if other, common := b[group]; common && (required || other) {
			return true
		}
	}
	return false
}
