package plan

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file keeps a move from filling the thin pool of its source. The snapshots of a move keep what Pods overwrite in
// the volume meanwhile, so the pool can fill up, and all volumes in it fail. When the pool reaches the limit at which
// copies to it stop too, the copy is discarded with its snapshots. If no Pod uses the volume, nothing is overwritten.

// beginMargin is which part of the pool must be below the limit before a copy that was discarded begins again.
const beginMargin = 20

// Fills returns that the thin pool of the source fills up while Pods use the volume, or "". hasBegun: the copy was
// discarded before, so it needs more room to begin again.
func (s *State) Fills(hasBegun bool) string {
	pool := s.SourcePool
	if pool == nil || pool.CopyFree == nil || len(s.Pods) == 0 {
		return ""
	}
	least := int64(1)
	if hasBegun {
		least = max(1, pool.Size.Value()/beginMargin)
	}
	if pool.CopyFree.Value() >= least {
		return ""
	}
	node := s.SourceNode()
	if s.Volume != nil {
		node = s.Volume.Spec.NodeName
	}
	return fmt.Sprintf("the thin pool %s of node %s fills: its data is %d%% full, and its metadata %d%%. A snapshot "+
		"keeps what Pods overwrite, so the volume is copied when the thin pool has room, or no Pod uses the volume: "+
		"%s. Extend the thin pool, delete volumes or snapshots there, or end the Pods", pool.Name, node,
		pool.DataPercent, pool.MetadataPercent, s.podText())
}

// HasBegun reports whether a copy has begun before.
func (s *State) HasBegun() bool { return s.Move.Status.StartTime != nil }

// PoolOf returns the thin pool of a node, or nil if it is not known.
func PoolOf(candidates []Candidate, node string) *v1alpha1.ThinPoolStatus {
	at := slices.IndexFunc(candidates, func(c Candidate) bool { return c.Node == node })
	if at < 0 {
		return nil
	}
	return candidates[at].Pool
}
