package v1alpha1

// The comments of the conditions and reasons are the text of docs/reference/conditions.md: `make references` writes it.
// The one of a condition says what object has it, and the one of a reason which conditions it sets to which status,
// what it means, and what to do.

// Condition types of an LVMCluster.
const (
	// ConditionReady is a condition of an LVMCluster: its `state` is `Ready`. Every other state is a reason, and the
	// message has the problems of operands and of volume groups.
	ConditionReady = "Ready"
	// ConditionResourcesAvailable is a condition of an LVMCluster: every object that the operator creates for it is
	// applied and runs.
	ConditionResourcesAvailable = "ResourcesAvailable"
	// ConditionVolumeGroupsReady is a condition of an LVMCluster: every device class has its volume group on every node
	// that it selects.
	ConditionVolumeGroupsReady = "VolumeGroupsReady"
)

// Reasons of ResourcesAvailable.
const (
	// ReasonResourcesAvailable sets ResourcesAvailable to True: every operand is applied and runs.
	ReasonResourcesAvailable = "ResourcesAvailable"
	// ReasonResourcesSyncIncomplete sets ResourcesAvailable to False: an operand could not be applied, or the operator
	// lacks a permission. The message has each error.
	// What to do: resolve the errors in the message; the operator tries again automatically.
	ReasonResourcesSyncIncomplete = "ResourcesSyncIncomplete"
	// ReasonReconciliationInProgress sets ResourcesAvailable to False: every operand is applied, but not all of them
	// run yet. The message says what the operator waits for: Pods of the node agent, their registration with the
	// kubelet, or the last user of a device class that was removed.
	// What to do: wait; if it lasts for more than a few minutes, check the objects that the message names.
	ReasonReconciliationInProgress = "ReconciliationInProgress"
	// ReasonDeletionPending sets Ready, ResourcesAvailable to False: the LVMCluster is being deleted. The message names
	// what the deletion waits for.
	// What to do: wait, or delete the claims, volumes and snapshots that the message names.
	ReasonDeletionPending = "DeletionPending"
)

// Reasons of VolumeGroupsReady. If several apply, the worst is the reason: VGsFailed, VGsDegraded,
// VGReadinessInProgress. The message has the first ten problems, each with device class, node and cause.
const (
	// ReasonVGsReady sets VolumeGroupsReady to True: every device class has its volume group on every node that it
	// selects.
	ReasonVGsReady = "VGsReady"
	// ReasonVGsUnmanaged sets VolumeGroupsReady to True: the LVMCluster has no device class. The node agents list the
	// devices and change nothing; the message says how many nodes have done so.
	ReasonVGsUnmanaged = "VGsUnmanaged"
	// ReasonVGReadinessInProgress sets VolumeGroupsReady to False: a node has not reported its volume group yet or is
	// creating it, its devices must be approved (`approval: Required`), or the device class selects no node. The message names node and device class.
	// What to do: wait; if devices must be approved, review them and run `kubectl lvms approve`; if it selects no node,
	// correct the `nodeSelector`, the labels of the nodes, or `tolerations`.
	ReasonVGReadinessInProgress = "VGReadinessInProgress"
	// ReasonVGsFailed sets VolumeGroupsReady to False: a volume group could not be set up, or no node of a device class
	// has a device for it. The message names node, device class and cause.
	// What to do: as the message says; see the runbook LVMSVolumeGroupFailed.
	ReasonVGsFailed = "VGsFailed"
	// ReasonVGsDegraded sets VolumeGroupsReady to False: a volume group exists and serves its volumes, but something
	// is wrong with it. The message names node, device class and cause.
	// What to do: as the message says; see the runbook LVMSVolumeGroupDegraded.
	ReasonVGsDegraded = "VGsDegraded"
)

// ConditionSucceeded is a condition of an LVMRecovery: the recovery has ended. Its reason is the phase.
const ConditionSucceeded = "Succeeded"

// ConditionObjectsCreated is a condition of an LVMRecovery: with `action: ImportVolumes`, the operator has created the
// objects of the volumes in the approved plan.
const ConditionObjectsCreated = "ObjectsCreated"

// Reasons of ObjectsCreated.
const (
	// ReasonObjectsCreated sets ObjectsCreated to True: all objects exist, and the claims are bound or can be bound.
	ReasonObjectsCreated = "ObjectsCreated"
	// ReasonCreatingObjects sets ObjectsCreated to False: the operator creates the objects, or waits for the node
	// agent. What to do: wait.
	ReasonCreatingObjects = "CreatingObjects"
	// ReasonObjectsBlocked sets ObjectsCreated to False: objects of a volume cannot be created.
	// What to do: as the message says.
	ReasonObjectsBlocked = "ObjectsBlocked"
)

