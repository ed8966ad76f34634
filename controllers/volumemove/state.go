package volumemove

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

// Prefixes of the names of the LogicalVolumes of a move. The UID of the VolumeMove follows, and for snapshots "-ROUND".
const (
	targetPrefix = "move-"
	oldPrefix    = "moved-"
)

// state is what the API server has of a move.
type state struct {
	move *v1alpha1.VolumeMove
	// claim, pv and volume are nil if they do not exist.
	claim  *corev1.PersistentVolumeClaim
	pv     *corev1.PersistentVolume
	volume *topolvmv1.LogicalVolume
	// snapshots are those of the rounds, the oldest first. target is the copy on the target node, and old has the
	// logical volume on the source node after the switch. When the volume is moved back, they change places.
	snapshots []*topolvmv1.LogicalVolume
	target    *topolvmv1.LogicalVolume
	old       *topolvmv1.LogicalVolume
	// pods are the Pods that are bound to a node and use the claim, as namespace/name, sorted. After the switch, they
	// are only those that are bound to another node than that of the volume, where they cannot start.
	pods []string
	// podsVersion is the resource version of the list of Pods.
	podsVersion string
	// from and to are the source node and the target node, as far as they are known.
	from, to fence.Node
	// sourcePool is the thin pool on the source node, before the switch. It is nil if the volume is thick, or the state
	// of the pool is not known.
	sourcePool *v1alpha1.ThinPoolStatus
	// sourceNodeGone: the Node of the old logical volume no longer exists. It is read only if old exists, as the next
	// two are.
	sourceNodeGone bool
	// volumeNode is the node that has the volume: a later move can have moved it again. isUnregistered: the kubelet
	// there has no node agent.
	volumeNode     fence.Node
	isUnregistered bool
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims;nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch

// read reads the state from the API server. The volume is read first: a patch of it with its resource version fails if
// it has changed since, and all other objects are newer.
func (c *Controller) read(ctx context.Context, move *v1alpha1.VolumeMove) (*state, error) {
	s := &state{move: move}
	claim, err := relocate.Get(ctx, c.live, client.ObjectKey(move.Spec.Claim), &corev1.PersistentVolumeClaim{})
	if err != nil {
		return nil, err
	}
	s.claim = claim
	name := move.Status.PersistentVolume
	if name == "" && claim != nil {
		name = claim.Spec.VolumeName
	}
	if name != "" {
		key := client.ObjectKey{Name: name}
		if s.volume, err = relocate.Get(ctx, c.live, key, &topolvmv1.LogicalVolume{}); err != nil {
			return nil, err
		}
	}
	if err := c.readOwn(ctx, s); err != nil {
		return nil, err
	}
	if name != "" {
		if s.pv, err = relocate.Get(ctx, c.live, client.ObjectKey{Name: name}, &corev1.PersistentVolume{}); err != nil {
			return nil, err
		}
	}
	nodes, err := fence.ReadNodes(ctx, c.client, c.now())
	if err != nil {
		return nil, err
	}
	s.from, s.to = nodes.Get(s.sourceNode()), nodes.Get(s.targetNode())
	if err := c.readSourcePool(ctx, s); err != nil {
		return nil, err
	}
	if err := c.readAfterSwitch(ctx, s, nodes); err != nil {
		return nil, err
	}
	// While the volume is fenced or moved back, what follows depends on the absence of Pods.
	return s, c.readPods(ctx, s, s.isFenced() || wayBack{s}.isBackRequested())
}

// readAfterSwitch reads what decides about the removal of the old logical volume.
func (c *Controller) readAfterSwitch(ctx context.Context, s *state, nodes fence.Nodes) error {
	if s.old == nil {
		return nil
	}
	node, err := relocate.Get(ctx, c.live, client.ObjectKey{Name: s.old.Spec.NodeName}, &corev1.Node{})
	if err != nil {
		return err
	}
	s.sourceNodeGone = node == nil
	if s.volume == nil {
		return nil
	}
	s.volumeNode = nodes.Get(s.volume.Spec.NodeName)
	registered, err := supply.RegisteredNodes(ctx, c.client)
	s.isUnregistered = !registered[s.volume.Spec.NodeName]
	return err
}

// readOwn reads the LogicalVolumes that were created for the move.
func (c *Controller) readOwn(ctx context.Context, s *state) error {
	err := paging.Each(ctx, c.live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			switch lv := &list.Items[i]; {
			case lv.Name == targetName(s.move):
				s.target = lv
			case isOldOf(s.move, lv) && lv.Spec.NodeName == s.move.Status.TargetNode:
				s.target = lv
			case isOldOf(s.move, lv):
				s.old = lv
			case roundOf(s.move, lv.Name) > 0:
				s.snapshots = append(s.snapshots, lv)
			}
		}
	}, client.MatchingLabels{v1alpha1.MoveLabel: string(s.move.UID)})
	if err != nil {
		return fmt.Errorf("read the LogicalVolumes of VolumeMove %s: %w", s.move.Name, err)
	}
	slices.SortFunc(s.snapshots, func(a, b *topolvmv1.LogicalVolume) int {
		return roundOf(s.move, a.Name) - roundOf(s.move, b.Name)
	})
	return nil
}

// readPods reads the Pods that are bound to a node, have not ended, and use the claim. The list is new, or shared with
// other moves.
func (c *Controller) readPods(ctx context.Context, s *state, isNew bool) error {
	pods, version, err := c.lists.get(ctx, s.move.Spec.Claim.Namespace, isNew)
	if err != nil {
		return err
	}
	s.pods, s.podsVersion = s.using(pods), version
	return nil
}

