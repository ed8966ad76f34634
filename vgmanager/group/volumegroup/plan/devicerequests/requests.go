package devicerequests

import (
	"path"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ActionFor returns the action of the request for a device, or "".
func ActionFor(desired state.Desired, s state.NodeState, d device.Device, uuid string) v1alpha1.DeviceAction {
	return For(desired, s, d, uuid).Action
}

// For returns the request for a device, or an empty one.
func For(desired state.Desired, s state.NodeState, d device.Device, uuid string) v1alpha1.DeviceRequest {
	for _, request := range desired.Spec.DeviceRequests {
		if request.Node == desired.Node && isMeant(s, request.Device, d, uuid) {
			return request
		}
	}
	return v1alpha1.DeviceRequest{}
}

// isMeant returns true if a name, identity, link or UUID identifies a device. A missing device is identified by the
// last status, and so is one whose name or identity has changed. A name that means a physical volume of the group means
// no other device later: kernel names change at a restart, and identities with an update of the operating system.
func isMeant(s state.NodeState, name string, d device.Device, uuid string) bool {
	if uuid != "" && name == uuid {
		return true
	}
	if owner := requestedPV(s, name); owner != "" {
		return owner == uuid
	}
	if d.Name != "" && (state.HasName(s, d, name) || wasTakenOut(s, name, d)) {
		return true
	}
	before := state.BeforeOf(s, uuid)
	meant := uuid != "" && before.UUID == uuid && name != "" && (name == before.DeviceID || name == before.Path)
	return meant && (d.Name == "" || !slices.ContainsFunc(s.Devices, func(o device.Device) bool {
		return state.HasName(s, o, name)
	}))
}

// wasTakenOut returns true if the device was removed from the group when its physical volume had this UUID.
func wasTakenOut(s state.NodeState, uuid string, d device.Device) bool {
	for _, r := range s.Records.Removed {
		if r.UUID != uuid {
			continue
		}
		if id := s.Disks.Identities[d.Number]; r.ID != "" || id != "" {
			return r.ID == id
		}
		return slices.ContainsFunc(state.NamesOfDevice(d), func(name string) bool {
			return slices.Contains(r.Names,
				name)
		})
	}
	return false
}

// PathTakenOut returns true if the path of a device was removed from the selectors. It depends on the text of the
// selectors, not on where a path currently leads: a link that is temporarily missing removes nothing. A label that the
// device does not have removes nothing either.
func PathTakenOut(desired state.Desired, s state.NodeState, pv lvm.PV) bool {
	noted := state.BeforeOf(s, pv.UUID).Path
	if noted == "" || desired.Leaving || pv.Missing || state.WrittenPaths(desired.Selectors)[path.Clean(noted)] {
		return false
	}
	number := state.NumberOf(pv)
	for _, p := range s.Disks.Paths {
		// A path that leads nowhere now may be another name of this device.
		if p.Err != nil || p.Number == number {
			return false
		}
	}
	d := state.DeviceOfPV(s, pv)
	return d.Name != "" && !(state.Discovers(desired.Selectors) && state.FindsWithLabels(desired.Selectors, d))
}
