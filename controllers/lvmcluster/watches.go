package lvmcluster

import (
	"context"
	"reflect"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
)

// CacheByObject limits the manager's cache to what the controller has permission to read: namespaced kinds in one
// namespace.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	here := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	// These keep their managed fields: the operator takes over the fields of its predecessors.
	whole := here
	status := here
	capacity := here
	// This is the only ConfigMap that is read from the cache.
	dashboard := cache.ByObject{
		Namespaces: map[string]cache.Config{operand.DashboardNamespace: {}},
		Field:      fields.OneTermEqualSelector("metadata.name", operand.DashboardName),
		Transform:  activecache.Unchanged,
	}
	whole.Transform = activecache.Unchanged
	status.Transform = activecache.NodeStatus
	capacity.Transform = activecache.Capacity
	return map[client.Object]cache.ByObject{
		&lvmv1alpha1.LVMCluster{}:               here,
		&lvmv1alpha1.LVMVolumeGroup{}:           whole,
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{}: status,
		&appsv1.DaemonSet{}:                     whole,
		&appsv1.Deployment{}:                    here,
		&policyv1.PodDisruptionBudget{}:         here,
		&storagev1.CSIStorageCapacity{}:         capacity,
		serviceAccount():                        here,
		&corev1.ConfigMap{}:                     dashboard,
	}
}

// SetupWithManager starts the controller with the manager. Changes of the LVMCluster, of operands, and of objects on
// which operands depend trigger a reconcile.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(c.clusters)
	b := builder.ControllerManagedBy(mgr).
		Named("lvmcluster").
		For(&lvmv1alpha1.LVMCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, finalizersChanged()))).
		Owns(&appsv1.DaemonSet{}).
		Owns(&lvmv1alpha1.LVMVolumeGroup{}).
		Owns(&lvmv1alpha1.LVMVolumeGroupNodeStatus{}, builder.WithPredicates(nodeStatusChanged())).
		// All StorageClasses, not only ours: another one may become the default or stop being the default.
		Watches(&storagev1.StorageClass{}, enqueue).
		Watches(&storagev1.CSIDriver{}, enqueue, builder.WithPredicates(owned())).
		Watches(&storagev1.CSINode{}, enqueue, builder.WithPredicates(registrationChanged())).
		Watches(&corev1.Node{}, enqueue, builder.WithPredicates(nodeChanged())).
		WatchesMetadata(serviceAccount(), enqueue,
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
				return o.GetName() == operand.AgentName
			})))
	for _, object := range operand.WatchedMetadata(c.options.Options) {
		b = b.WatchesMetadata(object, enqueue, builder.WithPredicates(predicate.Or(owned(),
			predicate.NewPredicateFuncs(operand.IsInstallationPolicy))))
	}
	if c.options.Permissions != nil {
		b = b.WatchesRawSource(source.Channel(c.options.Permissions.Changed(), enqueue))
	}
	if c.options.Platform.Snapshots {
		// All of them, not only ours: a user may change or delete one that conflicts.
		b = b.Watches(&snapshotv1.VolumeSnapshotClass{}, enqueue)
	}
	if c.options.Platform.GroupSnapshots {
		b = b.Watches(&groupsnapshotv1.VolumeGroupSnapshotClass{}, enqueue)
	}
	if c.options.Platform.Kind == platform.OpenShift {
		b = b.Watches(&corev1.ConfigMap{}, enqueue, builder.WithPredicates(owned()))
	}
	return b.Complete(adapt.Reconciler(c))
}

// serviceAccount returns the kind of object that the client reads and caches: only metadata.
func serviceAccount() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}}
}

// clusters maps a change of a shared dependency to a request for each LVMCluster. There is at most one.
func (c *Controller) clusters(ctx context.Context, object client.Object) []reconcile.Request {
	clusters := &lvmv1alpha1.LVMClusterList{}
	if err := c.client.List(ctx, clusters, client.InNamespace(c.options.Namespace)); err != nil {
		// The cache has synced before the controller starts, so this error is not expected.
		log.FromContext(ctx).Error(err, "cannot list LVMClusters: the change of an object is not reconciled", "object",
			client.ObjectKeyFromObject(object))
		return nil
	}
	var requests []reconcile.Request
	for _, cluster := range clusters.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&cluster)})
	}
	return requests
}

// nodeStatusChanged returns a predicate that ignores updates of lastObserved only, which a thousand agents write all
// the time. If the node status was stale before, such an update passes.
func nodeStatusChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasStatus := e.ObjectOld.(*lvmv1alpha1.LVMVolumeGroupNodeStatus)
		after, isStatus := e.ObjectNew.(*lvmv1alpha1.LVMVolumeGroupNodeStatus)
		if !wasStatus || !isStatus || before.Status.LastObserved == nil || after.Status.LastObserved == nil {
			return true
		}
		if after.ResourceVersion == before.ResourceVersion || before.Status.IsStale(after.Status.LastObserved.Time) {
			return true
		}
		same := *before
		same.ResourceVersion = after.ResourceVersion
		same.ManagedFields = after.ManagedFields
		same.Generation = after.Generation
		same.Status.LastObserved = after.Status.LastObserved
		return !equality.Semantic.DeepEqual(&same, after)
	}}
}

// owned returns a predicate for operands, including an operand that has just lost its labels.
func owned() predicate.Predicate {
	isOwned := func(object client.Object) bool { return object.GetLabels()[wellknown.OwnerNameLabel] != "" }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isOwned(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isOwned(e.ObjectOld) || isOwned(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return isOwned(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// finalizersChanged returns a predicate for changed finalizers, for example if a user removes the finalizer of an
// LVMCluster.
func finalizersChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !reflect.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
}

// nodeChanged returns a predicate for changes that decide where the node agent runs, and of the Ready condition. It
// ignores other updates of nodes, which occur every few seconds.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isNode := e.ObjectOld.(*corev1.Node)
		after, isNodeToo := e.ObjectNew.(*corev1.Node)
		if !isNode || !isNodeToo {
			return true
		}
		return !reflect.DeepEqual(before.Labels, after.Labels) ||
			!reflect.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
			observe.NotReady(before) != observe.NotReady(after)
	}}
}

// registrationChanged returns a predicate for CSINodes on which the driver was registered or unregistered.
func registrationChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return hasDriver(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return hasDriver(e.ObjectOld) != hasDriver(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return hasDriver(e.Object) },
	}
}

func hasDriver(object client.Object) bool {
	csiNode, ok := object.(*storagev1.CSINode)
	return ok && operand.HasDriver(csiNode)
}
