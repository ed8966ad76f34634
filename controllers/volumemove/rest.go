package volumemove

import (
	"context"
	"fmt"
	"slices"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
)

// This file has the moves that wait, of which there can be hundreds: those that wait for their Pods or for their turn.
// As long as nothing has changed, they are not read from the API server. Each change of their objects is an event,
// because objects that are not settled are in the cache. All of it is in memory: a new process reads all moves.

const (
	// restLimit is after which time a move that waits is read from the API server, whatever is known of it.
	restLimit = plan.RestLimit
	// followedPoll is the delay until a move looks at the list of Pods again whose Pod is watched.
	followedPoll = time.Minute
)

// rest is what is known of a move that waits.
type rest struct {
	// version is the resource version of the VolumeMove, and until the time at which it must be read.
	version string
	until   time.Time
	// pods are those for which it waits. If there are none, it waits for the position in the queue for these nodes.
	pods           []string
	position       int32
	source, target string
}

// stay has a move wait until something changes.
func (c *Controller) stay(s *plan.State, st plan.Step) {
	status := &s.Move.Status
	r := rest{version: s.Move.ResourceVersion, until: c.now().Add(min(st.After, restLimit)), pods: s.Pods,
		position: status.QueuePosition, source: status.SourceNode, target: st.QueuedFor}
	forPods := st.Phase == v1alpha1.MoveWaitingForPods && len(s.Pods) > 0 && !s.IsFenced()
	forTurn := st.Phase == v1alpha1.MovePending && status.QueuePosition > 0
	if forTurn {
		r.pods = nil
		r.until = c.now().Add(restLimit)
	}
	key := client.ObjectKeyFromObject(s.Move)
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.Action == plan.Wait && (forPods || forTurn) && !c.woken[key] {
		c.resting[key] = r
	}
}

// wake has a move read from the API server, and once more if that is being done: it can have been read before the
// change.
func (c *Controller) wake(move client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.resting, move)
	c.woken[move] = true
}

// rise begins to read a move.
func (c *Controller) rise(move client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.resting, move)
	delete(c.woken, move)
}

// rests reports whether a move still waits, and when to look again. If anything has changed, the move is read.
func (c *Controller) rests(ctx context.Context, key client.ObjectKey) (after time.Duration, is bool, err error) {
	c.mu.Lock()
	r, known := c.resting[key]
	c.mu.Unlock()
	left := r.until.Sub(c.now())
	if !known || left <= 0 {
		return 0, false, nil
	}
	move := &v1alpha1.VolumeMove{}
	if err := c.client.Get(ctx, key, move); err != nil || move.ResourceVersion != r.version {
		return 0, false, client.IgnoreNotFound(err)
	}
	if len(r.pods) == 0 {
		is, err := c.isQueued(ctx, move, r)
		return min(left, plan.Blocked), is, err
	}
	pods, version, err := c.lists.get(ctx, move.Spec.Claim.Namespace, false)
	if err != nil || !slices.Equal(r.pods, (&plan.State{Move: move}).Using(pods)) {
		return 0, false, err
	}
	return min(left, c.pollAfter(key, r.pods[0], version)), true, nil
}

// isQueued reports whether a move still has its position in the queue.
func (c *Controller) isQueued(ctx context.Context, move *v1alpha1.VolumeMove, r rest) (bool, error) {
	moves := &v1alpha1.VolumeMoveList{}
	if err := c.client.List(ctx, moves, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list VolumeMoves: %w", err)
	}
	volumes := &topolvmv1.LogicalVolumeList{}
	if err := c.active.List(ctx, volumes, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the LogicalVolumes that are being created: %w", err)
	}
	nodes, err := fence.ReadNodes(ctx, c.client, c.now())
	if err != nil {
		return false, err
	}
	copies := append(fence.Moves(moves.Items, nodes, c.now()), fence.Clones(volumes.Items, nodes, c.now())...)
	return fence.Turn(plan.CopyOf(move, r.source, r.target), copies) == r.position, nil
}
