package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LVMRecovery is one action that makes a device class of a node usable again after a failure. The node agent plans it,
// and lists what is lost. It performs the action when the plan is approved. It performs one recovery of a device class
// at a time, the oldest first.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=lvmrecoveries,shortName=lvmrec
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Device class",type=string,JSONPath=`.spec.deviceClassName`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Lost",type=integer,JSONPath=`.status.plan.lostVolumeCount`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.status.plan.id`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LVMRecovery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LVMRecoverySpec   `json:"spec"`
	Status LVMRecoveryStatus `json:"status,omitempty"`
}

// LVMRecoveryList is a list of LVMRecoveries.
//
// +kubebuilder:object:root=true
type LVMRecoveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LVMRecovery `json:"items"`
}

// RecoveryAction is what a recovery does.
type RecoveryAction string

// The actions. The field action of LVMRecoverySpec says what each does.
const (
	RecoveryRemoveLostDevices RecoveryAction = "RemoveLostDevices"
	RecoveryRepairThinPool    RecoveryAction = "RepairThinPool"
	RecoveryRestoreLabels     RecoveryAction = "RestoreLabels"
	RecoveryRestoreMetadata   RecoveryAction = "RestoreMetadata"
	RecoveryFreePoolSpace     RecoveryAction = "FreePoolSpace"
	RecoveryDeleteOrphans     RecoveryAction = "DeleteOrphans"
	RecoveryImportVolumes     RecoveryAction = "ImportVolumes"
	RecoveryCheckFileSystems  RecoveryAction = "CheckFileSystems"
	RecoveryAcceptMetadata    RecoveryAction = "AcceptMetadata"
)

// LVMRecoverySpec is the requested action.
//
// +kubebuilder:validation:XValidation:rule="has(self.volumes) ? self.action in ['DeleteOrphans', 'ImportVolumes', 'CheckFileSystems'] : !(self.action in ['DeleteOrphans', 'CheckFileSystems'])",message="volumes is required for DeleteOrphans and CheckFileSystems, optional for ImportVolumes, and not allowed for other actions"
// +kubebuilder:validation:XValidation:rule="!has(self.claims) || self.action == 'ImportVolumes'",message="claims is allowed for ImportVolumes only"
// +kubebuilder:validation:XValidation:rule="has(self.volumes) == has(oldSelf.volumes) && has(self.claims) == has(oldSelf.claims)",message="volumes and claims cannot be changed: create another LVMRecovery"
type LVMRecoverySpec struct {
	// nodeName is the node with the volume group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeName cannot be changed: create another LVMRecovery"
	NodeName string `json:"nodeName"`

	// deviceClassName is the device class, and so the volume group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deviceClassName cannot be changed: create another LVMRecovery"
	DeviceClassName string `json:"deviceClassName"`

	// action is what is done. RemoveLostDevices removes the missing devices from the volume group, with the volumes
	// that cannot be read without them. RepairThinPool checks the metadata of the thin pool and repairs it; no Pod can
	// use volumes of the pool meanwhile. RestoreLabels writes the labels of attached devices again after they were
	// overwritten, for example by wipefs; volumes can be in use meanwhile. FreePoolSpace trims the mounted file systems
	// of the volumes of the thin pool while Pods use them, so that the pool gets back the blocks of deleted files.
	// RestoreMetadata restores a volume group without thin pools that was deleted with LVM commands, or earlier
	// metadata of a volume group whose metadata does not match its thin pool or lacks volumes; no Pod can use volumes
	// of the group meanwhile. DeleteOrphans deletes the logical volumes in volumes, which no object of the cluster
	// refers to. ImportVolumes creates the LogicalVolume, PersistentVolume and PersistentVolumeClaim of logical volumes
	// that have none, and moves those of volumes whose disks came from another node; no volume is changed.
	// CheckFileSystems checks and repairs the file systems of the volumes in volumes, which no Pod uses. AcceptMetadata
	// uses the present metadata of a volume group of which the node has seen a later change; no volume is changed.
	// +kubebuilder:validation:Enum=RemoveLostDevices;RepairThinPool;RestoreLabels;RestoreMetadata;FreePoolSpace;DeleteOrphans;ImportVolumes;CheckFileSystems;AcceptMetadata
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="action cannot be changed: create another LVMRecovery"
	Action RecoveryAction `json:"action"`

	// volumes are the names of the logical volumes that DeleteOrphans deletes, that ImportVolumes imports, or whose
	// file systems CheckFileSystems checks, without the volume group, at most 1000. The status of the node lists the
	// orphans. It is required for DeleteOrphans and CheckFileSystems. Without it, ImportVolumes imports all volumes of
	// the volume group whose tags name a claim.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=127
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumes cannot be changed: create another LVMRecovery"
	Volumes []string `json:"volumes,omitempty"`

	// claims name the claims for volumes that ImportVolumes imports. They are required for volumes whose tags name no
	// claim, and replace the claim in the tags of other volumes.
	// +listType=map
	// +listMapKey=volume
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="claims cannot be changed: create another LVMRecovery"
	Claims []RecoveryClaim `json:"claims,omitempty"`

	// approvedPlan is the ID of the plan in status.plan.id that is approved, with the loss of the volumes that it
	// lists. Nothing is changed without it. If more than the approved plan lists would be lost, the node agent makes a
	// new plan, which must be approved again.
	// +kubebuilder:validation:MaxLength=64
	ApprovedPlan string `json:"approvedPlan,omitempty"`
}

// RecoveryClaim is the claim for a volume that is imported.
type RecoveryClaim struct {
	// volume is the name of the logical volume, without the volume group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=127
	Volume string `json:"volume"`

	// namespace is the namespace of the claim. It must exist.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`

	// name is the name of the claim. If the claim exists, it must be unbound.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// RecoveryPhase is the progress of a recovery.
