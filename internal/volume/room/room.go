// Package room decides whether a node has room for a volume. The operator uses it when it selects the target of a move
// and the node of a copy, and the kubectl plugin for its plans. The console has the same rules: evacuation.ts.
//
// A thin volume needs virtual size, and physical space for its data. The node agents report both in the node status.
// How much data a single volume has is not known, only that of its whole thin pool. So there are three answers: there
// is no room, there is room for all data that the volume can have, or it is doubtful. Then the agent of the node
// decides when the copy begins, and refuses it if the data does not fit.
package room

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Volume is what a volume needs. Its sizes are in bytes.
type Volume struct {
	Size int64
	// Data is how much data can be copied to the node, at most: for several volumes of a thin pool, that of the pool.
	// It is 0 for an empty volume.
	Data int64
}

// Copy returns what a copy of a volume needs. pool is the thin pool of its source: the volume cannot have more data
// than the pool. It is nil if the source is thick, or if the state of the pool is not known.
func Copy(size int64, pool *v1alpha1.ThinPoolStatus) Volume {
	if pool == nil || pool.Free == nil {
		return Volume{Size: size, Data: math.MaxInt64}
	}
	return Volume{Size: size, Data: Used(pool)}
}

// Used returns how much data a thin pool has, in bytes.
func Used(pool *v1alpha1.ThinPoolStatus) int64 {
	return int64(float64(pool.Size.Value()) / 100 * float64(pool.DataPercent))
}

// Node is what a node has for the volumes of a device class. Its sizes are in bytes.
type Node struct {
	// Free is the size that a new volume can have.
	Free int64
	// Pool is the thin pool, or nil if the device class is thick or the state of the pool is not known.
	Pool *v1alpha1.ThinPoolStatus
	// Assigned is the size of other volumes of the same source that are copied to the pool.
	Assigned int64
}

// Of returns what a node has according to its status. known is false if the status does not say it. The node agents of
// earlier versions do not report the virtual size that new volumes can have: then it is the free space of the pool.
func Of(group *v1alpha1.VGStatus, isThin bool) (node Node, known bool) {
	free := group.Free
	if isThin {
		if group.ThinPool == nil {
			return Node{}, false
		}
		node.Pool = group.ThinPool
		free = cmp.Or(group.ThinPool.VirtualFree, group.ThinPool.Free)
	}
	if free == nil {
		return Node{}, false
	}
	node.Free = free.Value()
	return node, true
}

// IsOpen reports whether data can be copied to the node.
func (n Node) IsOpen() bool { return !n.isPoolKnown() || n.Pool.CopyFree.Value() > 0 }

// data returns how much data the node gets if a volume is copied to it, at most.
func (n Node) data(v Volume) int64 { return min(v.Data, n.Assigned+v.Size) }

// isPoolKnown reports whether the node agent has reported how much data can be copied to the pool.
func (n Node) isPoolKnown() bool { return n.Pool != nil && n.Pool.CopyFree != nil }

// Refusal returns why a node has no room for a volume, as what follows the name of the node, or "".
func (n Node) Refusal(v Volume) string {
	switch {
	case n.Free < v.Size:
		return fmt.Sprintf("has %s free", quantity(max(0, n.Free)))
	case !n.IsOpen() && n.data(v) > 0:
		return fmt.Sprintf("has the thin pool %s, which is too full for copies: its data is %d%% full, and its "+
			"metadata %d%%", n.Pool.Name, n.Pool.DataPercent, n.Pool.MetadataPercent)
	}
	return ""
}

// Doubt returns why a node that does not refuse a volume may have no room for its data, as what follows the name of the
// node, or "".
func (n Node) Doubt(v Volume) string {
	if !n.isPoolKnown() || n.Pool.CopyFree.Value() >= n.data(v) {
		return ""
	}
	return fmt.Sprintf("has room for %s of data in thin pool %s, and the volume has at most %s",
		n.Pool.CopyFree.String(), n.Pool.Name, quantity(n.data(v)))
}

// Better reports whether a volume is rather created on this node than on another one. Both have room for it.
func (n Node) Better(other Node, v Volume) bool {
	mine, others := n.Doubt(v) == "", other.Doubt(v) == ""
	return mine && !others || mine == others && n.Free > other.Free
}

// Best returns the best node for a volume, the first one by name of several, or "" if none has room.
func Best(nodes map[string]Node, v Volume) string {
	best := ""
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if nodes[name].Refusal(v) == "" && (best == "" || nodes[name].Better(nodes[best], v)) {
			best = name
		}
	}
	return best
}

// Pools returns the thin pools of a device class by node, without those whose state is outdated.
func Pools(statuses []v1alpha1.LVMVolumeGroupNodeStatus, class string,
	now time.Time) map[string]*v1alpha1.ThinPoolStatus {
	pools := map[string]*v1alpha1.ThinPoolStatus{}
	for i := range statuses {
		groups := statuses[i].Status.NodeStatus
		at := slices.IndexFunc(groups, func(g v1alpha1.VGStatus) bool { return g.Name == class })
		if at >= 0 && groups[at].ThinPool != nil && !statuses[i].Status.IsStale(now) {
			pools[statuses[i].Name] = groups[at].ThinPool
		}
	}
	return pools
}

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }
