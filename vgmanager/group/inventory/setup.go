package inventory

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
)

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := handler.EnqueueRequestsFromMapFunc(r.own)
	return ctrl.NewControllerManagedBy(mgr).
		Named("inventory").
		Watches(&v1alpha1.LVMVolumeGroupNodeStatus{}, own, builder.WithPredicates(createdOrLabeled)).
		Watches(&v1alpha1.LVMVolumeGroup{}, own, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, own, builder.WithPredicates(labelsChanged)).
		Watches(&v1alpha1.LVMDeviceApproval{}, own).
		WatchesRawSource(source.Channel(r.wake, own)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(adapt.Reconciler(r))
}

// own returns the only request.
func (r *Reconciler) own(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: r.Node}}}
}

// createdOrLabeled accepts the creation of the node status, and changes of the labels of devices. The cache only has
// the node status of this node.
var createdOrLabeled = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasStatus := e.ObjectOld.(*v1alpha1.LVMVolumeGroupNodeStatus)
		after, isStatus := e.ObjectNew.(*v1alpha1.LVMVolumeGroupNodeStatus)
		return wasStatus && isStatus && !equality.Semantic.DeepEqual(before.Spec.DeviceLabels, after.Spec.DeviceLabels)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// labelsChanged accepts changes of labels, which a nodeSelector may match.
var labelsChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(),
			e.ObjectNew.GetLabels())
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