// ConditionDevicesObserved is a condition of an LVMVolumeGroupNodeStatus: the list of devices in its status is complete
// and current.
const ConditionDevicesObserved = "DevicesObserved"

// Reasons of DevicesObserved.
const (
	// ReasonDevicesObserved sets DevicesObserved to True: the list of devices is complete and current.
	ReasonDevicesObserved = "DevicesObserved"
	// ReasonObservationFailed sets DevicesObserved to False and DevicesHealthy, VolumesHealthy, ThinPoolHealthy,
	// RAIDHealthy to Unknown: the agent could not read the node, or the kernel does not answer. The status keeps what
	// was observed before.
	// What to do: see the message, the kernel's log of the node and the log of the agent, and the runbook
	// LVMSNodeNotObserved.
	ReasonObservationFailed = "ObservationFailed"
	// ReasonNotEvaluated sets DevicesHealthy, VolumesHealthy, ThinPoolHealthy, RAIDHealthy to Unknown: in the present
	// state of the volume group, for example while it is missing or being removed, the node agent does not look at what
	// the condition is about.
	// What to do: see the reason of the volume group in the node status.
	ReasonNotEvaluated = "NotEvaluated"
	// ReasonObservationOutdated sets DevicesObserved to Unknown: the agent has not observed the node for 30 minutes.
	// The operator sets it; the agent sets the condition to True when it observes the node again. The status keeps what
	// was observed before.
	// What to do: check the vg-manager Pod of the node and its log; see the runbook LVMSNodeNotObserved.
	ReasonObservationOutdated = "ObservationOutdated"
)

// Condition types of a volume group on a node. The reason of each one that is True is its type.
const (
	// ConditionDevicesHealthy is a condition of a volume group on a node: every device of the volume group is present
	// and answers.
	ConditionDevicesHealthy = "DevicesHealthy"
	// ConditionVolumesHealthy is a condition of a volume group on a node: every logical volume can be read and written.
	ConditionVolumesHealthy = "VolumesHealthy"
	// ConditionThinPoolHealthy is a condition of a volume group on a node: the thin pool accepts writes and can create
	// volumes. Only device classes with `thinPoolConfig` have it.
	ConditionThinPoolHealthy = "ThinPoolHealthy"
	// ConditionRAIDHealthy is a condition of a volume group on a node: every volume has its full redundancy. Only
	// device classes with `raidConfig` have it.
	ConditionRAIDHealthy = "RAIDHealthy"
)

