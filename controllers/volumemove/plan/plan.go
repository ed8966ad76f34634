// Package plan decides what is next for a VolumeMove, from what the API server has of it. It reads and writes nothing.
package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Action is what the operator does next for a move.
type Action int

const (
	// Wait does nothing for the time in Step.After.
	Wait Action = iota
	// Begin selects the target node.
	Begin
	// CreateSnapshot creates the snapshot of round Step.Round.
	CreateSnapshot
	// CreateTarget creates the target as a copy of Step.Snapshot: a snapshot, or the thick volume itself.
	CreateTarget
	// CopyRound has the target copy the snapshot Step.Snapshot.
	CopyRound
	// ResizeTarget gives the target the size of the volume.
	ResizeTarget
	// Remove deletes the LogicalVolume Step.Object.
	Remove
	// CloseVolume requests that nobody can use the volume. Unfence withdraws that.
	CloseVolume
	Unfence
	// SwitchVolume moves the LogicalVolume of the claim to the target node.
	SwitchVolume
	// KeepOld has the old logical volume kept, because SwitchBack makes it that of the volume again. KeepOld also
	// withdraws this. SwapNodes makes the target node the source node, and the other way around.
	KeepOld
	SwitchBack
	SwapNodes
	// Rebind has the claim bound to the PersistentVolume that was recreated.
	Rebind
	// CreateOld creates the owner of the logical volume on the source node.
	CreateOld
	// End removes the finalizer.
	End
)

// Step is the next action, and what the status says.
type Step struct {
	Action   Action
	Round    int
	Snapshot *topolvmv1.LogicalVolume
	Object   *topolvmv1.LogicalVolume
	Phase    v1alpha1.VolumeMovePhase
	Message  string
	After    time.Duration
	// QueuedFor is the target node for which the move waits for its turn.
	QueuedFor string
	// Discards: the copy is discarded, and begins again only after a delay, which grows each time.
	Discards bool
}

// Times of a move.
const (
	// FenceTimeout is how long the node agent may take to confirm a fence. Then the fence is withdrawn.
	FenceTimeout = 2 * time.Minute
	// Soon is the delay while a node agent is expected to act within seconds, Often the delay while it copies, and
	// Blocked the delay while somebody must act.
	Soon    = time.Second
	Often   = 5 * time.Second
	Blocked = 15 * time.Second
	// RestLimit is after which time a move that waits is planned again, whatever is known of it.
	RestLimit = 5 * time.Minute
	// RefreshFirst and RefreshMax are the delays before the changes are copied again while Pods use the volume.
	RefreshFirst = time.Minute
	RefreshMax   = 15 * time.Minute
	// eagerRounds is the number of rounds that follow each other at once, until one takes less than maxPause.
	eagerRounds = 10
	// refusedDelay is the delay before a snapshot that the node refused is created again.
	refusedDelay = time.Minute

	// DefaultMaxPause and DefaultKeepSource are the defaults of the API.
	DefaultMaxPause   = 30 * time.Second
	DefaultKeepSource = 24 * time.Hour
)

// Next decides what is next. fenceAfter is when the volume may be fenced again after a fence that was not confirmed.
func Next(s *State, now, fenceAfter time.Time) Step {
	switch {
	case WayBack{s}.isBack():
		return WayBack{s}.afterSwitchBack()
	case WayBack{s}.isLostWithoutOwner():
		return WayBack{s}.swap("the volume was deleted")
	case s.IsSwitched():
		return nextAfterSwitch(s, now)
	case !s.Move.DeletionTimestamp.IsZero():
		return ending{s}.undo(s.Move.Status.Phase, "the move is being undone: the volume stays on its node")
	case s.Move.Status.Phase == v1alpha1.MoveFailed:
		return ending{s}.undo(v1alpha1.MoveFailed, s.Move.Status.Message)
	case s.Move.Status.Phase == v1alpha1.MoveCompleted:
		return Step{Action: End, Phase: v1alpha1.MoveCompleted, Message: s.Move.Status.Message}
	case s.Move.Status.TargetNode == "":
		return Step{Action: Begin, Phase: v1alpha1.MovePending}
	}
	if why := s.problem(); why != "" {
		return ending{s}.undo(v1alpha1.MoveFailed, why)
	}
	if why := cmp.Or(s.Fills(false), s.lacksRoom()); why != "" && s.Move.Status.Phase != v1alpha1.MovePending {
		st := s.returnToQueue(why, now, fenceAfter)
		st.Discards = true
		return st
	}
	switch {
	case s.Move.Status.Phase == v1alpha1.MovePending:
		return s.returnToQueue(s.Move.Status.Message, now, fenceAfter)
	case s.Move.Status.Thick:
		return thickCopy{s}.thickVolume(now, fenceAfter)
	case s.Target == nil:
		return rounds{s}.firstRound(now)
	}
	return rounds{s}.nextRound(now, fenceAfter)
}

