package clone

import (
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/csi/service"
)

// maxCopies is the maximum number of clones of thick volumes that are copied to a node at once, which is what a node
// agent copies at once (package copies): a source that waits for other copies would be closed for longer than needed.
const maxCopies = 2

// lostAfter is after which time the copy on a node that is not ready is discarded for the Pods of the source. After the
// same time, Kubernetes deletes the Pods of such a node by default (taint node.kubernetes.io/not-ready).
const lostAfter = 5 * time.Minute

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
	// move is the name of the VolumeMove for which the source is fenced, or "".
	move string
	// copies is how many clones of other sources are being copied to each node.
	copies map[string]int
	// pods are the Pods that use the claim of the source and have not ended.
	pods []string
}

type target struct {
	lv *topolvmv1.LogicalVolume
	// lacksClaim: its claim no longer exists.
	lacksClaim bool
	// notReady: its node is not ready or does not exist. lost: that is so for lostAfter, or the node does not exist.
	notReady, lost bool
}

// step is what to do. At most one of unfence, fence and begin is set.
type step struct {
	answers []answer
	// unfence removes the fence of the source. fence requests one for a target. begin has a target copied under the
	// present fence.
	unfence      bool
	fence, begin *topolvmv1.LogicalVolume
	// after is the delay until the source is read again, 0 if only an event matters.
	after time.Duration
}

func (s *state) fence() string { return s.source.Annotations[v1alpha1.FenceAnnotation] }

// plan decides what is next for a source.
func plan(s *state) step {
	st := step{}
	if len(s.targets) > 0 {
		st.after = pollInterval
	}
	var waiting []*target
	for _, t := range s.targets {
		if !t.isPending() {
			continue
		}
		if code, why := s.refusal(t); code != codes.OK {
			st.answers = append(st.answers, answer{lv: t.lv, code: code, message: text(why)})
			continue
		}
		waiting = append(waiting, t)
	}
	switch {
	case s.source == nil:
		return st
	case v1alpha1.IsCloneFence(s.fence()):
		return s.whileFenced(st, waiting)
	}
	return s.beforeFence(st, waiting)
}

// isPending reports whether a target is to be created: it is neither deleted nor refused.
func (t *target) isPending() bool {
	return t.lv.DeletionTimestamp.IsZero() && t.lv.Status.VolumeID == "" && !service.IsRefusal(t.lv.Status.Code)
}

// hasBegun reports whether a target may be copied.
func (t *target) hasBegun() bool { return t.lv.Annotations[v1alpha1.FenceTimeAnnotation] != "" }

// refusal returns why a target cannot be completed, with the code for the CSI controller; OK if it can.
func (s *state) refusal(t *target) (code codes.Code, why string) {
	switch {
	case t.lacksClaim:
		return codes.NotFound, fmt.Sprintf("claim %s does not exist: the data of %s is not copied for it",
			t.lv.Annotations[v1alpha1.ClaimAnnotation], s.name)
	case s.source == nil:
		return codes.NotFound, fmt.Sprintf("source LogicalVolume %s no longer exists", s.name)
	case s.source.Status.VolumeID != t.lv.Annotations[v1alpha1.CloneVolumeAnnotation]:
		return codes.NotFound, fmt.Sprintf("source LogicalVolume %s on node %s no longer has the volume %s", s.name,
			s.source.Spec.NodeName, t.lv.Annotations[v1alpha1.CloneVolumeAnnotation])
	case !s.source.DeletionTimestamp.IsZero():
		return codes.NotFound, fmt.Sprintf("%s is being deleted, so it is not copied", s.subject())
	case t.hasBegun() && !s.isFencedFor(t):
		return codes.FailedPrecondition, fmt.Sprintf("%s could be used since the copy to node %s began, so the copy "+
			"is discarded, and begins again", s.subject(), t.lv.Spec.NodeName)
	case t.hasBegun() && t.lost && len(s.pods) > 0:
		return codes.FailedPrecondition, fmt.Sprintf("node %s is not ready, so the copy of %s there is discarded for "+
			"the Pods that wait for it (%s). It begins again when the node is ready", t.lv.Spec.NodeName, s.subject(),
			s.listPods())
	case t.lv.Spec.Size.Cmp(s.size()) < 0:
		size := s.size()
		return codes.OutOfRange, fmt.Sprintf("%s has %s now, and the clone %s: delete the claim of the clone, and "+
			"create it with at least %s", s.subject(), size.String(), t.lv.Spec.Size.String(), size.String())
	}
	return codes.OK, ""
}