type RecoveryPhase string

const (
	// RecoveryNotApplicable sets Succeeded to False: there is nothing to recover at the moment, or the action cannot
	// help.
	// What to do: as the message says, or delete the LVMRecovery.
	RecoveryNotApplicable RecoveryPhase = "NotApplicable"
	// RecoveryPreparing sets Succeeded to False: the node agent reads what the plan depends on, the metadata of the
	// thin pool or file systems, or waits until nothing uses the volumes. What to do: wait, or as the message says.
	RecoveryPreparing RecoveryPhase = "Preparing"
	// RecoveryAwaitingApproval sets Succeeded to False: the plan must be approved.
	// What to do: check what `status.plan` lists, and set `spec.approvedPlan` to its ID, or delete the LVMRecovery.
	RecoveryAwaitingApproval RecoveryPhase = "AwaitingApproval"
	// RecoveryRunning sets Succeeded to False: the node agent performs the approved plan, or waits.
	// What to do: wait, or as the message says.
	RecoveryRunning RecoveryPhase = "Running"
	// RecoverySucceeded sets Succeeded to True: the recovery has ended, and the LVMRecovery no longer has an effect.
	// What to do: delete the claims of the lost volumes, and restore their data from a backup.
	RecoverySucceeded RecoveryPhase = "Succeeded"
)

// MaxLostVolumes is the maximum number of volumes in a plan.
const MaxLostVolumes = 1000

