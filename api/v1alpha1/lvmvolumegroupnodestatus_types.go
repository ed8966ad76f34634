package v1alpha1

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LVMVolumeGroupNodeStatus is what the node agent of one node observes. It has the name of its node.
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

	Spec   LVMVolumeGroupNodeStatusSpec   `json:"spec,omitempty"`
	Status LVMVolumeGroupNodeStatusStatus `json:"status,omitempty"`
}

// LVMVolumeGroupNodeStatusSpec has the labels of the node's devices, and a copy of a part of the status.
type LVMVolumeGroupNodeStatusSpec struct {
	// deviceLabels are labels of devices of this node, which a deviceSelector can require. An administrator writes
	// them, for example with `kubectl lvms label`.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=256
	DeviceLabels []DeviceLabels `json:"deviceLabels,omitempty"`

	// nodeStatus is a copy of status.nodeStatus, sorted by name, in the place and with the fields in which upstream
	// LVMS has it, for scripts that read it. The operator writes it shortly after the status has changed. Nothing in
	// the product reads it; use the status.
	// +listType=map
	// +listMapKey=name
	NodeStatus []VGSummary `json:"nodeStatus,omitempty"`
}

// DeviceLabels are the labels of a device.
type DeviceLabels struct {
	// id is the stable identity of the device, as in status.devices. An identity that is the content of the device
	// (pv:, fs:) is not possible, because it changes when the device is used.
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('pv:') && !self.startsWith('fs:')",message="must be an identity of the device that does not depend on its content: use the id of status.devices, which must not begin with pv: or fs:"
	ID string `json:"id"`

	// labels are the labels of the device, with the syntax of labels of Kubernetes objects.
	Labels DeviceLabelSet `json:"labels"`
}

// DeviceLabelSet are labels of a device, by key.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=16
// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317 && key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$'))",message="a key must be a key of a label of Kubernetes, for example tier or example.com/tier: at most 63 letters, digits, '-', '_' and '.', with a letter or digit first and last, and an optional DNS prefix"
type DeviceLabelSet map[string]DeviceLabelValue

// DeviceLabelValue is the value of a label of a device.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type DeviceLabelValue string

// VGSummary is the state of a volume group on a node, with the fields of upstream LVMS.
type VGSummary struct {
	// name is the name of the device class and of its volume group.
	Name string `json:"name"`

	// status is the state: Progressing, Ready, Failed, Degraded or Removed.
	Status VGState `json:"status,omitempty"`

	// reason says what is wrong and what to do, for every status except Ready.
	Reason string `json:"reason,omitempty"`

	// devices is the sorted list of the physical volumes of the volume group.
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`

	// excluded are the devices of the node that the volume group does not use, each with all reasons.
	// +listType=atomic
	Excluded []ExcludedDevice `json:"excluded,omitempty"`

	// deviceDiscoveryPolicy is how devices are found: Preconfigured by paths in the deviceSelector, RuntimeDynamic also
	// when they appear later, or RuntimeStatic only when the volume group is created.
	// +kubebuilder:validation:Enum=RuntimeStatic;RuntimeDynamic;Preconfigured
	DeviceDiscoveryPolicy string `json:"deviceDiscoveryPolicy,omitempty"`

	// raidStatus is the state of redundancy of a device class with raidConfig.
	RAIDStatus *RAIDStatus `json:"raidStatus,omitempty"`
}

// The values of deviceDiscoveryPolicy in a VGSummary.
const (
	DiscoveryRuntimeStatic  = "RuntimeStatic"
	DiscoveryRuntimeDynamic = "RuntimeDynamic"
	DiscoveryPreconfigured  = "Preconfigured"
)

// LVMVolumeGroupNodeStatusList is a list of LVMVolumeGroupNodeStatuses.
//
// +kubebuilder:object:root=true
type LVMVolumeGroupNodeStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMVolumeGroupNodeStatus `json:"items"`
}

// LVMVolumeGroupNodeStatusStatus contains the devices and the volume groups of a node.
type LVMVolumeGroupNodeStatusStatus struct {
	// conditions contains the condition DevicesObserved.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// lastObserved is the time when the node agent last read the devices and volume groups of the node. It is updated
	// with each change of devices or conditions, and otherwise every 10 minutes. If it is older than 30 minutes, this
	// status is considered stale.
	LastObserved *metav1.Time `json:"lastObserved,omitempty"`

	// lvm is the LVM that the node agent uses on this node.
	LVM *NodeLVM `json:"lvm,omitempty"`

	// agentCertificate is the certificate with which the node agent authenticates itself to the operator.
	AgentCertificate *AgentCertificate `json:"agentCertificate,omitempty"`

	// devices are all block devices of the node, used or unused, sorted by name. Logical volumes are not listed.
	// +listType=atomic
	Devices []DeviceStatus `json:"devices,omitempty"`

	// devicesOmitted is the number of devices that are not listed because the list would be too long. Devices that can
	// be used, that a device class uses, or that have failed are always listed.
	DevicesOmitted int32 `json:"devicesOmitted,omitempty"`

	// nodeStatus is the state of the volume group of each device class on this node, sorted by name. As long as a
	// device class has an entry here, its LVMVolumeGroup is not removed.
	// +listType=map
	// +listMapKey=name
	NodeStatus []VGStatus `json:"nodeStatus,omitempty"`
}

// LVMSource is whose LVM a node agent uses.
// +kubebuilder:validation:Enum=Host;Image
type LVMSource string

// The sources of LVM. Host: the host's. Image: that of the node agent's image, because the host has none.
const (
	LVMSourceHost  LVMSource = "Host"
	LVMSourceImage LVMSource = "Image"
)

// NodeLVM describes LVM of a node.
type NodeLVM struct {
	// source is Host if the node agent uses LVM of the host, or Image if the host has no LVM, so that the node agent
	// uses LVM, dmsetup and the thin-provisioning tools of its image. The node agent decides this when it starts.
	Source LVMSource `json:"source"`

	// version is the version of LVM when the node agent started, for example "2.03.16(2) (2022-05-18)".
	Version string `json:"version,omitempty"`
}

// AgentCertificate is the certificate of a node agent, and its request for it. The node agent writes the request, and
// the operator the other fields.
type AgentCertificate struct {
	// request is the certificate signing request of the node agent (PKCS #10, PEM). The private key is only in the
	// memory of the node agent.
	// +kubebuilder:validation:MaxLength=4096
	Request string `json:"request,omitempty"`

	// certificate is the certificate that the operator issued (PEM). It is valid for 48 hours.
	// +kubebuilder:validation:MaxLength=4096
	Certificate string `json:"certificate,omitempty"`

	// authorities are the certificate authorities that the node agent trusts (PEM).
	// +kubebuilder:validation:MaxLength=16384
	Authorities string `json:"authorities,omitempty"`

	// message says why the operator refuses the request. It is empty if it does not.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ObservationLimit is how old lastObserved may be for the status to be relied on.
const ObservationLimit = 30 * time.Minute

// IsStale tells whether the node agent has not looked at its node for longer than ObservationLimit. A status without
// lastObserved, as agents before version 0.2 write it, is not stale.
func (s *LVMVolumeGroupNodeStatusStatus) IsStale(now time.Time) bool {
	return s.LastObserved != nil && now.Sub(s.LastObserved.Time) > ObservationLimit
}

// VGState is the state of a volume group.
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

// OrphanKind is the kind of an orphan.
// +kubebuilder:validation:Enum=LogicalVolume;Object;Unclaimed;OtherNode
type OrphanKind string

// The kinds of orphans. LogicalVolume: LVM has it, and no object asks for it. Object: a LogicalVolume object says that
// it was made, and LVM does not have it. Unclaimed: both are there, and no PersistentVolume, no snapshot and no claim
// knows them. OtherNode: LVM has it on this node, and its LogicalVolume object names another node, which does not have
// it; for example after etcd was restored from a backup that is older than a VolumeMove.
const (
	OrphanLogicalVolume OrphanKind = "LogicalVolume"
	OrphanObject        OrphanKind = "Object"
	OrphanUnclaimed     OrphanKind = "Unclaimed"
	OrphanOtherNode     OrphanKind = "OtherNode"
)

// OrphanStatus is a logical volume without an object or with an object that names another node, an object without a
// logical volume, or a volume that nothing claims.
type OrphanStatus struct {
	// kind is LogicalVolume or Object if only that exists, Unclaimed if both exist and nothing claims them, or
	// OtherNode if the object names a node that does not have the logical volume.
	Kind OrphanKind `json:"kind"`

	// name is the name of the logical volume or of the object.
	Name string `json:"name"`

	// size is the size of the logical volume, or the size in the object.
	Size *resource.Quantity `json:"size,omitempty"`

	// created is the time when the logical volume or the object was created.
	Created *metav1.Time `json:"created,omitempty"`

	// claim is the claim that it was created for, as NAMESPACE/NAME, if known.
	Claim string `json:"claim,omitempty"`

	// object is the LogicalVolume object of an orphan of the kind OtherNode.
	Object string `json:"object,omitempty"`

	// objectNode is the node that this object names. It does not have the logical volume.
	ObjectNode string `json:"objectNode,omitempty"`

	// removalTime is when the node agent removes the logical volume, if deletedVolumeRetention is set and the object
	// was deleted while the Node did not exist.
	RemovalTime *metav1.Time `json:"removalTime,omitempty"`
}

// VGStatus is the state of a volume group on a node.
type VGStatus struct {
	// name is the name of the device class and, without volumeGroup, of its volume group.
	Name string `json:"name"`

	// volumeGroup is the name of the volume group, if an administrator created it (existingVolumeGroup).
	VolumeGroup string `json:"volumeGroup,omitempty"`

	// status is the state: Progressing, Ready, Failed, Degraded or Removed.
	Status VGState `json:"status,omitempty"`

	// reason says what is wrong and what to do, for every status except Ready. With status Ready, it says why the node
	// needs no volume group; then there are no devices and no size.
	Reason string `json:"reason,omitempty"`

	// observedGeneration is the generation of the LVMVolumeGroup that this status reflects.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// uuid is the UUID of the volume group.
	UUID string `json:"uuid,omitempty"`

	// seqno is the highest change of the metadata of the volume group that was seen on the node, or a recent one. LVM
	// counts the changes. If the devices have a lower one, earlier metadata was restored.
	// +kubebuilder:validation:Minimum=0
	Seqno int64 `json:"seqno,omitempty"`

	// conditions describe the health of the volume group: DevicesHealthy, VolumesHealthy, and ThinPoolHealthy or
	// RAIDHealthy. Each message names node, device class, device, and the volumes at risk.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// devices is the sorted list of the physical volumes of the volume group.
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`

	// physicalVolumes is the state of each physical volume, sorted by UUID.
	// +listType=map
	// +listMapKey=uuid
	PhysicalVolumes []PhysicalVolumeStatus `json:"physicalVolumes,omitempty"`

	// wipedDevices are the devices that were wiped for the volume group, sorted by id.
	// +listType=map
	// +listMapKey=id
	WipedDevices []WipedDevice `json:"wipedDevices,omitempty"`

	// excluded are the devices of the node that the volume group does not use, sorted, each with all reasons.
	// +listType=atomic
	Excluded []ExcludedDevice `json:"excluded,omitempty"`

	// orphans are logical volumes without a LogicalVolume object, LogicalVolume objects without a logical volume, and
	// volumes that no PersistentVolume, snapshot or claim refers to. The list is sorted and has at most 32 entries. An
	// administrator must remove orphans. Only one with a removalTime is removed by the node agent.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Orphans []OrphanStatus `json:"orphans,omitempty"`

	// orphanCount is the number of orphans.
	OrphanCount int32 `json:"orphanCount,omitempty"`

	// size is the size of the volume group.
	Size *resource.Quantity `json:"size,omitempty"`

	// free is the free space of the volume group. A thin pool counts as used space.
	Free *resource.Quantity `json:"free,omitempty"`

	// metadataArea is the space for LVM's metadata of the volume group. If little is left, the device class accepts no
	// new volumes, snapshots and expansions, so that volumes can still be deleted.
	MetadataArea *MetadataAreaStatus `json:"metadataArea,omitempty"`

	// thinPool is the state of the thin pool of a thin device class.
	ThinPool *ThinPoolStatus `json:"thinPool,omitempty"`

	// raidStatus is the state of redundancy of a device class with raidConfig.
	RAIDStatus *RAIDStatus `json:"raidStatus,omitempty"`
}

// MetadataAreaStatus is the space for LVM's metadata of a volume group. It is not the metadata of a thin pool.
type MetadataAreaStatus struct {
	// size is the size of the smallest metadata area of the physical volumes (vg_mda_size). LVM can use at most half
	// of it. The size of an area cannot be changed.
	Size resource.Quantity `json:"size"`

	// free is how much LVM's metadata of the volume group can grow (vg_mda_free). A volume takes about 600 bytes, and
	// one with redundancy up to 2500.
	Free resource.Quantity `json:"free"`
}

// Group returns the name of the volume group.
func (s *VGStatus) Group() string { return cmp.Or(s.VolumeGroup, s.Name) }

// PhysicalVolumeState is the state of a physical volume.
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

// PhysicalVolumeStatus is the state of a physical volume of a volume group.
type PhysicalVolumeStatus struct {
	// uuid is the UUID of the physical volume, which is stored on the device.
	UUID string `json:"uuid"`

	// name is the name of the device, or the last known name of a missing device.
	Name string `json:"name,omitempty"`

	// deviceID is the stable identity of the device.
	DeviceID string `json:"deviceID,omitempty"`

	// path is the path in the deviceSelector that selected the device.
	Path string `json:"path,omitempty"`

	// requestedAs is the name in deviceRequests by which the device is requested. The request stays in force if the
	// name or the identity of the device changes, and means no other device that gets this name.
	RequestedAs string `json:"requestedAs,omitempty"`

	// size is the size that the volume group can use on the device.
	Size *resource.Quantity `json:"size,omitempty"`

	// free is the free space on the device.
	Free *resource.Quantity `json:"free,omitempty"`

	// state is the state: Ready, Cordoned, Draining, Drained, Blocked, Missing or Failing.
	State PhysicalVolumeState `json:"state"`

	// suspended is true if new Pods do not get the volumes that have data on the device (deviceRequests).
	Suspended bool `json:"suspended,omitempty"`

	// movedPercent is the percentage of the data that was moved to other devices while the device is being drained.
	MovedPercent *int32 `json:"movedPercent,omitempty"`

	// message says what is wrong, or what is in progress.
	Message string `json:"message,omitempty"`
}

