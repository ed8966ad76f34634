package volumemove

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
)

// action is what the operator does next for a move.
type action int

const (
	// wait does nothing for the time in step.after.
	wait action = iota
	// begin selects the target node.
	begin
	// createSnapshot creates the snapshot of round step.round.
	createSnapshot
	// createTarget creates the target as a copy of step.snapshot: a snapshot, or the thick volume itself.
	createTarget
	// copyRound has the target copy the snapshot step.snapshot.
	copyRound
	// resizeTarget gives the target the size of the volume.
	resizeTarget
	// remove deletes the LogicalVolume step.object.
	remove
	// closeVolume requests that nobody can use the volume. unfence withdraws that.
	closeVolume
	unfence
	// switchVolume moves the LogicalVolume of the claim to the target node.
	switchVolume
	// keepOld has the old logical volume kept, because switchBack makes it that of the volume again. keepOld also
	// withdraws this. swapNodes makes the target node the source node, and the other way around.
	keepOld
	switchBack
	swapNodes
	// rebind has the claim bound to the PersistentVolume that was recreated.
	rebind
	// createOld creates the owner of the logical volume on the source node.
	createOld
	// end removes the finalizer.
	end
)

// step is the next action, and what the status says.
type step struct {
	action   action
	round    int
	snapshot *topolvmv1.LogicalVolume
	object   *topolvmv1.LogicalVolume
	phase    v1alpha1.VolumeMovePhase
	message  string
	after    time.Duration
	// queuedFor is the target node for which the move waits for its turn.
	queuedFor string
	// discards: the copy is discarded, and begins again only after a delay, which grows each time.
	discards bool
}

// Times of a move.
const (
	// fenceTimeout is how long the node agent may take to confirm a fence. Then the fence is withdrawn.
	fenceTimeout = 2 * time.Minute
	// soon is the delay while a node agent is expected to act within seconds, often the delay while it copies, and
	// blocked the delay while somebody must act.
	soon    = time.Second
	often   = 5 * time.Second
	blocked = 15 * time.Second
	// refreshFirst and refreshMax are the delays before the changes are copied again while Pods use the volume.
	refreshFirst = time.Minute
	refreshMax   = 15 * time.Minute
	// eagerRounds is the number of rounds that follow each other at once, until one takes less than maxPause.
	eagerRounds = 10
	// refusedDelay is the delay before a snapshot that the node refused is created again.
	refusedDelay = time.Minute

	defaultMaxPause   = 30 * time.Second
	defaultKeepSource = 24 * time.Hour
)

// plan decides what is next. fenceAfter is when the volume may be fenced again after a fence that was not confirmed.
func plan(s *state, now, fenceAfter time.Time) step {
	switch {
	case wayBack{s}.isBack():
		return wayBack{s}.afterSwitchBack()
	case wayBack{s}.isLostWithoutOwner():
		return wayBack{s}.swap("the volume was deleted")
	case s.isSwitched() && (wayBack{s}.isBackRequested() || wayBack{s}.isOldKept()):
		return wayBack{s}.moveBack(now)
	case s.isSwitched():
		return ending{s}.afterSwitch(now)
	case !s.move.DeletionTimestamp.IsZero():
		return ending{s}.undo(s.move.Status.Phase, "the move is being undone: the volume stays on its node")
	case s.move.Status.Phase == v1alpha1.MoveFailed:
		return ending{s}.undo(v1alpha1.MoveFailed, s.move.Status.Message)
	case s.move.Status.Phase == v1alpha1.MoveCompleted:
		return step{action: end, phase: v1alpha1.MoveCompleted, message: s.move.Status.Message}
	case s.move.Status.TargetNode == "":
		return step{action: begin, phase: v1alpha1.MovePending}
	}
	if why := s.problem(); why != "" {
		return ending{s}.undo(v1alpha1.MoveFailed, why)
	}
	if why := cmp.Or(s.fills(false), s.lacksRoom()); why != "" && s.move.Status.Phase != v1alpha1.MovePending {
		st := s.returnToQueue(why, now, fenceAfter)
		st.discards = true
		return st
	}
	switch {
	case s.move.Status.Phase == v1alpha1.MovePending:
		return s.returnToQueue(s.move.Status.Message, now, fenceAfter)
	case s.move.Status.Thick:
		return thickCopy{s}.thickVolume(now, fenceAfter)
	case s.target == nil:
		return rounds{s}.firstRound(now)
	}
	return rounds{s}.nextRound(now, fenceAfter)
}

// problem returns why a move that has begun cannot be completed, or "".
func (s *state) problem() string {
	name := s.move.Status.PersistentVolume
	switch {
	case s.volume == nil || s.pv == nil || s.claim == nil:
		return fmt.Sprintf("claim %s, its PersistentVolume %s or its LogicalVolume no longer exists", s.move.Spec.Claim,
			name)
	case !s.volume.DeletionTimestamp.IsZero() || !s.pv.DeletionTimestamp.IsZero():
		return fmt.Sprintf("volume %s of claim %s is being deleted", name, s.move.Spec.Claim)
	case s.claim.Spec.VolumeName != name || s.pv.Spec.ClaimRef == nil || s.pv.Spec.ClaimRef.UID != s.claim.UID:
		return fmt.Sprintf("claim %s is no longer the one of PersistentVolume %s: create another VolumeMove",
			s.move.Spec.Claim, name)
	case s.pv.Spec.CSI == nil || s.pv.Spec.CSI.VolumeHandle != s.volume.Status.VolumeID:
		return fmt.Sprintf("PersistentVolume %s is not for the volume of LogicalVolume %s", name, s.volume.Name)
	case v1alpha1.NodeOfVolume(s.pv) != s.volume.Spec.NodeName || s.volume.Spec.NodeName != s.sourceNode():
		return fmt.Sprintf("volume %s is on node %s, and no longer on node %s: create another VolumeMove", name,
			s.volume.Spec.NodeName, s.sourceNode())
	case s.target == nil:
		return ""
	case s.target.Annotations[v1alpha1.MoveVolumeAnnotation] != s.volume.Status.VolumeID:
		return fmt.Sprintf("LogicalVolume %s is for another volume than %s", s.target.Name, s.volume.Status.VolumeID)
	case s.target.Status.VolumeID != "":
		return fmt.Sprintf("the node agent of node %s does not know moves of volumes: update it, and create another "+
			"VolumeMove", s.target.Spec.NodeName)
	case service.IsRefusal(s.target.Status.Code) && s.lacksRoom() == "":
		return fmt.Sprintf("node %s cannot create the copy: %s", s.target.Spec.NodeName, s.target.Status.Message)
	}
	return ""
}

// lacksRoom returns that the target node has refused the copy because it has no room for its data now, or "".
func (s *state) lacksRoom() string {
	if s.target == nil || s.target.Status.Code != codes.ResourceExhausted {
		return ""
	}
	return fmt.Sprintf("node %s has no room for the copy: %s", s.target.Spec.NodeName, s.target.Status.Message)
}

// rounds plans the copy of a thin volume, in rounds with snapshots.
type rounds struct{ *state }

// firstRound creates the first snapshot and the target.
func (s rounds) firstRound(now time.Time) step {
	st := step{phase: v1alpha1.MoveCopying, after: soon,
		message: "the copy to node " + s.targetNode() + " is being prepared"}
	switch {
	case s.isFenced():
		st.action = unfence
	case len(s.snapshots) == 0:
		st.action = createSnapshot
		st.round = 1
	default:
		snapshot := s.snapshots[len(s.snapshots)-1]
		return s.whenCreated(snapshot, now, st, createTarget)
	}
	return st
}

// whenCreated returns the step with an action for a snapshot, if the node has created it. It deletes a snapshot that
// the node refused after some time, so that it is created again.
func (s rounds) whenCreated(snapshot *topolvmv1.LogicalVolume, now time.Time, st step, next action) step {
	st.after = soon
	switch {
	case !snapshot.DeletionTimestamp.IsZero():
		st.message = fmt.Sprintf("snapshot %s on node %s is being deleted", snapshot.Name, snapshot.Spec.NodeName)
	case snapshot.Status.VolumeID != "":
		st.action = next
		st.snapshot = snapshot
	case service.IsRefusal(snapshot.Status.Code):
		st.message = fmt.Sprintf("node %s cannot create a snapshot of the volume: %s", snapshot.Spec.NodeName,
			snapshot.Status.Message)
		st.after = blocked
		if now.Sub(snapshot.CreationTimestamp.Time) >= refusedDelay {
			st.action = remove
			st.object = snapshot
		}
	}
	return st
}

// nextRound continues a move that has a target.
func (s rounds) nextRound(now, fenceAfter time.Time) step {
	record := s.record()
	round := roundOf(s.move, s.target.Spec.Source)
	st := step{round: round, after: often, phase: v1alpha1.MoveCopying}
	if s.isFenced() {
		st.phase = v1alpha1.MoveSwitching
	}
	switch {
	case !s.target.DeletionTimestamp.IsZero():
		st.message = fmt.Sprintf("LogicalVolume %s on node %s is being deleted", s.target.Name, s.target.Spec.NodeName)
		if s.isFenced() {
			st.action = unfence
		}
		return st
	case s.isFenced() && len(s.pods) > 0:
		st.action = unfence
		st.message = "Pods use the volume again: " + s.podText()
		return st
	case s.target.Spec.Size.Cmp(s.volume.Spec.Size) < 0:
		st.action = resizeTarget
		st.message = fmt.Sprintf("the copy is being extended to %s", s.volume.Spec.Size.String())
		return st
	case !record.Finished:
		return s.copying(st, record, now)
	}
	return s.roundDone(st, record, now, fenceAfter)
}

