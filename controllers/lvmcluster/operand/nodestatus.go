package operand

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
)

// lvmVGNodeStatus keeps one LVMVolumeGroupNodeStatus for each node with a node agent. The operator creates the object,
// and the agent writes its status. If the agent no longer does so, the operator sets DevicesObserved to Unknown.
type lvmVGNodeStatus struct {
	// outdated has the nodes whose node status was marked as outdated, until it is no longer stale. Only one worker
	// reconciles the LVMCluster.
	outdated sets.Set[string]
}

func newNodeStatusManager() lvmVGNodeStatus { return lvmVGNodeStatus{outdated: sets.New[string]()} }

// GetName names the manager.
func (lvmVGNodeStatus) GetName() string { return "lvmVGNodeStatus" }

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses/status,namespace=openshift-lvm-storage,verbs=patch

// EnsureCreated applies the node statuses. If the agent can no longer run on a node, the node status remains as long as
// it has an entry for a volume group: the group still exists and must stay visible.
func (m lvmVGNodeStatus) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	nodes, err := r.Current.AgentNodes(cluster)
	if err != nil {
		return err
	}
	var errs []error
	desired := sets.New[string]()
	for _, node := range nodes {
		desired.Insert(node.Name)
		present, ok := r.Current.NodeStatuses[node.Name]
		if ok && isMarked(&present, cluster) {
			continue
		}
		status := ownedOperand(cluster, "LVMVolumeGroupNodeStatus", node.Name, "node-status")
		setFinalizer(status, &present, wellknown.NodeStatusFinalizer)
		errs = append(errs, r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(status)))
	}
	for name, status := range r.Current.NodeStatuses {
		if !desired.Has(name) && len(status.Status.NodeStatus) == 0 && observe.IsOwned(&status, cluster) {
			errs = append(errs, r.Applier.Delete(ctx, r.Client, status.DeepCopy()))
		}
	}
	errs = append(errs, m.markOutdated(ctx, r, cluster), r.releaseNodeStatuses(ctx, r.Current.NodeStatuses))
	return errors.Join(errs...)
}

// markOutdated sets DevicesObserved to Unknown where it is True although the agent has not observed its node for
// ObservationLimit. An agent that continues to write a time that old has a wrong clock: its node status is marked once,
// and VolumeGroupsReady reports it.
func (m lvmVGNodeStatus) markOutdated(ctx context.Context, r Reconciler, cluster *lvmv1alpha1.LVMCluster) error {
	for node := range m.outdated {
		if !r.Current.IsStale(node) {
			m.outdated.Delete(node)
		}
	}
	var errs []error
	for node, status := range r.Current.NodeStatuses {
		if m.outdated.Has(node) || !r.Current.IsStale(node) || !observe.IsOwned(&status, cluster) ||
			!meta.IsStatusConditionTrue(status.Status.Conditions, lvmv1alpha1.ConditionDevicesObserved) {
			continue
		}
		err := setOutdated(ctx, r, &status)
		switch {
		case err == nil:
			m.outdated.Insert(node)
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err): // otherwise the change is reconciled
			errs = append(errs, fmt.Errorf("node status %s: mark as outdated: %w", node, err))
		}
	}
	return errors.Join(errs...)
}

// setOutdated sets DevicesObserved to Unknown. It fails with Conflict if the node status has changed since it was read.
func setOutdated(ctx context.Context, r Reconciler, status *lvmv1alpha1.LVMVolumeGroupNodeStatus) error {
	next := status.DeepCopy()
	meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
		Type: lvmv1alpha1.ConditionDevicesObserved, Status: metav1.ConditionUnknown,
		Reason: lvmv1alpha1.ReasonObservationOutdated, Message: observe.NotObservedSince(status),
	})
	return r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(status,
		client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
}

// isMarked reports whether a node status already has everything that the operator sets, so that the operator does not
// write a thousand of them at its start.
func isMarked(status *lvmv1alpha1.LVMVolumeGroupNodeStatus, cluster *lvmv1alpha1.LVMCluster) bool {
	for key, value := range labels(cluster, "node-status") {
		if status.Labels[key] != value {
			return false
		}
	}
	return metav1.IsControlledBy(status, cluster) &&
		(slices.ContainsFunc(status.Finalizers, isNodeStatusFinalizer) || !status.DeletionTimestamp.IsZero())
}

// EnsureDeleted deletes all node statuses, and the records of wiped devices and deleted volumes of nodes that no longer
// exist. It removes the finalizer, because the volume groups are already removed.
func (lvmVGNodeStatus) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	statuses := &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := r.Live.List(ctx, statuses, client.InNamespace(cluster.Namespace)); err != nil {
		return fmt.Errorf("list LVMVolumeGroupNodeStatuses to delete them: %w", err)
	}
	for _, status := range statuses.Items {
		if _, err := r.Applier.Release(ctx, &status, isNodeStatusFinalizer); err != nil {
			return err
		}
	}
	record := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cluster.Namespace}}
	}
	return errors.Join(
		r.Applier.Prune(ctx, r.Live, &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}, keepNone,
			client.InNamespace(cluster.Namespace)),
		r.Applier.Delete(ctx, r.Live, record(removednode.WipedDevices)),
		r.Applier.Delete(ctx, r.Live, record(removednode.DeletedVolumes)),
	)
}

func isNodeStatusFinalizer(finalizer string) bool {
	return finalizer == wellknown.NodeStatusFinalizer
}
