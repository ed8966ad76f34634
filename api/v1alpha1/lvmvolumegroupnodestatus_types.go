package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LVMVolumeGroupNodeStatus is what one node agent has seen. It has the name of its node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lvmvgns
// +kubebuilder:printcolumn:name="Volume groups",type=string,JSONPath=`.status.nodeStatus[*].name`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.nodeStatus[*].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LVMVolumeGroupNodeStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status LVMVolumeGroupNodeStatusStatus `json:"status,omitempty"`
}

// LVMVolumeGroupNodeStatusList is a list of LVMVolumeGroupNodeStatuses.
//
// +kubebuilder:object:root=true
type LVMVolumeGroupNodeStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMVolumeGroupNodeStatus `json:"items"`
}

// LVMVolumeGroupNodeStatusStatus has the devices and the volume groups of a node.
type LVMVolumeGroupNodeStatusStatus struct {
	// conditions: DevicesObserved.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// lastObserved is when the node agent last looked at the devices and volume groups of the node. It is written with
	// each change of devices or conditions, and otherwise every 10 minutes. After 30 minutes the rest of this status is
	// no longer relied on.
	// +optional
	LastObserved *metav1.Time `json:"lastObserved,omitempty"`

	// devices are the block devices of the node, used or not, sorted by name. Logical volumes are not among them.
	// +optional
	// +listType=atomic
	Devices []DeviceStatus `json:"devices,omitempty"`

	// devicesOmitted is how many devices have no entry, since the list would be too long. What can be used, what is in
	// use by a device class, and what is broken always has one.
	// +optional
	DevicesOmitted int32 `json:"devicesOmitted,omitempty"`

	// nodeStatus has the volume group of each device class on this node, sorted by name. As long as a device class has
	// an entry here, its LVMVolumeGroup is kept.
	// +optional
	// +listType=map
	// +listMapKey=name
	NodeStatus []VGStatus `json:"nodeStatus,omitempty"`
}

const (
	// ObservationInterval is how old lastObserved may become before a node agent writes it although nothing else has
	// changed. It is coarse, so that the agents of a thousand nodes write twice a second together.
	ObservationInterval = 10 * time.Minute
	// ObservationLimit is how old lastObserved may be for the status to be relied on.
	ObservationLimit = 3 * ObservationInterval
)

// IsStale tells whether the node agent has not looked at its node for longer than ObservationLimit. A status without
// lastObserved, as agents before version 0.2 write it, is not stale.
func (s *LVMVolumeGroupNodeStatusStatus) IsStale(now time.Time) bool {
	return s.LastObserved != nil && now.Sub(s.LastObserved.Time) > ObservationLimit
}

// VGState is the state of a volume group in one word.
type VGState string

// The states of a volume group on a node. Failed: it does not exist as wanted and cannot be set up. Degraded: it
// exists and serves volumes, but something about it is wrong. Both come with a reason.
const (
	VGStatusProgressing VGState = "Progressing"
	VGStatusReady       VGState = "Ready"
	VGStatusFailed      VGState = "Failed"
	VGStatusDegraded    VGState = "Degraded"
	// VGStatusRemoved: the volume group is gone from the node, and its entry is about to be.
	VGStatusRemoved VGState = "Removed"
)

// OrphanKind says what is there of an orphan.
// +kubebuilder:validation:Enum=LogicalVolume;Object;Unclaimed
type OrphanKind string

// The kinds of orphans. LogicalVolume: LVM has it, and no object asks for it. Object: a LogicalVolume object says that
// it was made, and LVM does not have it. Unclaimed: both are there, and no PersistentVolume, no snapshot and no claim
// knows them.
const (
	OrphanLogicalVolume OrphanKind = "LogicalVolume"
	OrphanObject        OrphanKind = "Object"
	OrphanUnclaimed     OrphanKind = "Unclaimed"
)

// MaxOrphans is how many orphans of a device class stand in the status.
const MaxOrphans = 32

// OrphanStatus is a logical volume without an object, an object without a logical volume, or both without anything that
// uses them.
type OrphanStatus struct {
	// kind is LogicalVolume or Object: what is there; Unclaimed where both are.
	Kind OrphanKind `json:"kind"`

	// name of the logical volume or of the object.
	Name string `json:"name"`

	// size of the logical volume, or the one in the object.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// created is when the logical volume or the object was made.
	// +optional
	Created *metav1.Time `json:"created,omitempty"`

	// claim is what it was made for, as NAMESPACE/NAME, where that is known.
	// +optional
	Claim string `json:"claim,omitempty"`
}

// VGStatus is a volume group on a node.
type VGStatus struct {
	// name of the device class and its volume group.
	Name string `json:"name"`

	// status in one word: Progressing, Ready, Failed, Degraded or Removed.
	// +optional
	Status VGState `json:"status,omitempty"`

	// reason says what is wrong and what to do, for every status but Ready. With Ready it says why the node has no
	// volume group, and needs none; then there are no devices and no size.
	// +optional
	Reason string `json:"reason,omitempty"`

	// observedGeneration is the generation of the LVMVolumeGroup that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// uuid of the volume group.
	// +optional
	UUID string `json:"uuid,omitempty"`

	// conditions tell of the health of the group: DevicesHealthy, VolumesHealthy, and ThinPoolHealthy or RAIDHealthy.
	// Each message names node, device class, device, and the volumes at risk.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// devices are the physical volumes of the group, sorted.
	// +optional
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`

	// physicalVolumes are the devices of the group in detail, sorted by UUID.
	// +optional
	// +listType=map
	// +listMapKey=uuid
	PhysicalVolumes []PhysicalVolumeStatus `json:"physicalVolumes,omitempty"`

	// wipedDevices are the devices that were wiped for the group, sorted by id.
	// +optional
	// +listType=map
	// +listMapKey=id
	WipedDevices []WipedDevice `json:"wipedDevices,omitempty"`

	// excluded are the devices of the node that the group does not use, sorted, each with all its reasons.
	// +optional
	// +listType=atomic
	Excluded []ExcludedDevice `json:"excluded,omitempty"`

	// orphans are logical volumes without a LogicalVolume object, LogicalVolume objects without a logical volume, and
	// volumes that no PersistentVolume, no snapshot and no claim knows, sorted: the first 32 of them. Nothing removes
	// them but you.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Orphans []OrphanStatus `json:"orphans,omitempty"`

	// orphanCount is how many orphans there are.
	// +optional
	OrphanCount int32 `json:"orphanCount,omitempty"`

	// size of the volume group.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// free is the space of the volume group that no logical volume has. A thin pool is a logical volume.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`

	// thinPool is the pool of a thin device class.
	// +optional
	ThinPool *ThinPoolStatus `json:"thinPool,omitempty"`

	// raidStatus is the redundancy of the volumes of a device class with raidConfig.
	// +optional
	RAIDStatus *RAIDStatus `json:"raidStatus,omitempty"`
}

// PhysicalVolumeState is the state of a physical volume in one word.
type PhysicalVolumeState string

// The states of a physical volume.
const (
	PhysicalVolumeReady    PhysicalVolumeState = "Ready"
	PhysicalVolumeCordoned PhysicalVolumeState = "Cordoned"
	PhysicalVolumeDraining PhysicalVolumeState = "Draining"
	PhysicalVolumeDrained  PhysicalVolumeState = "Drained"
	// PhysicalVolumeBlocked: a drain or a removal cannot be done; the message says why.
	PhysicalVolumeBlocked PhysicalVolumeState = "Blocked"
	PhysicalVolumeMissing PhysicalVolumeState = "Missing"
	PhysicalVolumeFailing PhysicalVolumeState = "Failing"
)

