package volumegroup

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
)

// eventAction is the action of all events.
const eventAction = "ReconcileVolumeGroup"

// event emits an event if the status changed.
func (r *Reconciler) event(object *v1alpha1.LVMVolumeGroup, before, after v1alpha1.VGStatus, reason plan.EventReason) {
	if before.Status == after.Status && before.Reason == after.Reason {
		return
	}
	switch {
	case after.Status == v1alpha1.VGStatusReady:
		r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, string(plan.EventReady), eventAction,
			"volume group %s on node %s is ready", after.Name, r.Node)
	case reason != "":
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, string(reason), eventAction, "%s",
			text.Truncate(after.Reason, maxNote))
	}
}

// emit emits an event about a completed operation.
func (r *Reconciler) emit(w plan.Desired, kind string, reason plan.EventReason, note string) {
	object := &v1alpha1.LVMVolumeGroup{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LVMVolumeGroup"))
	object.Name = w.Name
	object.Namespace = r.Namespace
	object.UID = w.UID
	r.Recorder.Eventf(object, nil, kind, string(reason), eventAction, "%s", text.Truncate(note, maxNote))
}

// maxNote is the limit of an event's note (events.k8s.io/v1, 1024 bytes).
const maxNote = 1024
