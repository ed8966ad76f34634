// Package devicerequests finds the device that a request, a label or an approval means, and those whose device has
// another identity now.
package devicerequests

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// RequestedAs returns the name in deviceRequests by which a physical volume is requested, or "". A UUID does not
// change and is not kept.
func RequestedAs(d state.Desired, s state.NodeState, pv lvm.PV) string {
	if name := For(d, s, state.DeviceOfPV(s, pv), pv.UUID).Device; name != pv.UUID {
		return name
	}
	return ""
}

// requestedPV returns the UUID of the physical volume that a name in deviceRequests meant before, or "".
func requestedPV(s state.NodeState, name string) string {
	at := slices.IndexFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return name != "" && pv.RequestedAs == name
	})
	if at < 0 {
		return ""
	}
	return s.Before.PhysicalVolumes[at].UUID
}

// UnmatchedLabels returns the identities to which an administrator gave labels and which no device has.
func UnmatchedLabels(devices []device.Device, labels []v1alpha1.DeviceLabels) []string {
	var ids []string
	for _, id := range device.Identities(devices) {
		ids = append(ids, id)
	}
	var unmatched []string
	for _, l := range labels {
		if !slices.Contains(ids, l.ID) {
			unmatched = append(unmatched, l.ID)
		}
	}
	return unmatched
}

// Unmatched says which requests, labels and approvals for this node name no attached device, or returns "". The
// identity of a device can change with an update of the operating system. A request for the removal of a device names
// none when it has ended.
func Unmatched(desired state.Desired, s state.NodeState, vg *lvm.VG) string {
	var names []string
	for _, q := range desired.Spec.DeviceRequests {
		if q.Node == desired.Node && q.Action != v1alpha1.DeviceActionRemove && !isMatched(s, vg, q.Device) {
			names = append(names, fmt.Sprintf("the request %s for %s", q.Action, q.Device))
		}
	}
	for _, id := range s.Disks.UnmatchedLabels {
		names = append(names, "the labels of "+id)
	}
	for i := range desired.Consent.Approvals {
		if a := &desired.Consent.Approvals[i]; !slices.ContainsFunc(s.Devices, func(d device.Device) bool {
			return state.HasName(s, d, a.Spec.Device)
		}) {
			names = append(names, fmt.Sprintf("the approval %s of %s", a.Name, a.Spec.Device))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("no attached device of node %s is meant by %s: if the identity of a device has changed, use "+
		"its present one; otherwise delete them", desired.Node, state.Joined(names))
}

// isMatched returns true if the name in a request means a physical volume or another device.
func isMatched(s state.NodeState, vg *lvm.VG, name string) bool {
	return slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool {
		return isMeant(s, name, state.DeviceOfPV(s, pv),
			pv.UUID)
	}) || slices.ContainsFunc(s.Devices, func(d device.Device) bool { return isMeant(s, name, d, "") })
}