// using returns the Pods that concern the move and use its claim, as namespace/name, sorted.
func (s *state) using(pods []corev1.Pod) []string {
	var names []string
	for i := range pods {
		if pod := &pods[i]; s.concerns(pod) && relocate.Uses(pod, s.move.Spec.Claim.Name) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// concerns reports whether a Pod is on a node on which it hinders the move, or cannot start after it.
func (s *state) concerns(pod *corev1.Pod) bool {
	switch {
	case !s.isSwitched():
		return pod.Spec.NodeName != ""
	case wayBack{s}.isBackRequested():
		return pod.Spec.NodeName != "" && pod.Spec.NodeName != s.sourceNode()
	}
	return s.volume != nil && pod.Spec.NodeName != "" && pod.Spec.NodeName != s.volume.Spec.NodeName
}

func targetName(m *v1alpha1.VolumeMove) string { return targetPrefix + string(m.UID) }

func oldName(m *v1alpha1.VolumeMove) string { return oldPrefix + string(m.UID) }

// newOldName returns the name of the LogicalVolume for the logical volume on the source node. If that was the target
// node before the volume was moved back, the target has the name before it.
func (s *state) newOldName() string {
	name := oldName(s.move)
	if !s.isMovedBack() {
		return name
	}
	number, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(s.target.Name, name), "-"))
	return name + "-" + strconv.Itoa(number+1)
}

// isOldOf reports whether a LogicalVolume was created for the logical volume on the source node of a move.
func isOldOf(m *v1alpha1.VolumeMove, lv *topolvmv1.LogicalVolume) bool {
	return strings.HasPrefix(lv.Name, oldName(m))
}

func snapshotName(m *v1alpha1.VolumeMove, round int) string {
	return targetName(m) + "-" + strconv.Itoa(round)
}

// roundOf returns the number of the round of a snapshot of a move, or 0 if the name is not that of one.
func roundOf(m *v1alpha1.VolumeMove, name string) int {
	number, is := strings.CutPrefix(name, targetName(m)+"-")
	round, err := strconv.Atoi(number)
	if !is || err != nil || round < 1 {
		return 0
	}
	return round
}

// targetNode returns the node to which the volume is moved, or "" if it is not selected yet.
func (s *state) targetNode() string {
	if s.target != nil {
		return s.target.Spec.NodeName
	}
	return s.move.Status.TargetNode
}

// sourceNode returns the node from which the volume is moved. After the switch, the snapshots and the status have it.
func (s *state) sourceNode() string {
	switch {
	case s.old != nil:
		return s.old.Spec.NodeName
	case len(s.snapshots) > 0:
		return s.snapshots[0].Spec.NodeName
	}
	return s.move.Status.SourceNode
}

// isMovedBack reports whether the volume was moved back, so that the source node is the lost one.
func (s *state) isMovedBack() bool { return s.target != nil && isOldOf(s.move, s.target) }

// isSwitched reports whether the volume is on the target node, or was until it was deleted.
func (s *state) isSwitched() bool {
	return s.old != nil || s.isMovedBack() ||
		s.volume != nil && s.targetNode() != "" && s.volume.Spec.NodeName == s.targetNode()
}

// isFenced reports whether the operator has requested for this move that nobody can use the volume.
func (s *state) isFenced() bool {
	return s.volume != nil && fence.Holder(s.volume) == string(s.move.UID)
}

// otherFence says for what else than this move the volume is fenced. That fence is not touched.
func (s *state) otherFence() string {
	holder := fence.Holder(s.volume)
	if v1alpha1.IsCloneFence(holder) {
		return fmt.Sprintf("volume %s of claim %s is being copied to LogicalVolume %s, a clone of it: the move waits "+
			"until the clone is complete, or its claim is deleted", s.volume.Name, s.move.Spec.Claim,
			s.volume.Annotations[v1alpha1.FenceForAnnotation])
	}
	return fmt.Sprintf("volume %s of claim %s is fenced for the VolumeMove with the UID %s: this move waits until "+
		"that one is undone or completed", s.volume.Name, s.move.Spec.Claim, holder)
}

// isFenceConfirmed reports whether the node agent has confirmed it.
func (s *state) isFenceConfirmed() bool {
	return s.volume != nil && fence.IsConfirmed(s.volume, string(s.move.UID))
}

// isFinal reports whether a snapshot was created under the present fence.
func (s *state) isFinal(snapshot *topolvmv1.LogicalVolume) bool {
	return fence.Covers(s.volume, string(s.move.UID), snapshot)
}

// record returns the record of the present round. It is the zero value if the node agent has not begun the round.
func (s *state) record() v1alpha1.CopyRecord {
	record, err := v1alpha1.ParseCopyRecord(s.target.Annotations[v1alpha1.CopiedAnnotation])
	if err != nil || record.Source != s.target.Spec.Source {
		return v1alpha1.CopyRecord{Source: s.target.Spec.Source}
	}
	return record
}

// progress returns how far the present round is known to be: the status has what was noticed before. It is the zero
// value if nothing is copied.
func (s *state) progress(now time.Time) fence.Progress {
	if s.target == nil || s.isSwitched() {
		return fence.Progress{}
	}
	record := s.record()
	if record.Finished {
		return fence.Progress{}
	}
	begun := s.target.CreationTimestamp.Time
	if snapshot := s.snapshot(s.target.Spec.Source); snapshot != nil && snapshot.CreationTimestamp.After(begun) {
		begun = snapshot.CreationTimestamp.Time
	}
	return fence.ProgressOfMove(s.move).Renew(begun, record.DoneBytes(), now)
}

// lease is what the fence of the volume depends on.
func (s *state) lease(now time.Time) fence.Lease {
	return fence.Lease{Source: s.from, Target: s.to, Progress: s.progress(now)}
}
