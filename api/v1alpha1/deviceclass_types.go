package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DeviceClass is a named tier of storage, with one volume group on each selected node and one StorageClass.
//
// +kubebuilder:validation:XValidation:rule="has(self.thinPoolConfig) == has(oldSelf.thinPoolConfig)",message="thinPoolConfig cannot be added to or removed from an existing device class, because its volume groups are already thin or thick: create a new device class"
// +kubebuilder:validation:XValidation:rule="has(self.raidConfig) == has(oldSelf.raidConfig)",message="raidConfig cannot be added to or removed from an existing device class, because it does not apply to existing volumes: create a new device class"
// +kubebuilder:validation:XValidation:rule="!has(self.raidConfig) || !has(self.thinPoolConfig)",message="raidConfig and thinPoolConfig are mutually exclusive: volumes with redundancy are thick"
// +kubebuilder:validation:XValidation:rule="!has(self.deviceSelectors) || self.deviceSelectors.size() == 0 || !has(self.deviceSelector)",message="deviceSelector and deviceSelectors are mutually exclusive: move deviceSelector into the list deviceSelectors"
// +kubebuilder:validation:XValidation:rule="has(self.existingVolumeGroup) == has(oldSelf.existingVolumeGroup)",message="existingVolumeGroup cannot be added to or removed from an existing device class, because its volumes are in another volume group: create a new device class"
// +kubebuilder:validation:XValidation:rule="!has(self.existingVolumeGroup) || (!has(self.deviceSelector) && (!has(self.deviceSelectors) || self.deviceSelectors.size() == 0) && !has(self.deviceDiscoveryPolicy) && !has(self.raidConfig) && (!has(self.deviceRequests) || self.deviceRequests.size() == 0) && (!has(self.adopt) || self.adopt.size() == 0) && (!has(self.adoptClusters) || self.adoptClusters.size() == 0) && !has(self.deletedVolumeRetention))",message="deviceSelector, deviceSelectors, deviceDiscoveryPolicy, raidConfig, deviceRequests, adopt, adoptClusters and deletedVolumeRetention cannot be set together with existingVolumeGroup: the volume group and its devices are not changed"
// +kubebuilder:validation:XValidation:rule="!has(self.existingVolumeGroup) || !has(self.thinPoolConfig) || (!has(self.thinPoolConfig.autoExtend) && !has(self.thinPoolConfig.chunkSize) && !has(self.thinPoolConfig.metadataSize) && !has(self.thinPoolConfig.stripes) && self.thinPoolConfig.metadataSizeCalculationPolicy != 'Static')",message="autoExtend, chunkSize, metadataSize, stripes and metadataSizeCalculationPolicy Static cannot be set together with existingVolumeGroup: the thin pool must exist and is not changed"
// +kubebuilder:validation:XValidation:rule="!has(self.deviceResizePolicy) || !has(self.existingVolumeGroup)",message="deviceResizePolicy cannot be set together with existingVolumeGroup: the volume group is not changed: use pvresize on the nodes"
// +kubebuilder:validation:XValidation:rule="!has(self.approval) || !has(self.existingVolumeGroup)",message="approval cannot be set together with existingVolumeGroup: no device is added to the volume group"
// +kubebuilder:validation:XValidation:rule="!has(self.existingVolumeGroupConfig) || has(self.existingVolumeGroup)",message="existingVolumeGroupConfig requires existingVolumeGroup"
// +kubebuilder:validation:XValidation:rule="!has(self.existingVolumeGroupConfig) || !has(self.thinPoolConfig) || (!has(self.existingVolumeGroupConfig.allocation) && !has(self.existingVolumeGroupConfig.stripes) && (!has(self.existingVolumeGroupConfig.lvcreateOptions) || self.existingVolumeGroupConfig.lvcreateOptions.size() == 0))",message="allocation, stripes and lvcreateOptions of existingVolumeGroupConfig cannot be set together with thinPoolConfig: the blocks of thin volumes are where the thin pool has them"
// +kubebuilder:validation:XValidation:rule="!has(self.thickConfig) || (!has(self.thinPoolConfig) && !has(self.raidConfig) && !has(self.existingVolumeGroup))",message="thickConfig cannot be set together with thinPoolConfig, raidConfig or existingVolumeGroup: thin volumes are where the thin pool is, raidConfig has its own stripes, and existingVolumeGroupConfig has the settings of an existing volume group"
// +kubebuilder:validation:XValidation:rule="!has(self.thinPoolConfig) || !has(self.eraseOnDelete) || self.eraseOnDelete != 'Zero'",message="eraseOnDelete Zero cannot be set together with thinPoolConfig: a thin pool zeros the blocks that it allocates, and zeros would use its space: use Discard or None"
// +kubebuilder:validation:XValidation:rule="!has(self.existingVolumeGroup) || !has(self.thinPoolConfig) || !has(self.thinPoolConfig.discards)",message="thinPoolConfig.discards cannot be set together with existingVolumeGroup: the thin pool is not changed: use lvchange --discards on the nodes"
// +kubebuilder:validation:XValidation:rule="has(self.thinPoolConfig) || !has(self.trim) || !has(self.trim.poolUsageThresholdPercent)",message="trim.poolUsageThresholdPercent requires thinPoolConfig: a thick volume keeps its space when it is trimmed"
type DeviceClass struct {
	// name is the name of the device class and, without existingVolumeGroup, of its volume group on each node. The name
	// of its StorageClass is lvms- followed by this name. It has at most 63 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=245
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.size() <= 63 || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="name can have at most 63 characters: it is the name of an annotation of the Node, without which no volume is created"
	Name string `json:"name"`

	// default makes the StorageClass of this device class the default StorageClass of the cluster, if there is no other
	// default. At most one device class can be the default.
	Default bool `json:"default,omitempty"`

	// fstype is the file system of volumes with volumeMode Filesystem. It is immutable.
	// +kubebuilder:validation:Enum=xfs;ext4
	// +kubebuilder:default=xfs
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="fstype is immutable, because StorageClass parameters are: create a new device class"
	FilesystemType DeviceFilesystem `json:"fstype,omitempty"`

	// nodeSelector selects the nodes of this device class. Defaults to all nodes that can run the node agent.
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	// existingVolumeGroup is the name of a volume group that an administrator created on each selected node. The device
	// class creates, extends and removes its logical volumes there, and changes nothing else: not the volume group, its
	// tags, its devices and its other logical volumes. With thinPoolConfig, the thin pool must exist too. The volume
	// group can have one device class for thick volumes, and one for each thin pool. It stays when the device class is
	// deleted. It is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_.+][a-zA-Z0-9_.+-]*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="existingVolumeGroup is immutable, because the volumes of the device class are in the volume group: create a new device class"
	ExistingVolumeGroup string `json:"existingVolumeGroup,omitempty"`

	// existingVolumeGroupConfig has the settings of a device class with existingVolumeGroup. A change applies to new
	// volumes.
	ExistingVolumeGroupConfig *ExistingVolumeGroupConfig `json:"existingVolumeGroupConfig,omitempty"`

	// deviceSelector selects the devices of this device class. Without deviceSelector and deviceSelectors, the device
	// class uses every unused device of the node.
	DeviceSelector *DeviceSelector `json:"deviceSelector,omitempty"`

	// deviceSelectors select devices for groups of nodes, if the devices of the nodes differ. On a node, all entries
	// apply whose nodeSelector matches the node. A node that no entry matches gets no volume group. Mutually exclusive
	// with deviceSelector.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	DeviceSelectors []NodeDeviceSelector `json:"deviceSelectors,omitempty"`

	// deviceDiscoveryPolicy controls what happens to devices that appear after the volume group was created, if the
	// deviceSelector has no paths: Static ignores them; Dynamic adds each unused device that matches, one minute after
	// it appears. Defaults to Static for a new device class. A device class that was taken over from an operator
	// without this field remains Dynamic.
	// +kubebuilder:validation:Enum=Static;Dynamic
	DeviceDiscoveryPolicy DeviceDiscoveryPolicy `json:"deviceDiscoveryPolicy,omitempty"`

	// approval is Required if each new device of the device class must be approved with an LVMDeviceApproval before it
	// is used. Until then, its reason is AwaitingApproval. Not set: devices are used without an approval. Devices of
	// the volume group are never affected. With Required, deviceDiscoveryPolicy Static does not exclude devices that
	// appear later: they can be approved.
	Approval DeviceApprovalPolicy `json:"approval,omitempty"`

	// thinPoolConfig makes the volumes of this device class thin, in one thin pool on each node. Without it, volumes
	// are thick. It cannot be added or removed later.
	ThinPoolConfig *ThinPoolConfig `json:"thinPoolConfig,omitempty"`

	// raidConfig stores every volume of this device class redundantly on several devices of its node. Mutually
	// exclusive with thinPoolConfig. It is immutable, and cannot be added or removed later.
	RAIDConfig *RAIDConfig `json:"raidConfig,omitempty"`

	// thickConfig controls on which devices thick volumes are: each on one device, or striped over several. Mutually
	// exclusive with thinPoolConfig, raidConfig and existingVolumeGroup. It can be changed at any time. Not set: LVM
	// fills one device after the other, and a volume can be on several.
	ThickConfig *ThickConfig `json:"thickConfig,omitempty"`

	// storageClassOptions configure the StorageClass lvms-NAME. Only additionalLabels can be changed, because a
	// StorageClass is immutable.
	StorageClassOptions *StorageClassOptions `json:"storageClassOptions,omitempty"`

	// volumeSnapshotClassOptions configure the VolumeSnapshotClass lvms-NAME, which only a device class with
	// thinPoolConfig has.
	VolumeSnapshotClassOptions *VolumeSnapshotClassOptions `json:"volumeSnapshotClassOptions,omitempty"`

	// deviceRequests are requests to cordon, drain or remove individual devices of the device class. A request is in
	// effect as long as it is in the list. Deleting it from the list cancels what is not complete.
	// +listType=map
	// +listMapKey=node
	// +listMapKey=device
	// +kubebuilder:validation:MaxItems=64
	DeviceRequests []DeviceRequest `json:"deviceRequests,omitempty"`

	// adopt allows volume groups whose disks were moved from another node, or come from another cluster, to be used by
	// this device class on the node that has them now. A volume group with another name is renamed to the name of the
	// device class.
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=64
	Adopt []VolumeGroupAdoption `json:"adopt,omitempty"`

	// adoptClusters are the identities of other clusters, as shown in the reason of a volume group's status. The device
	// class uses their volume groups that have its name, and that the device class of this name had on a node with the
	// same name, for example after the cluster was installed again. No other cluster may use the disks.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	AdoptClusters []ClusterIdentity `json:"adoptClusters,omitempty"`

	// deletedVolumeRetention is how long after its deletion a logical volume is kept whose claim or VolumeSnapshot was
	// deleted while its Node object did not exist. The logical volume is still on the disks when the node returns.
	// After this time the node agent removes it, with its data. Not set: the logical volume is an orphan, and only an
	// administrator removes it. It must be at least 1h, for example 168h.
	DeletedVolumeRetention RetentionPeriod `json:"deletedVolumeRetention,omitempty"`

	// eraseOnDelete is what the node agent does with the blocks of a logical volume before it removes it, when its
	// claim is deleted, or as an orphan: None leaves them; Discard discards them (blkdiscard); Zero overwrites them
	// with zeros. Until this is complete, the volume keeps its space. If not set: Zero without thinPoolConfig, so that
	// no volume shows data of a deleted one, and None with thinPoolConfig, because a thin pool zeros the blocks that it
	// allocates. Zero cannot be set together with thinPoolConfig. A change also applies to volumes that are being
	// deleted.
	EraseOnDelete EraseMethod `json:"eraseOnDelete,omitempty"`

	// deviceResizePolicy is what the node agent does when a device of the volume group becomes larger, for example a
	// virtual disk or a LUN: Manual, the default, names the command pvresize in the node status; Automatic runs it.
	// The thin pool then follows with its sizePercent. It can be changed at any time.
	DeviceResizePolicy DeviceResizePolicy `json:"deviceResizePolicy,omitempty"`

	// namespaceLimits limit the total size of the volumes that the claims of a namespace have in this device class on
	// each node, so that one namespace cannot use all of it. The node agent refuses a new volume, a snapshot, a clone
	// or an expansion that exceeds the limit. Existing volumes are not affected. A namespace without an entry is not
	// limited. They can be changed at any time.
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=32
	NamespaceLimits []NamespaceLimit `json:"namespaceLimits,omitempty"`

	// trim has the file systems of mounted volumes trimmed (fstrim): a thin pool gets the blocks of deleted files back,
	// and the disks of thick volumes know that the blocks are unused. Block volumes, and volumes that are suspended,
	// read-only, damaged or being deleted, are not trimmed. Not set: no volume is trimmed. It can be changed at any
	// time.
	Trim *TrimConfig `json:"trim,omitempty"`
}

