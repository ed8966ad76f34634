package volumemove

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
)

// refusedError is why a volume cannot be moved at all. pendingError is what a move waits for.
type refusedError string

func (e refusedError) Error() string { return string(e) }

type pendingError struct {
	message string
	// position is the place in the queue for the target node, or 0.
	position int32
	target   string
}

func (e pendingError) Error() string { return e.message }

func refused(format string, args ...any) error { return refusedError(fmt.Sprintf(format, args...)) }

func pending(format string, args ...any) error {
	return pendingError{message: fmt.Sprintf(format, args...)}
}

// start are the facts with which a move begins.
type start struct {
	class, source, target string
	// thick: the volume has no snapshots.
	thick bool
	// doubt says why the target may have no room for the data of the volume, or is "".
	doubt string
}

// listMoves reads all VolumeMoves.
func (c *Controller) listMoves(ctx context.Context) (*v1alpha1.VolumeMoveList, error) {
	moves := &v1alpha1.VolumeMoveList{}
	err := paging.Each(ctx, c.live, &v1alpha1.VolumeMoveList{}, func(page *v1alpha1.VolumeMoveList) {
		moves.Items = append(moves.Items, page.Items...)
	}, client.InNamespace(c.namespace))
	if err != nil {
		return nil, fmt.Errorf("list VolumeMoves: %w", err)
	}
	return moves, nil
}

// mayBegin is begin with the moves of the cache, which can be old: what it refuses or lets wait needs no other reads.
func (c *Controller) mayBegin(ctx context.Context, s *state) error {
	moves := &v1alpha1.VolumeMoveList{}
	if err := c.client.List(ctx, moves, client.InNamespace(c.namespace)); err != nil {
		return fmt.Errorf("list VolumeMoves: %w", err)
	}
	_, err := c.begin(ctx, s, moves)
	return err
}

// begin checks whether a volume can be moved, waits for its turn, and selects the target node. It returns a
// refusedError if the volume cannot be moved, and a pendingError if it cannot be moved now.
func (c *Controller) begin(ctx context.Context, s *state, moves *v1alpha1.VolumeMoveList) (start, error) {
	if err := s.movable(); err != nil {
		return start{}, err
	}
	class, thick, err := c.classOf(ctx, s)
	if err != nil {
		return start{}, err
	}
	if err := alone(s.move, moves.Items); err != nil {
		return start{}, err
	}
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes); err != nil {
		return start{}, fmt.Errorf("list Nodes: %w", err)
	}
	volumes := &topolvmv1.LogicalVolumeList{}
	if err := c.active.List(ctx, volumes); err != nil {
		return start{}, fmt.Errorf("list the LogicalVolumes that are being created: %w", err)
	}
	requested := supply.Pending(volumes.Items, class)
	addMoves(requested, volumes.Items, others(s.move, moves.Items), class)
	candidates, err := c.candidates(ctx, s, class, nodes.Items, requested)
	if err != nil {
		return start{}, err
	}
	source := s.volume.Spec.NodeName
	target, doubt, err := choose(candidates, s, class)
	if err != nil {
		return start{}, err
	}
	if s.sourcePool = poolOf(candidates, source); s.fills(s.hasBegun()) != "" {
		return start{}, pendingError{message: s.fills(s.hasBegun())}
	}
	ready := fence.NodesOf(nodes.Items, c.now())
	copies := append(fence.Moves(moves.Items, ready, c.now()), fence.Clones(volumes.Items, ready, c.now())...)
	if err := turn(s.move, source, target, copies); err != nil {
		return start{}, err
	}
	return start{class: class, source: source, target: target, thick: thick, doubt: doubt}, nil
}

