package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LVMCluster turns local disks of the cluster's nodes into volume groups and StorageClasses.
// There is one in a cluster, in the namespace of the operator.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lvmc
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Volume groups",type=string,JSONPath=`.status.conditions[?(@.type=="VolumeGroupsReady")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LVMCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LVMClusterSpec   `json:"spec,omitempty"`
	Status LVMClusterStatus `json:"status,omitempty"`
}

// LVMClusterList is a list of LVMClusters.
//
// +kubebuilder:object:root=true
type LVMClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMCluster `json:"items"`
}

// LVMClusterSpec is what the administrator wants.
type LVMClusterSpec struct {
	// tolerations of the node agent. A node with a taint that is not tolerated here gets no volume group.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// storage has the device classes.
	// +optional
	Storage Storage `json:"storage,omitempty"`
}

// Storage has the device classes of an LVMCluster.
type Storage struct {
	// deviceClasses are the named tiers of storage. Each one makes a volume group on every node it selects, and the
	// StorageClass lvms-NAME.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=24
	// +kubebuilder:validation:XValidation:rule="self.filter(c, has(c.default) && c.default).size() <= 1",message="at most one device class can be the default: set default: true on one only"
	DeviceClasses []DeviceClass `json:"deviceClasses,omitempty"`
}

// DeviceClass is a named tier of storage: one volume group on each selected node, and one StorageClass.
//
// +kubebuilder:validation:XValidation:rule="has(self.thinPoolConfig) == has(oldSelf.thinPoolConfig)",message="thinPoolConfig cannot be added to or removed from an existing device class: its volume groups are already thin or thick; use a new device class"
// +kubebuilder:validation:XValidation:rule="has(self.nodeSelector) == has(oldSelf.nodeSelector) && (!has(self.nodeSelector) || self.nodeSelector == oldSelf.nodeSelector)",message="nodeSelector cannot be changed: nodes that it no longer selects would keep their volumes"
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

	// deviceSelector names the devices of this device class. Without it, every unused device of the node is taken.
	// +optional
	DeviceSelector *DeviceSelector `json:"deviceSelector,omitempty"`

	// deviceDiscoveryPolicy says what happens to devices that appear after the volume group was made, where there is
	// no deviceSelector: Static leaves them alone, Dynamic adds every unused one.
	// +kubebuilder:validation:Enum=Static;Dynamic
	// +kubebuilder:default=Static
	// +optional
	DeviceDiscoveryPolicy DeviceDiscoveryPolicy `json:"deviceDiscoveryPolicy,omitempty"`

	// thinPoolConfig makes the volumes of this device class thin, in one thin pool a node. Without it they are thick.
	// +optional
	ThinPoolConfig *ThinPoolConfig `json:"thinPoolConfig,omitempty"`
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
// +kubebuilder:validation:XValidation:rule="self.startsWith('/dev/') && !self.contains('/../')",message="must be the absolute path of a device, under /dev/"
type DevicePath string

