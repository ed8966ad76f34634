package volumemove

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
)

// This file keeps a move from filling the thin pool of its source. The snapshots of a move keep what Pods overwrite in
// the volume meanwhile, so the pool can fill up, and all volumes in it fail. When the pool reaches the limit at which
// copies to it stop too, the copy is discarded with its snapshots. If no Pod uses the volume, nothing is overwritten.

// beginMargin is which part of the pool must be below the limit before a copy that was discarded begins again.
const beginMargin = 20

// fills returns that the thin pool of the source fills up while Pods use the volume, or "". hasBegun: the copy was
// discarded before, so it needs more room to begin again.
func (s *state) fills(hasBegun bool) string {
	pool := s.sourcePool
	if pool == nil || pool.CopyFree == nil || len(s.pods) == 0 {
		return ""
	}
	least := int64(1)
	if hasBegun {
		least = max(1, pool.Size.Value()/beginMargin)
	}
	if pool.CopyFree.Value() >= least {
		return ""
	}
	node := s.sourceNode()
	if s.volume != nil {
		node = s.volume.Spec.NodeName
	}
	return fmt.Sprintf("the thin pool %s of node %s fills: its data is %d%% full, and its metadata %d%%. A snapshot "+
		"keeps what Pods overwrite, so the volume is copied when the thin pool has room, or no Pod uses the volume: "+
		"%s. Extend the thin pool, delete volumes or snapshots there, or end the Pods", pool.Name, node,
		pool.DataPercent, pool.MetadataPercent, s.podText())
}

// hasBegun reports whether a copy has begun before.
func (s *state) hasBegun() bool { return s.move.Status.StartTime != nil }

// poolOf returns the thin pool of a node, or nil if it is not known.
func poolOf(candidates []candidate, node string) *v1alpha1.ThinPoolStatus {
	at := slices.IndexFunc(candidates, func(c candidate) bool { return c.Node == node })
	if at < 0 {
		return nil
	}
	return candidates[at].pool
}

// readSourcePool reads the thin pool from which a volume is being copied.
func (c *Controller) readSourcePool(ctx context.Context, s *state) error {
	if s.isSwitched() || s.move.Status.TargetNode == "" || s.move.Status.Thick {
		return nil
	}
	key := client.ObjectKey{Namespace: c.namespace, Name: s.sourceNode()}
	status, err := relocate.Get(ctx, c.client, key, &v1alpha1.LVMVolumeGroupNodeStatus{})
	if err != nil || status == nil {
		return err
	}
	pools := room.Pools([]v1alpha1.LVMVolumeGroupNodeStatus{*status}, s.move.Status.DeviceClass, c.now())
	s.sourcePool = pools[status.Name]
	return nil
}

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