// copying reports a round that is not finished.
func (s rounds) copying(st step, record v1alpha1.CopyRecord, now time.Time) step {
	st.message = fmt.Sprintf("round %d: node %s copies from node %s", st.round, s.target.Spec.NodeName, s.sourceNode())
	if s.snapshot(s.target.Spec.Source) == nil {
		return ending(s).undo(v1alpha1.MoveFailed, fmt.Sprintf("snapshot %s was deleted while node %s copied it: "+
			"create another VolumeMove", s.target.Spec.Source, s.target.Spec.NodeName))
	}
	if st.phase == v1alpha1.MoveSwitching {
		st.after = soon
	}
	if record.Error != "" {
		st.message = fmt.Sprintf("round %d: node %s cannot copy from node %s, and tries again: %s", st.round,
			s.target.Spec.NodeName, s.sourceNode(), record.Error)
	}
	if why := s.lease(now).Ended(now); why != "" {
		st.message += fmt.Sprintf(". %s: other moves do not wait for this one", why)
	}
	return st
}

// snapshot returns the snapshot with a name, or nil.
func (s *state) snapshot(name string) *topolvmv1.LogicalVolume {
	for _, snapshot := range s.snapshots {
		if snapshot.Name == name && snapshot.DeletionTimestamp.IsZero() {
			return snapshot
		}
	}
	return nil
}

// roundDone decides what follows a finished round: the next one, the wait for Pods, or the switch.
func (s rounds) roundDone(st step, record v1alpha1.CopyRecord, now, fenceAfter time.Time) step {
	present := s.snapshot(s.target.Spec.Source)
	for _, snapshot := range s.snapshots {
		if roundOf(s.move, snapshot.Name) < st.round && snapshot.DeletionTimestamp.IsZero() {
			st.action = remove
			st.object = snapshot
			st.message = "the snapshots of earlier rounds are being deleted"
			return st
		}
	}
	if last := s.snapshots[max(0, len(s.snapshots)-1):]; len(last) > 0 && roundOf(s.move, last[0].Name) > st.round {
		return s.startRound(st, last[0], now)
	}
	if present == nil {
		// Without it, there is no base for the changes.
		return ending(s).undo(v1alpha1.MoveFailed, fmt.Sprintf("snapshot %s, which the next round needs, was "+
			"deleted: create another VolumeMove", s.target.Spec.Source))
	}
	if s.isFenced() {
		return s.fenced(st, present, record, now)
	}
	if len(s.pods) > 0 {
		return s.whilePodsRun(st, present, record, now)
	}
	return s.beforeFence(st, record, now, fenceAfter)
}

// startRound starts the round of a new snapshot when the node has created it. If the volume is fenced, and was not when
// the snapshot was created, the snapshot is not the last one, and is deleted.
func (s rounds) startRound(st step, snapshot *topolvmv1.LogicalVolume, now time.Time) step {
	st.message = fmt.Sprintf("snapshot %s is being created on node %s", snapshot.Name, snapshot.Spec.NodeName)
	if s.isFenced() && !s.isFinal(snapshot) && snapshot.DeletionTimestamp.IsZero() {
		st.action = remove
		st.object = snapshot
		return st
	}
	return s.whenCreated(snapshot, now, st, copyRound)
}

// fenced takes the last snapshot when the node agent has confirmed the fence, and then switches the volume.
func (s rounds) fenced(st step, present *topolvmv1.LogicalVolume, record v1alpha1.CopyRecord, now time.Time) step {
	st.after = soon
	switch {
	case !s.isFenceConfirmed():
		return s.awaitFence(st, now)
	case !s.isFinal(present):
		st.action = createSnapshot
		st.round++
		st.message = "the last changes are copied"
	case !s.isSettled(record):
		// The size has changed since the snapshot was taken.
		st.action = unfence
		st.message = "the volume was expanded meanwhile; its changes are copied again"
	case s.to.NotReady:
		return s.awaitTarget(st)
	default:
		st.action = switchVolume
		st.message = "the volume is switched to node " + s.targetNode()
	}
	return st
}

// awaitTarget waits until the target node is ready: on a lost node, nobody could use the volume.
func (s rounds) awaitTarget(st step) step {
	st.after = often
	st.message = fmt.Sprintf("%s: the volume is switched to it when it is ready", s.to)
	return st
}

