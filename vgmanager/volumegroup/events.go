package volumegroup

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/text"
)

// EventReason is the reason of an event.
type EventReason string

// The events of a volume group on a node. They go to the LVMVolumeGroup, and only when state or reason change.
const (
	// EventReady: the volume group is as wanted.
	EventReady EventReason = "VolumeGroupReady"
	// EventNoAvailableDevices: there is no device to make the volume group of.
	EventNoAvailableDevices EventReason = "NoAvailableDevicesForVG"
	// EventDevicePathCheckFailed: a device of the deviceSelector is missing or cannot be used.
	EventDevicePathCheckFailed EventReason = "DevicePathCheckFailed"
	// EventForeignVolumeGroup: a volume group of the name exists and is not ours.
	EventForeignVolumeGroup EventReason = "ForeignVolumeGroup"
	// EventInconsistentVolumes: disks, pool or volumes of the group are broken.
	EventInconsistentVolumes EventReason = "InconsistentLVs"
	// EventVolumeGroupFailed: a command on the volume group failed.
	EventVolumeGroupFailed EventReason = "VGCreateOrExtendFailed"
	// EventThinPoolFailed: a command on the thin pool failed.
	EventThinPoolFailed EventReason = "ThinPoolCreateOrExtendFailed"
	// EventRAIDHealthCheckFailed: volumes lost redundancy.
	EventRAIDHealthCheckFailed EventReason = "RAIDHealthCheckFailed"
	// EventDeviceRemovalBlocked: a device cannot be emptied or taken out.
	EventDeviceRemovalBlocked EventReason = "DeviceRemovalFailed"
	// EventDeviceRemoved: a device was emptied and taken out of the group.
	EventDeviceRemoved EventReason = "DeviceRemoved"
	// EventDeviceWiped: what was on a device that the user named was destroyed.
	EventDeviceWiped EventReason = "DeviceWiped"
	// EventWipeFailed: a device could not be wiped.
	EventWipeFailed EventReason = "DeviceWipeFailed"
	// EventObserveFailed: the node could not be looked at.
	EventObserveFailed EventReason = "ObservationFailed"
	// EventManualCleanup: the volume group cannot be removed before somebody removes something.
	EventManualCleanup EventReason = "ManualCleanupRequired"
	// EventRemovalFailed: a command of the removal failed.
	EventRemovalFailed EventReason = "RemovalFailed"
)

// eventAction is the action of all events.
const eventAction = "ReconcileVolumeGroup"

// failureEvents are the events of actions that fail.
var failureEvents = map[Kind]EventReason{
	WipeDevice: EventWipeFailed, CreateVG: EventVolumeGroupFailed, UnhideVG: EventVolumeGroupFailed,
	TagVG: EventVolumeGroupFailed, ExtendVG: EventVolumeGroupFailed,
	Activate: EventInconsistentVolumes, CreatePool: EventThinPoolFailed, ExtendPool: EventThinPoolFailed,
	ExtendMeta:   EventThinPoolFailed,
	PublishClass: EventVolumeGroupFailed, Cordon: EventDeviceRemovalBlocked, Uncordon: EventDeviceRemovalBlocked,
	StartMove: EventDeviceRemovalBlocked, ResumeMove: EventDeviceRemovalBlocked, AbortMove: EventDeviceRemovalBlocked,
	ReduceVG: EventDeviceRemovalBlocked, ReduceLost: EventDeviceRemovalBlocked, Repair: EventRAIDHealthCheckFailed,
	Refresh:       EventRAIDHealthCheckFailed,
	WithdrawClass: EventRemovalFailed, RemovePool: EventRemovalFailed, RemoveVG: EventRemovalFailed,
	RemovePVs: EventRemovalFailed,
}

// event tells of a change from one status to the next.
func (r *Reconciler) event(object *v1alpha1.LVMVolumeGroup, before, after v1alpha1.VGStatus, reason EventReason) {
	if before.Status == after.Status && before.Reason == after.Reason {
		return
	}
	switch {
	case after.Status == v1alpha1.VGStatusReady:
		r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, string(EventReady), eventAction,
			"volume group %s on node %s is ready", after.Name, r.Node)
	case reason != "":
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, string(reason), eventAction, "%s",
			text.Truncate(after.Reason, maxNote))
	}
}

// tell sends an event about something that was done.
func (r *Reconciler) tell(w Wanted, kind string, reason EventReason, note string) {
	object := &v1alpha1.LVMVolumeGroup{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LVMVolumeGroup"))
	object.Name = w.Name
	object.Namespace = r.Namespace
	object.UID = w.UID
	r.Recorder.Eventf(object, nil, kind, string(reason), eventAction, "%s", text.Truncate(note, maxNote))
}

// maxNote is the limit of an event's note (events.k8s.io/v1, 1024 bytes).
const maxNote = 1024
