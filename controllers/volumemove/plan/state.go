package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Prefixes of the names of the LogicalVolumes of a move. The UID of the VolumeMove follows, and for snapshots "-ROUND".
const (
	oldPrefix = "moved-"
)

// State is what the API server has of a move.
type State struct {
	Move *v1alpha1.VolumeMove
	// Claim, PV and Volume are nil if they do not exist.
	Claim  *corev1.PersistentVolumeClaim
	PV     *corev1.PersistentVolume
	Volume *topolvmv1.LogicalVolume
	// Snapshots are those of the rounds, the oldest first. Target is the copy on the target node, and Old has the
	// logical volume on the source node after the switch. When the volume is moved back, they change places.
	Snapshots []*topolvmv1.LogicalVolume
	Target    *topolvmv1.LogicalVolume
	Old       *topolvmv1.LogicalVolume
	// Pods are the Pods that are bound to a node and use the claim, as namespace/name, sorted. After the switch, they
	// are only those that are bound to another node than that of the volume, where they cannot start.
	Pods []string
	// PodsVersion is the resource version of the list of Pods.
	PodsVersion string
	// From and To are the source node and the target node, as far as they are known.
	From, To fence.Node
	// SourcePool is the thin pool on the source node, before the switch. It is nil if the volume is thick, or the state
	// of the pool is not known.
	SourcePool *v1alpha1.ThinPoolStatus
	// SourceNodeGone: the Node of the old logical volume no longer exists. It is read only if Old exists, as the next
	// two are.
	SourceNodeGone bool
	// VolumeNode is the node that has the volume: a later move can have moved it again. IsUnregistered: the kubelet
	// there has no node agent.
	VolumeNode     fence.Node
	IsUnregistered bool
}

// Using returns the Pods that concern the move and use its claim, as namespace/name, sorted.
func (s *State) Using(pods []corev1.Pod) []string {
	var names []string
	for i := range pods {
		if pod := &pods[i]; s.concerns(pod) && relocate.Uses(pod, s.Move.Spec.Claim.Name) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// concerns reports whether a Pod is on a node on which it hinders the move, or cannot start after it.
func (s *State) concerns(pod *corev1.Pod) bool {
	switch {
	case !s.IsSwitched():
		return pod.Spec.NodeName != ""
	case WayBack{s}.IsBackRequested():
		return pod.Spec.NodeName != "" && pod.Spec.NodeName != s.SourceNode()
	}
	return s.Volume != nil && pod.Spec.NodeName != "" && pod.Spec.NodeName != s.Volume.Spec.NodeName
}

// TargetName returns the name of the target of a move.
func TargetName(m *v1alpha1.VolumeMove) string { return wellknown.MoveTargetPrefix + string(m.UID) }

// OldName returns the name of the owner of the old logical volume of a move.
func OldName(m *v1alpha1.VolumeMove) string { return oldPrefix + string(m.UID) }

// NewOldName returns the name of the LogicalVolume for the logical volume on the source node. If that was the target
// node before the volume was moved back, the target has the name before it.
func (s *State) NewOldName() string {
	name := OldName(s.Move)
	if !s.IsMovedBack() {
		return name
	}
	number, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(s.Target.Name, name), "-"))
	return name + "-" + strconv.Itoa(number+1)
}

// IsOldOf reports whether a LogicalVolume was created for the logical volume on the source node of a move.
func IsOldOf(m *v1alpha1.VolumeMove, lv *topolvmv1.LogicalVolume) bool {
	return strings.HasPrefix(lv.Name, OldName(m))
}

// SnapshotName returns the name of the snapshot of a round.
func SnapshotName(m *v1alpha1.VolumeMove, round int) string {
	return TargetName(m) + "-" + strconv.Itoa(round)
}

// RoundOf returns the number of the round of a snapshot of a move, or 0 if the name is not that of one.
func RoundOf(m *v1alpha1.VolumeMove, name string) int {
	number, is := strings.CutPrefix(name, TargetName(m)+"-")
	round, err := strconv.Atoi(number)
	if !is || err != nil || round < 1 {
		return 0
	}
	return round
}

// TargetNode returns the node to which the volume is moved, or "" if it is not selected yet.
func (s *State) TargetNode() string {
	if s.Target != nil {
		return s.Target.Spec.NodeName
	}
	return s.Move.Status.TargetNode
}

