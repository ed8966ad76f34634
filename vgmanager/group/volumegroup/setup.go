package volumegroup

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
)

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("volumegroup").
		// Finalizers of other nodes do not change the generation of the object. A deletion does.
		For(&v1alpha1.LVMVolumeGroup{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.LVMVolumeGroupNodeStatus{}, handler.EnqueueRequestsFromMapFunc(r.all),
			builder.WithPredicates(nodeStatusChanged(r.Node))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all),
			builder.WithPredicates(ownNodeChanged(r.Node))).
		Watches(&v1alpha1.LVMRecovery{}, handler.EnqueueRequestsFromMapFunc(r.recoveries.concerned),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, operatorReported()))).
		Watches(&v1alpha1.LVMDeviceApproval{}, handler.EnqueueRequestsFromMapFunc(r.objects.Approved)).
		WatchesRawSource(source.Channel(r.wake.events, handler.EnqueueRequestsFromMapFunc(r.all))).
		// One at a time, because LVM is shared by all groups.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(adapt.Reconciler(r))
}

// operatorReported returns a predicate for LVMRecoveries in which the operator has reported its part.
func operatorReported() predicate.Predicate {
	condition := func(object client.Object) *metav1.Condition {
		recovery, is := object.(*v1alpha1.LVMRecovery)
		if !is {
			return nil
		}
		return meta.FindStatusCondition(recovery.Status.Conditions, v1alpha1.ConditionObjectsCreated)
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(condition(e.ObjectOld), condition(e.ObjectNew))
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// waker requests a new observation of the node.
type waker struct {
	events chan event.GenericEvent
	// last is the time of the last request, in nanoseconds of Unix time.
	last *atomic.Int64
}

func newWaker() waker {
	return waker{events: make(chan event.GenericEvent, 1), last: &atomic.Int64{}}
}

// age returns the maximum age of an observation that includes the cause of the last request.
func (w waker) age(now time.Time) time.Duration {
	return max(0, now.Sub(time.Unix(0, w.last.Load())))
}

// Wake requests a new observation of the node, after a device was added or removed or its health changed. It never
// blocks.
func (r *Reconciler) Wake() {
	r.wake.last.Store(r.now().UnixNano())
	select {
	case r.wake.events <- event.GenericEvent{Object: &v1alpha1.LVMVolumeGroupNodeStatus{}}:
	default:
		// A pending request also covers this one.
	}
}

// all returns every LVMVolumeGroup, because each may apply to this node. It also returns the classes that this node
// is a member of, because their LVMVolumeGroup may no longer exist.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v1alpha1.LVMVolumeGroupList{}
	if err := r.objects.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		// The list is from the cache. The resync corrects what is missing.
		return nil
	}
	names := sets.New[string]()
	for i := range list.Items {
		names.Insert(list.Items[i].Name)
	}
	if nodeStatus, err := r.entries.nodeStatus(ctx, r.objects.Client); err == nil {
		names.Insert(classesOf(nodeStatus)...)
	}
	var requests []reconcile.Request
	for _, name := range sets.List(names) {
		requests = append(requests, reconcile.Request{
			NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: name}})
	}
	return requests
}

// classesOf returns the names of the device classes that a node is a member of.
func classesOf(nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus) []string {
	var names []string
	for _, entry := range nodeStatus.Status.NodeStatus {
		names = append(names, entry.Name)
	}
	return names
}

// nodeStatusChanged accepts the creation of the node status of this node, and changes of its memberships, of the labels
// of devices, and of the disks that it lists, for which new devices wait.
func nodeStatusChanged(node string) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetName() == node },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, wasStatus := e.ObjectOld.(*v1alpha1.LVMVolumeGroupNodeStatus)
			after, isStatus := e.ObjectNew.(*v1alpha1.LVMVolumeGroupNodeStatus)
			return wasStatus && isStatus && after.Name == node &&
				(!slices.Equal(classesOf(before), classesOf(after)) ||
					!slices.Equal(clusterobjects.ListedDisks(before), clusterobjects.ListedDisks(after)) ||
					!equality.Semantic.DeepEqual(before.Spec.DeviceLabels, after.Spec.DeviceLabels))
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ownNodeChanged accepts changes of labels, which a nodeSelector may match, and of taints.
func ownNodeChanged(node string) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, wasNode := e.ObjectOld.(*corev1.Node)
			after, isNode := e.ObjectNew.(*corev1.Node)
			return wasNode && isNode && after.Name == node && (!maps.Equal(before.Labels, after.Labels) ||
				!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints))
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
