package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file is what an LVMCluster asks for on a node: the fields of a device class.

// DeviceClass is a named tier of storage: one volume group on each selected node, and one StorageClass.
//
// +kubebuilder:validation:XValidation:rule="has(self.thinPoolConfig) == has(oldSelf.thinPoolConfig)",message="thinPoolConfig cannot be added to or removed from an existing device class: its volume groups are already thin or thick; use a new device class"
// +kubebuilder:validation:XValidation:rule="has(self.raidConfig) == has(oldSelf.raidConfig)",message="raidConfig cannot be added to or removed from an existing device class: its volumes already have or lack redundancy; use a new device class"
// +kubebuilder:validation:XValidation:rule="!has(self.raidConfig) || !has(self.thinPoolConfig)",message="raidConfig and thinPoolConfig exclude each other: volumes with redundancy are thick"
// +kubebuilder:validation:XValidation:rule="!has(self.deviceSelectors) || self.deviceSelectors.size() == 0 || !has(self.deviceSelector)",message="deviceSelector and deviceSelectors exclude each other: put the one into the list of the others"
type DeviceClass struct {
	// name of the device class, of its volume group on each node, and of its StorageClass after the prefix "lvms-".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// default makes the StorageClass of this device class the cluster's default, if there is no other default.
	// At most one device class can have it.
	// +optional
	Default bool `json:"default,omitempty"`

	// fstype is the file system of volumes with volumeMode Filesystem.
	// +kubebuilder:validation:Enum=xfs;ext4
	// +kubebuilder:default=xfs
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="fstype cannot be changed: StorageClass parameters are immutable; use a new device class"
	// +optional
	FilesystemType DeviceFilesystem `json:"fstype,omitempty"`

	// nodeSelector chooses the nodes of this device class. Without it, all nodes that can run the node agent.
	// +optional
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	// deviceSelector chooses the devices of this device class. Without it and deviceSelectors, every unused device of
	// the node is taken.
	// +optional
	DeviceSelector *DeviceSelector `json:"deviceSelector,omitempty"`

	// deviceSelectors choose devices on some of the nodes each, where nodes differ. On a node, the ones whose
	// nodeSelector selects it hold together. A node that none of them selects gets no volume group. Not together with
	// deviceSelector.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	DeviceSelectors []NodeDeviceSelector `json:"deviceSelectors,omitempty"`

	// deviceDiscoveryPolicy says what happens to devices that appear after the volume group was made, where there is no
	// path in the deviceSelector: Static leaves them alone, Dynamic adds each one that is unused and chosen, after it
	// has been there for a minute. A device class that is created without it is Static; one that was taken over from an
	// operator without this field stays Dynamic.
	// +kubebuilder:validation:Enum=Static;Dynamic
	// +optional
	DeviceDiscoveryPolicy DeviceDiscoveryPolicy `json:"deviceDiscoveryPolicy,omitempty"`

	// thinPoolConfig makes the volumes of this device class thin, in one thin pool a node. Without it they are thick.
	// +optional
	ThinPoolConfig *ThinPoolConfig `json:"thinPoolConfig,omitempty"`

	// raidConfig gives every volume of this device class redundancy over several devices of its node. Not together with
	// thinPoolConfig.
	// +optional
	RAIDConfig *RAIDConfig `json:"raidConfig,omitempty"`

	// storageClassOptions are for the StorageClass lvms-NAME. What a StorageClass cannot change, they cannot either:
	// only additionalLabels.
	// +optional
	StorageClassOptions *StorageClassOptions `json:"storageClassOptions,omitempty"`

	// volumeSnapshotClassOptions are for the VolumeSnapshotClass lvms-NAME. Only a device class with thinPoolConfig has
	// one.
	// +optional
	VolumeSnapshotClassOptions *VolumeSnapshotClassOptions `json:"volumeSnapshotClassOptions,omitempty"`

	// deviceRequests ask for something to be done with single devices of the device class. A request holds as long as
	// it stands here: to take it out cancels what is not finished yet.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +listMapKey=device
	// +kubebuilder:validation:MaxItems=64
	DeviceRequests []DeviceRequest `json:"deviceRequests,omitempty"`

	// adopt are volume groups of the name of this device class that came from another node of this cluster on their
	// disks and are to be used on this one.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=64
	Adopt []VolumeGroupAdoption `json:"adopt,omitempty"`
}

