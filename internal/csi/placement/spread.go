package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file keeps the volumes of a spread group on different nodes. The node agent keeps them on different devices.

// SetSpread records in a LogicalVolume how it is kept apart from the volumes of other claims. It returns
// InvalidArgument if a label of the claim is not valid. claim can be nil.
func SetSpread(desired *topolvmv1.LogicalVolume, claim *corev1.PersistentVolumeClaim) error {
	if claim == nil {
		return nil
	}
	spread, err := view.NewSpread(claim.Namespace, claim.Labels)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "claim %s/%s: %v", claim.Namespace, claim.Name, err)
	}
	if spread.Group != "" {
		view.SetSpread(desired, spread)
	}
	return nil
}

// neighbors are the nodes from which a volume is kept away, because they have volumes of other claims of its group. The
// zero value has no nodes.
type neighbors struct {
	spread view.Spread
	// nodes has a description of one of these volumes for each node.
	nodes map[string]string
}

// neighborsOf returns the neighbors of a volume with SpreadNode. It reads them from the API server, because the cache
// does not have settled LogicalVolumes, and adds those for which other calls have just selected a node. Volumes that
// are being deleted, and those of the same claim, are not neighbors.
func (p *Placer) neighborsOf(ctx context.Context, desired *topolvmv1.LogicalVolume,
	spread view.Spread) (neighbors, error) {
	others := neighbors{spread: spread, nodes: map[string]string{}}
	if spread.Scope != wellknown.SpreadNode {
		return others, nil
	}
	// In this order, a volume that another call creates meanwhile is in one of them.
	p.placed.Range(func(_, placed any) bool {
		if lv, ok := placed.(*topolvmv1.LogicalVolume); ok {
			supply.AddNeighbor(others.nodes, lv, desired, spread)
		}
		return true
	})
	created, err := supply.Neighbors(ctx, p.Volumes.Live, desired, spread)
	if err != nil {
		return neighbors{}, status.Error(codes.Unavailable, err.Error())
	}
	maps.Copy(others.nodes, created)
	return others, nil
}

// refusal returns ResourceExhausted if a volume must not be on a node, so that the provisioner asks the scheduler for
// another node. source is the source of a copy that no other node may have, or "".
func (n neighbors) refusal(node, source string) error {
	neighbor := n.nodes[node]
	if neighbor == "" || !n.spread.Required() {
		return nil
	}
	if source != "" {
		return status.Errorf(codes.ResourceExhausted, "the volume is a copy of %s, so it can only be on node %s, "+
			"which has %s: both are in spread group %s, which requires different nodes: set label %s of the claim to "+
			"%s, or copy the data to a new volume with a Pod", source, node, neighbor, n.spread.Group,
			wellknown.SpreadPolicyLabel, wellknown.SpreadPreferred)
	}
	return status.Errorf(codes.ResourceExhausted, "node %s has %s: both are in spread group %s, which requires "+
		"different nodes: give the Pods topologySpreadConstraints or anti-affinity, so that the scheduler selects "+
		"another node", node, neighbor, n.spread.Group)
}

// maxNeighbors is the maximum number of nodes in a message.
const maxNeighbors = 8

// excluded returns why nodes were not selected, for the end of a message; "" if none was excluded.
func (n neighbors) excluded() string {
	if len(n.nodes) == 0 {
		return ""
	}
	var list []string
	for _, node := range slices.Sorted(maps.Keys(n.nodes))[:min(len(n.nodes), maxNeighbors)] {
		list = append(list, fmt.Sprintf("node %s has %s", node, n.nodes[node]))
	}
	if more := len(n.nodes) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf(", without the nodes of spread group %s, which requires different nodes (%s): add a node, or "+
		"set label %s of the claim to %s", n.spread.Group, strings.Join(list, "; "), wellknown.SpreadPolicyLabel,
		wellknown.SpreadPreferred)
}

// groupLocks serialize the selection of nodes for the volumes of a spread group. The zero value is ready for use.
type groupLocks struct {
	mu   sync.Mutex
	open map[string]*groupLock
}

// groupLock is held by the call that is in the channel. users is the number of calls that hold or wait for it.
type groupLock struct {
	held  chan struct{}
	users int
}

// enter waits for the lock of a group. It returns Aborted if ctx ends before.
func (g *groupLocks) enter(ctx context.Context, group string) error {
	g.mu.Lock()
	lock := g.open[group]
	if lock == nil {
		lock = &groupLock{held: make(chan struct{}, 1)}
		if g.open == nil {
			g.open = map[string]*groupLock{}
		}
		g.open[group] = lock
	}
	lock.users++
	g.mu.Unlock()
	defer liveness.Busy(ctx)()
	select {
	case lock.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		g.forget(group)
		return status.Errorf(codes.Aborted, "another call selects a node for a volume of spread group %s", group)
	}
}

// leave releases the lock of a group.
func (g *groupLocks) leave(group string) {
	g.mu.Lock()
	lock := g.open[group]
	g.mu.Unlock()
	<-lock.held
	g.forget(group)
}

// forget removes the lock of a group if no call uses it.
func (g *groupLocks) forget(group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[group].users--
	if g.open[group].users == 0 {
		delete(g.open, group)
	}
}
