package volumemove

import (
	"context"
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// maxMessage limits the message in bytes.
const maxMessage = 2048

// podsUseVolume is a Normal event on the VolumeMove: the copy is complete, and the switch follows when no Pod uses the
// volume on the source node.
var podsUseVolume = event.Normal("PodsUseVolume", "Move",
	"volume of claim %s: node %s has a copy. The volume is switched when these Pods have ended: %s")

// podsUseThickVolume is a Normal event on the VolumeMove: the volume is thick, so it is copied only while no Pod uses
// it. Its Pods cannot start until the copy is complete.
var podsUseThickVolume = event.Normal("PodsUseThickVolume", "Move",
	"the thick volume of claim %s is copied to node %s when these Pods have ended: %s")

// volumeSwitched is a Normal event on the VolumeMove: the volume is on the target node.
var volumeSwitched = event.Normal("VolumeSwitched", "Move",
	"the volume of claim %s is on node %s, and no longer on node %s")

// podsOnOldNode is a Warning event on the VolumeMove: Pods were bound to the old node when the volume was switched.
// They cannot start there.
// What to do: delete these Pods, so that they are created again and start on the node of the volume.
var podsOnOldNode = event.Warning("PodsOnOldNode", "Move",
	"the volume of claim %s is on node %s now. These Pods are bound to another node and cannot start; delete them: %s")

// moveFailed is a Warning event on the VolumeMove: the volume cannot be moved, and stays on its node.
// What to do: as the message says; then delete the VolumeMove and create another one.
var moveFailed = event.Warning("VolumeMoveFailed", "Move", "the volume of claim %s stays on its node: %s")

// returnedToQueue is a Warning event on the VolumeMove: the node agent did not close the thick volume, its copy made no
// progress or a node was lost while a Pod waited for the volume, the thin pool of the source node fills up, or the
// target node has no room for the data. Pods can use the volume on its node, and it is copied again later.
// What to do: as the message says; repair the node that it names, extend the thin pool, or delete the VolumeMove.
var returnedToQueue = event.Warning("VolumeMoveReturnedToQueue", "Move",
	"the volume of claim %s stays open on node %s, and is copied again later: %s")

// describe sets the status of a move for a step.
func (c *Controller) describe(s *state, st step) {
	status := &s.move.Status
	now := metav1.NewTime(c.now())
	progress := s.progress(now.Time) // The status has the earlier one.
	status.Phase = st.phase
	if st.message != "" || status.Phase != v1alpha1.MoveCopying {
		status.Message = text.Truncate(st.message, maxMessage)
	}
	if status.Phase != v1alpha1.MovePending {
		status.QueuePosition = 0
	}
	status.PodCount = int32(min(len(s.pods), math.MaxInt32)) //nolint:gosec // it is limited
	status.Pods = s.pods[:min(len(s.pods), v1alpha1.MaxMovePods)]
	if status.StartTime == nil && status.TargetNode != "" {
		status.StartTime = &now
	}
	s.describeRound()
	status.ProgressBytes, status.ProgressTime = 0, nil
	if !progress.Time.IsZero() {
		status.ProgressBytes = progress.Bytes
		status.ProgressTime = &metav1.Time{Time: progress.Time}
	}
	if s.isSwitched() && status.SwitchTime == nil {
		status.SwitchTime = &now
	}
	if s.old != nil && s.old.Status.VolumeID != "" {
		status.SourceRemovalTime = &metav1.Time{Time: ending{s}.removalTime()}
	}
	meta.SetStatusCondition(&status.Conditions, conditionOf(s.move))
}

// describeRound sets what the status says about the copy. A thick volume has one round, which begins again if its copy
// is discarded.
func (s *state) describeRound() {
	if s.isSwitched() {
		return
	}
	status := &s.move.Status
	if s.target == nil {
		if status.Thick {
			status.Round, status.CopiedBytes = 0, 0
		}
		return
	}
	record := s.record()
	status.Round = int32(roundOf(s.move, s.target.Spec.Source)) //nolint:gosec // a round takes at least a second
	if status.Thick {
		status.Round = 1
	}
	status.CopiedBytes = toInt64(record.CopiedBytes)
	if s.volume != nil {
		status.TotalBytes = s.volume.Spec.Size.Value()
	}
	if record.Finished {
		status.LastDeltaBytes = toInt64(record.SentBytes)
		status.LastDeltaSeconds = int64(math.Ceil(record.Seconds))
	}
}

func toInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) } //nolint:gosec // it is limited

func conditionOf(move *v1alpha1.VolumeMove) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionMoved, Status: metav1.ConditionFalse,
		Reason: string(move.Status.Phase), Message: move.Status.Message, ObservedGeneration: move.Generation}
	if condition.Reason == "" {
		condition.Reason = string(v1alpha1.MovePending)
	}
	if move.Status.Phase == v1alpha1.MoveKeepingSource || move.Status.Phase == v1alpha1.MoveCompleted {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}

// report writes the status, if it has changed, and records events.
func (c *Controller) report(ctx context.Context, before *v1alpha1.VolumeMove, s *state) error {
	move := s.move
	if equality.Semantic.DeepEqual(before.Status, move.Status) {
		return nil
	}
	after := before.DeepCopy()
	after.Status = move.Status
	err := c.client.Status().Patch(ctx, after,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		if apierrors.IsConflict(err) {
			return err
		}
		return fmt.Errorf("write the status of VolumeMove %s: %w", move.Name, err)
	}
	move.ResourceVersion = after.ResourceVersion
	c.tell(before, move)
	return nil
}

// tell records events for a change of the phase.
func (c *Controller) tell(before, move *v1alpha1.VolumeMove) {
	status := &move.Status
	isBackRequested := move.Annotations[v1alpha1.MoveBackAnnotation] == status.TargetNode
	if status.SwitchTime != nil && len(status.Pods) > 0 && !isBackRequested {
		c.events.Emit(move, podsOnOldNode, move.Spec.Claim, status.TargetNode, strings.Join(status.Pods, ", "))
	}
	switch {
	case status.Phase == v1alpha1.MoveWaitingForPods && len(status.Pods) > 0 && status.Thick && status.Round == 0:
		c.events.Emit(move, podsUseThickVolume, move.Spec.Claim, status.TargetNode, strings.Join(status.Pods, ", "))
	case status.Phase == v1alpha1.MoveWaitingForPods && len(status.Pods) > 0:
		c.events.Emit(move, podsUseVolume, move.Spec.Claim, status.TargetNode, strings.Join(status.Pods, ", "))
	case before.Status.SwitchTime == nil && status.SwitchTime != nil:
		c.events.Emit(move, volumeSwitched, move.Spec.Claim, status.TargetNode, status.SourceNode)
	case status.Phase == v1alpha1.MovePending && before.Status.Phase != v1alpha1.MovePending && status.TargetNode != "":
		c.events.Emit(move, returnedToQueue, move.Spec.Claim, status.SourceNode, status.Message)
	case status.Phase == v1alpha1.MoveFailed && before.Status.Phase != v1alpha1.MoveFailed:
		c.events.Emit(move, moveFailed, move.Spec.Claim, status.Message)
	}
}
