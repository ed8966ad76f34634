package volumegroup

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// approvals emits events for devices that began to wait for an approval, or that changed since they were approved.
func (l *eventLog) approvals(d state.Desired, before, after v1alpha1.VGStatus) {
	if waiting := selection.NewlyExcluded(before, after, device.AwaitingApproval); len(waiting) > 0 {
		l.emit(d, corev1.EventTypeNormal, state.EventDeviceAwaitsApproval, fmt.Sprintf(
			"node %s has devices that wait for an approval for device class %s: %s: review them and run "+
				"kubectl lvms approve --node %s", l.node, d.Name, strings.Join(waiting, ", "), l.node))
	}
	if changed := selection.NewlyExcluded(before, after, device.ChangedSinceReview); len(changed) > 0 {
		l.emit(d, corev1.EventTypeWarning, state.EventDeviceChanged, fmt.Sprintf(
			"devices of node %s have changed since they were approved for device class %s, and are left alone: %s: "+
				"find out what changed them, and approve them again", l.node, d.Name, strings.Join(changed, ", ")))
	}
}

// eventAction is the action of all events.
const eventAction = "ReconcileVolumeGroup"

// eventLog emits the events about the volume groups of this node.
type eventLog struct {
	recorder        events.EventRecorder
	node, namespace string
}

// changed emits an event if the status changed.
func (l *eventLog) changed(object *v1alpha1.LVMVolumeGroup, before, after v1alpha1.VGStatus, reason state.EventReason) {
	if before.Status == after.Status && before.Reason == after.Reason {
		return
	}
	switch {
	case after.Status == v1alpha1.VGStatusReady:
		l.recorder.Eventf(object, nil, corev1.EventTypeNormal, string(state.EventReady), eventAction,
			"volume group %s on node %s is ready", after.Name, l.node)
	case reason != "":
		l.recorder.Eventf(object, nil, corev1.EventTypeWarning, string(reason), eventAction, "%s",
			text.Truncate(after.Reason, maxNote))
	}
}

// emit emits an event about a completed operation.
func (l *eventLog) emit(d state.Desired, kind string, reason state.EventReason, note string) {
	object := &v1alpha1.LVMVolumeGroup{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LVMVolumeGroup"))
	object.Name = d.Name
	object.Namespace = l.namespace
	object.UID = d.UID
	l.recorder.Eventf(object, nil, kind, string(reason), eventAction, "%s", text.Truncate(note, maxNote))
}

// maxNote is the limit of an event's note (events.k8s.io/v1, 1024 bytes).
const maxNote = 1024
