package state

import (
	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// EventReason is the reason of an event.
type EventReason string

// The events of a volume group on a node. They are recorded only when state or reason changes. Their comments are the
// text of docs/reference/events.md: `make references` writes it.
const (
	// EventReady is a Normal event on the LVMVolumeGroup: the volume group of a node became ready.
	EventReady EventReason = "VolumeGroupReady"
	// EventNoAvailableDevices is a Warning event on the LVMVolumeGroup: a node has no device that can be used for the
	// volume group, or fewer than its redundancy needs.
	// What to do: attach a blank disk, or see `excluded` of the volume group for why each device is not used.
	EventNoAvailableDevices EventReason = "NoAvailableDevicesForVG"
	// EventDevicePathCheckFailed is a Warning event on the LVMVolumeGroup: a device that the device class names is
	// missing or cannot be used, or several device classes would use a device that no device class names.
	// What to do: as the note says.
	EventDevicePathCheckFailed EventReason = "DevicePathCheckFailed"
	// EventForeignVolumeGroup is a Warning event on the LVMVolumeGroup: a volume group with the name of the device
	// class exists on the node, but belongs to something else or cannot be written.
	// What to do: rename or remove it, or remove the device class.
	EventForeignVolumeGroup EventReason = "ForeignVolumeGroup"
	// EventInconsistentVolumes is a Warning event on the LVMVolumeGroup: devices, thin pool or logical volumes of the
	// volume group are not healthy, or its volumes cannot be activated, or a step of a recovery has failed.
	// What to do: see the [conditions](conditions.md#a-volume-group-on-a-node) of the volume group.
	EventInconsistentVolumes EventReason = "InconsistentLVs"
	// EventVolumeGroupFailed is a Warning event on the LVMVolumeGroup: the volume group could not be created, extended,
	// tagged or published, or not use the new size of a device.
	// What to do: see the error in the note; the agent tries again.
	EventVolumeGroupFailed EventReason = "VGCreateOrExtendFailed"
	// EventThinPoolFailed is a Warning event on the LVMVolumeGroup: the thin pool or its metadata could not be created,
	// extended or changed.
	// What to do: see the error in the note; the agent tries again.
	EventThinPoolFailed EventReason = "ThinPoolCreateOrExtendFailed"
	// EventRAIDHealthCheckFailed is a Warning event on the LVMVolumeGroup: volumes lost redundancy, are synchronizing,
	// or could not be repaired.
	// What to do: see the reasons of RAIDHealthy in the [conditions](conditions.md#a-volume-group-on-a-node).
	EventRAIDHealthCheckFailed EventReason = "RAIDHealthCheckFailed"
	// EventDeviceRemovalBlocked is a Warning event on the LVMVolumeGroup: a device cannot be cordoned, drained,
	// removed, suspended or resumed as `deviceRequests` requests.
	// What to do: as the note says.
	EventDeviceRemovalBlocked EventReason = "DeviceRemovalFailed"
	// EventDeviceRemoved is a Normal event on the LVMVolumeGroup: a device was removed from the volume group. A device
	// that is present may be detached.
	EventDeviceRemoved EventReason = "DeviceRemoved"
	// EventDeviceWiped is a Warning event on the LVMVolumeGroup: a device was wiped, as
	// `forceWipeDevicesAndDestroyAllData` requests. The note has the previous content and the folder with the backup.
	// What to do: nothing, or [restore](devices.md#what-a-wipe-keeps) the overwritten data.
	EventDeviceWiped EventReason = "DeviceWiped"
	// EventDeviceAwaitsApproval is a Normal event on the LVMVolumeGroup: a device can be used for a device class with
	// `approval: Required`, and is not approved.
	// What to do: review the device, and approve it with `kubectl lvms approve`.
	EventDeviceAwaitsApproval EventReason = "DeviceAwaitsApproval"
	// EventDeviceChanged is a Warning event on the LVMVolumeGroup: a device is not the one that was reviewed and
	// approved. It is left alone.
	// What to do: find out what changed it; then approve it again, or delete the LVMDeviceApproval.
	EventDeviceChanged EventReason = "DeviceChangedSinceReview"
	// EventDeletedVolumeRemoved is a Normal event on the LVMVolumeGroup: a logical volume was removed, as
	// `deletedVolumeRetention` requests: its claim or VolumeSnapshot was deleted while the Node did not exist.
	EventDeletedVolumeRemoved EventReason = "DeletedVolumeRemoved"
	// EventWipeFailed is a Warning event on the LVMVolumeGroup: a device could not be wiped.
	// What to do: as the note says.
	EventWipeFailed EventReason = "DeviceWipeFailed"
	// EventObserveFailed is a Warning event on the LVMVolumeGroup: the node could not be observed: LVM, the list of
	// devices or the kernel returned an error.
	// What to do: see the kernel's log of the node and the log of the agent.
	EventObserveFailed EventReason = "ObservationFailed"
	// EventRecoveryNotApplicable is a Normal event on the LVMRecovery: there is nothing to recover, or the action
	// cannot help. The note says why.
	// What to do: as the note says, or delete the LVMRecovery.
	EventRecoveryNotApplicable EventReason = "RecoveryNotApplicable"
	// EventRecoveryPreparing is a Normal event on the LVMRecovery: the node agent deactivates the thin pool and reads
	// its metadata, or waits until no Pod uses its volumes.
	// What to do: wait, or as the note says.
	EventRecoveryPreparing EventReason = "RecoveryPreparing"
	// EventRecoveryAwaitsApproval is a Normal event on the LVMRecovery: the node agent has made a plan, which lists
	// what is lost.
	// What to do: check the plan, and approve it, or delete the LVMRecovery.
	EventRecoveryAwaitsApproval EventReason = "RecoveryAwaitsApproval"
	// EventRecoveryRunning is a Normal event on the LVMRecovery: the node agent performs the approved plan.
	EventRecoveryRunning EventReason = "RecoveryRunning"
	// EventRecoverySucceeded is a Normal event on the LVMRecovery: the recovery has ended.
	// What to do: delete the claims of the lost volumes, and restore their data from a backup.
	EventRecoverySucceeded EventReason = "RecoverySucceeded"
	// EventManualCleanup is a Warning event on the LVMVolumeGroup: the volume group must be removed, but still has
	// logical volumes or cannot be changed.
	// What to do: delete the claims, volumes and snapshots that the note names.
	EventManualCleanup EventReason = "ManualCleanupRequired"
	// EventRemovalFailed is a Warning event on the LVMVolumeGroup: a command that removes the volume group, its thin
	// pool, its physical volumes or orphans failed.
	// What to do: see the error in the note; the agent tries again.
	EventRemovalFailed EventReason = "RemovalFailed"
)

// RecoveryEvent returns the event for a new phase of an LVMRecovery.
func RecoveryEvent(phase v1alpha1.RecoveryPhase) EventReason {
	switch phase {
	case v1alpha1.RecoveryPreparing:
		return EventRecoveryPreparing
	case v1alpha1.RecoveryAwaitingApproval:
		return EventRecoveryAwaitsApproval
	case v1alpha1.RecoveryRunning:
		return EventRecoveryRunning
	case v1alpha1.RecoverySucceeded:
		return EventRecoverySucceeded
	}
	return EventRecoveryNotApplicable
}
