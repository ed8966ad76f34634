// Package statuscopy copies the state of the volume groups of each node to spec.nodeStatus of its
// LVMVolumeGroupNodeStatus, where upstream LVMS has it and the scripts of its users read it.
package statuscopy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

// Controller copies the status of one node at a time.
type Controller struct {
	client    client.Client
	namespace string
}

// New returns a Controller. The client reads from a cache.
func New(c client.Client, namespace string) *Controller {
	return &Controller{client: c, namespace: namespace}
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroups,namespace=openshift-lvm-storage,verbs=get;list;watch

// Reconcile writes the copy if it differs.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := c.client.Get(ctx, request.NamespacedName, status); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !status.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	groups := &v1alpha1.LVMVolumeGroupList{}
	if err := c.client.List(ctx, groups, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	after := status.DeepCopy()
	after.Spec.NodeStatus = copyOf(status.Status.NodeStatus, groups.Items)
	if equality.Semantic.DeepEqual(status.Spec, after.Spec) {
		return reconcile.Result{}, nil
	}
	if err := c.client.Patch(ctx, after, client.MergeFrom(status)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("copy the status of node %s: %w", status.Name, err)
	}
	return reconcile.Result{}, nil
}

// copyOf returns the copy of entries, sorted by name. groups are the device classes.
func copyOf(entries []v1alpha1.VGStatus, groups []v1alpha1.LVMVolumeGroup) []v1alpha1.VGSummary {
	var list []v1alpha1.VGSummary
	for i := range entries {
		e := &entries[i]
		summary := v1alpha1.VGSummary{Name: e.Name, Status: e.Status, Reason: e.Reason, Devices: e.Devices,
			Excluded: e.Excluded, RAIDStatus: e.RAIDStatus}
		at := slices.IndexFunc(groups, func(g v1alpha1.LVMVolumeGroup) bool { return g.Name == e.Name })
		if at >= 0 {
			summary.DeviceDiscoveryPolicy = policyOf(&groups[at].Spec)
		}
		list = append(list, summary)
	}
	slices.SortFunc(list, func(a, b v1alpha1.VGSummary) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// policyOf returns how the devices of a device class are found, in the words of upstream.
func policyOf(spec *v1alpha1.LVMVolumeGroupSpec) string {
	named := func(s *v1alpha1.DeviceSelector) bool { return s != nil && len(s.Paths)+len(s.OptionalPaths) > 0 }
	switch {
	case named(spec.DeviceSelector) || slices.ContainsFunc(spec.DeviceSelectors,
		func(s v1alpha1.NodeDeviceSelector) bool { return named(&s.DeviceSelector) }):
		return v1alpha1.DiscoveryPreconfigured
	case spec.DeviceDiscoveryPolicy == v1alpha1.DeviceDiscoveryDynamic:
		return v1alpha1.DiscoveryRuntimeDynamic
	}
	return v1alpha1.DiscoveryRuntimeStatic
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("statuscopy").
		Watches(&v1alpha1.LVMVolumeGroupNodeStatus{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(entriesChanged())).
		Watches(&v1alpha1.LVMVolumeGroup{}, handler.EnqueueRequestsFromMapFunc(c.all),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(adapt.Reconciler(c))
}

// all returns a request for each node: a device class has changed.
func (c *Controller) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := c.client.List(ctx, list, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // The cache is not ready; each node status then causes a request of its own.
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// entriesChanged omits changes of other parts of a node status, which the node agents write every ten minutes.
func entriesChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.LVMVolumeGroupNodeStatus)
			after, same := e.ObjectNew.(*v1alpha1.LVMVolumeGroupNodeStatus)
			return !ok || !same || !equality.Semantic.DeepEqual(before.Status.NodeStatus, after.Status.NodeStatus) ||
				!equality.Semantic.DeepEqual(before.Spec, after.Spec)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
