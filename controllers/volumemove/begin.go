package volumemove

import (
	"context"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// beginner decides whether moves begin, and selects their target nodes.
type beginner struct {
	client    client.Client
	live      client.Reader
	active    client.Reader
	namespace string
	now       func() time.Time
}

// beginLive is begin with the moves of the API server.
func (b *beginner) beginLive(ctx context.Context, s *plan.State) (plan.Start, error) {
	moves, err := b.listMoves(ctx)
	if err != nil {
		return plan.Start{}, err
	}
	return b.begin(ctx, s, moves)
}

// listMoves reads all VolumeMoves.
func (b *beginner) listMoves(ctx context.Context) (*v1alpha1.VolumeMoveList, error) {
	moves := &v1alpha1.VolumeMoveList{}
	err := paging.Each(ctx, b.live, &v1alpha1.VolumeMoveList{}, func(page *v1alpha1.VolumeMoveList) {
		moves.Items = append(moves.Items, page.Items...)
	}, client.InNamespace(b.namespace))
	if err != nil {
		return nil, fmt.Errorf("list VolumeMoves: %w", err)
	}
	return moves, nil
}

// mayBegin is begin with the moves of the cache, which can be old: what it refuses or lets wait needs no other reads.
func (b *beginner) mayBegin(ctx context.Context, s *plan.State) error {
	moves := &v1alpha1.VolumeMoveList{}
	if err := b.client.List(ctx, moves, client.InNamespace(b.namespace)); err != nil {
		return fmt.Errorf("list VolumeMoves: %w", err)
	}
	_, err := b.begin(ctx, s, moves)
	return err
}

// begin checks whether a volume can be moved, waits for its turn, and selects the target node. It returns a
// RefusedError if the volume cannot be moved, and a PendingError if it cannot be moved now.
func (b *beginner) begin(ctx context.Context, s *plan.State, moves *v1alpha1.VolumeMoveList) (plan.Start, error) {
	if err := s.Movable(); err != nil {
		return plan.Start{}, err
	}
	class, thick, err := b.classOf(ctx, s)
	if err != nil {
		return plan.Start{}, err
	}
	if err := plan.Alone(s.Move, moves.Items); err != nil {
		return plan.Start{}, err
	}
	nodes := &corev1.NodeList{}
	if err := b.client.List(ctx, nodes); err != nil {
		return plan.Start{}, fmt.Errorf("list Nodes: %w", err)
	}
	volumes := &topolvmv1.LogicalVolumeList{}
	if err := b.active.List(ctx, volumes); err != nil {
		return plan.Start{}, fmt.Errorf("list the LogicalVolumes that are being created: %w", err)
	}
	requested := supply.Pending(volumes.Items, class)
	plan.AddMoves(requested, volumes.Items, plan.Others(s.Move, moves.Items), class)
	candidates, err := b.candidates(ctx, s, class, nodes.Items, requested)
	if err != nil {
		return plan.Start{}, err
	}
	source := s.Volume.Spec.NodeName
	target, doubt, err := plan.Choose(candidates, s, class)
	if err != nil {
		return plan.Start{}, err
	}
	if s.SourcePool = plan.PoolOf(candidates, source); s.Fills(s.HasBegun()) != "" {
		return plan.Start{}, plan.PendingError{Message: s.Fills(s.HasBegun())}
	}
	ready := fence.NodesOf(nodes.Items, b.now())
	copies := append(fence.Moves(moves.Items, ready, b.now()), fence.Clones(volumes.Items, ready, b.now())...)
	if err := plan.Turn(s.Move, source, target, copies); err != nil {
		return plan.Start{}, err
	}
	return plan.Start{Class: class, Source: source, Target: target, Thick: thick, Doubt: doubt}, nil
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters,namespace=openshift-lvm-storage,verbs=list;watch

// classOf returns the device class of the volume, and whether its volumes are thick.
func (b *beginner) classOf(ctx context.Context, s *plan.State) (name string, thick bool, err error) {
	clusters := &v1alpha1.LVMClusterList{}
	if err := b.client.List(ctx, clusters, client.InNamespace(b.namespace)); err != nil {
		return "", false, fmt.Errorf("list LVMClusters: %w", err)
	}
	name = s.Volume.Spec.DeviceClass
	for i := range clusters.Items {
		storage := &clusters.Items[i].Spec.Storage
		if name == "" {
			name = classspec.Default(*storage)
		}
		for _, class := range storage.DeviceClasses {
			if class.Name == name {
				return name, class.ThinPoolConfig == nil, nil
			}
		}
	}
	return "", false, plan.Pending("no LVMCluster has device class %q of volume %s", name, s.Volume.Name)
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes;storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmrecoveries,namespace=openshift-lvm-storage,verbs=list;watch

// candidates returns all nodes, with their free capacity, and why the volume cannot be moved to or from them.
func (b *beginner) candidates(ctx context.Context, s *plan.State, class string, nodes []corev1.Node,
	requested supply.Requests) ([]plan.Candidate, error) {
	registered, err := supply.RegisteredNodes(ctx, b.client)
	if err != nil {
		return nil, err
	}
	topology, err := b.topologyOf(ctx, s)
	if err != nil {
		return nil, err
	}
	neighbors, err := b.neighborsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	recovered, err := b.recovered(ctx, class)
	if err != nil {
		return nil, err
	}
	pools, err := b.pools(ctx, class)
	if err != nil {
		return nil, err
	}
	var all []plan.Candidate
	for i, each := range supply.Candidates(nodes, registered, requested, class) {
		// A cordoned node can be left, but not entered.
		if each.Node == s.Volume.Spec.NodeName && each.Problem == "is cordoned" {
			each.Problem = ""
		}
		switch {
		case each.Problem != "":
		case recovered[each.Node] != "":
			each.Problem = "is being recovered by LVMRecovery " + recovered[each.Node]
		case each.Node != s.Volume.Spec.NodeName && !plan.IsAllowed(topology, nodes[i].Labels):
			each.Problem = fmt.Sprintf("is not in allowedTopologies of StorageClass %s", s.PV.Spec.StorageClassName)
		}
		all = append(all, plan.Candidate{Candidate: each, Neighbor: neighbors[each.Node], Pool: pools[each.Node]})
	}
	return all, nil
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=list;watch

// pools returns the thin pools of a device class by node.
func (b *beginner) pools(ctx context.Context, class string) (map[string]*v1alpha1.ThinPoolStatus, error) {
	statuses := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := b.client.List(ctx, statuses, client.InNamespace(b.namespace)); err != nil {
		return nil, fmt.Errorf("list LVMVolumeGroupNodeStatuses: %w", err)
	}
	return room.Pools(statuses.Items, class, b.now()), nil
}

// topologyOf returns the allowed topologies of the volume's StorageClass; none if every node is allowed.
func (b *beginner) topologyOf(ctx context.Context, s *plan.State) ([]corev1.TopologySelectorTerm, error) {
	if s.PV.Spec.StorageClassName == "" {
		return nil, nil
	}
	class, err := relocate.Get(ctx, b.client, client.ObjectKey{Name: s.PV.Spec.StorageClassName},
		&storagev1.StorageClass{})
	if err != nil || class == nil {
		return nil, err
	}
	return class.AllowedTopologies, nil
}

// neighborsOf returns a description of a volume of another claim of the spread group, for each node that has one.
func (b *beginner) neighborsOf(ctx context.Context, s *plan.State) (map[string]string, error) {
	spread := view.SpreadOf(s.Volume)
	if spread.Scope != wellknown.SpreadNode {
		return nil, nil
	}
	return supply.Neighbors(ctx, b.live, s.Volume, spread)
}

// recovered returns the nodes on which a recovery of a device class is running, with its LVMRecovery.
func (b *beginner) recovered(ctx context.Context, class string) (map[string]string, error) {
	list := &v1alpha1.LVMRecoveryList{}
	if err := b.client.List(ctx, list, client.InNamespace(b.namespace)); err != nil {
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