// WipedDevice is the record of a wipe.
type WipedDevice struct {
	// id is the stable identity of the device.
	ID string `json:"id"`

	// names are the other identities and the links of the device at the time of the wipe. A device with one of them is
	// not wiped again for the device class.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Names []string `json:"names,omitempty"`

	// volumeGroups are the UUIDs of the volume groups that the wipe destroyed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	VolumeGroups []string `json:"volumeGroups,omitempty"`

	// name is the path that named the device at the time of the wipe.
	Name string `json:"name"`

	// found lists the content that was on the device.
	// +listType=atomic
	Found []string `json:"found,omitempty"`

	// backup is the directory on the node with a copy of what was overwritten.
	Backup string `json:"backup,omitempty"`

	// time is the time at which the wipe began.
	Time metav1.Time `json:"time"`
}

// RAIDState is the state of redundancy.
type RAIDState string

// The states of redundancy.
const (
	RAIDHealthy  RAIDState = "Healthy"
	RAIDDegraded RAIDState = "Degraded"
	RAIDFailed   RAIDState = "Failed"
)

// RAIDStatus is the state of redundancy of the volumes of a device class.
type RAIDStatus struct {
	// status is Healthy; Degraded if a volume lacks a device or is not in sync; or Failed if the data of a volume can
	// no longer be read.
	Status RAIDState `json:"status"`

	// memberCount is the number of physical volumes of the volume group.
	MemberCount int32 `json:"memberCount"`

	// degradedMemberCount is the number of physical volumes that are missing or failing.
	DegradedMemberCount int32 `json:"degradedMemberCount"`

	// minSyncPercent is the lowest sync percentage of all volumes, rounded down.
	MinSyncPercent *int32 `json:"minSyncPercent,omitempty"`

	// lvHealth lists the volumes that are not healthy, sorted by name; at most 32.
	// +listType=map
	// +listMapKey=name
	LVHealth []LVHealth `json:"lvHealth,omitempty"`
}

// LVHealth is the state of redundancy of one logical volume.
type LVHealth struct {
	// name is the name of the logical volume.
	Name string `json:"name"`

	// raidType is the RAID level: raid1, raid5, …
	RAIDType string `json:"raidType"`

	// syncPercent is the sync percentage, rounded down.
	SyncPercent *int32 `json:"syncPercent,omitempty"`

	// healthStatus is the health status that LVM reports (lv_health_status). It is empty for a healthy volume.
	HealthStatus string `json:"healthStatus,omitempty"`
}

// ThinPoolStatus is the state of a thin pool on a node.
type ThinPoolStatus struct {
	// name is the name of the thin pool.
	Name string `json:"name"`

	// size is the size of the data of the thin pool.
	Size resource.Quantity `json:"size"`

	// metadataSize is the size of the metadata of the thin pool.
	MetadataSize resource.Quantity `json:"metadataSize"`

	// chunkSize is the unit in which the thin pool allocates space to its volumes.
	ChunkSize *resource.Quantity `json:"chunkSize,omitempty"`

	// dataPercent is the percentage of data in use, rounded up.
	DataPercent int32 `json:"dataPercent"`

	// metadataPercent is the percentage of metadata in use, rounded up.
	MetadataPercent int32 `json:"metadataPercent"`

	// free is the free space of the data of the thin pool.
	Free *resource.Quantity `json:"free,omitempty"`

	// virtualSize is the total virtual size of the volumes of the thin pool.
	VirtualSize *resource.Quantity `json:"virtualSize,omitempty"`

	// virtualFree is the total virtual size that new volumes can have: overprovisionRatio times the size of the thin
	// pool, without virtualSize.
	VirtualFree *resource.Quantity `json:"virtualFree,omitempty"`

	// copyFree is how much data can be copied to the thin pool, by moves, restores and clones from other nodes and
	// device classes. Copies stop 5 percentage points below highWaterMarkPercent, so that they do not fill the thin
	// pool. If autoExtend is set, the free space of the volume group counts. It is 0 if copies have to wait.
	CopyFree *resource.Quantity `json:"copyFree,omitempty"`
}

// ExcludedDevice is a device that a volume group does not use.
type ExcludedDevice struct {
	// name is the kernel's name of the device, or the path in the deviceSelector.
	Name string `json:"name"`

	// reasons are all reasons why the device is not used.
	// +listType=atomic
	Reasons []string `json:"reasons"`
}
