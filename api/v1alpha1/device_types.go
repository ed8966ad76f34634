package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceState is the state of a device.
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

// DeviceStatus is the state of a block device of the node.
type DeviceStatus struct {
	// name is the path of the device, for example /dev/sdb or /dev/mapper/mpatha. It can change when the node reboots.
	Name string `json:"name"`

	// id is the stable identity of the device: the first that the device has of "wwn:…", "serial:…", "pv:…" and "fs:…",
	// with the suffix "-partN" for a partition. It is empty if the device has none of them.
	ID string `json:"id,omitempty"`

	// kernelName is the kernel's path of the device, if it differs from name.
	KernelName string `json:"kernelName,omitempty"`

	// type is the device type: disk, part, mpath, crypt, raid1, loop, rom, …
	Type string `json:"type,omitempty"`

	// byID is the sorted list of links to the device in /dev/disk/by-id, without the directory.
	// +listType=atomic
	ByID []string `json:"byID,omitempty"`

	// byPath is the sorted list of links to the device in /dev/disk/by-path, without the directory.
	// +listType=atomic
	ByPath []string `json:"byPath,omitempty"`

	// size is the size of the device in bytes.
	Size *resource.Quantity `json:"size,omitempty"`

	// model is the model of the device.
	Model string `json:"model,omitempty"`
	// vendor is the vendor of the device.
	Vendor string `json:"vendor,omitempty"`
	// serial is the serial number of the device.
	Serial string `json:"serial,omitempty"`
	// wwn is the World Wide Name of the device.
	WWN string `json:"wwn,omitempty"`
	// transport is the transport of the device: sata, sas, nvme, virtio, usb, scsi, fc, iscsi or mmc.
	Transport string `json:"transport,omitempty"`
	// rotational is true for a hard disk, and false for flash storage.
	Rotational bool `json:"rotational,omitempty"`
	// removable is true if the device is removable.
	Removable bool `json:"removable,omitempty"`
	// readOnly is true if the device cannot be written to.
	ReadOnly bool `json:"readOnly,omitempty"`

	// labels are the labels of the device, from spec.deviceLabels.
	Labels map[string]string `json:"labels,omitempty"`

	// partitions are the names of the partitions of the device.
	// +listType=atomic
	Partitions []string `json:"partitions,omitempty"`

	// holders are the names of the devices that are built on this device.
	// +listType=atomic
	Holders []string `json:"holders,omitempty"`

	// signatures are the signatures found on the device.
	// +listType=atomic
	Signatures []DeviceSignature `json:"signatures,omitempty"`

	// mountPoints are the mount points of the device itself. [SWAP] is active swap space.
	// +listType=atomic
	MountPoints []string `json:"mountPoints,omitempty"`

	// volumeGroup is the name of the volume group, if the device is a physical volume.
	VolumeGroup string `json:"volumeGroup,omitempty"`

	// volumeGroupUUID is the UUID of this volume group. adopt and wipeVolumeGroups of a device class accept it.
	VolumeGroupUUID string `json:"volumeGroupUUID,omitempty"`

	// pvUUID is the UUID of the physical volume.
	PVUUID string `json:"pvUUID,omitempty"`

	// state is the state of the device: Available, InUse, Excluded, Missing, Failing or Unknown.
	State DeviceState `json:"state"`

	// reasons are all reasons why the device cannot be used.
	// +listType=atomic
	Reasons []DeviceReason `json:"reasons,omitempty"`

	// eligibility is the result for each device class of the node that discovers devices or that names this device.
	// +listType=map
	// +listMapKey=deviceClass
	Eligibility []DeviceEligibility `json:"eligibility,omitempty"`

	// fingerprint is a hash of what a review of the device is about: identity, size, content and use, and those of its
	// partitions. It does not depend on the name of the device. A decision that was made for another fingerprint is no
	// longer valid. It is not set if the device could not be read, or if nothing identifies it.
	Fingerprint string `json:"fingerprint,omitempty"`

	// firstSeen is the time when the device first appeared in this list.
	FirstSeen *metav1.Time `json:"firstSeen,omitempty"`

	// lastSeen is the time when a missing device was last present.
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
}

// DeviceSignature is a signature that marks a device as used.
type DeviceSignature struct {
	// type is the type as reported by libblkid: ext4, xfs, LVM2_member, crypto_LUKS, linux_raid_member, swap, gpt, …
	Type string `json:"type"`
	// uuid is the UUID in the signature.
	UUID string `json:"uuid,omitempty"`
	// label is the label in the signature.
	Label string `json:"label,omitempty"`
}

// DeviceReason is a reason why a device is not used.
type DeviceReason struct {
	// code is the machine-readable reason. docs/reference/devices.md lists all codes.
	Code string `json:"code"`
	// message says what was found and what to do.
	Message string `json:"message,omitempty"`
}

// DeviceEligibility says whether a device class can use a device.
type DeviceEligibility struct {
	// deviceClass is the name of the device class.
	DeviceClass string `json:"deviceClass"`
	// eligible is true if the device class uses the device or could use it.
	Eligible bool `json:"eligible"`
	// reasons are the codes of the reasons that apply in addition to the device's own reasons.
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
}
