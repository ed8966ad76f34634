package v1alpha1

// Condition types of an LVMCluster.
const (
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
	// ReasonVGsDegraded: a volume group exists but something about it is wrong; the message names node, class and cause.
	ReasonVGsDegraded = "VGsDegraded"
)

// ReasonNotObserved is the reason of every condition that nobody has looked at yet; its status is Unknown.
const ReasonNotObserved = "NotObserved"
