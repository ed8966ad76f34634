package lvmcluster

import (
	"context"
	"reflect"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/lvm-storage/lvm-operator/internal/platform"
	"github.com/lvm-storage/lvm-operator/internal/trim"
)

var serviceAccountKind = corev1.SchemeGroupVersion.WithKind("ServiceAccount")

// CacheByObject limits the manager's cache to what the controller may read: namespaced kinds in one namespace.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	here := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	// Of these it matters who set which field: what a predecessor set is taken over.
	whole := here
	status := here
	capacity := here
	// The only ConfigMap that is read from the cache.
	dashboard := cache.ByObject{
		Namespaces: map[string]cache.Config{dashboardNamespace: {}},
		Field:      fields.OneTermEqualSelector("metadata.name", dashboardName), Transform: trim.Whole,
	}
	whole.Transform = trim.Whole
	status.Transform = trim.NodeStatus
	capacity.Transform = trim.Capacity
	return map[client.Object]cache.ByObject{
		&lvmv1alpha1.LVMCluster{}:               here,
		&lvmv1alpha1.LVMVolumeGroup{}:           whole,
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{}: status,
		&appsv1.DaemonSet{}:                     whole,
		&appsv1.Deployment{}:                    here,
		&policyv1.PodDisruptionBudget{}:         here,
		&storagev1.CSIStorageCapacity{}:         capacity,
		metadataOf(serviceAccountKind):          here,
		&corev1.ConfigMap{}:                     dashboard,
	}
}

// SetupWithManager starts the controller with the manager: a change of the LVMCluster, of any operand, and of what
// operands depend on wakes it.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	wake := handler.EnqueueRequestsFromMapFunc(c.clusters)
	b := builder.ControllerManagedBy(mgr).
		Named("lvmcluster").
		For(&lvmv1alpha1.LVMCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, finalizersChanged()))).
		Owns(&appsv1.DaemonSet{}).
		Owns(&lvmv1alpha1.LVMVolumeGroup{}).
		Owns(&lvmv1alpha1.LVMVolumeGroupNodeStatus{}, builder.WithPredicates(nodeStatusChanged())).
		// All StorageClasses, not only ours: another one may become or cease to be the default.
		Watches(&storagev1.StorageClass{}, wake).
		Watches(&storagev1.CSIDriver{}, wake, builder.WithPredicates(owned())).
		Watches(&storagev1.CSINode{}, wake, builder.WithPredicates(registrationChanged())).
		Watches(&corev1.Node{}, wake, builder.WithPredicates(nodeChanged())).
		WatchesMetadata(metadataOf(serviceAccountKind), wake,
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
				return o.GetName() == vgManagerName
			})))
	for _, kind := range []schema.GroupVersionKind{policyKind, policyBindingKind} {
		b = b.WatchesMetadata(metadataOf(kind), wake, builder.WithPredicates(owned()))
	}
	if c.options.Rights != nil {
		b = b.WatchesRawSource(source.Channel(c.options.Rights.Changed(), wake))
	}
	if c.options.Platform.Snapshots {
		// All of them, not only ours: one that is in the way may be changed or deleted.
		b = b.Watches(&snapshotv1.VolumeSnapshotClass{}, wake)
	}
	if c.options.Platform.SCC {
		b = b.WatchesMetadata(metadataOf(sccKind), wake, builder.WithPredicates(owned()))
	}
	if c.options.Platform.Kind == platform.OpenShift {
		b = b.Watches(&corev1.ConfigMap{}, wake, builder.WithPredicates(owned()))
	}
	return b.Complete(c)
}

// metadataOf is an object of a kind of which only the metadata is read and held.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: typeMeta(kind)}
}

// clusters returns the LVMClusters, which is one, for a change of something that all of them depend on.
func (c *Controller) clusters(ctx context.Context, object client.Object) []reconcile.Request {
	clusters := &lvmv1alpha1.LVMClusterList{}
	if err := c.client.List(ctx, clusters, client.InNamespace(c.options.Namespace)); err != nil {
		// The read is from the cache of a watch that the controller waits for before it starts.
		log.FromContext(ctx).Error(err, "Cannot list LVMClusters: a change is not followed up", "object",
			client.ObjectKeyFromObject(object))
		return nil
	}
	var requests []reconcile.Request
	for _, cluster := range clusters.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&cluster)})
	}
	return requests
}

// nodeStatusChanged passes all changes but that of lastObserved alone, which a thousand agents write all the time. That
// of a status that was stale counts: it is up to date now.
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

// owned passes operands, also one that has just lost its labels.
func owned() predicate.Predicate {
	isOwned := func(object client.Object) bool { return object.GetLabels()[lvmv1alpha1.OwnerNameLabel] != "" }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isOwned(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isOwned(e.ObjectOld) || isOwned(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return isOwned(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// finalizersChanged passes an LVMCluster whose finalizer somebody took off.
func finalizersChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !reflect.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
}

// nodeChanged passes what decides where the node agent runs, and whether a node is ready. Nodes report every few
// seconds; the rest of it changes nothing here.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isNode := e.ObjectOld.(*corev1.Node)
		after, isNodeToo := e.ObjectNew.(*corev1.Node)
		if !isNode || !isNodeToo {
			return true
		}
		return !reflect.DeepEqual(before.Labels, after.Labels) ||
			!reflect.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
			unready(before) != unready(after)
	}}
}

// registrationChanged passes a CSINode that has got or lost the driver.
func registrationChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return carriesDriver(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return carriesDriver(e.ObjectOld) != carriesDriver(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return carriesDriver(e.Object) },
	}
}

func carriesDriver(object client.Object) bool {
	csiNode, ok := object.(*storagev1.CSINode)
	return ok && hasDriver(csiNode)
}