// DeviceResizePolicy is what happens when a device becomes larger.
// +kubebuilder:validation:Enum=Manual;Automatic
type DeviceResizePolicy string

// The policies for devices that become larger.
const (
	DeviceResizeManual    DeviceResizePolicy = "Manual"
	DeviceResizeAutomatic DeviceResizePolicy = "Automatic"
)

// EraseMethod is what happens to the blocks of a logical volume before it is removed.
//
// +kubebuilder:validation:Enum=None;Discard;Zero
type EraseMethod string

// The methods to erase a logical volume.
const (
	EraseNone    EraseMethod = "None"
	EraseDiscard EraseMethod = "Discard"
	EraseZero    EraseMethod = "Zero"
)

// RetentionPeriod is how long something is kept, as a duration: 168h, 1h30m.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(h|m|s))+$`
// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h')",message="must be at least 1h"
type RetentionPeriod string

// DeviceFilesystem is the file system of volumes.
type DeviceFilesystem string

// The file systems that a device class can have.
const (
	FilesystemTypeXFS  DeviceFilesystem = "xfs"
	FilesystemTypeExt4 DeviceFilesystem = "ext4"
)

// DeviceDiscoveryPolicy controls what happens to devices that appear later.
type DeviceDiscoveryPolicy string

// The policies of device discovery.
const (
	DeviceDiscoveryStatic  DeviceDiscoveryPolicy = "Static"
	DeviceDiscoveryDynamic DeviceDiscoveryPolicy = "Dynamic"
)

