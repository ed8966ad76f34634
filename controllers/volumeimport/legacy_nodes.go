package volumeimport

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/nodeannotations"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch

// releaseNodes removes what TopoLVM wrote to Nodes under its earlier name, unless it still runs: the finalizer, which
// would block the deletion of a Node, and the capacity of its device classes. The topology label stays, because the
// PersistentVolumes that are not migrated need it. A Node that has just changed is left to the next pass.
func (l *legacyVolumes) releaseNodes(ctx context.Context, topolvm *runningTopoLVM) error {
	nodes := &corev1.NodeList{}
	if err := l.client.List(ctx, nodes); err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	var errs []error
	for i := range nodes.Items {
		errs = append(errs, l.releaseNode(ctx, topolvm, &nodes.Items[i]))
	}
	return errors.Join(errs...)
}

func (l *legacyVolumes) releaseNode(ctx context.Context, topolvm *runningTopoLVM, node *corev1.Node) error {
	released := node.DeepCopy()
	if !nodeannotations.Remove(released, wellknown.EarlierCapacityAnnotationPrefix, wellknown.EarlierNodeFinalizer) {
		return nil
	}
	if left, err := topolvm.isLeft(ctx, node.Name); left || err != nil {
		return err
	}
	// The optimistic lock is necessary because the patch replaces the list of finalizers.
	err := l.client.Patch(ctx, released, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("remove the finalizer %s and the annotations %s* from node %s: %w",
			wellknown.EarlierNodeFinalizer, wellknown.EarlierCapacityAnnotationPrefix, node.Name, err)
	}
	log.FromContext(ctx).Info("removed the finalizer and the capacity annotations of an earlier TopoLVM", "node",
		node.Name, "driver", wellknown.EarlierDriverName)
	return nil
}
