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
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
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

// rounds plans the copy of a thin volume, in rounds with snapshots.
type rounds struct{ *State }

// firstRound creates the first snapshot and the target.
func (s rounds) firstRound(now time.Time) Step {
	st := Step{Phase: v1alpha1.MoveCopying, After: Soon,
		Message: "the copy to node " + s.TargetNode() + " is being prepared"}
	switch {
	case s.IsFenced():
		st.Action = Unfence
	case len(s.Snapshots) == 0:
		st.Action = CreateSnapshot
		st.Round = 1
	default:
		snapshot := s.Snapshots[len(s.Snapshots)-1]
		return s.whenCreated(snapshot, now, st, CreateTarget)
	}
	return st
}

// whenCreated returns the step with an action for a snapshot, if the node has created it. It deletes a snapshot that
// the node refused after some time, so that it is created again.
func (s rounds) whenCreated(snapshot *topolvmv1.LogicalVolume, now time.Time, st Step, next Action) Step {
	st.After = Soon
	switch {
	case !snapshot.DeletionTimestamp.IsZero():
		st.Message = fmt.Sprintf("snapshot %s on node %s is being deleted", snapshot.Name, snapshot.Spec.NodeName)
	case snapshot.Status.VolumeID != "":
		st.Action = next
		st.Snapshot = snapshot
	case service.IsRefusal(snapshot.Status.Code):
		st.Message = fmt.Sprintf("node %s cannot create a snapshot of the volume: %s", snapshot.Spec.NodeName,
			snapshot.Status.Message)
		st.After = Blocked
		if now.Sub(snapshot.CreationTimestamp.Time) >= refusedDelay {
			st.Action = Remove
			st.Object = snapshot
		}
	}
	return st
}

// nextRound continues a move that has a target.
func (s rounds) nextRound(now, fenceAfter time.Time) Step {
	record := s.record()
	round := RoundOf(s.Move, s.Target.Spec.Source)
	st := Step{Round: round, After: Often, Phase: v1alpha1.MoveCopying}
	if s.IsFenced() {
		st.Phase = v1alpha1.MoveSwitching
	}
	switch {
	case !s.Target.DeletionTimestamp.IsZero():
		st.Message = fmt.Sprintf("LogicalVolume %s on node %s is being deleted", s.Target.Name, s.Target.Spec.NodeName)
		if s.IsFenced() {
			st.Action = Unfence
		}
		return st
	case s.IsFenced() && len(s.Pods) > 0:
		st.Action = Unfence
		st.Message = "Pods use the volume again: " + s.podText()
		return st
	case s.Target.Spec.Size.Cmp(s.Volume.Spec.Size) < 0:
		st.Action = ResizeTarget
		st.Message = fmt.Sprintf("the copy is being extended to %s", s.Volume.Spec.Size.String())
		return st
	case !record.Finished:
		return s.copying(st, record, now)
	}
	return s.roundDone(st, record, now, fenceAfter)
}

// copying reports a round that is not finished.
func (s rounds) copying(st Step, record view.CopyRecord, now time.Time) Step {
	st.Message = fmt.Sprintf("round %d: node %s copies from node %s", st.Round, s.Target.Spec.NodeName, s.SourceNode())
	if s.snapshot(s.Target.Spec.Source) == nil {
		return ending(s).undo(v1alpha1.MoveFailed, fmt.Sprintf("snapshot %s was deleted while node %s copied it: "+
			"create another VolumeMove", s.Target.Spec.Source, s.Target.Spec.NodeName))
	}
	if st.Phase == v1alpha1.MoveSwitching {
		st.After = Soon
	}
	if record.Error != "" {
		st.Message = fmt.Sprintf("round %d: node %s cannot copy from node %s, and tries again: %s", st.Round,
			s.Target.Spec.NodeName, s.SourceNode(), record.Error)
	}
	if why := s.lease(now).Ended(now); why != "" {
		st.Message += fmt.Sprintf(". %s: other moves do not wait for this one", why)
	}
	return st
}

