// Package node removes the finalizers and node statuses of nodes that no longer exist, because their agents cannot do
// it.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

const fieldOwner = "lvms-operator"

// Controller compares objects that name nodes with the nodes that exist.
type Controller struct {
	client    client.Client
	active    client.Reader
	live      client.Reader
	applier   *apply.Applier
	namespace string
}

// New returns a Controller. The client may read from a cache; live must not. active reads from a cache with at least
// the LogicalVolumes that are not settled, which include those that are being deleted.
func New(c client.Client, active, live client.Reader, namespace string) *Controller {
	return &Controller{client: c, active: active, live: live, applier: apply.New(c, fieldOwner), namespace: namespace}
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroups,namespace=openshift-lvm-storage,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch

// Reconcile removes the finalizers and node statuses of all nodes that no longer exist. The request is ignored: every
// run compares all names with all nodes.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// The order matters: read the objects that name nodes first, and then the nodes, from the API server. A node is
	// always created before the objects that name it, so its absence means that it was removed.
	named, err := c.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if missing, err := c.missing(ctx, named); !missing || err != nil {
		return reconcile.Result{}, err
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, errors.Join(
		c.releaseVolumeGroups(ctx, named.groups, nodes),
		c.releaseLogicalVolumes(ctx, named.volumes, named.groups, nodes),
		c.deleteNodeStatuses(ctx, named.statuses, named.groups, nodes),
	)
}

// naming has the objects that name nodes. They are shared with the cache and must not be modified.
type naming struct {
	groups   []lvmv1alpha1.LVMVolumeGroup
	statuses []lvmv1alpha1.LVMVolumeGroupNodeStatus
	// volumes are the LogicalVolumes that are being deleted.
	volumes []topolvmv1.LogicalVolume
}

func (c *Controller) read(ctx context.Context) (naming, error) {
	groups := &lvmv1alpha1.LVMVolumeGroupList{}
	if err := c.client.List(ctx, groups, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return naming{}, fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	statuses := &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := c.client.List(ctx, statuses, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return naming{}, fmt.Errorf("list LVMVolumeGroupNodeStatuses: %w", err)
	}
	volumes := &topolvmv1.LogicalVolumeList{}
	if err := c.active.List(ctx, volumes, client.UnsafeDisableDeepCopy); err != nil {
		return naming{}, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	deleted := slices.DeleteFunc(volumes.Items,
		func(v topolvmv1.LogicalVolume) bool { return v.DeletionTimestamp.IsZero() })
	return naming{groups.Items, statuses.Items, deleted}, nil
}

// missing reports whether an object names a node that is not in the cache. If none does, it is not necessary to list
// all nodes from the API server.
func (c *Controller) missing(ctx context.Context, n naming) (bool, error) {
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	named := sets.New[string]()
	for _, group := range n.groups {
		for _, finalizer := range group.Finalizers {
			if node, ofNode := strings.CutPrefix(finalizer, wellknown.NodeCleanupPrefix); ofNode {
				named.Insert(node)
			}
		}
	}
	for _, status := range n.statuses {
		named.Insert(status.Name)
	}
	for _, volume := range n.volumes {
		named.Insert(volume.Spec.NodeName)
	}
	for i := range nodes.Items {
		named.Delete(nodes.Items[i].Name)
	}
	return named.Len() > 0, nil
}

// nodes returns the names of the nodes that exist.
func (c *Controller) nodes(ctx context.Context) (sets.Set[string], error) {
	names := sets.New[string]()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	err := paging.Each(ctx, c.live, list, func(page *metav1.PartialObjectMetadataList) {
		for i := range page.Items {
			names.Insert(page.Items[i].Name)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return names, nil
}

// releaseVolumeGroups removes finalizers that upstream's agents added for nodes that no longer exist from the
// LVMVolumeGroups. If such a node returns, its agent manages the volume group that is still on its disks.
func (c *Controller) releaseVolumeGroups(ctx context.Context, groups []lvmv1alpha1.LVMVolumeGroup,
	nodes sets.Set[string]) error {
	existing := sets.New[string]()
	for node := range nodes {
		existing.Insert(wellknown.NodeCleanupFinalizer(node))
	}
	ofGoneNode := func(finalizer string) bool {
		return strings.HasPrefix(finalizer, wellknown.NodeCleanupPrefix) && !existing.Has(finalizer)
	}
	var errs []error
	for _, group := range groups {
		gone := slices.DeleteFunc(slices.Clone(group.Finalizers), func(f string) bool { return !ofGoneNode(f) })
		released, err := c.applier.Release(ctx, group.DeepCopy(), ofGoneNode)
		errs = append(errs, err)
		if released {
			log.FromContext(ctx).Info("removed the finalizers of deleted nodes from an LVMVolumeGroup",
				"deviceClass", group.Name, "finalizers", gone)
		}
	}
	return errors.Join(errs...)
}

// releaseLogicalVolumes removes the finalizer from LogicalVolumes that are being deleted and whose node no longer
// exists. Other LogicalVolumes stay: the node may return with its disks and volumes. Before that, it records the
// deletion.
func (c *Controller) releaseLogicalVolumes(ctx context.Context, volumes []topolvmv1.LogicalVolume,
	groups []lvmv1alpha1.LVMVolumeGroup, nodes sets.Set[string]) error {
	volumes = slices.DeleteFunc(slices.Clone(volumes), func(v topolvmv1.LogicalVolume) bool {
		return nodes.Has(v.Spec.NodeName) || !slices.Contains(v.Finalizers, wellknown.LogicalVolumeFinalizer)
	})
	if err := c.recordDeleted(ctx, volumes, groups); err != nil {
		return err
	}
	var errs []error
	for _, volume := range volumes {
		released, err := c.applier.Release(ctx, volume.DeepCopy(),
			func(f string) bool { return f == wellknown.LogicalVolumeFinalizer })
		errs = append(errs, err)
		if released {
			log.FromContext(ctx).Info("removed the finalizer of a deleted LogicalVolume of a deleted node: "+
				"if the node returns, the logical volume is still on its disks",
				"logicalVolume", volume.Name, "volume", volume.Status.VolumeID, "node", volume.Spec.NodeName)
		}
	}
	return errors.Join(errs...)
}

// deleteNodeStatuses deletes the node statuses of nodes that no longer exist, and removes their finalizer.
func (c *Controller) deleteNodeStatuses(ctx context.Context, statuses []lvmv1alpha1.LVMVolumeGroupNodeStatus,
	groups []lvmv1alpha1.LVMVolumeGroup, nodes sets.Set[string],
) error {
	var errs []error
	for _, status := range statuses {
		if nodes.Has(status.Name) {
			continue
		}
		// The cache may not have the most recently wiped devices yet.
		live := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(&status), live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			errs = append(errs, fmt.Errorf("read LVMVolumeGroupNodeStatus %s of a deleted node: %w", status.Name, err))
			continue
		}
		if err := c.keepRecords(ctx, live, groups); err != nil {
			errs = append(errs, err)
			continue
		}
		_, err := c.applier.Release(ctx, live, func(f string) bool { return f == wellknown.NodeStatusFinalizer })
		errs = append(errs, err, c.delete(ctx, live))
	}
	return errors.Join(errs...)
}

// delete deletes a node status. It does not wait for finalizers of others.
func (c *Controller) delete(ctx context.Context, status *lvmv1alpha1.LVMVolumeGroupNodeStatus) error {
	err := c.applier.Delete(ctx, c.live, status)
	if remaining := (*apply.RemainingError)(nil); errors.As(err, &remaining) {
		return nil
	}
	return err
}

// gather is the time during which events are collected, so that a thousand nodes that appear within a minute cause few
// reconciles.
const gather = time.Second

// SetupWithManager starts the controller with the manager. All events map to the same request.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("node").
		Watches(&corev1.Node{}, later, builder.WithPredicates(onlyDeleted())).
		Watches(&lvmv1alpha1.LVMVolumeGroup{}, later, builder.WithPredicates(notDeleted())).
		Watches(&lvmv1alpha1.LVMVolumeGroupNodeStatus{}, later, builder.WithPredicates(onlyCreated())).
		Watches(&topolvmv1.LogicalVolume{}, later, builder.WithPredicates(beingDeleted())).
		Complete(adapt.Reconciler(c))
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// later enqueues the request after the time gather.
var later = handler.Funcs{
	CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(reconcile.Request{}, gather) },
	UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(reconcile.Request{}, gather) },
	DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(reconcile.Request{}, gather) },
}

func onlyDeleted() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// onlyCreated returns a predicate for new objects. When the operator starts, all objects are new.
func onlyCreated() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func notDeleted() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// beingDeleted returns a predicate for objects that wait for their finalizers.
func beingDeleted() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(
		object client.Object) bool {
		return !object.GetDeletionTimestamp().IsZero()
	})
}
