package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file plans the copy of a thick volume. It has no snapshots, so it is copied once, from the volume itself, while
// the volume is fenced. The target has the annotation of the fence for which it was created: a fence that was withdrawn
// and requested again has another one, and the volume could be written to in between. So the target is deleted as soon
// as the volume does not have its fence.

// thickCopy plans the copy of a thick volume.
type thickCopy struct{ *State }

// forecastRate is the assumption for forecasts, in bytes for each second.
const forecastRate = 100 << 20

// thickVolume continues the move of a thick volume before the switch.
func (s thickCopy) thickVolume(now, fenceAfter time.Time) Step {
	st := Step{Phase: v1alpha1.MoveCopying, After: Often}
	if len(s.Pods) > 0 {
		st.Phase = v1alpha1.MoveWaitingForPods
	}
	switch {
	case s.Target == nil && s.IsFenced():
		return s.fencedWithoutCopy(st, now)
	case s.Target == nil:
		return s.beforeThickFence(st, now, fenceAfter)
	case s.IsFenced() && (!s.Target.DeletionTimestamp.IsZero() || !s.isCopyOfFence()):
		st.Action = Unfence
		st.Message = fmt.Sprintf("the copy on node %s cannot be completed, because the volume could have changed or "+
			"the copy is being deleted: the volume is copied again", s.Target.Spec.NodeName)
		return st
	case !s.Target.DeletionTimestamp.IsZero():
		st.Message = fmt.Sprintf("node %s removes an incomplete copy; then the volume is copied again",
			s.Target.Spec.NodeName)
		return st
	case !s.IsFenced():
		st.Action = Remove
		st.Object = s.Target
		st.Message = fmt.Sprintf("the incomplete copy on node %s is being deleted", s.Target.Spec.NodeName)
		return st
	}
	return s.copyingThick(st, now)
}

// isCopyOfFence reports whether the target was created for the present fence, which the node agent has confirmed, so
// that the volume has not changed since then.
func (s thickCopy) isCopyOfFence() bool { return s.isFinal(s.Target) }

// beforeThickFence waits for Pods, and then has the volume closed. A move that has waited for Pods did not count among
// those that copy, so it waits for its turn again, as one whose nodes are lost does.
func (s thickCopy) beforeThickFence(st Step, now, fenceAfter time.Time) Step {
	if len(s.Pods) > 0 {
		st.After = RestLimit
		st.Message = fmt.Sprintf("a thick volume is copied only while no Pod uses it. To start the copy of %s, which "+
			"takes %s, end: %s", s.Volume.Spec.Size.String(), s.forecast(), s.podText())
		return st
	}
	if s.Move.Status.Phase != v1alpha1.MoveCopying || s.lease(now).Ended(now) != "" {
		return Step{Action: Begin, Phase: v1alpha1.MovePending}
	}
	later, isDelayed := rounds(s).fenceDelayed(st, now, fenceAfter)
	if isDelayed {
		return later
	}
	st.Action = CloseVolume
	st.Message = fmt.Sprintf("node %s closes the volume. Then it is copied, which takes %s, and no Pod can use it",
		s.SourceNode(), s.forecast())
	return st
}

// fencedWithoutCopy creates the target when the node agent has closed the volume. A Pod that comes earlier gets the
// volume.
func (s thickCopy) fencedWithoutCopy(st Step, now time.Time) Step {
	switch {
	case len(s.Pods) > 0:
		st.Action = Unfence
		st.Message = "Pods use the volume again: " + s.podText()
	case !s.IsFenceConfirmed():
		st = rounds(s).awaitFence(st, now)
		if st.Action == Unfence {
			st.Phase = v1alpha1.MovePending
		}
	default:
		st.Action = CreateTarget
		st.Snapshot = s.Volume
		st.After = Soon
		st.Message = "the copy to node " + s.TargetNode() + " is being prepared"
	}
	return st
}