// awaitFence waits until the node agent confirms a fence, and withdraws the fence after some time.
func (s rounds) awaitFence(st step, now time.Time) step {
	st.after = soon
	st.message = fmt.Sprintf("node %s closes the volume", s.sourceNode())
	if why := s.volume.Annotations[v1alpha1.FenceErrorAnnotation]; why != "" {
		st.message += ": " + why
	}
	if now.Sub(fence.Requested(s.volume)) >= fenceTimeout {
		st.action = unfence
		st.message = fmt.Sprintf("node %s did not close the volume within %s; the operator tries again: %s",
			s.sourceNode(), fenceTimeout, s.volume.Annotations[v1alpha1.FenceErrorAnnotation])
	}
	return st
}

// isSettled reports whether the volume has its requested size, and the copy too.
func (s rounds) isSettled(record v1alpha1.CopyRecord) bool {
	size := s.volume.Spec.Size
	return s.target.Spec.Size.Cmp(size) == 0 && toInt64(record.SizeBytes) >= size.Value() &&
		(s.volume.Status.CurrentSize == nil || s.volume.Status.CurrentSize.Cmp(size) >= 0)
}

// whilePodsRun waits for Pods. Meanwhile, it copies the changes from time to time, so that few are left.
func (s rounds) whilePodsRun(st step, present *topolvmv1.LogicalVolume, record v1alpha1.CopyRecord,
	now time.Time) step {
	delay := refreshDelay(st.round)
	if s.seconds(record) > s.maxPause() && st.round < eagerRounds {
		delay = 0
	} else {
		st.phase = v1alpha1.MoveWaitingForPods
	}
	st.message = "ends when no Pod uses the volume: " + s.podText()
	if age := now.Sub(present.CreationTimestamp.Time); delay > 0 && age < delay {
		st.after = delay - age
		return st
	}
	st.action = createSnapshot
	st.round++
	return st
}

// refreshDelay returns the delay after the snapshot of a round before the next one is created while Pods run.
func refreshDelay(round int) time.Duration {
	delay := refreshFirst
	for i := 1; i < round && delay < refreshMax; i++ {
		delay *= 2
	}
	return min(delay, refreshMax)
}

// fenceDelayed returns what a fence waits for. The volume is not fenced for this move.
func (s rounds) fenceDelayed(st step, now, fenceAfter time.Time) (later step, isDelayed bool) {
	switch {
	case fence.Holder(s.volume) != "":
		st.message = s.otherFence()
	case s.volume.Annotations[v1alpha1.FencedAnnotation] != "":
		st.message = fmt.Sprintf("node %s opens the volume again", s.sourceNode())
		st.after = soon
	case s.volume.Status.CurrentSize != nil && s.volume.Status.CurrentSize.Cmp(s.volume.Spec.Size) < 0:
		st.message = fmt.Sprintf("node %s extends the volume to %s", s.sourceNode(), s.volume.Spec.Size.String())
	case s.from.NotReady:
		st.message = fmt.Sprintf("%s: the volume is closed when it is ready", s.from)
	case s.to.NotReady:
		st.message = fmt.Sprintf("%s: the volume is closed when it is ready", s.to)
	case now.Before(fenceAfter):
		st.message = fmt.Sprintf("node %s did not close the volume; the operator tries again at %s", s.sourceNode(),
			fenceAfter.UTC().Format(time.RFC3339))
		st.after = min(fenceAfter.Sub(now), often)
	default:
		return st, false
	}
	return st, true
}

// beforeFence fences the volume if the last round took less than maxPause. Otherwise it copies the changes once more,
// unless nothing has changed.
func (s rounds) beforeFence(st step, record v1alpha1.CopyRecord, now, fenceAfter time.Time) step {
	if later, isDelayed := s.fenceDelayed(st, now, fenceAfter); isDelayed {
		return later
	}
	switch {
	case s.seconds(record) > s.maxPause() && (record.SentBytes > 0 || record.Base == ""):
		st.action = createSnapshot
		st.round++
		st.message = "the last changes are copied before the switch"
	default:
		st.action = closeVolume
		st.phase = v1alpha1.MoveSwitching
		st.message = fmt.Sprintf("node %s closes the volume", s.sourceNode())
	}
	return st
}

func (s *state) seconds(record v1alpha1.CopyRecord) time.Duration {
	return time.Duration(record.Seconds * float64(time.Second))
}

func (s *state) maxPause() time.Duration {
	if s.move.Spec.MaxPause == nil {
		return defaultMaxPause
	}
	return s.move.Spec.MaxPause.Duration
}

func (s *state) keepSource() time.Duration {
	if s.move.Spec.KeepSource == nil {
		return defaultKeepSource
	}
	return s.move.Spec.KeepSource.Duration
}

// podText names Pods, at most v1alpha1.MaxMovePods.
func (s *state) podText() string {
	shown := s.pods[:min(len(s.pods), v1alpha1.MaxMovePods)]
	text := strings.Join(shown, ", ")
	if more := len(s.pods) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
