package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// ApprovalsFor returns the approvals for a device class on a node.
func ApprovalsFor(all []v1alpha1.LVMDeviceApproval, node, class string) []v1alpha1.LVMDeviceApproval {
	return slices.DeleteFunc(slices.Clone(all), func(a v1alpha1.LVMDeviceApproval) bool {
		return a.Spec.NodeName != node || a.Spec.DeviceClassName != class || !a.DeletionTimestamp.IsZero()
	})
}

// ApprovalOf returns the approval for a device as it is now, or nil. found are the reasons against the device.
func ApprovalOf(desired state.Desired, s state.NodeState, d device.Device,
	found []device.Reason) *v1alpha1.LVMDeviceApproval {
	fingerprint := s.Disks.Fingerprints.Of(d, found)
	if fingerprint == "" {
		return nil
	}
	if a := approvalWith(desired, fingerprint); a != nil {
		return a
	}
	return approvalWith(desired, wipedFrom(desired, s, d, fingerprint, found))
}

func approvalWith(d state.Desired, fingerprint string) *v1alpha1.LVMDeviceApproval {
	at := slices.IndexFunc(d.Consent.Approvals,
		func(a v1alpha1.LVMDeviceApproval) bool { return a.Spec.Fingerprint == fingerprint })
	if at < 0 {
		return nil
	}
	return &d.Consent.Approvals[at]
}

// wipedFrom returns the approved fingerprint of a device before it was wiped for the device class, or "". The device
// must be as the wipe left it, or as a wipe that was interrupted.
func wipedFrom(desired state.Desired, s state.NodeState, d device.Device, fingerprint string,
	found []device.Reason) string {
	target := state.WipeTarget{Reasons: found}
	for _, record := range s.Records.Wiped {
		if record.Approved == "" || record.Class != string(desired.UID) || !record.IsOf(s, d) {
			continue
		}
		if fingerprint == record.Blank || !record.Done && state.IsSubset(target.Found(), record.Found) {
			return record.Approved
		}
	}
	return ""
}

// withApproval adds to the reasons against a device what the approvals of the device class say. usable is true if the
// device would be used, or wiped, without them.
func withApproval(desired state.Desired, s state.NodeState, d device.Device, found []device.Reason,
	usable bool) []device.Reason {
	if !desired.RequiresApproval() || ApprovalOf(desired, s, d, found) != nil {
		return found
	}
	fingerprint := s.Disks.Fingerprints.Of(d, found)
	if a := approvalNaming(desired, s, d); a != nil && fingerprint != "" {
		return append(slices.Clip(found), device.Reason{Code: device.ChangedSinceReview, Message: fmt.Sprintf(
			"has changed since %s approved it (LVMDeviceApproval %s): its fingerprint was %s and is %s; find out what "+
				"changed it, and approve it again with kubectl lvms approve", a.Spec.ApprovedBy, a.Name,
			a.Spec.Fingerprint, fingerprint)})
	}
	if !usable {
		return found
	}
	message := "waits until it is approved for the device class: review it and run kubectl lvms approve"
	if fingerprint == "" {
		message = "cannot be approved, because it has no fingerprint: nothing but its name or content identifies it, " +
			"or it could not be examined; give it a serial number, or a link under /dev/disk/by-path"
	}
	return append(slices.Clip(found), device.Reason{Code: device.AwaitingApproval, Message: message})
}

// approvalNaming returns an approval that names a device, or nil.
func approvalNaming(desired state.Desired, s state.NodeState, d device.Device) *v1alpha1.LVMDeviceApproval {
	at := slices.IndexFunc(desired.Consent.Approvals, func(a v1alpha1.LVMDeviceApproval) bool {
		name := a.Spec.Device
		return name == d.Name || name == d.KernelName || name == s.Disks.Identities[d.Number] ||
			slices.Contains(d.Links, name) || slices.Contains(d.ByID, name) || slices.Contains(d.ByPath, name)
	})
	if at < 0 {
		return nil
	}
	return &desired.Consent.Approvals[at]
}

// unapproved are the reasons for which a device is not used without an approval.
var unapproved = []device.Code{device.AwaitingApproval, device.ChangedSinceReview}

func isUnapproved(reasons []device.Reason) bool {
	return slices.ContainsFunc(reasons, func(r device.Reason) bool { return slices.Contains(unapproved, r.Code) })
}

// holdBack excludes a device that would be used or wiped if it was approved. It returns false if the device may be
// used.
func (c *Choice) holdBack(desired state.Desired, s state.NodeState, d device.Device, name string,
	found []device.Reason) bool {
	reasons := withApproval(desired, s, d, found, true)
	if !isUnapproved(reasons) {
		return false
	}
	c.exclude(name, reasons)
	c.Unapproved = append(c.Unapproved, d)
	if _, read := s.Disks.Probed[d.Number]; !read && state.Last(reasons).Code == device.ChangedSinceReview {
		c.Doubtful = append(c.Doubtful, d)
	}
	return true
}

// WaitForApproval is the note of a node whose devices cannot be used before they are approved.
func WaitForApproval(d state.Desired, c Choice) string {
	return fmt.Sprintf("volume group %s is not created on node %s before its devices are approved: %s: review them "+
		"and run kubectl lvms approve; excluded has the reason of each one", d.Name, d.Node,
		state.Joined(device.Names(c.Unapproved)))
}

// UsedApprovals returns the approvals of devices that are about to be used, or an error if one is not approved. It
// returns none if the device class requires no approval.
func UsedApprovals(desired state.Desired, s state.NodeState, devices []device.Device) ([]v1alpha1.LVMDeviceApproval,
	error) {
	if !desired.RequiresApproval() {
		return nil, nil
	}
	pvs := state.PhysicalVolumes(s.Report)
	var used []v1alpha1.LVMDeviceApproval
	for _, d := range devices {
		_, found := examine(s, pvs, d.Number)
		approval := ApprovalOf(desired, s, d, found)
		if approval == nil {
			return nil, fmt.Errorf("device %s of node %s is not used: it is not approved for device class %s", d.Name,
				desired.Node, desired.Name)
		}
		used = append(used, *approval)
	}
	return used, nil
}

// NewlyExcluded returns the devices of an entry with a reason that they did not have in the previous entry. It returns
// at most ten names.
func NewlyExcluded(before, after v1alpha1.VGStatus, code device.Code) []string {
	known := excludedWith(before, code)
	return state.Shorten(slices.DeleteFunc(excludedWith(after, code),
		func(name string) bool { return slices.Contains(known, name) }))
}

func excludedWith(entry v1alpha1.VGStatus, code device.Code) []string {
	var names []string
	for _, e := range entry.Excluded {
		if slices.ContainsFunc(e.Reasons, func(r string) bool { return strings.HasPrefix(r, string(code)+":") }) {
			names = append(names, e.Name)
		}
	}
	return names
}