// copyingThick reports the copy, and switches the volume when it is complete. A Pod that comes meanwhile cannot start.
// It does not end the copy, which can have taken hours, as long as the copy makes progress and the nodes are not lost:
// the message says how it can have the volume.
func (s thickCopy) copyingThick(st Step, now time.Time) Step {
	record := s.record()
	st.Phase = v1alpha1.MoveCopying
	why := s.lease(now).Ended(now)
	switch {
	case why != "" && len(s.Pods) > 0:
		st.Action = Unfence
		st.Phase = v1alpha1.MovePending
		st.Message = fmt.Sprintf("%s, so the copy is discarded for the Pods that wait for the volume on node %s: %s. "+
			"The move waits for its turn again", why, s.SourceNode(), s.podText())
	case s.Target.Spec.Size.Cmp(s.Volume.Spec.Size) < 0:
		st.Action = Unfence
		st.Message = "the volume was expanded meanwhile, and is copied again"
	case !record.Finished:
		return s.progressOfThick(st, record)
	case !s.isThickSettled(record):
		st.Action = Unfence
		st.Message = "the size of the volume has changed since it was copied: it is copied again"
	case len(s.Pods) > 0:
		st.Phase = v1alpha1.MoveWaitingForPods
		st.Message = fmt.Sprintf("node %s has a copy, and node %s keeps the volume closed. Delete these Pods, so that "+
			"they are created again and start on node %s: %s; to keep the volume on node %s, delete the VolumeMove",
			s.Target.Spec.NodeName, s.SourceNode(), s.Target.Spec.NodeName, s.podText(), s.SourceNode())
	case s.To.NotReady:
		return rounds(s).awaitTarget(st)
	default:
		st.Action = SwitchVolume
		st.Phase = v1alpha1.MoveSwitching
		st.After = Soon
		st.Message = "the volume is switched to node " + s.TargetNode()
	}
	return st
}

// progressOfThick reports a copy that is not complete, with a forecast.
func (s thickCopy) progressOfThick(st Step, record view.CopyRecord) Step {
	st.Message = fmt.Sprintf("node %s copies the thick volume from node %s: %d%% are copied and compared; all of it "+
		"takes %s", s.Target.Spec.NodeName, s.SourceNode(), percent(record), s.forecast())
	if record.Error != "" {
		st.Message = fmt.Sprintf("node %s cannot copy the thick volume from node %s, and tries again: %s",
			s.Target.Spec.NodeName, s.SourceNode(), record.Error)
	}
	st.Message += fmt.Sprintf(". No Pod can use the volume until then; to use it on node %s now, delete the VolumeMove",
		s.SourceNode())
	if len(s.Pods) > 0 {
		st.Message += fmt.Sprintf(". These Pods are bound to node %s and cannot start; delete them, so that they are "+
			"created again: %s", s.SourceNode(), s.podText())
	}
	return st
}

// returnToQueue discards the copy of a move whose fence was withdrawn, or whose snapshots fill the thin pool. Then the
// move begins again, maybe with another node. The snapshots of the next copy can have the names of these, so it begins
// when none of them is left.
func (s *State) returnToQueue(message string, now, fenceAfter time.Time) Step {
	st := Step{Phase: v1alpha1.MovePending, Message: message, After: Often}
	left := ending{s}.undeleted()
	switch {
	case s.IsFenced():
		st.Action = Unfence
	case left != nil:
		st.Action = Remove
		st.Object = left
	case s.Target != nil || len(s.Snapshots) > 0 || fence.Confirmed(s.Volume) == string(s.Move.UID):
		st.After = Blocked // The nodes remove the copy and open the volume.
	case now.Before(fenceAfter):
		st.After = min(fenceAfter.Sub(now), Blocked)
	default:
		st.Action = Begin
	}
	return st
}

// SizeOfThick returns the size of the copy: that of the logical volume, which LVM may have rounded up.
func (s *State) SizeOfThick() resource.Quantity {
	size := s.Volume.Spec.Size
	if current := s.Volume.Status.CurrentSize; current != nil && current.Cmp(size) > 0 {
		size = *current
	}
	return size.DeepCopy()
}

// isThickSettled reports whether the volume has its requested size, and the copy all of it.
func (s thickCopy) isThickSettled(record view.CopyRecord) bool {
	size := s.Volume.Spec.Size
	return toInt64(record.SizeBytes) >= size.Value() &&
		(s.Volume.Status.CurrentSize == nil || s.Volume.Status.CurrentSize.Cmp(size) >= 0 &&
			toInt64(record.SizeBytes) >= s.Volume.Status.CurrentSize.Value())
}

// forecast describes how long the copy of the volume takes. All of it is read twice: to copy it, and to compare it.
func (s thickCopy) forecast() string {
	seconds := max(1, 2*float64(s.Volume.Spec.Size.Value())/forecastRate)
	return fmt.Sprintf("about %s at 100Mi for each second",
		time.Duration(seconds*float64(time.Second)).Round(time.Second))
}

// percent returns how much of the volume is copied and compared.
func percent(record view.CopyRecord) int {
	if record.SizeBytes == 0 {
		return 0
	}
	return int(50 * (float64(record.CopiedBytes) + float64(record.ComparedBytes)) / float64(record.SizeBytes))
}