// Reasons of the conditions of a volume group that are False. If several apply, the first in this order is the
// reason, and the message has all.
const (
	// ReasonDeviceMissing sets DevicesHealthy to False: a device of the volume group is not present, or LVM on the node
	// does not list it.
	// What to do: attach the device again; if the message names the action RestoreLabels or RestoreMetadata, use it; if
	// LVM does not list the device, run the `lvmdevices` command that the message has; if it is lost, see the runbook
	// LVMSDeviceMissing.
	ReasonDeviceMissing = "DeviceMissing"
	// ReasonDeviceFailing sets DevicesHealthy to False: a device returns errors or does not answer.
	// What to do: save the data and replace the device; see the runbook LVMSDeviceFailing.
	ReasonDeviceFailing = "DeviceFailing"
	// ReasonDeviceShrunk sets DevicesHealthy to False: a device is smaller than its physical volume, so data at its end
	// cannot be read. The volume group is not changed until the device has its former size.
	// What to do: make the device as large as it was; if it cannot be, save the data and replace the device.
	ReasonDeviceShrunk = "DeviceShrunk"
	// ReasonMetadataAreaFull sets DevicesHealthy to False: little space is left for LVM's metadata of the volume group.
	// The device class accepts no new volumes, snapshots and expansions on the node, so that volumes can be deleted.
	// What to do: delete volumes or snapshots that are not needed, or create volumes in another device class; see the
	// runbook LVMSVolumeGroupMetadataFull.
	ReasonMetadataAreaFull = "MetadataAreaFull"
	// ReasonDuplicatePV sets DevicesHealthy to False: two devices have the same physical volume, for example
	// cloned disks.
	// What to do: detach the copy that the message names.
	ReasonDuplicatePV = "DuplicatePV"
	// ReasonDuplicateVolumeGroup sets DevicesHealthy to False: another volume group on the node has the name of the
	// device class, in addition to its own volume group or while that one is missing. Neither is changed.
	// What to do: detach the disks of the volume group that does not belong there, rename it with `vgrename`, or
	// `adopt` it, as the message says.
	ReasonDuplicateVolumeGroup = "DuplicateVolumeGroup"
	// ReasonVolumesBroken sets VolumesHealthy to False: LVM reports logical volumes as broken, they use a device that
	// is no longer present, or the metadata of the volume group was replaced with that of an earlier time.
	// What to do: see the message and the kernel's log of the node; restore volumes that cannot be read from a backup.
	// If the message says that the metadata was replaced, create an LVMRecovery with `action: RestoreMetadata`.
	ReasonVolumesBroken = "VolumesBroken"
	// ReasonMetadataReplaced sets VolumesHealthy to False: the devices have earlier metadata of the volume group than
	// the node has seen, for example after `vgcfgrestore`. No volume is created, moved, erased or removed.
	// What to do: create an LVMRecovery with `action: RestoreMetadata`, which searches later metadata, or, if the
	// present metadata is right, one with `action: AcceptMetadata`.
	ReasonMetadataReplaced = "MetadataReplaced"
	// ReasonVolumesSuspended sets VolumesHealthy to False: I/O to logical volumes is suspended, and processes
	// that use them wait.
	// What to do: nothing, if it ends within a minute: the node agent resumes volumes that a killed LVM command left
	// suspended. Otherwise find out which process works on them, or run `dmsetup resume` on the node.
	ReasonVolumesSuspended = "VolumesSuspended"
	// ReasonThinPoolFailed sets ThinPoolHealthy to False: the thin pool returns errors, cannot be activated, is partly
	// on a missing disk, or is suspended.
	// What to do: see the kernel's log of the node for errors of its disks; create an LVMRecovery with the action that
	// the message names: RepairThinPool, or RestoreMetadata if the metadata does not match that of the volume group.
	ReasonThinPoolFailed = "ThinPoolFailed"
	// ReasonThinPoolNeedsCheck sets ThinPoolHealthy to False: the metadata of the thin pool is marked for a check.
	// What to do: create an LVMRecovery with the action RepairThinPool, as the message says.
	ReasonThinPoolNeedsCheck = "ThinPoolNeedsCheck"
	// ReasonThinPoolReadOnly sets ThinPoolHealthy to False: the metadata of the thin pool is read-only after an error,
	// and volumes cannot be written if they need a new block.
	// What to do: create an LVMRecovery with the action RepairThinPool, as the message says.
	ReasonThinPoolReadOnly = "ThinPoolReadOnly"
	// ReasonThinPoolOutOfData sets ThinPoolHealthy to False: the thin pool has no space left for data, and writes to
	// its volumes fail.
	// What to do: extend the pool, add a device to the device class, or free blocks with an LVMRecovery with the action
	// FreePoolSpace, as the message says; see the runbook LVMSThinPoolDataFull.
	ReasonThinPoolOutOfData = "ThinPoolOutOfData"
	// ReasonThinPoolOutOfMetadata sets ThinPoolHealthy to False: the thin pool has no space left for metadata.
	// What to do: create an LVMRecovery with the action RepairThinPool, as the message says; see the runbook
	// LVMSThinPoolMetadataFull.
	ReasonThinPoolOutOfMetadata = "ThinPoolOutOfMetadata"
	// ReasonThinPoolMisconfigured sets ThinPoolHealthy to False: a logical volume has the name of the thin pool but is
	// not a thin pool, the thin pool does not zero new blocks, or it ignores discards although `discards` is set.
	// What to do: remove or rename the logical volume, or run the `lvchange` command that the message has.
	ReasonThinPoolMisconfigured = "ThinPoolMisconfigured"
	// ReasonThinPoolCannotGrow sets ThinPoolHealthy to False: data or metadata of the thin pool must be extended, by
	// `autoExtend` or for `metadataSize`, but the volume group has no space for it or the maximum size is reached.
	// What to do: add a device to the device class, or delete volumes and snapshots.
	ReasonThinPoolCannotGrow = "ThinPoolCannotGrow"
	// ReasonRAIDFailed sets RAIDHealthy to False: a volume lost more devices than its level tolerates, and its data
	// cannot be read.
	// What to do: attach the devices again, or restore from a backup; see the runbook LVMSRAIDFailed.
	ReasonRAIDFailed = "RAIDFailed"
	// ReasonRAIDDegraded sets RAIDHealthy to False: a volume lacks a device, and does not tolerate the loss of another
	// one.
	// What to do: replace the device; see the runbook LVMSRAIDDegraded.
	ReasonRAIDDegraded = "RAIDDegraded"
	// ReasonRAIDSyncing sets RAIDHealthy to False: a volume is synchronizing, for the first time or again. Until it is
	// done, the volume does not tolerate the loss of every device.
	// What to do: wait.
	ReasonRAIDSyncing = "RAIDSyncing"
)

// ReasonNotObserved sets Ready, ResourcesAvailable, VolumeGroupsReady to Unknown: nothing has been observed yet.
// What to do: wait; if it lasts, see the log of the operator.
const ReasonNotObserved = "NotObserved"
