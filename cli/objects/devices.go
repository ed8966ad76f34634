package objects

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// DevicesNamed returns the devices of a node with a name, and those that are built on them: partitions, multipath
// devices, arrays and mappings.
func DevicesNamed(node *v1alpha1.LVMVolumeGroupNodeStatus, name string) []*v1alpha1.DeviceStatus {
	var found []*v1alpha1.DeviceStatus
	for names := []string{name}; len(names) > 0; names = names[1:] {
		for i := range node.Status.Devices {
			device := &node.Status.Devices[i]
			if IsNamed(device, names[0]) && !slices.Contains(found, device) {
				found = append(found, device)
				names = slices.Concat(names, device.Partitions, device.Holders)
			}
		}
	}
	return found
}

// IsNamed returns true if a name is one of those of a device.
func IsNamed(device *v1alpha1.DeviceStatus, name string) bool {
	return slices.Contains(NamesOfDevice(device), name)
}

// NamesOfDevice returns all names of a device; some may be empty.
func NamesOfDevice(device *v1alpha1.DeviceStatus) []string {
	names := []string{device.Name, device.KernelName, device.ID, device.PVUUID}
	for _, link := range device.ByID {
		names = append(names, "/dev/disk/by-id/"+link)
	}
	for _, link := range device.ByPath {
		names = append(names, "/dev/disk/by-path/"+link)
	}
	return names
}

// linkPrefixes are the begins of links in /dev/disk/by-id, those that name the device itself first.
var linkPrefixes = []string{"wwn-", "nvme-eui.", "nvme-uuid.", "dm-uuid-", "md-uuid-", "scsi-3", "nvme-", "scsi-",
	"ata-", "virtio-"}

// StablePath returns a path of a device that stays the same when the kernel gives it another name, if it has one.
func StablePath(device *v1alpha1.DeviceStatus) string {
	rank := func(link string) int {
		for i, prefix := range linkPrefixes {
			if strings.HasPrefix(link, prefix) {
				return i
			}
		}
		return len(linkPrefixes)
	}
	links := slices.SortedFunc(slices.Values(device.ByID), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	switch {
	case len(links) > 0:
		return "/dev/disk/by-id/" + links[0]
	case len(device.ByPath) > 0:
		return "/dev/disk/by-path/" + device.ByPath[0]
	}
	return device.Name
}

// The reasons for which a device waits for an approval.
const (
	AwaitingApproval   = "AwaitingApproval"
	ChangedSinceReview = "ChangedSinceReview"
)

// WaitReason returns the reason for which a device waits for an approval, or "".
func WaitReason(reasons []string) string {
	for _, reason := range []string{AwaitingApproval, ChangedSinceReview} {
		if slices.Contains(reasons, reason) {
			return reason
		}
	}
	return ""
}
