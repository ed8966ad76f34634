package lvmcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// lvmVGNodeStatus keeps one LVMVolumeGroupNodeStatus for each node with a node agent. The operator creates the object,
// and the agent writes its status.
type lvmVGNodeStatus struct{}

// GetName names the manager.
func (lvmVGNodeStatus) GetName() string { return "lvmVGNodeStatus" }

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the node statuses. If the agent can no longer run on a node, the node status remains as long as
// it has an entry for a volume group: the group still exists and must stay visible.
func (lvmVGNodeStatus) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	nodes, err := r.Seen.agentNodes(cluster)
	if err != nil {
		return err
	}
	var errs []error
	wanted := sets.New[string]()
	for _, node := range nodes {
		wanted.Insert(node.Name)
		present, ok := r.Seen.NodeStatuses[node.Name]
		if ok && isMarked(&present, cluster) {
			continue
		}
		status := ownedOperand(cluster, "LVMVolumeGroupNodeStatus", node.Name, "node-status")
		protect(status, &present, lvmv1alpha1.NodeStatusFinalizer)
		errs = append(errs, r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(status)))
	}
	for name, status := range r.Seen.NodeStatuses {
		if !wanted.Has(name) && len(status.Status.NodeStatus) == 0 && belongs(&status, cluster) {
			errs = append(errs, r.Applier.Delete(ctx, r.Client, status.DeepCopy()))
		}
	}
	return errors.Join(append(errs, r.releaseNodeStatuses(ctx, r.Seen.NodeStatuses))...)
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

// EnsureDeleted deletes all node statuses, and the record of wiped devices of nodes that no longer exist. It removes
// the finalizer, because the volume groups are already removed.
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
	wiped := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lvmv1alpha1.WipedDevicesConfigMap,
		Namespace: cluster.Namespace}}
	return errors.Join(
		r.Applier.Prune(ctx, r.Live, &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}, keepNone,
			client.InNamespace(cluster.Namespace)),
		r.Applier.Delete(ctx, r.Live, wiped),
	)
}

func isNodeStatusFinalizer(finalizer string) bool {
	return finalizer == lvmv1alpha1.NodeStatusFinalizer
}
