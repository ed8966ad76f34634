package operand

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/nodeannotations"
)

// nodeCleanup removes what the agents wrote to the Nodes: the capacity annotations for the scheduler, and the
// finalizer, which would block the deletion of a Node when no agent is left to remove it.
type nodeCleanup struct{}

// GetName names the step.
func (nodeCleanup) GetName() string { return "nodeTraces" }

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;patch

// EnsureDeleted cleans the Nodes. The agents must have ended, or they write the annotations again.
func (nodeCleanup) EnsureDeleted(r Reconciler, ctx context.Context, _ *lvmv1alpha1.LVMCluster) error {
	nodes := &corev1.NodeList{}
	if err := r.Live.List(ctx, nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var errs []error
	for _, node := range nodes.Items {
		clean := node.DeepCopy()
		if !nodeannotations.Remove(clean, wellknown.CapacityAnnotationPrefix, wellknown.NodeFinalizer) {
			continue
		}
		// The optimistic lock is necessary because the patch replaces the list of finalizers.
		patch := client.MergeFromWithOptions(&node, client.MergeFromWithOptimisticLock{})
		if err := client.IgnoreNotFound(r.Client.Patch(ctx, clean, patch)); err != nil {
			errs = append(errs, fmt.Errorf("remove the driver's annotations and finalizer from node %s: %w",
				node.Name, err))
		}
	}
	return errors.Join(errs...)
}
