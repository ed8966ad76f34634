package volumemove

import (
	"context"
	"fmt"
	"slices"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
)

// reader reads the states of moves.
type reader struct {
	client    client.Client
	live      client.Reader
	namespace string
	now       func() time.Time
	lists     *podLists
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims;nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch

// read reads the state from the API server. The volume is read first: a patch of it with its resource version fails if
// it has changed since, and all other objects are newer.
func (r *reader) read(ctx context.Context, move *v1alpha1.VolumeMove) (*plan.State, error) {
	s := &plan.State{Move: move}
	claim, err := relocate.Get(ctx, r.live, client.ObjectKey(move.Spec.Claim), &corev1.PersistentVolumeClaim{})
	if err != nil {
		return nil, err
	}
	s.Claim = claim
	name := move.Status.PersistentVolume
	if name == "" && claim != nil {
		name = claim.Spec.VolumeName
	}
	if name != "" {
		key := client.ObjectKey{Name: name}
		if s.Volume, err = relocate.Get(ctx, r.live, key, &topolvmv1.LogicalVolume{}); err != nil {
			return nil, err
		}
	}
	if err := r.readOwn(ctx, s); err != nil {
		return nil, err
	}
	if name != "" {
		if s.PV, err = relocate.Get(ctx, r.live, client.ObjectKey{Name: name}, &corev1.PersistentVolume{}); err != nil {
			return nil, err
		}
	}
	nodes, err := fence.ReadNodes(ctx, r.client, r.now())
	if err != nil {
		return nil, err
	}
	s.From, s.To = nodes.Get(s.SourceNode()), nodes.Get(s.TargetNode())
	if err := r.readSourcePool(ctx, s); err != nil {
		return nil, err
	}
	if err := r.readAfterSwitch(ctx, s, nodes); err != nil {
		return nil, err
	}
	// While the volume is fenced or moved back, what follows depends on the absence of Pods.
	return s, r.readPods(ctx, s, s.IsFenced() || plan.WayBack{State: s}.IsBackRequested())
}

// readAfterSwitch reads what decides about the removal of the old logical volume.
func (r *reader) readAfterSwitch(ctx context.Context, s *plan.State, nodes fence.Nodes) error {
	if s.Old == nil {
		return nil
	}
	node, err := relocate.Get(ctx, r.live, client.ObjectKey{Name: s.Old.Spec.NodeName}, &corev1.Node{})
	if err != nil {
		return err
	}
	s.SourceNodeGone = node == nil
	if s.Volume == nil {
		return nil
	}
	s.VolumeNode = nodes.Get(s.Volume.Spec.NodeName)
	registered, err := supply.RegisteredNodes(ctx, r.client)
	s.IsUnregistered = !registered[s.Volume.Spec.NodeName]
	return err
}

// readOwn reads the LogicalVolumes that were created for the move.
func (r *reader) readOwn(ctx context.Context, s *plan.State) error {
	err := paging.Each(ctx, r.live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			switch lv := &list.Items[i]; {
			case lv.Name == plan.TargetName(s.Move):
				s.Target = lv
			case plan.IsOldOf(s.Move, lv) && lv.Spec.NodeName == s.Move.Status.TargetNode:
				s.Target = lv
			case plan.IsOldOf(s.Move, lv):
				s.Old = lv
			case plan.RoundOf(s.Move, lv.Name) > 0:
				s.Snapshots = append(s.Snapshots, lv)
			}
		}
	}, client.MatchingLabels{wellknown.MoveLabel: string(s.Move.UID)})
	if err != nil {
		return fmt.Errorf("read the LogicalVolumes of VolumeMove %s: %w", s.Move.Name, err)
	}
	slices.SortFunc(s.Snapshots, func(a, b *topolvmv1.LogicalVolume) int {
		return plan.RoundOf(s.Move, a.Name) - plan.RoundOf(s.Move, b.Name)
	})
	return nil
}

// readPods reads the Pods that are bound to a node, have not ended, and use the claim. The list is new, or shared with
// other moves.
func (r *reader) readPods(ctx context.Context, s *plan.State, isNew bool) error {
	pods, version, err := r.lists.get(ctx, s.Move.Spec.Claim.Namespace, isNew)
	if err != nil {
		return err
	}
	s.Pods, s.PodsVersion = s.Using(pods), version
	return nil
}

// readSourcePool reads the thin pool from which a volume is being copied.
func (r *reader) readSourcePool(ctx context.Context, s *plan.State) error {
	if s.IsSwitched() || s.Move.Status.TargetNode == "" || s.Move.Status.Thick {
		return nil
	}
	key := client.ObjectKey{Namespace: r.namespace, Name: s.SourceNode()}
	status, err := relocate.Get(ctx, r.client, key, &v1alpha1.LVMVolumeGroupNodeStatus{})
	if err != nil || status == nil {
		return err
	}
	pools := room.Pools([]v1alpha1.LVMVolumeGroupNodeStatus{*status}, s.Move.Status.DeviceClass, r.now())
	s.SourcePool = pools[status.Name]
	return nil
}