// DeviceSelector names devices. A device is used only if it is empty: no signature, no mount, no holder, no child.
//
// +kubebuilder:validation:XValidation:rule="(has(self.paths) && self.paths.size() > 0) || (has(self.optionalPaths) && self.optionalPaths.size() > 0)",message="name at least one device in paths or optionalPaths, or leave deviceSelector out to use every unused device"
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
// +kubebuilder:validation:XValidation:rule="self.chunkSizeCalculationPolicy == oldSelf.chunkSizeCalculationPolicy && has(self.chunkSize) == has(oldSelf.chunkSize) && (!has(self.chunkSize) || self.chunkSize == oldSelf.chunkSize)",message="the chunk size cannot be changed after the thin pool was made"
// +kubebuilder:validation:XValidation:rule="self.metadataSizeCalculationPolicy == oldSelf.metadataSizeCalculationPolicy && has(self.metadataSize) == has(oldSelf.metadataSize) && (!has(self.metadataSize) || self.metadataSize == oldSelf.metadataSize)",message="the metadata size cannot be changed after the thin pool was made"
// +kubebuilder:validation:XValidation:rule="!has(self.chunkSize) || self.chunkSizeCalculationPolicy == 'Static'",message="chunkSize needs chunkSizeCalculationPolicy: Static"
// +kubebuilder:validation:XValidation:rule="!has(self.metadataSize) || self.metadataSizeCalculationPolicy == 'Static'",message="metadataSize needs metadataSizeCalculationPolicy: Static"
type ThinPoolConfig struct {
	// name of the thin pool in the volume group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_+.][a-zA-Z0-9_+.-]*$`
	Name string `json:"name"`

	// sizePercent of the free space of the volume group that the pool takes. Above 90 the metadata may be unable to grow.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=90
	// +optional
	SizePercent int `json:"sizePercent,omitempty"`

	// overprovisionRatio times the size of the pool is what its volumes may have together.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	OverprovisionRatio int `json:"overprovisionRatio"`

	// chunkSizeCalculationPolicy: Static takes chunkSize, Host leaves it to LVM.
	// +kubebuilder:validation:Enum=Host;Static
	// +kubebuilder:default=Static
	// +optional
	ChunkSizeCalculationPolicy SizeCalculationPolicy `json:"chunkSizeCalculationPolicy,omitempty"`

	// chunkSize of the pool, from 64Ki to 1Gi, a multiple of 64Ki; 128Ki when not set.
	// +optional
	ChunkSize *resource.Quantity `json:"chunkSize,omitempty"`

	// metadataSizeCalculationPolicy: Static takes metadataSize, Host leaves it to LVM.
	// +kubebuilder:validation:Enum=Host;Static
	// +kubebuilder:default=Host
	// +optional
	MetadataSizeCalculationPolicy SizeCalculationPolicy `json:"metadataSizeCalculationPolicy,omitempty"`

	// metadataSize of the pool, from 2Mi to 16Gi; 1Gi when not set.
	// +optional
	MetadataSize *resource.Quantity `json:"metadataSize,omitempty"`
}

// Defaults of a thin pool whose policy is Static and whose size is not set, in bytes.
const (
	DefaultChunkSize    int64 = 128 << 10
	DefaultMetadataSize int64 = 1 << 30
)

// LVMState is the state of an LVMCluster in one word.
type LVMState string

// The states of an LVMCluster. The first that holds is taken, in the order Failed, Degraded, Progressing, Ready.
const (
	LVMStatusProgressing LVMState = "Progressing"
	LVMStatusReady       LVMState = "Ready"
	LVMStatusFailed      LVMState = "Failed"
	LVMStatusDegraded    LVMState = "Degraded"
	LVMStatusUnknown     LVMState = "Unknown"
)

// LVMClusterStatus is what the operator has seen.
type LVMClusterStatus struct {
	// ready is true when state is Ready.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// state in one word: Progressing, Ready, Failed, Degraded or Unknown.
	// +optional
	State LVMState `json:"state,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: ResourcesAvailable and VolumeGroupsReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// deviceClassStatuses has the state of each device class on each of its nodes.
	// +optional
	// +listType=map
	// +listMapKey=name
	DeviceClassStatuses []DeviceClassStatus `json:"deviceClassStatuses,omitempty"`
}

// DeviceClassStatus is the state of a device class.
type DeviceClassStatus struct {
	// name of the device class.
	Name string `json:"name"`

	// nodeStatus has the volume group on each node, sorted by node.
	// +optional
	// +listType=map
	// +listMapKey=node
	NodeStatus []NodeStatus `json:"nodeStatus,omitempty"`
}

// NodeStatus is the volume group of a device class on one node.
type NodeStatus struct {
	// node is the name of the node.
	Node string `json:"node"`

	VGStatus `json:",inline"`
}