// DeviceFilesystem is a file system of volumes.
type DeviceFilesystem string

// The file systems that a device class can have.
const (
	FilesystemTypeXFS  DeviceFilesystem = "xfs"
	FilesystemTypeExt4 DeviceFilesystem = "ext4"
)

// DeviceDiscoveryPolicy says what happens to devices that appear later.
type DeviceDiscoveryPolicy string

// The policies of device discovery.
const (
	DeviceDiscoveryStatic  DeviceDiscoveryPolicy = "Static"
	DeviceDiscoveryDynamic DeviceDiscoveryPolicy = "Dynamic"
)

// DevicePath is the absolute path of a block device, or of a link to one.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^/dev(/[^/.][^/]*)+$`
type DevicePath string

// DeviceProperty is a value that a device is compared with.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type DeviceProperty string

// DeviceSelector chooses devices: by path, by property, or by both, when a named device has to have the properties too.
// A device is used only if it is empty: no signature, no mount, no holder, no child.
//
// +kubebuilder:validation:XValidation:rule="(has(self.paths) && self.paths.size() > 0) || (has(self.optionalPaths) && self.optionalPaths.size() > 0) || has(self.minSize) || has(self.maxSize) || has(self.rotational) || (has(self.models) && self.models.size() > 0) || (has(self.vendors) && self.vendors.size() > 0) || (has(self.serials) && self.serials.size() > 0) || (has(self.transports) && self.transports.size() > 0)",message="name at least one device in paths or optionalPaths, or a property of devices; or leave deviceSelector out to use every unused device"
// +kubebuilder:validation:XValidation:rule="!has(self.forceWipeDevicesAndDestroyAllData) || !self.forceWipeDevicesAndDestroyAllData || (has(self.paths) && self.paths.size() > 0) || (has(self.optionalPaths) && self.optionalPaths.size() > 0)",message="forceWipeDevicesAndDestroyAllData needs the devices by name, in paths or optionalPaths: no device is wiped that nobody named"
type DeviceSelector struct {
	// paths must exist on every node of the device class.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Paths []DevicePath `json:"paths,omitempty"`

	// optionalPaths are used on the nodes that have them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	OptionalPaths []DevicePath `json:"optionalPaths,omitempty"`

	// minSize of a device.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`

	// maxSize of a device.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`

	// rotational: true for hard disks only, false for flash only.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`

	// models of which the device is one, as status.devices of the LVMVolumeGroupNodeStatus has them. Upper and lower
	// case are the same, and a * at the end stands for anything.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Models []DeviceProperty `json:"models,omitempty"`

	// vendors of which the device has one, compared like models.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Vendors []DeviceProperty `json:"vendors,omitempty"`

	// serials of which the device has one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Serials []DeviceProperty `json:"serials,omitempty"`

	// transports of which the device has one: sata, sas, nvme, virtio, usb, scsi, fc, iscsi, mmc.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Transports []DeviceProperty `json:"transports,omitempty"`

	// removable: true lets removable devices be chosen by property. One that is named by path is taken all the same.
	// +optional
	Removable bool `json:"removable,omitempty"`

	// forceWipeDevicesAndDestroyAllData destroys what is on the devices of paths and optionalPaths before they are used
	// for the first time, once for each physical disk. A device that is in use, or part of a volume group of this
	// product, is not wiped.
	// +optional
	ForceWipeDevicesAndDestroyAllData *bool `json:"forceWipeDevicesAndDestroyAllData,omitempty"`
}

// NodeDeviceSelector chooses devices on some nodes.
type NodeDeviceSelector struct {
	// nodeSelector chooses the nodes, among those of the device class. Without it, all of them.
	// +optional
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	DeviceSelector `json:",inline"`
}

// DeviceAction is what a DeviceRequest asks for.
type DeviceAction string

// The actions on a device.
const (
	// DeviceActionCordon: nothing new is put on the device.
	DeviceActionCordon DeviceAction = "Cordon"
	// DeviceActionDrain: cordon, and everything on the device is moved to the other devices of the group.
	DeviceActionDrain DeviceAction = "Drain"
	// DeviceActionRemove: drain, and the device is taken out of the group. A lost device of a class with redundancy is
	// replaced by what the other devices have.
	DeviceActionRemove DeviceAction = "Remove"
)

