package volumemove

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// movesFrom returns the moves from the node of a node status with a thin pool that is too full for copies.
func (c *Controller) movesFrom(ctx context.Context, object client.Object) []reconcile.Request {
	status, is := object.(*v1alpha1.LVMVolumeGroupNodeStatus)
	if !is || !slices.ContainsFunc(status.Status.NodeStatus, isFull) {
		return nil
	}
	moves := &v1alpha1.VolumeMoveList{}
	if err := c.client.List(ctx, moves, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // The moves are read again after their delay.
	}
	var requests []reconcile.Request
	for i := range moves.Items {
		move := &moves.Items[i]
		isCopied := move.Status.TargetNode != "" && move.Status.SwitchTime == nil && !move.Status.Thick
		if isCopied && move.Status.SourceNode == status.Name && !isDone(move) {
			c.wake(client.ObjectKeyFromObject(move))
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(move)})
		}
	}
	return requests
}

func isFull(group v1alpha1.VGStatus) bool {
	return group.ThinPool != nil && group.ThinPool.CopyFree != nil && group.ThinPool.CopyFree.Value() <= 0
}
