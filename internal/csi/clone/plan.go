package clone

import (
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// maxPods is the maximum number of Pods in a message, and maxMessage that of its bytes.
const (
	maxPods    = 10
	maxMessage = 2048
)

// state is what the API server has of a source and its clones that are not complete.
type state struct {
	name string
	// source is nil if it does not exist.
	source *topolvmv1.LogicalVolume
	// targets are the clones that are not complete, the oldest first.
	targets []*target
	// node is that of the source.
	node fence.Node
	// move is the name of the VolumeMove for which the source is fenced, or "".
	move string
	// others are the moves and the clones of other sources that are being copied or wait for their turn.
	others []fence.Copy
	// pods are the Pods that use the claim of the source and have not ended.
	pods []string
}

type target struct {
	lv *topolvmv1.LogicalVolume
	// lacksClaim: its claim no longer exists.
	lacksClaim bool
	node       fence.Node
}

// step is what to do. At most one of unfence, fence, begin and progress is set.
type step struct {
	answers []answer
	// unfence removes the fence of the source. fence requests one for a target. begin has a target copied under the
	// present fence.
	unfence      bool
	fence, begin *topolvmv1.LogicalVolume
	// progress records the progress of a target.
	progress *topolvmv1.LogicalVolume
	// after is the delay until the source is read again, 0 if only an event matters.
	after time.Duration
}

func (s *state) fence() string { return fence.Holder(s.source) }

// plan decides what is next for a source.
func plan(s *state, now time.Time) step {
	st := step{}
	if len(s.targets) > 0 {
		st.after = pollInterval
	}
	var waiting []*target
	for _, t := range s.targets {
		if !fence.IsPendingClone(t.lv) {
			continue
		}
		if code, why := s.refusal(t, now); code != codes.OK {
			st.answers = append(st.answers, answer{lv: t.lv, code: code, message: text(why)})
			continue
		}
		waiting = append(waiting, t)
	}
	switch {
	case s.source == nil:
		return st
	case fence.IsOfClone(s.fence()):
		return s.whileFenced(st, waiting, now)
	}
	return s.beforeFence(st, waiting)
}

// hasBegun reports whether a target may be copied.
func (t *target) hasBegun() bool { return fence.Name(t.lv) != "" }

// refusal returns why a target cannot be completed, with the code for the CSI controller; OK if it can.
func (s *state) refusal(t *target, now time.Time) (code codes.Code, why string) {
	if code, why := s.unsuitable(t); code != codes.OK || !t.hasBegun() {
		return code, why
	}
	if !fence.Covers(s.source, fence.OfClone(t.lv.UID), t.lv) {
		return codes.FailedPrecondition, fmt.Sprintf("%s could be used since the copy to node %s began, so the copy "+
			"is discarded, and begins again", s.subject(), t.lv.Spec.NodeName)
	}
	lease := fence.Lease{Source: s.node, Target: t.node, Progress: fence.ProgressOfClone(t.lv, now)}
	if ended := lease.Ended(now); ended != "" && len(s.pods) > 0 {
		return codes.FailedPrecondition, fmt.Sprintf("%s, so the copy of %s to node %s is discarded for the Pods that "+
			"wait for the volume (%s). It begins again when they have ended and both nodes are ready", ended,
			s.subject(), t.lv.Spec.NodeName, s.listPods())
	}
	return codes.OK, ""
}

// unsuitable returns why a target can never be a copy of the source.
func (s *state) unsuitable(t *target) (code codes.Code, why string) {
	switch {
	case t.lacksClaim:
		return codes.NotFound, fmt.Sprintf("claim %s does not exist: the data of %s is not copied for it",
			view.Claim(t.lv), s.name)
	case s.source == nil:
		return codes.NotFound, fmt.Sprintf("source LogicalVolume %s no longer exists", s.name)
	case s.source.Status.VolumeID != view.CloneVolume(t.lv):
		return codes.NotFound, fmt.Sprintf("source LogicalVolume %s on node %s no longer has the volume %s", s.name,
			s.source.Spec.NodeName, view.CloneVolume(t.lv))
	case !s.source.DeletionTimestamp.IsZero():
		return codes.NotFound, fmt.Sprintf("%s is being deleted, so it is not copied", s.subject())
	case t.lv.Spec.Size.Cmp(s.size()) < 0:
		size := s.size()
		return codes.OutOfRange, fmt.Sprintf("%s has %s now, and the clone %s: delete the claim of the clone, and "+
			"create it with at least %s", s.subject(), size.String(), t.lv.Spec.Size.String(), size.String())
	}
	return codes.OK, ""
}

// size returns the size of the source.
func (s *state) size() resource.Quantity {
	if current := s.source.Status.CurrentSize; current != nil {
		return *current
	}
	return s.source.Spec.Size
}

// whileFenced continues a clone for which the source is fenced, and removes a fence that no clone needs.
func (s *state) whileFenced(st step, waiting []*target, now time.Time) step {
	var holder *target
	for _, t := range waiting {
		if fence.OfClone(t.lv.UID) == s.fence() {
			holder = t
		}
	}
	if holder == nil {
		st.unfence = true
		st.after = pollInterval
		return st
	}
	for _, t := range waiting {
		if t != holder {
			st.wait(t, fmt.Sprintf("%s is being cloned to claim %s (LogicalVolume %s): this clone waits for it",
				s.subject(), view.Claim(holder.lv), holder.lv.Name))
		}
	}
	switch {
	case holder.hasBegun():
		if fence.ProgressOfClone(holder.lv, now) != fence.ProgressOf(holder.lv) {
			st.progress = holder.lv
		}
	case len(s.pods) > 0:
		// Nothing is copied yet, so the Pods get the volume.
		st.unfence = true
		st.wait(holder, s.usedByPods())
	case holder.node.NotReady:
		st.unfence = true
		st.wait(holder, s.nodeNotReady(holder.node))
	case s.node.NotReady:
		st.unfence = true
		st.wait(holder, s.nodeNotReady(s.node))
	case fence.IsLost(s.source):
		st.unfence = true
		st.wait(holder, s.closing())
	case !fence.IsConfirmed(s.source, s.fence()):
		st.after = fenceInterval
		st.wait(holder, s.closing())
	case fence.Name(s.source) == "":
		st.unfence = true // A fence without a name says nothing about a copy.
	default:
		st.begin = holder.lv
	}
	return st
}

// beforeFence requests the fence for the oldest target when nothing prevents it.
func (s *state) beforeFence(st step, waiting []*target) step {
	why := s.blocked()
	if why == "" && len(s.pods) > 0 {
		why = s.usedByPods()
	}
	for _, t := range waiting {
		switch {
		case why == "" && t.node.NotReady:
			st.wait(t, s.nodeNotReady(t.node))
		case why == "" && s.turn(t) > 0:
			st.wait(t, fmt.Sprintf("place %d in the queue: at most %d volumes are copied from node %s, and to node "+
				"%s, at the same time. %s is closed and copied after that", s.turn(t), fence.MaxCopies,
				s.source.Spec.NodeName, t.lv.Spec.NodeName, s.subject()))
		case why == "" && st.fence == nil && t.isAnswered():
			st.fence = t.lv
			st.after = fenceInterval
		case why == "":
			st.wait(t, fmt.Sprintf("%s is cloned to its other clones first", s.subject()))
		default:
			st.wait(t, why)
		}
	}
	return st
}

// turn returns the position of a target in the queue of moves and clones, or 0 if it can be copied now.
func (s *state) turn(t *target) int32 {
	return fence.Turn(fence.Copy{UID: string(t.lv.UID), Source: s.source.Spec.NodeName, Target: t.lv.Spec.NodeName,
		Created: t.lv.CreationTimestamp.Time, Name: t.lv.Name}, s.others)
}

// isAnswered reports whether the node agent of a target has no error that the fence would wait for.
func (t *target) isAnswered() bool {
	return t.lv.Status.Code == codes.OK || t.lv.Status.Code == codes.Aborted
}

// blocked returns why a source cannot be fenced now, or "".
func (s *state) blocked() string {
	switch {
	case s.move != "":
		return fmt.Sprintf("%s is being moved by VolumeMove %s: it is copied after that", s.subject(), s.move)
	case s.fence() != "":
		return fmt.Sprintf("%s is being moved by the VolumeMove with the UID %s: it is copied after that", s.subject(),
			s.fence())
	case view.IsBeingSwitched(s.source):
		return fmt.Sprintf("%s is being switched to node %s: it is copied after that", s.subject(),
			s.source.Spec.NodeName)
	case view.IsRetired(s.source):
		return fmt.Sprintf("%s is what a moved volume left on node %s, and is not copied", s.subject(),
			s.source.Spec.NodeName)
	case fence.Confirmed(s.source) != "":
		return fmt.Sprintf("node %s opens %s again: it is copied after that", s.source.Spec.NodeName, s.subject())
	case s.node.NotReady:
		return s.nodeNotReady(s.node)
	case s.source.Status.CurrentSize == nil || s.source.Status.CurrentSize.Cmp(s.source.Spec.Size) < 0:
		return fmt.Sprintf("node %s extends %s to %s: it is copied after that", s.source.Spec.NodeName, s.subject(),
			s.source.Spec.Size.String())
	}
	return ""
}

// wait has the status of a target say what it waits for. An error of the node agent stays.
func (st *step) wait(t *target, why string) {
	if !t.hasBegun() && t.isAnswered() {
		st.answers = append(st.answers, answer{lv: t.lv, code: codes.Aborted, message: text(why)})
	}
}

func (s *state) subject() string {
	if claim := view.Claim(s.source); claim != "" {
		return fmt.Sprintf("volume %s of claim %s", s.name, claim)
	}
	return "volume " + s.name
}

func (s *state) nodeNotReady(n fence.Node) string {
	return fmt.Sprintf("%s: %s is closed and copied when the node is ready", n, s.subject())
}

// listPods returns the names of the Pods that use the source, not too many of them.
func (s *state) listPods() string {
	shown := s.pods[:min(len(s.pods), maxPods)]
	pods := strings.Join(shown, ", ")
	if more := len(s.pods) - len(shown); more > 0 {
		pods += fmt.Sprintf(" and %d more", more)
	}
	return pods
}

func (s *state) usedByPods() string {
	return fmt.Sprintf("a thick volume has no snapshots, so %s is copied only while no Pod uses it. To start the "+
		"copy, end: %s", s.subject(), s.listPods())
}

func (s *state) closing() string {
	message := fmt.Sprintf("a thick volume has no snapshots, so %s is copied only while nothing uses it: node %s "+
		"closes it", s.subject(), s.source.Spec.NodeName)
	if why := fence.Problem(s.source); why != "" {
		message += ": " + why
	}
	return message
}

func text(message string) string { return message[:min(len(message), maxMessage)] }