func nextAfterSwitch(s *State, now time.Time) Step {
	back := WayBack{s}
	if back.IsBackRequested() || back.IsOldKept() {
		return back.moveBack(now)
	}
	return ending{s}.afterSwitch(now)
}

// problem returns why a move that has begun cannot be completed, or "".
func (s *State) problem() string {
	name := s.Move.Status.PersistentVolume
	switch {
	case s.Volume == nil || s.PV == nil || s.Claim == nil:
		return fmt.Sprintf("claim %s, its PersistentVolume %s or its LogicalVolume no longer exists", s.Move.Spec.Claim,
			name)
	case !s.Volume.DeletionTimestamp.IsZero() || !s.PV.DeletionTimestamp.IsZero():
		return fmt.Sprintf("volume %s of claim %s is being deleted", name, s.Move.Spec.Claim)
	case s.Claim.Spec.VolumeName != name || s.PV.Spec.ClaimRef == nil || s.PV.Spec.ClaimRef.UID != s.Claim.UID:
		return fmt.Sprintf("claim %s is no longer the one of PersistentVolume %s: create another VolumeMove",
			s.Move.Spec.Claim, name)
	case s.PV.Spec.CSI == nil || s.PV.Spec.CSI.VolumeHandle != s.Volume.Status.VolumeID:
		return fmt.Sprintf("PersistentVolume %s is not for the volume of LogicalVolume %s", name, s.Volume.Name)
	case view.NodeOfVolume(s.PV) != s.Volume.Spec.NodeName || s.Volume.Spec.NodeName != s.SourceNode():
		return fmt.Sprintf("volume %s is on node %s, and no longer on node %s: create another VolumeMove", name,
			s.Volume.Spec.NodeName, s.SourceNode())
	case s.Target != nil:
		return targetProblem(s)
	}
	return ""
}

// targetProblem returns why the LogicalVolume of the copy cannot be used, or "".
func targetProblem(s *State) string {
	switch {
	case view.MoveVolume(s.Target) != s.Volume.Status.VolumeID:
		return fmt.Sprintf("LogicalVolume %s is for another volume than %s", s.Target.Name, s.Volume.Status.VolumeID)
	case s.Target.Status.VolumeID != "":
		return fmt.Sprintf("the node agent of node %s does not know moves of volumes: update it, and create another "+
			"VolumeMove", s.Target.Spec.NodeName)
	case service.IsRefusal(s.Target.Status.Code) && s.lacksRoom() == "":
		return fmt.Sprintf("node %s cannot create the copy: %s", s.Target.Spec.NodeName, s.Target.Status.Message)
	}
	return ""
}

// lacksRoom returns that the target node has refused the copy because it has no room for its data now, or "".
func (s *State) lacksRoom() string {
	if s.Target == nil || s.Target.Status.Code != codes.ResourceExhausted {
		return ""
	}
	return fmt.Sprintf("node %s has no room for the copy: %s", s.Target.Spec.NodeName, s.Target.Status.Message)
}

func (s *State) seconds(record view.CopyRecord) time.Duration {
	return time.Duration(record.Seconds * float64(time.Second))
}

func (s *State) maxPause() time.Duration {
	if s.Move.Spec.MaxPause == nil {
		return DefaultMaxPause
	}
	return s.Move.Spec.MaxPause.Duration
}

func (s *State) keepSource() time.Duration {
	if s.Move.Spec.KeepSource == nil {
		return DefaultKeepSource
	}
	return s.Move.Spec.KeepSource.Duration
}

// maxPods is the maximum number of Pods in the status of a VolumeMove.
const maxPods = 10

// podText names Pods, at most maxPods.
func (s *State) podText() string {
	shown := s.Pods[:min(len(s.Pods), maxPods)]
	text := strings.Join(shown, ", ")
	if more := len(s.Pods) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