// DeviceApprovalPolicy says whether new devices must be approved.
//
// +kubebuilder:validation:Enum=Required
type DeviceApprovalPolicy string

// ApprovalRequired means that each new device must be approved.
const ApprovalRequired DeviceApprovalPolicy = "Required"

// DevicePath is the absolute path of a block device, or of a symbolic link to one.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^/dev(/+[^/.][^/]*)+$`
type DevicePath string

// DeviceProperty is a value that is compared with a property of a device.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type DeviceProperty string

// DeviceSelector selects devices by path, by property, or by both: then a named device must have the properties too.
// Only empty devices are used: without signature, mount, holder or child.
//
// +kubebuilder:validation:XValidation:rule="(has(self.paths) && self.paths.size() > 0) || (has(self.optionalPaths) && self.optionalPaths.size() > 0) || has(self.minSize) || has(self.maxSize) || has(self.rotational) || (has(self.models) && self.models.size() > 0) || (has(self.vendors) && self.vendors.size() > 0) || (has(self.serials) && self.serials.size() > 0) || (has(self.transports) && self.transports.size() > 0) || (has(self.labels) && self.labels.size() > 0)",message="set paths, optionalPaths or at least one property of devices, or remove deviceSelector to use every unused device"
// +kubebuilder:validation:XValidation:rule="!has(self.forceWipeDevicesAndDestroyAllData) || !self.forceWipeDevicesAndDestroyAllData || (has(self.paths) && self.paths.size() > 0) || (has(self.optionalPaths) && self.optionalPaths.size() > 0)",message="forceWipeDevicesAndDestroyAllData requires paths or optionalPaths: only devices that are named there are wiped"
// +kubebuilder:validation:XValidation:rule="!has(self.wipeVolumeGroups) || self.wipeVolumeGroups.size() == 0 || (has(self.paths) && self.paths.size() > 0) || (has(self.optionalPaths) && self.optionalPaths.size() > 0)",message="wipeVolumeGroups requires paths or optionalPaths: only volume groups on devices that are named there are destroyed"
type DeviceSelector struct {
	// paths are the devices that every node of the device class must have.
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Paths []DevicePath `json:"paths,omitempty"`

	// optionalPaths are devices that are used on the nodes that have them.
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	OptionalPaths []DevicePath `json:"optionalPaths,omitempty"`

	// minSize is the minimum size of a device. It must be at least 16Mi.
	MinSize *resource.Quantity `json:"minSize,omitempty"`

	// maxSize is the maximum size of a device.
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`

	// rotational selects hard disks if true, and flash storage if false. Defaults to both.
	Rotational *bool `json:"rotational,omitempty"`

	// models selects devices with one of these models, as in status.devices of the LVMVolumeGroupNodeStatus. The
	// comparison ignores case. A * at the end matches any suffix.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Models []DeviceProperty `json:"models,omitempty"`

	// vendors selects devices of one of these vendors. Values are compared as in models.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Vendors []DeviceProperty `json:"vendors,omitempty"`

	// serials selects devices with one of these serial numbers.
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Serials []DeviceProperty `json:"serials,omitempty"`

	// transports selects devices with one of these transports: sata, sas, nvme, virtio, usb, scsi, fc, iscsi, mmc, ata,
	// spi, fcoe.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Transports []DeviceProperty `json:"transports,omitempty"`

	// labels selects devices that have all these labels, as in status.devices of the LVMVolumeGroupNodeStatus. A device
	// that is in the volume group stays there when its labels change.
	// +kubebuilder:validation:MaxProperties=16
	Labels map[string]string `json:"labels,omitempty"`

	// removable allows removable devices to be selected by property. A removable device that is named by path is always
	// used.
	Removable bool `json:"removable,omitempty"`

	// forceWipeDevicesAndDestroyAllData destroys all data on the devices in paths and optionalPaths before they are
	// used for the first time, once for each physical disk. A device that is in use, or that belongs to a volume group
	// of this product, is not wiped.
	ForceWipeDevicesAndDestroyAllData *bool `json:"forceWipeDevicesAndDestroyAllData,omitempty"`

	// wipeVolumeGroups are names or UUIDs of volume groups on the devices in paths and optionalPaths that are destroyed
	// with all their logical volumes, so that the device class can use the devices. All devices of the volume group
	// must be in paths or optionalPaths. A volume group of this cluster must be given by its UUID. A volume group is
	// not destroyed while one of its logical volumes is in use, or belongs to an object of this cluster.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	WipeVolumeGroups []VolumeGroupReference `json:"wipeVolumeGroups,omitempty"`
}

// VolumeGroupReference is the name or the UUID of a volume group of LVM.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_.+][a-zA-Z0-9_.+-]*$`
type VolumeGroupReference string

// NodeDeviceSelector selects devices on some of the nodes.
type NodeDeviceSelector struct {
	// nodeSelector selects among the nodes of the device class. Defaults to all of them.
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	DeviceSelector `json:",inline"`
}

// DeviceAction is the action of a DeviceRequest.
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

// DeviceRequest is a request to cordon, drain or remove a device.
type DeviceRequest struct {
	// node is the name of the node that has the device.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// device is a path, or the device ID or the UUID of the physical volume from the status.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Device string `json:"device"`

	// action is the requested action: Cordon allocates nothing new on the device; Drain also moves its data to other
	// devices of the volume group; Remove also removes it from the volume group.
	// +kubebuilder:validation:Enum=Cordon;Drain;Remove
	Action DeviceAction `json:"action"`

	// suspend also suspends the device: new Pods do not get the volumes that have data on it, wholly or partly. Pods
	// that run keep them. If the thin pool of a device class has data on the device, no new volume is created in it;
	// snapshots and clones are.
	Suspend bool `json:"suspend,omitempty"`

	// suspendReason says why the device is suspended. kubectl lvms and the console begin it with who suspended it and
	// when. The message of the physical volume in the node status shows it.
	// +kubebuilder:validation:MaxLength=1024
	SuspendReason string `json:"suspendReason,omitempty"`
}

// ClusterIdentity is the identity of a cluster, as in the tag lvms.cluster= of its volume groups.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
type ClusterIdentity string

// VolumeGroupAdoption allows a volume group to be used on a node or in a cluster other than the one where it was
// created.
type VolumeGroupAdoption struct {
	// node is the name of the node that has the disks now.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// volumeGroupUUID is the UUID of the volume group, as shown in the reason of its status.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	VolumeGroupUUID string `json:"volumeGroupUUID"`
}
