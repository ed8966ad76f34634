package volumemove

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file plans the copy of a thick volume. It has no snapshots, so it is copied once, from the volume itself, while
// the volume is fenced. The target has the annotation of the fence for which it was created: a fence that was withdrawn
// and requested again has another one, and the volume could be written to in between. So the target is deleted as soon
// as the volume does not have its fence.

// thickCopy plans the copy of a thick volume.
type thickCopy struct{ *state }

// forecastRate is the assumption for forecasts, in bytes for each second.
const forecastRate = 100 << 20

// thickVolume continues the move of a thick volume before the switch.
func (s thickCopy) thickVolume(now, fenceAfter time.Time) step {
	st := step{phase: v1alpha1.MoveCopying, after: often}
	if len(s.pods) > 0 {
		st.phase = v1alpha1.MoveWaitingForPods
	}
	switch {
	case s.target == nil && s.isFenced():
		return s.fencedWithoutCopy(st, now)
	case s.target == nil:
		return s.beforeThickFence(st, now, fenceAfter)
	case s.isFenced() && (!s.target.DeletionTimestamp.IsZero() || !s.isCopyOfFence()):
		st.action = unfence
		st.message = fmt.Sprintf("the copy on node %s cannot be completed, because the volume could have changed or "+
			"the copy is being deleted: the volume is copied again", s.target.Spec.NodeName)
		return st
	case !s.target.DeletionTimestamp.IsZero():
		st.message = fmt.Sprintf("node %s removes an incomplete copy; then the volume is copied again",
			s.target.Spec.NodeName)
		return st
	case !s.isFenced():
		st.action = remove
		st.object = s.target
		st.message = fmt.Sprintf("the incomplete copy on node %s is being deleted", s.target.Spec.NodeName)
		return st
	}
	return s.copyingThick(st, now)
}

// isCopyOfFence reports whether the target was created for the present fence, which the node agent has confirmed, so
// that the volume has not changed since then.
func (s thickCopy) isCopyOfFence() bool { return s.isFinal(s.target) }

// beforeThickFence waits for Pods, and then has the volume closed. A move that has waited for Pods did not count among
// those that copy, so it waits for its turn again, as one whose nodes are lost does.
func (s thickCopy) beforeThickFence(st step, now, fenceAfter time.Time) step {
	if len(s.pods) > 0 {
		st.after = restLimit
		st.message = fmt.Sprintf("a thick volume is copied only while no Pod uses it. To start the copy of %s, which "+
			"takes %s, end: %s", s.volume.Spec.Size.String(), s.forecast(), s.podText())
		return st
	}
	if s.move.Status.Phase != v1alpha1.MoveCopying || s.lease(now).Ended(now) != "" {
		return step{action: begin, phase: v1alpha1.MovePending}
	}
	later, isDelayed := rounds(s).fenceDelayed(st, now, fenceAfter)
	if isDelayed {
		return later
	}
	st.action = closeVolume
	st.message = fmt.Sprintf("node %s closes the volume. Then it is copied, which takes %s, and no Pod can use it",
		s.sourceNode(), s.forecast())
	return st
}

// fencedWithoutCopy creates the target when the node agent has closed the volume. A Pod that comes earlier gets the
// volume.
func (s thickCopy) fencedWithoutCopy(st step, now time.Time) step {
	switch {
	case len(s.pods) > 0:
		st.action = unfence
		st.message = "Pods use the volume again: " + s.podText()
	case !s.isFenceConfirmed():
		st = rounds(s).awaitFence(st, now)
		if st.action == unfence {
			st.phase = v1alpha1.MovePending
		}
	default:
		st.action = createTarget
		st.snapshot = s.volume
		st.after = soon
		st.message = "the copy to node " + s.targetNode() + " is being prepared"
	}
	return st
}