// snapshot returns the snapshot with a name, or nil.
func (s *State) snapshot(name string) *topolvmv1.LogicalVolume {
	for _, snapshot := range s.Snapshots {
		if snapshot.Name == name && snapshot.DeletionTimestamp.IsZero() {
			return snapshot
		}
	}
	return nil
}

// roundDone decides what follows a finished round: the next one, the wait for Pods, or the switch.
func (s rounds) roundDone(st Step, record view.CopyRecord, now, fenceAfter time.Time) Step {
	present := s.snapshot(s.Target.Spec.Source)
	for _, snapshot := range s.Snapshots {
		if RoundOf(s.Move, snapshot.Name) < st.Round && snapshot.DeletionTimestamp.IsZero() {
			st.Action = Remove
			st.Object = snapshot
			st.Message = "the snapshots of earlier rounds are being deleted"
			return st
		}
	}
	if last := s.Snapshots[max(0, len(s.Snapshots)-1):]; len(last) > 0 && RoundOf(s.Move, last[0].Name) > st.Round {
		return s.startRound(st, last[0], now)
	}
	if present == nil {
		// Without it, there is no base for the changes.
		return ending(s).undo(v1alpha1.MoveFailed, fmt.Sprintf("snapshot %s, which the next round needs, was "+
			"deleted: create another VolumeMove", s.Target.Spec.Source))
	}
	if s.IsFenced() {
		return s.fenced(st, present, record, now)
	}
	if len(s.Pods) > 0 {
		return s.whilePodsRun(st, present, record, now)
	}
	return s.beforeFence(st, record, now, fenceAfter)
}

// startRound starts the round of a new snapshot when the node has created it. If the volume is fenced, and was not when
// the snapshot was created, the snapshot is not the last one, and is deleted.
func (s rounds) startRound(st Step, snapshot *topolvmv1.LogicalVolume, now time.Time) Step {
	st.Message = fmt.Sprintf("snapshot %s is being created on node %s", snapshot.Name, snapshot.Spec.NodeName)
	if s.IsFenced() && !s.isFinal(snapshot) && snapshot.DeletionTimestamp.IsZero() {
		st.Action = Remove
		st.Object = snapshot
		return st
	}
	return s.whenCreated(snapshot, now, st, CopyRound)
}

// fenced takes the last snapshot when the node agent has confirmed the fence, and then switches the volume.
func (s rounds) fenced(st Step, present *topolvmv1.LogicalVolume, record view.CopyRecord, now time.Time) Step {
	st.After = Soon
	switch {
	case !s.IsFenceConfirmed():
		return s.awaitFence(st, now)
	case !s.isFinal(present):
		st.Action = CreateSnapshot
		st.Round++
		st.Message = "the last changes are copied"
	case !s.isSettled(record):
		// The size has changed since the snapshot was taken.
		st.Action = Unfence
		st.Message = "the volume was expanded meanwhile; its changes are copied again"
	case s.To.NotReady:
		return s.awaitTarget(st)
	default:
		st.Action = SwitchVolume
		st.Message = "the volume is switched to node " + s.TargetNode()
	}
	return st
}

// awaitTarget waits until the target node is ready: on a lost node, nobody could use the volume.
func (s rounds) awaitTarget(st Step) Step {
	st.After = Often
	st.Message = fmt.Sprintf("%s: the volume is switched to it when it is ready", s.To)
	return st
}

// awaitFence waits until the node agent confirms a fence, and withdraws the fence after some time.
func (s rounds) awaitFence(st Step, now time.Time) Step {
	st.After = Soon
	st.Message = fmt.Sprintf("node %s closes the volume", s.SourceNode())
	if why := fence.Problem(s.Volume); why != "" {
		st.Message += ": " + why
	}
	if now.Sub(fence.Requested(s.Volume)) >= FenceTimeout {
		st.Action = Unfence
		st.Message = fmt.Sprintf("node %s did not close the volume within %s; the operator tries again: %s",
			s.SourceNode(), FenceTimeout, fence.Problem(s.Volume))
	}
	return st
}