// SourceNode returns the node from which the volume is moved. After the switch, the snapshots and the status have it.
func (s *State) SourceNode() string {
	switch {
	case s.Old != nil:
		return s.Old.Spec.NodeName
	case len(s.Snapshots) > 0:
		return s.Snapshots[0].Spec.NodeName
	}
	return s.Move.Status.SourceNode
}

// IsMovedBack reports whether the volume was moved back, so that the source node is the lost one.
func (s *State) IsMovedBack() bool { return s.Target != nil && IsOldOf(s.Move, s.Target) }

// IsSwitched reports whether the volume is on the target node, or was until it was deleted.
func (s *State) IsSwitched() bool {
	return s.Old != nil || s.IsMovedBack() ||
		s.Volume != nil && s.TargetNode() != "" && s.Volume.Spec.NodeName == s.TargetNode()
}

// IsFenced reports whether the operator has requested for this move that nobody can use the volume.
func (s *State) IsFenced() bool {
	return s.Volume != nil && fence.Holder(s.Volume) == string(s.Move.UID)
}

// otherFence says for what else than this move the volume is fenced. That fence is not touched.
func (s *State) otherFence() string {
	holder := fence.Holder(s.Volume)
	if fence.IsOfClone(holder) {
		return fmt.Sprintf("volume %s of claim %s is being copied to LogicalVolume %s, a clone of it: the move waits "+
			"until the clone is complete, or its claim is deleted", s.Volume.Name, s.Move.Spec.Claim,
			fence.ForClone(s.Volume))
	}
	return fmt.Sprintf("volume %s of claim %s is fenced for the VolumeMove with the UID %s: this move waits until "+
		"that one is undone or completed", s.Volume.Name, s.Move.Spec.Claim, holder)
}

// IsFenceConfirmed reports whether the node agent has confirmed it.
func (s *State) IsFenceConfirmed() bool {
	return s.Volume != nil && fence.IsConfirmed(s.Volume, string(s.Move.UID))
}

// isFinal reports whether a snapshot was created under the present fence.
func (s *State) isFinal(snapshot *topolvmv1.LogicalVolume) bool {
	return fence.Covers(s.Volume, string(s.Move.UID), snapshot)
}

// record returns the record of the present round. It is the zero value if the node agent has not begun the round.
func (s *State) record() view.CopyRecord {
	record, err := view.Copied(s.Target)
	if err != nil || record.Source != s.Target.Spec.Source {
		return view.CopyRecord{Source: s.Target.Spec.Source}
	}
	return record
}

// progress returns how far the present round is known to be: the status has what was noticed before. It is the zero
// value if nothing is copied.
func (s *State) progress(now time.Time) fence.Progress {
	if s.Target == nil || s.IsSwitched() {
		return fence.Progress{}
	}
	record := s.record()
	if record.Finished {
		return fence.Progress{}
	}
	begun := s.Target.CreationTimestamp.Time
	if snapshot := s.snapshot(s.Target.Spec.Source); snapshot != nil && snapshot.CreationTimestamp.After(begun) {
		begun = snapshot.CreationTimestamp.Time
	}
	return fence.ProgressOfMove(s.Move).Renew(begun, record.DoneBytes(), now)
}

// lease is what the fence of the volume depends on.
func (s *State) lease(now time.Time) fence.Lease {
	return fence.Lease{Source: s.From, Target: s.To, Progress: s.progress(now)}
}

// NewVolume returns a LogicalVolume for the move, with the properties of the volume that is moved.
func (s *State) NewVolume(name, node string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{wellknown.MoveLabel: string(s.Move.UID)},
			Annotations: map[string]string{wellknown.MoveAnnotation: string(s.Move.UID),
				wellknown.ClaimAnnotation: s.Move.Spec.Claim.String()}},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, DeviceClass: s.Move.Status.DeviceClass},
	}
	// The volume may have been deleted since the switch.
	for _, like := range append([]*topolvmv1.LogicalVolume{s.Volume, s.Target}, s.Snapshots...) {
		if like == nil {
			continue
		}
		lv.Spec.Size = like.Spec.Size.DeepCopy()
		view.SetEncryption(lv, view.Encryption(like))
		break
	}
	return lv
}
