package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file is the inventory in LVMVolumeGroupNodeStatus.status.devices: a block device of a node, and why it is used
// or not.

// DeviceState is the state of a device in one word.
type DeviceState string

// The states of a device.
const (
	// DeviceAvailable: nothing speaks against the use of the device.
	DeviceAvailable DeviceState = "Available"
	// DeviceInUse: the device is a physical volume, mounted, swap, or part of another device.
	DeviceInUse DeviceState = "InUse"
	// DeviceExcluded: the device is not used by anything and cannot be used; the reasons say why.
	DeviceExcluded DeviceState = "Excluded"
	// DeviceMissing: a device of a volume group that is not there.
	DeviceMissing DeviceState = "Missing"
	// DeviceFailing: the device gives errors or does not answer.
	DeviceFailing DeviceState = "Failing"
	// DeviceUnknown: the device could not be examined, and so is not used.
	DeviceUnknown DeviceState = "Unknown"
)

// DeviceStatus is a block device of the node.
type DeviceStatus struct {
	// name is the path that people use, /dev/sdb or /dev/mapper/mpatha. It can be another one after a reboot.
	Name string `json:"name"`

	// id is the stable identity: "wwn:…", "serial:…", "pv:…" or "fs:…", the first that the device has; with "-partN"
	// for a partition. Empty if it has none of them.
	// +optional
	ID string `json:"id,omitempty"`

	// kernelName is the path of the kernel's name, where it is not the name.
	// +optional
	KernelName string `json:"kernelName,omitempty"`

	// type: disk, part, mpath, crypt, raid1, loop, rom, …
	// +optional
	Type string `json:"type,omitempty"`

	// byID are the links under /dev/disk/by-id, sorted, without that folder.
	// +optional
	// +listType=atomic
	ByID []string `json:"byID,omitempty"`

	// byPath are the links under /dev/disk/by-path, sorted, without that folder.
	// +optional
	// +listType=atomic
	ByPath []string `json:"byPath,omitempty"`

	// size in bytes.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// +optional
	Model string `json:"model,omitempty"`
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// +optional
	Serial string `json:"serial,omitempty"`
	// +optional
	WWN string `json:"wwn,omitempty"`
	// transport: sata, sas, nvme, virtio, usb, scsi, fc, iscsi, mmc.
	// +optional
	Transport string `json:"transport,omitempty"`
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// +optional
	Removable bool `json:"removable,omitempty"`
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// partitions of the device, by name.
	// +optional
	// +listType=atomic
	Partitions []string `json:"partitions,omitempty"`

	// holders are the devices that are made of this one, by name.
	// +optional
	// +listType=atomic
	Holders []string `json:"holders,omitempty"`

	// signatures are what the device carries.
	// +optional
	// +listType=atomic
	Signatures []DeviceSignature `json:"signatures,omitempty"`

	// mountPoints of the device itself; [SWAP] for swap space in use.
	// +optional
	// +listType=atomic
	MountPoints []string `json:"mountPoints,omitempty"`

	// volumeGroup that the device is a physical volume of.
	// +optional
	VolumeGroup string `json:"volumeGroup,omitempty"`

	// pvUUID is the UUID of the physical volume.
	// +optional
	PVUUID string `json:"pvUUID,omitempty"`

	// state: Available, InUse, Excluded, Missing, Failing or Unknown.
	State DeviceState `json:"state"`

	// reasons why the device cannot be used, all that apply.
	// +optional
	// +listType=atomic
	Reasons []DeviceReason `json:"reasons,omitempty"`

	// eligibility for each device class of the node that may use devices that it finds, or that names this one.
	// +optional
	// +listType=map
	// +listMapKey=deviceClass
	Eligibility []DeviceEligibility `json:"eligibility,omitempty"`

	// fingerprint of all that a decision about the device depends on: identity, size, content and use. What was decided
	// for another fingerprint no longer holds.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`

	// firstSeen is when the device first appeared in this list.
	// +optional
	FirstSeen *metav1.Time `json:"firstSeen,omitempty"`

	// lastSeen is when a device that is missing was last there.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
}

// DeviceSignature is something that marks a device as used.
type DeviceSignature struct {
	// type in libblkid's words: ext4, xfs, LVM2_member, crypto_LUKS, linux_raid_member, swap, gpt, …
	Type string `json:"type"`
	// +optional
	UUID string `json:"uuid,omitempty"`
	// +optional
	Label string `json:"label,omitempty"`
}

// DeviceReason is one cause why a device is not used.
type DeviceReason struct {
	// code is one of a closed list (docs/reference/devices.md).
	Code string `json:"code"`
	// message says what is found and what to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// DeviceEligibility is what a device class makes of a device.
type DeviceEligibility struct {
	// deviceClass is the name.
	DeviceClass string `json:"deviceClass"`
	// eligible: the device class uses the device, or would.
	Eligible bool `json:"eligible"`
	// reasons are codes of what is against it beyond the device's own reasons.
	// +optional
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
}