// isSettled reports whether the volume has its requested size, and the copy too.
func (s rounds) isSettled(record view.CopyRecord) bool {
	size := s.Volume.Spec.Size
	return s.Target.Spec.Size.Cmp(size) == 0 && toInt64(record.SizeBytes) >= size.Value() &&
		(s.Volume.Status.CurrentSize == nil || s.Volume.Status.CurrentSize.Cmp(size) >= 0)
}

// whilePodsRun waits for Pods. Meanwhile, it copies the changes from time to time, so that few are left.
func (s rounds) whilePodsRun(st Step, present *topolvmv1.LogicalVolume, record view.CopyRecord, now time.Time) Step {
	delay := refreshDelay(st.Round)
	if s.seconds(record) > s.maxPause() && st.Round < eagerRounds {
		delay = 0
	} else {
		st.Phase = v1alpha1.MoveWaitingForPods
	}
	st.Message = "ends when no Pod uses the volume: " + s.podText()
	if age := now.Sub(present.CreationTimestamp.Time); delay > 0 && age < delay {
		st.After = delay - age
		return st
	}
	st.Action = CreateSnapshot
	st.Round++
	return st
}

// refreshDelay returns the delay after the snapshot of a round before the next one is created while Pods run.
func refreshDelay(round int) time.Duration {
	delay := RefreshFirst
	for i := 1; i < round && delay < RefreshMax; i++ {
		delay *= 2
	}
	return min(delay, RefreshMax)
}

// fenceDelayed returns what a fence waits for. The volume is not fenced for this move.
func (s rounds) fenceDelayed(st Step, now, fenceAfter time.Time) (later Step, isDelayed bool) {
	switch {
	case fence.Holder(s.Volume) != "":
		st.Message = s.otherFence()
	case fence.Confirmed(s.Volume) != "":
		st.Message = fmt.Sprintf("node %s opens the volume again", s.SourceNode())
		st.After = Soon
	case s.Volume.Status.CurrentSize != nil && s.Volume.Status.CurrentSize.Cmp(s.Volume.Spec.Size) < 0:
		st.Message = fmt.Sprintf("node %s extends the volume to %s", s.SourceNode(), s.Volume.Spec.Size.String())
	case s.From.NotReady:
		st.Message = fmt.Sprintf("%s: the volume is closed when it is ready", s.From)
	case s.To.NotReady:
		st.Message = fmt.Sprintf("%s: the volume is closed when it is ready", s.To)
	case now.Before(fenceAfter):
		st.Message = fmt.Sprintf("node %s did not close the volume; the operator tries again at %s", s.SourceNode(),
			fenceAfter.UTC().Format(time.RFC3339))
		st.After = min(fenceAfter.Sub(now), Often)
	default:
		return st, false
	}
	return st, true
}

// beforeFence fences the volume if the last round took less than maxPause. Otherwise it copies the changes once more,
// unless nothing has changed.
func (s rounds) beforeFence(st Step, record view.CopyRecord, now, fenceAfter time.Time) Step {
	if later, isDelayed := s.fenceDelayed(st, now, fenceAfter); isDelayed {
		return later
	}
	switch {
	case s.seconds(record) > s.maxPause() && (record.SentBytes > 0 || record.Base == ""):
		st.Action = CreateSnapshot
		st.Round++
		st.Message = "the last changes are copied before the switch"
	default:
		st.Action = CloseVolume
		st.Phase = v1alpha1.MoveSwitching
		st.Message = fmt.Sprintf("node %s closes the volume", s.SourceNode())
	}
	return st
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