// LVMRecoveryStatus is the state of a recovery. The node agent writes it.
type LVMRecoveryStatus struct {
	// phase is the progress: NotApplicable, Preparing, AwaitingApproval, Running or Succeeded.
	Phase RecoveryPhase `json:"phase,omitempty"`

	// message says what happens, what the recovery waits for, or what to do.
	Message string `json:"message,omitempty"`

	// plan is what the recovery changes, and what is lost.
	Plan *RecoveryPlan `json:"plan,omitempty"`

	// startTime is when the node agent started to perform the approved plan.
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the recovery ended. It is also set if CheckFileSystems found no errors.
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// freedBytes is how much less data the thin pool has after FreePoolSpace, in bytes. Writes of Pods in the meantime
	// count too. LVM reports the usage with a precision of 0.01% of the pool.
	FreedBytes *int64 `json:"freedBytes,omitempty"`

	// conditions has Succeeded, with the phase as its reason, and for ImportVolumes also ObjectsCreated, which the
	// operator sets.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ThinPoolRepair is how a thin pool is repaired.
type ThinPoolRepair string

// The repairs. The field repair of RecoveryPlan says what each does.
const (
	RepairClearCheck ThinPoolRepair = "ClearCheckFlag"
	RepairRebuild    ThinPoolRepair = "RebuildMetadata"
	RepairExtend     ThinPoolRepair = "ExtendMetadata"
)

// RecoveryPlan is what a recovery changes, and what is lost.
type RecoveryPlan struct {
	// id identifies the plan. Another loss, or the same loss after the devices were attached in the meantime, has
	// another plan.
	ID string `json:"id"`

	// creationTime is when the node agent made the plan.
	CreationTime metav1.Time `json:"creationTime"`

	// volumeGroupUUID is the UUID of the volume group. It is empty if none of its devices is present.
	VolumeGroupUUID string `json:"volumeGroupUUID,omitempty"`

	// devices are the missing devices that RemoveLostDevices removes from the volume group, those whose labels
	// RestoreLabels writes, or those of the volume group that RestoreMetadata restores.
	// +listType=map
	// +listMapKey=uuid
	Devices []RecoveryDevice `json:"devices"`

	// failingDevices are devices that stay in the volume group although they return errors or do not answer. To move
	// the data of such a device away, request its removal after RemoveLostDevices has ended.
	// +listType=map
	// +listMapKey=uuid
	FailingDevices []RecoveryDevice `json:"failingDevices,omitempty"`

	// repair is how RepairThinPool repairs the pool. ClearCheckFlag: its metadata is valid, and the flag that requires
	// a check is cleared. RebuildMetadata: the metadata is damaged, and is written again from what can be read.
	// ExtendMetadata: the metadata is full, and is extended.
	Repair ThinPoolRepair `json:"repair,omitempty"`

	// metadataSource is where RestoreLabels gets the metadata of the volume group from: its other devices, or the
	// backup that LVM keeps on the node. For RestoreMetadata, it is the file in LVM's archive or backup on the node.
	MetadataSource string `json:"metadataSource,omitempty"`

	// replacesMetadata is true if RestoreMetadata replaces the metadata of a volume group that exists.
	ReplacesMetadata bool `json:"replacesMetadata,omitempty"`

	// thinPools are the thin pools that RemoveLostDevices removes with all their volumes, or the one that
	// RepairThinPool repairs, in which FreePoolSpace frees blocks, or whose volume group RestoreMetadata restores.
	// +listType=atomic
	ThinPools []RecoveryVolume `json:"thinPools,omitempty"`

	// lostVolumes are the volumes and snapshots that are lost, at most 1000.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	LostVolumes []RecoveryVolume `json:"lostVolumes,omitempty"`

	// damagedVolumes are the volumes and snapshots that are kept but lose some of their blocks, at most 1000. The lost
	// blocks read as zeros. For RestoreMetadata, they read as other data, and finding says why.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	DamagedVolumes []RecoveryVolume `json:"damagedVolumes,omitempty"`

	// extensibleBytes is by how many bytes the thin pool can be extended from the free space of the volume group.
	// FreePoolSpace does not extend it.
	ExtensibleBytes int64 `json:"extensibleBytes,omitempty"`

	// mountedVolumes are the volumes whose mounted file systems FreePoolSpace trims, at most 1000: those with the most
	// bytes that may be freed (allocatedBytes - usedBytes).
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	MountedVolumes []RecoveryVolume `json:"mountedVolumes,omitempty"`

	// mountedVolumeCount is the number of volumes of the thin pool with a mounted file system.
	MountedVolumeCount int32 `json:"mountedVolumeCount,omitempty"`

	// importedVolumes are the volumes that ImportVolumes imports, at most 1000, with their claims. fromNode is set for
	// volumes whose objects are moved from another node.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	ImportedVolumes []RecoveryVolume `json:"importedVolumes,omitempty"`

	// checkedVolumes are the volumes whose file systems CheckFileSystems checks, at most 1000, with what a check that
	// changes nothing has found. Those with errors are repaired after the approval.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	CheckedVolumes []RecoveryVolume `json:"checkedVolumes,omitempty"`

	// lostVolumeCount is the number of volumes and snapshots that are lost.
	LostVolumeCount int32 `json:"lostVolumeCount"`

	// keptVolumeCount is the number of volumes and snapshots of the volume group that are kept, damaged ones included.
	KeptVolumeCount int32 `json:"keptVolumeCount"`
}

// RecoveryDevice is a physical volume that is missing.
type RecoveryDevice struct {
	// uuid is the UUID of the physical volume.
	UUID string `json:"uuid"`
	// name is the last known name of the device.
	Name string `json:"name,omitempty"`
	// deviceID is the last known stable identity of the device.
	DeviceID string `json:"deviceID,omitempty"`
}

// RecoveryVolume is a logical volume.
type RecoveryVolume struct {
	// name is the name of the logical volume.
	Name string `json:"name"`
	// uuid is the UUID of the logical volume. It is empty if LVM does not list the volume.
	UUID string `json:"uuid,omitempty"`
	// size is the size in bytes.
	Size int64 `json:"size,omitempty"`
	// lostBytes is the size in bytes of the blocks that a damaged volume loses.
	LostBytes int64 `json:"lostBytes,omitempty"`
	// allocatedBytes is how much data of the thin pool a volume uses (FreePoolSpace), or the used data of the pool when
	// FreePoolSpace starts. Blocks that a volume shares with snapshots count for each of them.
	AllocatedBytes int64 `json:"allocatedBytes,omitempty"`
	// usedBytes is what the mounted file system of the volume uses (FreePoolSpace). It is not set if the file system
	// does not respond.
	UsedBytes int64 `json:"usedBytes,omitempty"`
	// claim is the PersistentVolumeClaim of the volume, as namespace/name.
	Claim string `json:"claim,omitempty"`
	// persistentVolume is the name of the PersistentVolume and of the LogicalVolume that ImportVolumes creates or
	// moves.
	PersistentVolume string `json:"persistentVolume,omitempty"`
	// fromNode is the node from which the objects of the volume are moved (ImportVolumes).
	FromNode string `json:"fromNode,omitempty"`
	// fsType is the file system of the volume (ImportVolumes, CheckFileSystems). ImportVolumes imports a volume without
	// one as a block volume.
	FSType string `json:"fsType,omitempty"`
	// created is when the logical volume was created (ImportVolumes).
	Created *metav1.Time `json:"created,omitempty"`
	// lastMountTime is when the ext4 file system of the volume was mounted last (ImportVolumes). XFS does not record
	// it.
	LastMountTime *metav1.Time `json:"lastMountTime,omitempty"`
	// finding is what a check of the file system that changes nothing has found (CheckFileSystems): "no errors", or the
	// first errors. After the repair, it is what a check has found then. For RestoreMetadata, it is why a volume is
	// damaged.
	Finding string `json:"finding,omitempty"`
}
