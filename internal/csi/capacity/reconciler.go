// Package capacity keeps the CSIStorageCapacity objects, from which the scheduler knows where a volume fits. It makes
// them from what the agents write on their Nodes, less what a node has been asked for and has not made yet, as soon as
// that changes.
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

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/csi/driver"
)

// The labels by which external-provisioner knows its objects. Those that it has made are taken over: their names tell
// nothing.
const (
	driverLabel    = "csi.storage.k8s.io/drivername"
	managedByLabel = "csi.storage.k8s.io/managed-by"
	manager        = "lvms-operator"
)

const (
	// gather is how long changes of a node are gathered before its objects are written: a burst of claims is one
	// change.
	gather = 300 * time.Millisecond
	// workers is how many nodes are worked on at a time.
	workers = 4
)

// Reconciler keeps the objects of one node at a time.
type Reconciler struct {
	client    client.Client
	active    client.Reader
	namespace string
}

// New returns a Reconciler that makes its objects in a namespace. The client reads from a cache, with
// CSIStorageCapacities of the namespace. active is that cache itself, with the LogicalVolumes that are not settled,
// indexed by NodeField.
func New(c client.Client, active client.Reader, namespace string) *Reconciler {
	return &Reconciler{client: c, active: active, namespace: namespace}
}

// NodeField is the index of LogicalVolumes by their node. TopoLVM has one of its own in the same cache.
const NodeField = "lvms:node"

// capacityField is the index of CSIStorageCapacities of this driver by the node that they are about.
const capacityField = "lvms:node"

// capacityOf is the key of a CSIStorageCapacity in capacityField.
func capacityOf(object client.Object) []string {
	if node := nodeOfCapacity(object); node != "" && object.GetLabels()[driverLabel] == v1alpha1.DriverName {
		return []string{node}
	}
	return nil
}

// NodeOf is the key of a LogicalVolume in NodeField.
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

// Reconcile brings the objects of a node to what the node offers. The name of the request is that of the node.
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

// correct updates an object, or deletes one that is not wanted.
func (r *Reconciler) correct(ctx context.Context, present *storagev1.CSIStorageCapacity,
	want map[string]*storagev1.CSIStorageCapacity) error {
	wish := want[present.Name]
	if wish == nil {
		return client.IgnoreNotFound(r.client.Delete(ctx, present))
	}
	next := present.DeepCopy()
	next.Capacity = wish.Capacity
	next.MaximumVolumeSize = wish.MaximumVolumeSize
	next.Labels = maps.Clone(present.Labels)
	maps.Copy(next.Labels, wish.Labels)
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

// wanted are the objects of a node by their names: one for each StorageClass whose volumes wait for their Pod and whose
// device class the node offers.
func (r *Reconciler) wanted(ctx context.Context, name string) (map[string]*storagev1.CSIStorageCapacity, error) {
	want := map[string]*storagev1.CSIStorageCapacity{}
	node := &corev1.Node{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return want, client.IgnoreNotFound(err)
	}
	if !node.DeletionTimestamp.IsZero() || node.Labels[v1alpha1.TopologyNodeKey] != name {
		return want, nil
	}
	csiNode := &storagev1.CSINode{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, csiNode); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("CSINode %s: %w", name, err)
	}
	if !driver.IsRegistered(csiNode) {
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
		device := class.Parameters[v1alpha1.DeviceClassParameter]
		if !ours(class) || !driver.Offers(node, device) {
			continue
		}
		if device == "" {
			var err error
			if device, err = driver.DefaultClass(ctx, r.client); err != nil {
				return nil, err
			}
		}
		room := max(0, driver.CapacityOf(node, device)-driver.Pending(volumes.Items, device)[name])
		object := r.object(class.Name, name, room)
		want[object.Name] = object
	}
	return want, nil
}

func ours(object client.Object) bool {
	class, ok := object.(*storagev1.StorageClass)
	return ok && class.Provisioner == v1alpha1.DriverName && class.DeletionTimestamp.IsZero() &&
		class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// object says how much there is for a StorageClass on a node. One volume can have all of it.
func (r *Reconciler) object(class, node string, bytes int64) *storagev1.CSIStorageCapacity {
	size := resource.NewQuantity(bytes, resource.BinarySI)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.namespace, Name: objectName(class, node),
			Labels: map[string]string{driverLabel: v1alpha1.DriverName, managedByLabel: manager},
		},
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.TopologyNodeKey: node}},
		StorageClassName: class, Capacity: size, MaximumVolumeSize: size,
	}
}

// objectName is the same for the same StorageClass and node, so that two operators do not make two objects.
func objectName(class, node string) string {
	sum := sha256.Sum256([]byte(class + "/" + node))
	return "lvms-" + hex.EncodeToString(sum[:16])
}

// nodeOfCapacity is the node that an object is about; "" if it is about none, or several.
func nodeOfCapacity(object client.Object) string {
	capacity, ok := object.(*storagev1.CSIStorageCapacity)
	if !ok || capacity.NodeTopology == nil || len(capacity.NodeTopology.MatchLabels) != 1 {
		return ""
	}
	return capacity.NodeTopology.MatchLabels[v1alpha1.TopologyNodeKey]
}

// SetupWithManager adds the reconciler to a manager: Nodes whose capacity changes, LogicalVolumes that are asked for or
// made, StorageClasses that come and go, and objects that somebody else has changed wake it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &topolvmv1.LogicalVolume{}, NodeField,
		NodeOf); err != nil {
		return fmt.Errorf("index of LogicalVolumes by node: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &storagev1.CSIStorageCapacity{}, capacityField,
		capacityOf); err != nil {
		return fmt.Errorf("index of CSIStorageCapacities by node: %w", err)
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
		Complete(r)
}

// later asks for a reconcile of nodes when their changes have been gathered.
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

// allNodes are those that a StorageClass may have to do with.
func (r *Reconciler) allNodes(ctx context.Context, _ client.Object) []string {
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil // The cache does not fail once it has begun.
	}
	names := make([]string, 0, len(nodes.Items))
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	return names
}

// offerChanged lets pass that a Node offers something else. Nodes change all the time otherwise.
var offerChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !maps.Equal(offer(e.ObjectOld), offer(e.ObjectNew)) ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// registrationChanged lets pass that a kubelet has registered the driver, or no longer has it.
var registrationChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*storagev1.CSINode)
	after, ok2 := e.ObjectNew.(*storagev1.CSINode)
	return !ok || !ok2 || driver.IsRegistered(before) != driver.IsRegistered(after)
}}

func offer(node client.Object) map[string]string {
	offer := map[string]string{v1alpha1.TopologyNodeKey: node.GetLabels()[v1alpha1.TopologyNodeKey]}
	for key, value := range node.GetAnnotations() {
		if strings.HasPrefix(key, v1alpha1.CapacityAnnotationPrefix) {
			offer[key] = value
		}
	}
	return offer
}

// demandChanged lets pass that a volume is asked for, made, refused or not wanted any longer.
var demandChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*topolvmv1.LogicalVolume)
	after, ok2 := e.ObjectNew.(*topolvmv1.LogicalVolume)
	return !ok || !ok2 || driver.IsPending(before) != driver.IsPending(after)
}}