// PhysicalVolumeStatus is a device of a volume group.
type PhysicalVolumeStatus struct {
	// uuid of the physical volume, which is on the device itself.
	UUID string `json:"uuid"`

	// name of the device; the last known one of a device that is missing.
	// +optional
	Name string `json:"name,omitempty"`

	// deviceID is the stable identity of the device.
	// +optional
	DeviceID string `json:"deviceID,omitempty"`

	// path of the deviceSelector by which the device was chosen.
	// +optional
	Path string `json:"path,omitempty"`

	// size that the group can use of the device.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// free is what no logical volume has of it.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`

	// state: Ready, Cordoned, Draining, Drained, Blocked, Missing or Failing.
	State PhysicalVolumeState `json:"state"`

	// movedPercent is how much of the device is moved away, while it is being drained.
	// +optional
	MovedPercent *int32 `json:"movedPercent,omitempty"`

	// message says what is wrong or what is going on.
	// +optional
	Message string `json:"message,omitempty"`
}

// WipedDevice is the record of a wipe.
type WipedDevice struct {
	// id is the stable identity of the device.
	ID string `json:"id"`

	// name of the device at that time.
	Name string `json:"name"`

	// found is what was on it.
	// +optional
	// +listType=atomic
	Found []string `json:"found,omitempty"`

	// backup is the folder on the node with what was overwritten.
	// +optional
	Backup string `json:"backup,omitempty"`

	// time of the wipe.
	Time metav1.Time `json:"time"`
}

// RAIDState is the state of redundancy in one word.
type RAIDState string

// The states of redundancy.
const (
	RAIDHealthy  RAIDState = "Healthy"
	RAIDDegraded RAIDState = "Degraded"
	RAIDFailed   RAIDState = "Failed"
)

// RAIDStatus is the redundancy of the volumes of a device class.
type RAIDStatus struct {
	// status: Healthy; Degraded when a volume lacks a device or is not in sync; Failed when the data of a volume cannot
	// be read any longer.
	Status RAIDState `json:"status"`

	// memberCount is how many physical volumes the group has.
	MemberCount int32 `json:"memberCount"`

	// degradedMemberCount is how many of them are missing or failing.
	DegradedMemberCount int32 `json:"degradedMemberCount"`

	// minSyncPercent is the least of all volumes, in whole percent, rounded down.
	// +optional
	MinSyncPercent *int32 `json:"minSyncPercent,omitempty"`

	// lvHealth are the volumes that are not in order, sorted by name; at most 32.
	// +optional
	// +listType=map
	// +listMapKey=name
	LVHealth []LVHealth `json:"lvHealth,omitempty"`
}

// LVHealth is the redundancy of one logical volume.
type LVHealth struct {
	// name of the logical volume.
	Name string `json:"name"`

	// raidType: raid1, raid5, …
	RAIDType string `json:"raidType"`

	// syncPercent in whole percent, rounded down.
	// +optional
	SyncPercent *int32 `json:"syncPercent,omitempty"`

	// healthStatus in LVM's word; empty while it is in order.
	// +optional
	HealthStatus string `json:"healthStatus,omitempty"`
}

// ThinPoolStatus is a thin pool on a node.
type ThinPoolStatus struct {
	// name of the pool.
	Name string `json:"name"`

	// size of the pool's data.
	Size resource.Quantity `json:"size"`

	// metadataSize is the size of the pool's metadata.
	MetadataSize resource.Quantity `json:"metadataSize"`

	// chunkSize in which the pool gives space to its volumes.
	// +optional
	ChunkSize *resource.Quantity `json:"chunkSize,omitempty"`

	// dataPercent is how full the data is, in whole percent, rounded up.
	DataPercent int32 `json:"dataPercent"`

	// metadataPercent is how full the metadata is, in whole percent, rounded up.
	MetadataPercent int32 `json:"metadataPercent"`

	// free is the part of the pool's data that no volume uses.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`

	// virtualSize is what the volumes of the pool may use together.
	// +optional
	VirtualSize *resource.Quantity `json:"virtualSize,omitempty"`
}

// ExcludedDevice is a device that a volume group does not use.
type ExcludedDevice struct {
	// name of the device, as the kernel has it or as the deviceSelector writes it.
	Name string `json:"name"`

	// reasons, all that apply.
	// +listType=atomic
	Reasons []string `json:"reasons"`
}