// copyingThick reports the copy, and switches the volume when it is complete. A Pod that comes meanwhile cannot start.
// It does not end the copy, which can have taken hours, as long as the copy makes progress and the nodes are not lost:
// the message says how it can have the volume.
func (s thickCopy) copyingThick(st step, now time.Time) step {
	record := s.record()
	st.phase = v1alpha1.MoveCopying
	why := s.lease(now).Ended(now)
	switch {
	case why != "" && len(s.pods) > 0:
		st.action = unfence
		st.phase = v1alpha1.MovePending
		st.message = fmt.Sprintf("%s, so the copy is discarded for the Pods that wait for the volume on node %s: %s. "+
			"The move waits for its turn again", why, s.sourceNode(), s.podText())
	case s.target.Spec.Size.Cmp(s.volume.Spec.Size) < 0:
		st.action = unfence
		st.message = "the volume was expanded meanwhile, and is copied again"
	case !record.Finished:
		return s.progressOfThick(st, record)
	case !s.isThickSettled(record):
		st.action = unfence
		st.message = "the size of the volume has changed since it was copied: it is copied again"
	case len(s.pods) > 0:
		st.phase = v1alpha1.MoveWaitingForPods
		st.message = fmt.Sprintf("node %s has a copy, and node %s keeps the volume closed. Delete these Pods, so that "+
			"they are created again and start on node %s: %s; to keep the volume on node %s, delete the VolumeMove",
			s.target.Spec.NodeName, s.sourceNode(), s.target.Spec.NodeName, s.podText(), s.sourceNode())
	case s.to.NotReady:
		return rounds(s).awaitTarget(st)
	default:
		st.action = switchVolume
		st.phase = v1alpha1.MoveSwitching
		st.after = soon
		st.message = "the volume is switched to node " + s.targetNode()
	}
	return st
}

// progressOfThick reports a copy that is not complete, with a forecast.
func (s thickCopy) progressOfThick(st step, record v1alpha1.CopyRecord) step {
	st.message = fmt.Sprintf("node %s copies the thick volume from node %s: %d%% are copied and compared; all of it "+
		"takes %s", s.target.Spec.NodeName, s.sourceNode(), percent(record), s.forecast())
	if record.Error != "" {
		st.message = fmt.Sprintf("node %s cannot copy the thick volume from node %s, and tries again: %s",
			s.target.Spec.NodeName, s.sourceNode(), record.Error)
	}
	st.message += fmt.Sprintf(". No Pod can use the volume until then; to use it on node %s now, delete the VolumeMove",
		s.sourceNode())
	if len(s.pods) > 0 {
		st.message += fmt.Sprintf(". These Pods are bound to node %s and cannot start; delete them, so that they are "+
			"created again: %s", s.sourceNode(), s.podText())
	}
	return st
}

// returnToQueue discards the copy of a move whose fence was withdrawn, or whose snapshots fill the thin pool. Then the
// move begins again, maybe with another node. The snapshots of the next copy can have the names of these, so it begins
// when none of them is left.
func (s *state) returnToQueue(message string, now, fenceAfter time.Time) step {
	st := step{phase: v1alpha1.MovePending, message: message, after: often}
	left := ending{s}.undeleted()
	switch {
	case s.isFenced():
		st.action = unfence
	case left != nil:
		st.action = remove
		st.object = left
	case s.target != nil || len(s.snapshots) > 0 ||
		s.volume.Annotations[v1alpha1.FencedAnnotation] == string(s.move.UID):
		st.after = blocked // The nodes remove the copy and open the volume.
	case now.Before(fenceAfter):
		st.after = min(fenceAfter.Sub(now), blocked)
	default:
		st.action = begin
	}
	return st
}

// sizeOfThick returns the size of the copy: that of the logical volume, which LVM may have rounded up.
func (s thickCopy) sizeOfThick() resource.Quantity {
	size := s.volume.Spec.Size
	if current := s.volume.Status.CurrentSize; current != nil && current.Cmp(size) > 0 {
		size = *current
	}
	return size.DeepCopy()
}

// isThickSettled reports whether the volume has its requested size, and the copy all of it.
func (s thickCopy) isThickSettled(record v1alpha1.CopyRecord) bool {
	size := s.volume.Spec.Size
	return toInt64(record.SizeBytes) >= size.Value() &&
		(s.volume.Status.CurrentSize == nil || s.volume.Status.CurrentSize.Cmp(size) >= 0 &&
			toInt64(record.SizeBytes) >= s.volume.Status.CurrentSize.Value())
}

// forecast describes how long the copy of the volume takes. All of it is read twice: to copy it, and to compare it.
func (s thickCopy) forecast() string {
	seconds := max(1, 2*float64(s.volume.Spec.Size.Value())/forecastRate)
	return fmt.Sprintf("about %s at 100Mi for each second",
		time.Duration(seconds*float64(time.Second)).Round(time.Second))
}

// percent returns how much of the volume is copied and compared.
func percent(record v1alpha1.CopyRecord) int {
	if record.SizeBytes == 0 {
		return 0
	}
	return int(50 * (float64(record.CopiedBytes) + float64(record.ComparedBytes)) / float64(record.SizeBytes))
}
