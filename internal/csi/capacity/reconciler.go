// Package capacity keeps the CSIStorageCapacity objects, with which the scheduler finds nodes that have enough capacity
// for a volume. It computes them from the annotations that the node agents write on their Nodes, less the volumes that
// are requested on a node and not created yet. It updates them as soon as these change.
package capacity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

// driverLabel and managedByLabel are the labels by which external-provisioner identifies its objects. The reconciler
// takes over the objects of external-provisioner, whose names have no meaning. An object without managedByLabel belongs
// to the administrator, for example for the nodes that a cluster autoscaler can add: it is not changed or deleted.
const (
	driverLabel    = "csi.storage.k8s.io/drivername"
	managedByLabel = "csi.storage.k8s.io/managed-by"
	manager        = "lvms-operator"
)

const (
	// gather is the time during which changes of a node are collected before its objects are written, so that a burst
	// of claims is one change.
	gather = 300 * time.Millisecond
	// workers is the number of nodes that are reconciled at the same time.
	workers = 4
)

// Reconciler reconciles the objects of one node at a time.
type Reconciler struct {
	client    client.Client
	active    client.Reader
	namespace string
}

// New returns a Reconciler that creates its objects in a namespace. The client reads from a cache with the
// CSIStorageCapacities of the namespace. active is that cache itself, with the LogicalVolumes that are not settled,
// indexed by NodeField.
func New(c client.Client, active client.Reader, namespace string) *Reconciler {
	return &Reconciler{client: c, active: active, namespace: namespace}
}

// NodeField is the index of LogicalVolumes by node. TopoLVM has an index of its own in the same cache.
const NodeField = "lvms:node"

// capacityField is the index of this driver's CSIStorageCapacities by node, without those of the administrator.
const capacityField = "lvms:node"

// capacityOf returns the key of a CSIStorageCapacity in capacityField.
func capacityOf(object client.Object) []string {
	node, labels := nodeOfCapacity(object), object.GetLabels()
	if node == "" || labels[driverLabel] != wellknown.DriverName {
		return nil
	}
	if labels[managedByLabel] == "" && !hasOwnName(object) {
		return nil
	}
	return []string{node}
}

// NodeOf returns the key of a LogicalVolume in NodeField.
func NodeOf(object client.Object) []string {
	if lv, ok := object.(*topolvmv1.LogicalVolume); ok {
		return []string{lv.Spec.NodeName}
	}
	return nil
}

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csistoragecapacities,namespace=openshift-lvm-storage,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes,verbs=list;watch
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch

// Reconcile creates, updates and deletes the objects of a node. The name of the request is the name of the node.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	want, err := r.wanted(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	list := &storagev1.CSIStorageCapacityList{}
	if err := r.client.List(ctx, list, client.InNamespace(r.namespace), client.MatchingFields{capacityField: req.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list CSIStorageCapacities: %w", err)
	}
	var errs []error
	for i := range list.Items {
		present := &list.Items[i]
		errs = append(errs, r.correct(ctx, present, want))
		delete(want, present.Name)
	}
	for _, missing := range want {
		errs = append(errs, r.client.Create(ctx, missing))
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// correct updates an object, or deletes it if it is not desired.
func (r *Reconciler) correct(ctx context.Context, present *storagev1.CSIStorageCapacity,
	want map[string]*storagev1.CSIStorageCapacity) error {
	desired := want[present.Name]
	if desired == nil {
		return client.IgnoreNotFound(r.client.Delete(ctx, present))
	}
	next := present.DeepCopy()
	next.Capacity = desired.Capacity
	next.MaximumVolumeSize = desired.MaximumVolumeSize
	next.Labels = maps.Clone(present.Labels)
	maps.Copy(next.Labels, desired.Labels)
	if sameQuantity(present.Capacity, next.Capacity) &&
		sameQuantity(present.MaximumVolumeSize, next.MaximumVolumeSize) &&
		equality.Semantic.DeepEqual(present.Labels, next.Labels) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, next, client.MergeFrom(present)))
}

func sameQuantity(a, b *resource.Quantity) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Cmp(*b) == 0
}

// wanted returns the desired objects of a node by name: one for each StorageClass with volumeBindingMode
// WaitForFirstConsumer whose device class the node offers.
func (r *Reconciler) wanted(ctx context.Context, name string) (map[string]*storagev1.CSIStorageCapacity, error) {
	want := map[string]*storagev1.CSIStorageCapacity{}
	node := &corev1.Node{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return want, client.IgnoreNotFound(err)
	}
	if !node.DeletionTimestamp.IsZero() || node.Labels[wellknown.TopologyNodeKey] != name {
		return want, nil
	}
	csiNode := &storagev1.CSINode{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, csiNode); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read CSINode %s: %w", name, err)
	}
	if !supply.IsRegistered(csiNode) {
		return want, nil
	}
	classes := &storagev1.StorageClassList{}
	if err := r.client.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	volumes := &topolvmv1.LogicalVolumeList{}
	if err := r.active.List(ctx, volumes, client.MatchingFields{NodeField: name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		device := class.Parameters[wellknown.DeviceClassParameter]
		if !ours(class) || !supply.Offers(node, device) {
			continue
		}
		if device == "" {
			var err error
			if device, err = supply.DefaultClass(ctx, r.client); err != nil {
				return nil, err
			}
		}
		object := r.object(class.Name, name, supply.Pending(volumes.Items, device).Room(node, device))
		want[object.Name] = object
	}
	return want, nil
}