// DeviceRequest asks for something to be done with one device.
type DeviceRequest struct {
	// node that has the device.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// device: a path, or the id or the UUID of the physical volume as the status has them.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Device string `json:"device"`

	// action: Cordon puts nothing new on the device; Drain also moves what is there to the other devices of the group;
	// Remove also takes the device out of the group.
	// +kubebuilder:validation:Enum=Cordon;Drain;Remove
	Action DeviceAction `json:"action"`
}

// VolumeGroupAdoption is the consent to use a volume group on a node that it did not begin on.
type VolumeGroupAdoption struct {
	// node that has the disks now.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// volumeGroupUUID of the volume group, as the reason in the status has it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	VolumeGroupUUID string `json:"volumeGroupUUID"`
}

// RAIDType is a RAID level.
type RAIDType string

// The RAID levels.
const (
	RAIDType1  RAIDType = "raid1"
	RAIDType4  RAIDType = "raid4"
	RAIDType5  RAIDType = "raid5"
	RAIDType6  RAIDType = "raid6"
	RAIDType10 RAIDType = "raid10"
)

// RAIDConfig is the redundancy of the volumes of a device class.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="raidConfig cannot be changed: the volumes that exist keep what they were made with; use a new device class"
// +kubebuilder:validation:XValidation:rule="!has(self.mirrors) || self.type in ['raid1', 'raid10']",message="mirrors is for raid1 and raid10"
// +kubebuilder:validation:XValidation:rule="!has(self.mirrors) || self.type != 'raid10' || self.mirrors == 1",message="raid10 has one mirror: LVM makes no further copies"
// +kubebuilder:validation:XValidation:rule="!has(self.stripes) || self.type != 'raid1'",message="stripes is not for raid1"
// +kubebuilder:validation:XValidation:rule="!has(self.stripes) || self.type != 'raid6' || self.stripes >= 3",message="raid6 needs at least 3 stripes"
// +kubebuilder:validation:XValidation:rule="!has(self.stripeSize) || self.type != 'raid1'",message="stripeSize is not for raid1"
type RAIDConfig struct {
	// type: raid1 mirrors; raid4 and raid5 survive the loss of one device, raid6 of two; raid10 mirrors stripes.
	// +kubebuilder:validation:Enum=raid1;raid4;raid5;raid6;raid10
	Type RAIDType `json:"type"`

	// mirrors is the number of further copies of raid1, and 1 for raid10; 1 when not set.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +optional
	Mirrors *int32 `json:"mirrors,omitempty"`

	// stripes is the number of devices that data is spread over, without those for redundancy; 2 when not set, and 3
	// for raid6.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=60
	// +optional
	Stripes *int32 `json:"stripes,omitempty"`

	// stripeSize is how much goes to one device before the next, a power of two from 4Ki; 64Ki when not set.
	// +optional
	StripeSize *resource.Quantity `json:"stripeSize,omitempty"`
}

// DefaultStripeSize of a RAIDConfig that sets none, in bytes.
const DefaultStripeSize int64 = 64 << 10

// Copies is how many copies of the data there are beside the first one; 0 for the levels with parity.
func (r *RAIDConfig) Copies() int {
	if r.Type != RAIDType1 && r.Type != RAIDType10 {
		return 0
	}
	if r.Mirrors != nil {
		return int(*r.Mirrors)
	}
	return 1
}

// DataStripes is how many devices the data of one copy is spread over.
func (r *RAIDConfig) DataStripes() int {
	switch {
	case r.Type == RAIDType1:
		return 1
	case r.Stripes != nil:
		return int(*r.Stripes)
	case r.Type == RAIDType6:
		return 3
	}
	return 2
}

// Parity is how many devices of a volume hold parity.
func (r *RAIDConfig) Parity() int {
	switch r.Type {
	case RAIDType4, RAIDType5:
		return 1
	case RAIDType6:
		return 2
	}
	return 0
}

// MinimumDevices is how many devices a volume needs (lvmraid(7)).
func (r *RAIDConfig) MinimumDevices() int {
	return r.DataStripes()*(r.Copies()+1) + r.Parity()
}

// SizeCalculationPolicy says who chooses a size.
type SizeCalculationPolicy string

