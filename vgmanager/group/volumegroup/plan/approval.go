package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

// ApprovalsFor returns the approvals for a device class on a node.
func ApprovalsFor(all []v1alpha1.LVMDeviceApproval, node, class string) []v1alpha1.LVMDeviceApproval {
	return slices.DeleteFunc(slices.Clone(all), func(a v1alpha1.LVMDeviceApproval) bool {
		return a.Spec.NodeName != node || a.Spec.DeviceClassName != class || !a.DeletionTimestamp.IsZero()
	})
}

// requiresApproval returns true if a device of the device class must be approved before it is used.
func (w Desired) requiresApproval() bool { return w.Spec.Approval == v1alpha1.ApprovalRequired }

// ApprovalOf returns the approval for a device as it is now, or nil. found are the reasons against the device.
func ApprovalOf(w Desired, s NodeState, d device.Device, found []device.Reason) *v1alpha1.LVMDeviceApproval {
	fingerprint := s.Fingerprints.Of(d, found)
	if fingerprint == "" {
		return nil
	}
	if a := w.approvalWith(fingerprint); a != nil {
		return a
	}
	return w.approvalWith(wipedFrom(w, s, d, fingerprint, found))
}

func (w Desired) approvalWith(fingerprint string) *v1alpha1.LVMDeviceApproval {
	at := slices.IndexFunc(w.Approvals,
		func(a v1alpha1.LVMDeviceApproval) bool { return a.Spec.Fingerprint == fingerprint })
	if at < 0 {
		return nil
	}
	return &w.Approvals[at]
}

// wipedFrom returns the approved fingerprint of a device before it was wiped for the device class, or "". The device
// must be as the wipe left it, or as a wipe that was interrupted.
func wipedFrom(w Desired, s NodeState, d device.Device, fingerprint string, found []device.Reason) string {
	target := WipeTarget{Reasons: found}
	for _, record := range s.Wiped {
		if record.Approved == "" || record.Class != string(w.UID) || !record.IsOf(s, d) {
			continue
		}
		if fingerprint == record.Blank || !record.Done && isSubset(target.Found(), record.Found) {
			return record.Approved
		}
	}
	return ""
}

// withApproval adds to the reasons against a device what the approvals of the device class say. usable is true if the
// device would be used, or wiped, without them.
func withApproval(w Desired, s NodeState, d device.Device, found []device.Reason, usable bool) []device.Reason {
	if !w.requiresApproval() || ApprovalOf(w, s, d, found) != nil {
		return found
	}
	fingerprint := s.Fingerprints.Of(d, found)
	if a := approvalNaming(w, s, d); a != nil && fingerprint != "" {
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
func approvalNaming(w Desired, s NodeState, d device.Device) *v1alpha1.LVMDeviceApproval {
	at := slices.IndexFunc(w.Approvals, func(a v1alpha1.LVMDeviceApproval) bool {
		name := a.Spec.Device
		return name == d.Name || name == d.KernelName || name == s.Identities[d.Number] ||
			slices.Contains(d.Links, name) || slices.Contains(d.ByID, name) || slices.Contains(d.ByPath, name)
	})
	if at < 0 {
		return nil
	}
	return &w.Approvals[at]
}

// unapproved are the reasons for which a device is not used without an approval.
var unapproved = []device.Code{device.AwaitingApproval, device.ChangedSinceReview}

func isUnapproved(reasons []device.Reason) bool {
	return slices.ContainsFunc(reasons, func(r device.Reason) bool { return slices.Contains(unapproved, r.Code) })
}

// holdBack excludes a device that would be used or wiped if it was approved. It returns false if the device may be
// used.
func (c *choice) holdBack(w Desired, s NodeState, d device.Device, name string, found []device.Reason) bool {
	reasons := withApproval(w, s, d, found, true)
	if !isUnapproved(reasons) {
		return false
	}
	c.exclude(name, reasons)
	c.unapproved = append(c.unapproved, d)
	if _, read := s.Probed[d.Number]; !read && last(reasons).Code == device.ChangedSinceReview {
		c.doubtful = append(c.doubtful, d)
	}
	return true
}

func last(reasons []device.Reason) device.Reason { return reasons[len(reasons)-1] }

// waitForApproval is the note of a node whose devices cannot be used before they are approved.
func waitForApproval(w Desired, c choice) string {
	return fmt.Sprintf("volume group %s is not created on node %s before its devices are approved: %s: review them "+
		"and run kubectl lvms approve; excluded has the reason of each one", w.Name, w.Node,
		joined(device.Names(c.unapproved)))
}

// UsedApprovals returns the approvals of devices that are about to be used, or an error if one is not approved. It
// returns none if the device class requires no approval.
func UsedApprovals(w Desired, s NodeState, devices []device.Device) ([]v1alpha1.LVMDeviceApproval, error) {
	if !w.requiresApproval() {
		return nil, nil
	}
	pvs := PhysicalVolumes(s.Report)
	var used []v1alpha1.LVMDeviceApproval
	for _, d := range devices {
		_, found := examine(s, pvs, d.Number)
		approval := ApprovalOf(w, s, d, found)
		if approval == nil {
			return nil, fmt.Errorf("device %s of node %s is not used: it is not approved for device class %s", d.Name,
				w.Node, w.Name)
		}
		used = append(used, *approval)
	}
	return used, nil
}

// NewlyExcluded returns the devices of an entry with a reason that they did not have in the previous entry. It returns
// at most ten names.
func NewlyExcluded(before, after v1alpha1.VGStatus, code device.Code) []string {
	known := excludedWith(before, code)
	return shorten(slices.DeleteFunc(excludedWith(after, code),
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
