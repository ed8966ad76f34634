package plan

import (
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

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