func ours(object client.Object) bool {
	class, ok := object.(*storagev1.StorageClass)
	return ok && class.Provisioner == wellknown.DriverName && class.DeletionTimestamp.IsZero() &&
		class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// object returns the CSIStorageCapacity of a StorageClass on a node. One volume can use all of the capacity.
func (r *Reconciler) object(class, node string, bytes int64) *storagev1.CSIStorageCapacity {
	size := resource.NewQuantity(bytes, resource.BinarySI)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.namespace, Name: objectName(class, node),
			Labels: map[string]string{driverLabel: wellknown.DriverName, managedByLabel: manager},
		},
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{wellknown.TopologyNodeKey: node}},
		StorageClassName: class, Capacity: size, MaximumVolumeSize: size,
	}
}

// objectName returns the same name for the same StorageClass and node, so that two operators do not create two objects.
func objectName(class, node string) string {
	sum := sha256.Sum256([]byte(class + "/" + node))
	return "lvms-" + hex.EncodeToString(sum[:16])
}

// hasOwnName reports whether an object has the name that object gives it.
func hasOwnName(object client.Object) bool {
	capacity, ok := object.(*storagev1.CSIStorageCapacity)
	return ok && object.GetName() == objectName(capacity.StorageClassName, nodeOfCapacity(object))
}

// nodeOfCapacity returns the node of an object, or "" if its topology does not select exactly one.
func nodeOfCapacity(object client.Object) string {
	capacity, ok := object.(*storagev1.CSIStorageCapacity)
	if !ok || capacity.NodeTopology == nil || len(capacity.NodeTopology.MatchLabels) != 1 {
		return ""
	}
	return capacity.NodeTopology.MatchLabels[wellknown.TopologyNodeKey]
}

// SetupWithManager adds the reconciler to a manager. It watches the capacity of Nodes, requested and created
// LogicalVolumes, StorageClasses, and changes that others make to the objects.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &topolvmv1.LogicalVolume{}, NodeField,
		NodeOf); err != nil {
		return fmt.Errorf("index LogicalVolumes by node: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &storagev1.CSIStorageCapacity{}, capacityField,
		capacityOf); err != nil {
		return fmt.Errorf("index CSIStorageCapacities by node: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("capacity").
		Watches(&corev1.Node{}, later(func(_ context.Context,
			o client.Object) []string {
			return []string{o.GetName()}
		}), builder.WithPredicates(offerChanged)).
		Watches(&storagev1.CSINode{}, later(func(_ context.Context,
			o client.Object) []string {
			return []string{o.GetName()}
		}),
			builder.WithPredicates(registrationChanged)).
		Watches(&topolvmv1.LogicalVolume{}, later(func(_ context.Context,
			o client.Object) []string {
			return NodeOf(o)
		}), builder.WithPredicates(demandChanged)).
		Watches(&storagev1.StorageClass{}, later(r.allNodes),
			builder.WithPredicates(predicate.NewPredicateFuncs(ours))).
		Watches(&storagev1.CSIStorageCapacity{},
			later(func(_ context.Context, o client.Object) []string { return []string{nodeOfCapacity(o)} })).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(adapt.Reconciler(r))
}

// later returns a handler that enqueues nodes after the time gather.
func later(nodes func(context.Context, client.Object) []string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, object client.Object, q queue) {
		if object == nil {
			return
		}
		for _, node := range nodes(ctx, object) {
			if node != "" {
				q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: node}}, gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}

// allNodes returns the names of all nodes, each of which a StorageClass may affect.
func (r *Reconciler) allNodes(ctx context.Context, _ client.Object) []string {
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil // A started cache returns no errors.
	}
	names := make([]string, 0, len(nodes.Items))
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	return names
}

// offerChanged passes a change of the capacity that a Node offers. Nodes have many other changes.
var offerChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !maps.Equal(offer(e.ObjectOld), offer(e.ObjectNew)) ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// registrationChanged passes a registration of the driver on a node, or its end.
var registrationChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*storagev1.CSINode)
	after, ok2 := e.ObjectNew.(*storagev1.CSINode)
	return !ok || !ok2 || supply.IsRegistered(before) != supply.IsRegistered(after)
}}

func offer(node client.Object) map[string]string {
	offer := map[string]string{wellknown.TopologyNodeKey: node.GetLabels()[wellknown.TopologyNodeKey]}
	for key, value := range node.GetAnnotations() {
		if strings.HasPrefix(key, wellknown.CapacityAnnotationPrefix) {
			offer[key] = value
		}
	}
	return offer
}

// demandChanged passes a LogicalVolume that is requested, created, refused or no longer needed.
var demandChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*topolvmv1.LogicalVolume)
	after, ok2 := e.ObjectNew.(*topolvmv1.LogicalVolume)
	return !ok || !ok2 || supply.IsPending(before) != supply.IsPending(after)
}}