// The policies of chunk and metadata size: LVM on the host chooses, or the LVMCluster says.
const (
	SizeCalculationHost   SizeCalculationPolicy = "Host"
	SizeCalculationStatic SizeCalculationPolicy = "Static"
)

// ThinPoolConfig is the thin pool of a device class.
//
// +kubebuilder:validation:XValidation:rule="self.name == oldSelf.name",message="name of the thin pool cannot be changed: the pools exist"
// +kubebuilder:validation:XValidation:rule="self.sizePercent == oldSelf.sizePercent",message="sizePercent cannot be changed after the thin pool was made"
// +kubebuilder:validation:XValidation:rule="!has(self.autoExtend) || self.autoExtend.thresholdPercent <= self.highWaterMarkPercent",message="autoExtend.thresholdPercent is above highWaterMarkPercent: the pool would refuse new volumes before it grows"
// +kubebuilder:validation:XValidation:rule="!has(self.chunkSize) || self.chunkSizeCalculationPolicy == 'Static'",message="chunkSize needs chunkSizeCalculationPolicy: Static"
// +kubebuilder:validation:XValidation:rule="!has(self.metadataSize) || self.metadataSizeCalculationPolicy == 'Static'",message="metadataSize needs metadataSizeCalculationPolicy: Static"
type ThinPoolConfig struct {
	// name of the thin pool in the volume group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_+.][a-zA-Z0-9_+.-]*$`
	Name string `json:"name"`

	// sizePercent of the free space of the volume group that the pool takes. Above 90 the metadata may be unable to
	// grow.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=90
	// +optional
	SizePercent int `json:"sizePercent,omitempty"`

	// overprovisionRatio times the size of the pool is what its volumes may have together.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	OverprovisionRatio int `json:"overprovisionRatio"`

	// highWaterMarkPercent of data or metadata in use is where the pool takes no new volume, no snapshot and no growth,
	// so that the volumes that it has keep what is left. 100 lets it take new ones until it is full.
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=95
	// +optional
	HighWaterMarkPercent int `json:"highWaterMarkPercent,omitempty"`

	// chunkSizeCalculationPolicy: Static takes chunkSize, Host leaves it to LVM. It can be changed until a node has the
	// thin pool.
	// +kubebuilder:validation:Enum=Host;Static
	// +kubebuilder:default=Static
	// +optional
	ChunkSizeCalculationPolicy SizeCalculationPolicy `json:"chunkSizeCalculationPolicy,omitempty"`

	// chunkSize of the pool, from 64Ki to 1Gi, a multiple of 64Ki. When not set, each node's pool has 128Ki, or the
	// smallest power of two with which the pool can grow to twice its size: 256Ki for a pool of 16 TiB, 512Ki for one
	// of 32 TiB. It can be changed until a node has the thin pool.
	// +optional
	ChunkSize *resource.Quantity `json:"chunkSize,omitempty"`

	// metadataSizeCalculationPolicy: Static takes metadataSize, Host leaves it to LVM. It can be changed; a pool that
	// has less metadata than metadataSize then gets more.
	// +kubebuilder:validation:Enum=Host;Static
	// +kubebuilder:default=Host
	// +optional
	MetadataSizeCalculationPolicy SizeCalculationPolicy `json:"metadataSizeCalculationPolicy,omitempty"`

	// metadataSize of the pool, from 2Mi to 16Gi; 1Gi when not set. It can be raised, and the pool follows.
	// +optional
	MetadataSize *resource.Quantity `json:"metadataSize,omitempty"`

	// autoExtend grows data and metadata of the pool within the volume group before they are full. It needs a
	// sizePercent below 100, or a device that is added later. Without it the pool keeps its size.
	// +optional
	AutoExtend *AutoExtend `json:"autoExtend,omitempty"`
}

// AutoExtend is when and how a thin pool grows.
type AutoExtend struct {
	// thresholdPercent of data or metadata in use above which the pool grows.
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=95
	// +kubebuilder:default=80
	// +optional
	ThresholdPercent int `json:"thresholdPercent,omitempty"`

	// stepPercent of its size by which the pool grows.
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=20
	// +optional
	StepPercent int `json:"stepPercent,omitempty"`
}

// Defaults of a thin pool whose policy is Static and whose size is not set, in bytes.
const (
	DefaultChunkSize    int64 = 128 << 10
	DefaultMetadataSize int64 = 1 << 30
)
