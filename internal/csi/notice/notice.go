// Package notice sends events: on a Pod that waits until data is copied to its volume, and those that automation of
// upstream LVMS reads, on a claim that no node has enough capacity for, and on a PersistentVolume whose claim reference
// was removed. It changes nothing.
package notice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

const (
	// settle is how old a claim must be before its capacity is looked at, so that a claim that is being provisioned
	// causes no event.
	settle = 15 * time.Second
	// interval is the time between two looks at a claim that is pending.
	interval = 30 * time.Second
	// maxNodes is the maximum number of nodes in the event.
	maxNodes = 8
)

// Events about claims and PersistentVolumes.
var (
	// notEnoughCapacity is a Warning event on the PersistentVolumeClaim: it is pending, and no node has enough capacity
	// in the device class for it. The note has the capacity of the nodes with the most.
	// What to do: request less, add a device to a volume group, or delete volumes that are not needed.
	notEnoughCapacity = event.Warning("NotEnoughCapacity", "Provision",
		"Requested storage (%s) is greater than available capacity on any node (%s).")
	// claimReferenceRemoved is a Warning event on the PersistentVolume: its claimRef was removed or never set, so any
	// claim can be bound to it, and gets its data.
	// What to do: if the data is not needed, delete the PersistentVolume and its LogicalVolume.
	claimReferenceRemoved = event.Warning("ClaimReferenceRemoved", "Release",
		// The first two sentences are upstream's, which automation reads.
		"Claim reference has been removed. This PV is no longer dynamically managed by LVM Storage and will need to "+
			"be cleaned up manually: any claim can be bound to it, and gets the data of volume %s. If the data is not "+
			"needed, delete the PersistentVolume and its LogicalVolume")
)

// Claims sends NotEnoughCapacity.
type Claims struct {
	cache client.Reader
	notices
	now func() time.Time
}

// notices sends the events about the objects of a kind, and forgets those that no longer need one. It is used by one
// worker.
type notices struct {
	events *event.Emitter
	about  map[types.NamespacedName]client.Object
}

func newNotices(recorder event.Recorder) notices {
	return notices{event.NewEmitter(recorder), map[types.NamespacedName]client.Object{}}
}

func (n notices) emit(about client.Object, e event.Event, args ...any) {
	key := client.ObjectKeyFromObject(about)
	if old := n.about[key]; old != nil && old.GetUID() != about.GetUID() {
		n.forget(key)
	}
	n.about[key] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: about.GetUID()}}
	n.events.Emit(about, e, args...)
}

func (n notices) forget(key types.NamespacedName) {
	if old := n.about[key]; old != nil {
		n.events.Forget(old)
		delete(n.about, key)
	}
}

// NewClaims returns a Claims. The cache has at least the claims that are not settled.
func NewClaims(cache client.Reader, recorder event.Recorder) *Claims {
	return &Claims{cache: cache, notices: newNotices(recorder), now: time.Now}
}

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile sends an event if a claim is pending and no node has enough capacity for it.
func (c *Claims) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.cache.Get(ctx, request.NamespacedName, claim); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(request.NamespacedName) // deleted, or bound and so no longer in the cache
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	class, ours, err := c.classOf(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !ours || !isPending(claim) {
		c.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if age := c.now().Sub(claim.CreationTimestamp.Time); age < settle {
		return reconcile.Result{RequeueAfter: settle - age}, nil
	}
	nodes := &corev1.NodeList{}
	if err := c.cache.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if rooms := roomsOf(nodes.Items, class); len(rooms) == 0 || rooms[0].bytes < requested.Value() {
		c.emit(claim, notEnoughCapacity, requested.String(), describe(rooms))
	} else {
		c.forget(request.NamespacedName)
	}
	return reconcile.Result{RequeueAfter: interval}, nil
}

func isPending(object client.Object) bool {
	claim, ok := object.(*corev1.PersistentVolumeClaim)
	return ok && claim.DeletionTimestamp.IsZero() && claim.Spec.VolumeName == "" &&
		claim.Status.Phase == corev1.ClaimPending
}

// classOf returns the device class of a claim, and whether the claim is for this driver.
func (c *Claims) classOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, bool, error) {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
		return "", false, nil
	}
	class := &storagev1.StorageClass{}
	if err := c.cache.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
		return "", false, client.IgnoreNotFound(err)
	}
	return class.Parameters[wellknown.DeviceClassParameter], class.Provisioner == wellknown.DriverName, nil
}

// room is the capacity of a node.
type room struct {
	node  string
	bytes int64
}

// roomsOf returns the capacity of the nodes that offer a device class, the most first.
func roomsOf(nodes []corev1.Node, class string) []room {
	var rooms []room
	for i := range nodes {
		if supply.Offers(&nodes[i], class) {
			rooms = append(rooms, room{nodes[i].Name, supply.CapacityOf(&nodes[i], class)})
		}
	}
	slices.SortFunc(rooms, func(a, b room) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.node, b.node))
	})
	return rooms
}

func describe(rooms []room) string {
	if len(rooms) == 0 {
		return "no node offers the device class"
	}
	var list []string
	for _, r := range rooms[:min(len(rooms), maxNodes)] {
		list = append(list, r.node+": "+resource.NewQuantity(r.bytes, resource.BinarySI).String())
	}
	if more := len(rooms) - maxNodes; more > 0 {
		list = append(list, fmt.Sprintf("%d more nodes with less", more))
	}
	return strings.Join(list, ", ")
}

// SetupWithManager starts the controller with the manager.
func (c *Claims) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("claim-notices").
		Watches(&corev1.PersistentVolumeClaim{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(isPending))).
		Complete(adapt.Reconciler(c))
}

// Volumes sends ClaimReferenceRemoved.
type Volumes struct {
	cache client.Reader
	notices
}

// NewVolumes returns a Volumes. The cache has at least the PersistentVolumes that are not settled.
func NewVolumes(cache client.Reader, recorder event.Recorder) *Volumes {
	return &Volumes{cache: cache, notices: newNotices(recorder)}
}

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch

// Reconcile sends an event if a PersistentVolume has no claim reference.
func (v *Volumes) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pv := &corev1.PersistentVolume{}
	if err := v.cache.Get(ctx, request.NamespacedName, pv); err != nil {
		if apierrors.IsNotFound(err) {
			v.forget(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !lacksClaim(pv) {
		v.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	v.emit(pv, claimReferenceRemoved, pv.Spec.CSI.VolumeHandle)
	return reconcile.Result{}, nil
}

// lacksClaim reports whether a PersistentVolume of this driver has no claim reference. The provisioner and the import
// create none without.
func lacksClaim(object client.Object) bool {
	pv, ok := object.(*corev1.PersistentVolume)
	return ok && pv.DeletionTimestamp.IsZero() && pv.Spec.CSI != nil && pv.Spec.CSI.Driver == wellknown.DriverName &&
		pv.Spec.ClaimRef == nil
}

// lackedClaim returns a predicate for PersistentVolumes that lack a claim, or did before the event.
func lackedClaim() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool { return lacksClaim(e.Object) },
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return lacksClaim(e.ObjectOld) || lacksClaim(e.ObjectNew) },
		DeleteFunc: func(e ctrlevent.DeleteEvent) bool { return lacksClaim(e.Object) },
	}
}

// SetupWithManager starts the controller with the manager.
func (v *Volumes) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("volume-notices").
		Watches(&corev1.PersistentVolume{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(lackedClaim())).
		Complete(adapt.Reconciler(v))
}
