package plan

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// maxMessage limits the message in bytes.
const maxMessage = 2048

// Describe sets the status of a move for a step.
func (s *State) Describe(st Step, at time.Time) {
	status := &s.Move.Status
	now := metav1.NewTime(at)
	progress := s.progress(at) // The status has the earlier one.
	status.Phase = st.Phase
	if st.Message != "" || status.Phase != v1alpha1.MoveCopying {
		status.Message = text.Truncate(st.Message, maxMessage)
	}
	if status.Phase != v1alpha1.MovePending {
		status.QueuePosition = 0
	}
	status.PodCount = int32(min(len(s.Pods), math.MaxInt32)) //nolint:gosec // it is limited
	status.Pods = s.Pods[:min(len(s.Pods), maxPods)]
	if status.StartTime == nil && status.TargetNode != "" {
		status.StartTime = &now
	}
	s.describeRound()
	status.ProgressBytes, status.ProgressTime = 0, nil
	if !progress.Time.IsZero() {
		status.ProgressBytes = progress.Bytes
		status.ProgressTime = &metav1.Time{Time: progress.Time}
	}
	if s.IsSwitched() && status.SwitchTime == nil {
		status.SwitchTime = &now
	}
	if s.Old != nil && s.Old.Status.VolumeID != "" {
		status.SourceRemovalTime = &metav1.Time{Time: ending{s}.removalTime()}
	}
	meta.SetStatusCondition(&status.Conditions, conditionOf(s.Move))
}

// describeRound sets what the status says about the copy. A thick volume has one round, which begins again if its copy
// is discarded.
func (s *State) describeRound() {
	if s.IsSwitched() {
		return
	}
	status := &s.Move.Status
	if s.Target == nil {
		if status.Thick {
			status.Round, status.CopiedBytes = 0, 0
		}
		return
	}
	record := s.record()
	status.Round = int32(RoundOf(s.Move, s.Target.Spec.Source)) //nolint:gosec // a round takes at least a second
	if status.Thick {
		status.Round = 1
	}
	status.CopiedBytes = toInt64(record.CopiedBytes)
	if s.Volume != nil {
		status.TotalBytes = s.Volume.Spec.Size.Value()
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
