package v1alpha1

// Condition types of an LVMCluster.
const (
	// ConditionReady tells whether state is Ready; its reason is the state, or ReasonDeletionPending; its message has
	// what is wrong.
	ConditionReady = "Ready"
	// ConditionResourcesAvailable tells whether every operand of the LVMCluster is applied as wanted.
	ConditionResourcesAvailable = "ResourcesAvailable"
	// ConditionVolumeGroupsReady tells whether each device class has its volume group on every node it selects.
	ConditionVolumeGroupsReady = "VolumeGroupsReady"
)

// Reasons of ResourcesAvailable.
const (
	// ReasonResourcesAvailable: every operand is applied.
	ReasonResourcesAvailable = "ResourcesAvailable"
	// ReasonResourcesSyncIncomplete: an operand could not be applied; the message has each error.
	ReasonResourcesSyncIncomplete = "ResourcesSyncIncomplete"
	// ReasonReconciliationInProgress: operands are applied but not all of them run yet.
	ReasonReconciliationInProgress = "ReconciliationInProgress"
	// ReasonDeletionPending: the LVMCluster is being deleted and waits; the message names what it waits for.
	ReasonDeletionPending = "DeletionPending"
)

// Reasons of VolumeGroupsReady.
const (
	// ReasonVGsReady: every volume group is ready.
	ReasonVGsReady = "VGsReady"
	// ReasonVGsUnmanaged: the LVMCluster has no device class.
	ReasonVGsUnmanaged = "VGsUnmanaged"
	// ReasonVGReadinessInProgress: a node has not reported its volume group yet; the message names node and class.
	ReasonVGReadinessInProgress = "VGReadinessInProgress"
	// ReasonVGsFailed: a volume group could not be set up; the message names node, class and cause.
	ReasonVGsFailed = "VGsFailed"
	// ReasonVGsDegraded: a volume group exists but something about it is wrong; the message names node, class and
	// cause.
	ReasonVGsDegraded = "VGsDegraded"
)

// ConditionDevicesObserved tells, in a node status, whether the list of devices is what is there.
const ConditionDevicesObserved = "DevicesObserved"

// Reasons of DevicesObserved.
const (
	// ReasonDevicesObserved: the list is complete and true.
	ReasonDevicesObserved = "DevicesObserved"
	// ReasonObservationFailed: the node could not be looked at; what stands in the list is what was seen before.
	ReasonObservationFailed = "ObservationFailed"
)

// Condition types of a volume group on a node. The reason of each one that is True is its type.
const (
	// ConditionDevicesHealthy tells whether every device of the group is there and answers.
	ConditionDevicesHealthy = "DevicesHealthy"
	// ConditionVolumesHealthy tells whether every logical volume can be read and written.
	ConditionVolumesHealthy = "VolumesHealthy"
	// ConditionThinPoolHealthy tells whether the thin pool takes writes and can make volumes.
	ConditionThinPoolHealthy = "ThinPoolHealthy"
	// ConditionRAIDHealthy tells whether every volume has its full redundancy.
	ConditionRAIDHealthy = "RAIDHealthy"
)

// Reasons of the conditions of a volume group that are False. Where several apply, the first in this order is the
// reason, and the message has all.
const (
	// ReasonDeviceMissing: a device of the group is not there.
	ReasonDeviceMissing = "DeviceMissing"
	// ReasonDeviceFailing: a device gives errors or does not answer.
	ReasonDeviceFailing = "DeviceFailing"
	// ReasonDuplicatePV: two devices carry the same physical volume.
	ReasonDuplicatePV = "DuplicatePV"
	// ReasonDuplicateVolumeGroup: another volume group has the name of the group, or has it while the group itself is
	// not there.
	ReasonDuplicateVolumeGroup = "DuplicateVolumeGroup"
	// ReasonVolumesBroken: LVM calls logical volumes broken.
	ReasonVolumesBroken = "VolumesBroken"
	// ReasonVolumesSuspended: input and output of logical volumes are held back.
	ReasonVolumesSuspended = "VolumesSuspended"
	// ReasonThinPoolFailed: the pool cannot be read or written.
	ReasonThinPoolFailed = "ThinPoolFailed"
	// ReasonThinPoolNeedsCheck: the metadata of the pool is marked for a check.
	ReasonThinPoolNeedsCheck = "ThinPoolNeedsCheck"
	// ReasonThinPoolReadOnly: the metadata of the pool is read-only.
	ReasonThinPoolReadOnly = "ThinPoolReadOnly"
	// ReasonThinPoolOutOfData: the pool has no space left for data.
	ReasonThinPoolOutOfData = "ThinPoolOutOfData"
	// ReasonThinPoolOutOfMetadata: the pool has no space left for metadata.
	ReasonThinPoolOutOfMetadata = "ThinPoolOutOfMetadata"
	// ReasonThinPoolMisconfigured: the pool is not as it has to be.
	ReasonThinPoolMisconfigured = "ThinPoolMisconfigured"
	// ReasonThinPoolCannotGrow: autoExtend is due and there is no space for it.
	ReasonThinPoolCannotGrow = "ThinPoolCannotGrow"
	// ReasonRAIDFailed: a volume lost more devices than its level can bear.
	ReasonRAIDFailed = "RAIDFailed"
	// ReasonRAIDDegraded: a volume lacks a device.
	ReasonRAIDDegraded = "RAIDDegraded"
	// ReasonRAIDSyncing: a volume is being brought in sync.
	ReasonRAIDSyncing = "RAIDSyncing"
)

// ReasonNotObserved is the reason of every condition that nobody has looked at yet; its status is Unknown.
const ReasonNotObserved = "NotObserved"