// movable returns an error if the volume of the claim cannot be moved, or not now.
func (s *state) movable() error {
	claim := s.move.Spec.Claim
	switch {
	case s.claim == nil:
		return pending("claim %s does not exist", claim)
	case !s.claim.DeletionTimestamp.IsZero():
		return pending("claim %s is being deleted", claim)
	case s.claim.Spec.VolumeName == "" || s.pv == nil || s.pv.Spec.ClaimRef == nil ||
		s.pv.Spec.ClaimRef.UID != s.claim.UID:
		return pending("claim %s is not bound", claim)
	case s.pv.Spec.CSI == nil || s.pv.Spec.CSI.Driver != v1alpha1.DriverName:
		return refused("claim %s has a volume of another driver: PersistentVolume %s is not of %s", claim, s.pv.Name,
			v1alpha1.DriverName)
	case s.volume == nil:
		return pending("PersistentVolume %s of claim %s has no LogicalVolume", s.pv.Name, claim)
	case !s.volume.DeletionTimestamp.IsZero() || !s.pv.DeletionTimestamp.IsZero():
		return pending("volume %s of claim %s is being deleted", s.pv.Name, claim)
	case s.volume.Status.VolumeID == "" || s.volume.Status.VolumeID != s.pv.Spec.CSI.VolumeHandle:
		return pending("volume %s of claim %s is being created", s.pv.Name, claim)
	case s.volume.Annotations[v1alpha1.MovedVolumeAnnotation] != "" ||
		v1alpha1.NodeOfVolume(s.pv) != s.volume.Spec.NodeName:
		return pending("the PersistentVolume %s of claim %s is being recreated", s.pv.Name, claim)
	case v1alpha1.IsCloneFence(s.volume.Annotations[v1alpha1.FenceAnnotation]):
		return pendingError{message: s.otherFence()}
	case s.volume.Annotations[v1alpha1.FenceAnnotation]+s.volume.Annotations[v1alpha1.FencedAnnotation]+
		s.volume.Annotations[v1alpha1.AdoptAnnotation] != "":
		return pending("another move of volume %s of claim %s is being undone or completed", s.pv.Name, claim)
	case s.volume.Annotations[v1alpha1.ConditionAnnotation] != "":
		return pending("volume %s of claim %s is not healthy: %s", s.pv.Name, claim,
			s.volume.Annotations[v1alpha1.ConditionAnnotation])
	case s.move.Spec.NodeName == s.volume.Spec.NodeName:
		return refused("volume %s of claim %s is on node %s already", s.pv.Name, claim, s.volume.Spec.NodeName)
	}
	return nil
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters,namespace=openshift-lvm-storage,verbs=list;watch

// classOf returns the device class of the volume, and whether its volumes are thick.
func (c *Controller) classOf(ctx context.Context, s *state) (name string, thick bool, err error) {
	clusters := &v1alpha1.LVMClusterList{}
	if err := c.client.List(ctx, clusters, client.InNamespace(c.namespace)); err != nil {
		return "", false, fmt.Errorf("list LVMClusters: %w", err)
	}
	name = s.volume.Spec.DeviceClass
	for i := range clusters.Items {
		storage := &clusters.Items[i].Spec.Storage
		if name == "" {
			name = storage.DefaultDeviceClass()
		}
		for _, class := range storage.DeviceClasses {
			if class.Name == name {
				return name, class.ThinPoolConfig == nil, nil
			}
		}
	}
	return "", false, pending("no LVMCluster has device class %q of volume %s", name, s.volume.Name)
}

// alone returns an error if another move of the claim has not ended and is older. A move that only keeps the old
// logical volume does not count.
func alone(move *v1alpha1.VolumeMove, moves []v1alpha1.VolumeMove) error {
	for i := range moves {
		other := &moves[i]
		if other.UID != move.UID && other.Spec.Claim == move.Spec.Claim && !other.Ended() && isOlder(other, move) &&
			(other.Status.Phase != v1alpha1.MoveKeepingSource || other.Status.SourceRemovalTime == nil) {
			return pending("VolumeMove %s moves the volume of claim %s: wait until it has ended, or delete it",
				other.Name, move.Spec.Claim)
		}
	}
	return nil
}

func isOlder(a, b *v1alpha1.VolumeMove) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// turn returns a pendingError with the place in the queue if as many moves and clones copy from the source node or to
// the target node as may, or if older moves wait for these nodes.
func turn(move *v1alpha1.VolumeMove, source, target string, others []fence.Copy) error {
	position := fence.Turn(copyOf(move, source, target), others)
	if position == 0 {
		return nil
	}
	return pendingError{position: position, target: target, message: fmt.Sprintf("place %d in the queue: at most %d "+
		"volumes are copied from node %s, and to node %s, at the same time", position, fence.MaxCopies, source, target)}
}

// copyOf returns a move for the queue.
func copyOf(move *v1alpha1.VolumeMove, source, target string) fence.Copy {
	return fence.Copy{UID: string(move.UID), Source: source, Target: target, Created: move.CreationTimestamp.Time,
		Name: move.Name}
}

// candidate is a node to which the volume could be moved.
type candidate struct {
	supply.Candidate
	// neighbor describes a volume of the spread group on the node, or is "".
	neighbor string
	// pool is the thin pool of the device class on the node. It is nil if the class is thick, or the state of the pool
	// is not known.
	pool *v1alpha1.ThinPoolStatus
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes;storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmrecoveries,namespace=openshift-lvm-storage,verbs=list;watch

// candidates returns all nodes, with their free capacity, and why the volume cannot be moved to or from them.
func (c *Controller) candidates(ctx context.Context, s *state, class string, nodes []corev1.Node,
	requested supply.Requests) ([]candidate, error) {
	registered, err := supply.RegisteredNodes(ctx, c.client)
	if err != nil {
		return nil, err
	}
	topology, err := c.topologyOf(ctx, s)
	if err != nil {
		return nil, err
	}
	neighbors, err := c.neighborsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	recovered, err := c.recovered(ctx, class)
	if err != nil {
		return nil, err
	}
	pools, err := c.pools(ctx, class)
	if err != nil {
		return nil, err
	}
	var all []candidate
	for i, each := range supply.Candidates(nodes, registered, requested, class) {
		// A cordoned node can be left, but not entered.
		if each.Node == s.volume.Spec.NodeName && each.Problem == "is cordoned" {
			each.Problem = ""
		}
		switch {
		case each.Problem != "":
		case recovered[each.Node] != "":
			each.Problem = "is being recovered by LVMRecovery " + recovered[each.Node]
		case each.Node != s.volume.Spec.NodeName && !isAllowed(topology, nodes[i].Labels):
			each.Problem = fmt.Sprintf("is not in allowedTopologies of StorageClass %s", s.pv.Spec.StorageClassName)
		}
		all = append(all, candidate{Candidate: each, neighbor: neighbors[each.Node], pool: pools[each.Node]})
	}
	return all, nil
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=list;watch

// pools returns the thin pools of a device class by node.
func (c *Controller) pools(ctx context.Context, class string) (map[string]*v1alpha1.ThinPoolStatus, error) {
	statuses := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := c.client.List(ctx, statuses, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("list LVMVolumeGroupNodeStatuses: %w", err)
	}
	return room.Pools(statuses.Items, class, c.now()), nil
}

// others returns the moves without one, whose volume is not requested twice.
func others(move *v1alpha1.VolumeMove, moves []v1alpha1.VolumeMove) []v1alpha1.VolumeMove {
	return slices.DeleteFunc(slices.Clone(moves), func(m v1alpha1.VolumeMove) bool { return m.UID == move.UID })
}

// addMoves adds the volumes of moves whose targets the cache does not have yet. The target of a thick volume is created
// when no Pod uses the volume.
func addMoves(requested supply.Requests, volumes []topolvmv1.LogicalVolume, moves []v1alpha1.VolumeMove,
	class string) {
	known := map[string]bool{}
	for i := range volumes {
		known[volumes[i].Name] = true
	}
	for i := range moves {
		m := &moves[i]
		waits := m.Status.Thick && m.Status.Phase == v1alpha1.MoveWaitingForPods
		if (waits || m.Status.Phase == v1alpha1.MoveCopying) && m.Status.DeviceClass == class && !known[targetName(m)] {
			requested.Add(m.Status.TargetNode, m.Status.TotalBytes)
		}
	}
}

// topologyOf returns the allowed topologies of the volume's StorageClass; none if every node is allowed.
func (c *Controller) topologyOf(ctx context.Context, s *state) ([]corev1.TopologySelectorTerm, error) {
	if s.pv.Spec.StorageClassName == "" {
		return nil, nil
	}
	class, err := relocate.Get(ctx, c.client, client.ObjectKey{Name: s.pv.Spec.StorageClassName}, newStorageClass())
	if err != nil || class == nil {
		return nil, err
	}
	return class.AllowedTopologies, nil
}

// isAllowed reports whether a node with these labels is in one of the terms (core/v1, TopologySelectorTerm).
func isAllowed(terms []corev1.TopologySelectorTerm, labels map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(r corev1.TopologySelectorLabelRequirement) bool {
			return !slices.Contains(r.Values, labels[r.Key])
		})
	})
}

// neighborsOf returns a description of a volume of another claim of the spread group, for each node that has one.
func (c *Controller) neighborsOf(ctx context.Context, s *state) (map[string]string, error) {
	spread, valid := v1alpha1.ParseSpread(s.volume.Annotations[v1alpha1.SpreadAnnotation])
	if !valid || spread.Scope != v1alpha1.SpreadNode {
		return nil, nil
	}
	return supply.Neighbors(ctx, c.live, s.volume, spread)
}

// recovered returns the nodes on which a recovery of a device class is running, with its LVMRecovery.
func (c *Controller) recovered(ctx context.Context, class string) (map[string]string, error) {
	list := &v1alpha1.LVMRecoveryList{}
	if err := c.client.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("list LVMRecoveries: %w", err)
	}
	nodes := map[string]string{}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Status.Phase == v1alpha1.RecoveryRunning && r.Spec.DeviceClassName == class {
			nodes[r.Spec.NodeName] = r.Name
		}
	}
	return nodes, nil
}