// isFencedFor reports whether the node agent has confirmed the fence under which a target is copied, so that the volume
// has not changed since the copy began.
func (s *state) isFencedFor(t *target) bool {
	fence := v1alpha1.CloneFence(t.lv.UID)
	return s.fence() == fence && s.source.Annotations[v1alpha1.FencedAnnotation] == fence &&
		s.source.Annotations[v1alpha1.FenceTimeAnnotation] == t.lv.Annotations[v1alpha1.FenceTimeAnnotation]
}

// size returns the size of the source.
func (s *state) size() resource.Quantity {
	if current := s.source.Status.CurrentSize; current != nil {
		return *current
	}
	return s.source.Spec.Size
}

// whileFenced continues a clone for which the source is fenced, and removes a fence that no clone needs.
func (s *state) whileFenced(st step, waiting []*target) step {
	var holder *target
	for _, t := range waiting {
		if v1alpha1.CloneFence(t.lv.UID) == s.fence() {
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
				s.subject(), holder.lv.Annotations[v1alpha1.ClaimAnnotation], holder.lv.Name))
		}
	}
	switch {
	case holder.hasBegun():
		return st
	case len(s.pods) > 0:
		// Nothing is copied yet, so the Pods get the volume.
		st.unfence = true
		st.wait(holder, s.usedByPods())
	case holder.notReady:
		st.unfence = true
		st.wait(holder, s.nodeNotReady(holder))
	case s.source.Annotations[v1alpha1.FencedAnnotation] != s.fence():
		st.after = fenceInterval
		st.wait(holder, s.closing())
	case s.source.Annotations[v1alpha1.FenceTimeAnnotation] == "":
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
		case why == "" && t.notReady:
			st.wait(t, s.nodeNotReady(t))
		case why == "" && s.copies[t.lv.Spec.NodeName] >= maxCopies:
			st.wait(t, fmt.Sprintf("node %s copies %d other clones: %s is closed and copied after that",
				t.lv.Spec.NodeName, s.copies[t.lv.Spec.NodeName], s.subject()))
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

// isAnswered reports whether the node agent of a target has no error that the fence would wait for.
func (t *target) isAnswered() bool {
	return t.lv.Status.Code == codes.OK || t.lv.Status.Code == codes.Aborted
}

// blocked returns why a source cannot be fenced now, or "".
func (s *state) blocked() string {
	a := s.source.Annotations
	switch {
	case s.move != "":
		return fmt.Sprintf("%s is being moved by VolumeMove %s: it is copied after that", s.subject(), s.move)
	case s.fence() != "":
		return fmt.Sprintf("%s is being moved by the VolumeMove with the UID %s: it is copied after that", s.subject(),
			s.fence())
	case a[v1alpha1.AdoptAnnotation]+a[v1alpha1.MovedVolumeAnnotation] != "":
		return fmt.Sprintf("%s is being switched to node %s: it is copied after that", s.subject(),
			s.source.Spec.NodeName)
	case a[v1alpha1.RetireAnnotation] != "":
		return fmt.Sprintf("%s is what a moved volume left on node %s, and is not copied", s.subject(),
			s.source.Spec.NodeName)
	case a[v1alpha1.FencedAnnotation] != "":
		return fmt.Sprintf("node %s opens %s again: it is copied after that", s.source.Spec.NodeName, s.subject())
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
	if claim := s.source.Annotations[v1alpha1.ClaimAnnotation]; claim != "" {
		return fmt.Sprintf("volume %s of claim %s", s.name, claim)
	}
	return "volume " + s.name
}

func (s *state) nodeNotReady(t *target) string {
	return fmt.Sprintf("node %s is not ready: %s is closed and copied after that", t.lv.Spec.NodeName, s.subject())
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
	if why := s.source.Annotations[v1alpha1.FenceErrorAnnotation]; why != "" {
		message += ": " + why
	}
	return message
}

func text(message string) string { return message[:min(len(message), maxMessage)] }
