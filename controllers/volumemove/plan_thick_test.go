package volumemove

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
)

// copiedThick returns a state whose thick volume is fenced and copied, and which no Pod uses.
func copiedThick() *state {
	s := copied(1)
	s.move.Status.Thick = true
	s.snapshots = nil
	s.target.Spec.Source = s.volume.Name
	s.target.Annotations[v1alpha1.FenceTimeAnnotation] = fenceToken
	s.done(100, 1<<30)
	s.close(true)
	return s
}

func withPod(s *state) { s.pods = []string{"n/p"} }

// TestTheSwitchOfAThickVolumeNeedsEveryCondition: the state of the first case is switched, and each other one lacks
// something.
func TestTheSwitchOfAThickVolumeNeedsEveryCondition(t *testing.T) {
	larger := resource.MustParse("2Gi")
	for name, test := range map[string]struct {
		change func(*state)
		want   action
		phase  v1alpha1.VolumeMovePhase
	}{
		"complete":                 {func(*state) {}, switchVolume, v1alpha1.MoveSwitching},
		"a Pod waits":              {withPod, wait, v1alpha1.MoveWaitingForPods},
		"not complete":             {func(s *state) { delete(s.target.Annotations, v1alpha1.CopiedAnnotation) }, wait, v1alpha1.MoveCopying},
		"bad record":               {func(s *state) { s.target.Annotations[v1alpha1.CopiedAnnotation] = "{" }, wait, v1alpha1.MoveCopying},
		"record of another source": {func(s *state) { s.target.Spec.Source = "other" }, wait, v1alpha1.MoveCopying},
		"not complete, a Pod waits": {func(s *state) {
			delete(s.target.Annotations, v1alpha1.CopiedAnnotation)
			withPod(s)
		}, wait, v1alpha1.MoveCopying},
		"not confirmed": {func(s *state) { delete(s.volume.Annotations, v1alpha1.FencedAnnotation) }, unfence,
			v1alpha1.MoveCopying},
		"confirmed for another move": {func(s *state) { s.volume.Annotations[v1alpha1.FencedAnnotation] = "x" }, unfence,
			v1alpha1.MoveCopying},
		"fenced again": {func(s *state) { s.volume.Annotations[v1alpha1.FenceTimeAnnotation] = "x" }, unfence,
			v1alpha1.MoveCopying},
		"no fence time": {func(s *state) {
			delete(s.volume.Annotations, v1alpha1.FenceTimeAnnotation)
			delete(s.target.Annotations, v1alpha1.FenceTimeAnnotation)
		}, unfence, v1alpha1.MoveCopying},
		"copy of no fence": {func(s *state) { delete(s.target.Annotations, v1alpha1.FenceTimeAnnotation) }, unfence,
			v1alpha1.MoveCopying},
		"not fenced, a Pod uses it": {func(s *state) {
			s.volume.Annotations = map[string]string{}
			withPod(s)
		}, remove, v1alpha1.MoveWaitingForPods},
		"not fenced": {func(s *state) { s.volume.Annotations = map[string]string{} }, remove,
			v1alpha1.MoveCopying},
		"being opened": {func(s *state) { delete(s.volume.Annotations, v1alpha1.FenceAnnotation) }, remove,
			v1alpha1.MoveCopying},
		"fenced for a clone": {func(s *state) { s.volume.Annotations[v1alpha1.FenceAnnotation] = "clone-x" }, remove,
			v1alpha1.MoveCopying},
		"fenced for another move": {func(s *state) { s.volume.Annotations[v1alpha1.FenceAnnotation] = "x" }, remove,
			v1alpha1.MoveCopying},
		"copy is deleted": {func(s *state) { s.target.DeletionTimestamp = &metav1.Time{Time: now} }, unfence,
			v1alpha1.MoveCopying},
		"copy is deleted, not fenced": {func(s *state) {
			s.target.DeletionTimestamp = &metav1.Time{Time: now}
			s.volume.Annotations = map[string]string{}
		}, wait, v1alpha1.MoveCopying},
		"larger": {func(s *state) { s.volume.Spec.Size = larger }, unfence, v1alpha1.MoveCopying},
		"larger than the copy": {func(s *state) {
			s.volume.Spec.Size = larger
			s.target.Spec.Size = larger
		}, unfence, v1alpha1.MoveCopying},
		"larger logical volume":    {func(s *state) { s.volume.Status.CurrentSize = &larger }, unfence, v1alpha1.MoveCopying},
		"volume deleted":           {func(s *state) { s.volume.DeletionTimestamp = &metav1.Time{Time: now} }, unfence, v1alpha1.MoveFailed},
		"no pv":                    {func(s *state) { s.pv = nil }, unfence, v1alpha1.MoveFailed},
		"target not ready":         {func(s *state) { s.to = lostNode("b") }, wait, v1alpha1.MoveCopying},
		"target lost, a Pod waits": {func(s *state) { s.to = lostNode("b"); withPod(s) }, unfence, v1alpha1.MovePending},
		"source lost, a Pod waits": {func(s *state) { s.from = lostNode("a"); withPod(s) }, unfence, v1alpha1.MovePending},
		"target down, a Pod waits": {func(s *state) { s.to = fence.Node{Name: "b", NotReady: true}; withPod(s) }, wait,
			v1alpha1.MoveWaitingForPods},
		"older agent":    {func(s *state) { s.target.Status.VolumeID = "x" }, unfence, v1alpha1.MoveFailed},
		"refused target": {func(s *state) { s.target.Status.Code = codes.InvalidArgument }, unfence, v1alpha1.MoveFailed},
		"no room":        {func(s *state) { s.target.Status.Code = codes.ResourceExhausted }, unfence, v1alpha1.MovePending},
		"undone":         {func(s *state) { s.move.DeletionTimestamp = &metav1.Time{Time: now} }, unfence, v1alpha1.MoveCopying},
	} {
		t.Run(name, func(t *testing.T) {
			s := copiedThick()
			test.change(s)
			// A copy takes as long as it takes: the age of the fence does not matter.
			for _, age := range []time.Duration{0, 100 * time.Hour} {
				if got := plan(s, now.Add(age), time.Time{}); got.action != test.want || got.phase != test.phase {
					t.Errorf("got the action %d in phase %s with %q, want %d in %s", got.action, got.phase, got.message,
						test.want, test.phase)
				}
			}
		})
	}
}

// TestHowTheCopyOfAThickVolumeBegins: without a target.
func TestHowTheCopyOfAThickVolumeBegins(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*state)
		want   action
		phase  v1alpha1.VolumeMovePhase
		says   string
	}{
		"a Pod uses it": {withPod, wait, v1alpha1.MoveWaitingForPods, "To start the copy of 1Gi, which takes about 20s at " +
			"100Mi for each second, end: n/p"},
		"no Pod": {func(*state) {}, closeVolume, v1alpha1.MoveCopying, "about 20s"},
		"no Pod any more: it waits for its turn": {func(s *state) { s.move.Status.Phase = v1alpha1.MoveWaitingForPods },
			begin, v1alpha1.MovePending, ""},
		"the target is lost":        {func(s *state) { s.to = lostNode("b") }, begin, v1alpha1.MovePending, ""},
		"the source is lost":        {func(s *state) { s.from = lostNode("a") }, begin, v1alpha1.MovePending, ""},
		"the target is lost, a Pod": {func(s *state) { s.to = lostNode("b"); withPod(s) }, wait, v1alpha1.MoveWaitingForPods, ""},
		"the target is not ready": {func(s *state) { s.to = fence.Node{Name: "b", NotReady: true} }, wait,
			v1alpha1.MoveCopying, "the volume is closed when it is ready"},
		"still opened": {func(s *state) { s.volume.Annotations[v1alpha1.FencedAnnotation] = "x" }, wait, v1alpha1.MoveCopying, "opens the volume again"},
		"fenced for a clone": {func(s *state) {
			s.volume.Annotations[v1alpha1.FenceAnnotation] = "clone-x"
			s.volume.Annotations[v1alpha1.FencedAnnotation] = "clone-x"
			s.volume.Annotations[v1alpha1.FenceForAnnotation] = "pvc-2"
		}, wait, v1alpha1.MoveCopying, "is being copied to LogicalVolume pvc-2, a clone of it"},
		"fenced for another move": {func(s *state) { s.volume.Annotations[v1alpha1.FenceAnnotation] = "x" }, wait,
			v1alpha1.MoveCopying, "for the VolumeMove with the UID x"},
		"being expanded": {func(s *state) {
			size := resource.MustParse("512Mi")
			s.volume.Status.CurrentSize = &size
		}, wait, v1alpha1.MoveCopying, "extends the volume"},
		"not confirmed": {func(s *state) {
			s.close(false)
			s.volume.Annotations[v1alpha1.FenceErrorAnnotation] = "it is mounted"
		}, wait, v1alpha1.MoveCopying, "node a closes the volume: it is mounted"},
		"a Pod is faster": {func(s *state) {
			s.close(false)
			withPod(s)
		}, unfence, v1alpha1.MoveWaitingForPods, "n/p"},
		"a Pod was bound meanwhile": {func(s *state) {
			s.close(true)
			withPod(s)
		}, unfence, v1alpha1.MoveWaitingForPods, "n/p"},
		"confirmed": {func(s *state) { s.close(true) }, createTarget, v1alpha1.MoveCopying, "is being prepared"},
	} {
		t.Run(name, func(t *testing.T) {
			s := copiedThick()
			s.target = nil
			s.volume.Annotations = map[string]string{}
			test.change(s)
			got := plan(s, now, time.Time{})
			if got.action != test.want || got.phase != test.phase || !strings.Contains(got.message, test.says) {
				t.Errorf("got the action %d in phase %s with %q, want %d in %s with %q", got.action, got.phase, got.message,
					test.want, test.phase, test.says)
			}
			if got.action == createTarget && got.snapshot != s.volume {
				t.Error("the source is not the volume")
			}
		})
	}
	s := copiedThick()
	s.target = nil
	s.volume.Annotations = map[string]string{}
	s.close(false)
	if got := plan(s, now.Add(fenceTimeout), time.Time{}); got.action != unfence || got.phase != v1alpha1.MovePending {
		t.Errorf("a fence that is not confirmed stays, or keeps its place in the queue: %+v", got)
	}
	s.volume.Annotations = map[string]string{}
	if got := plan(s, now, now.Add(time.Second)); got.action != wait {
		t.Errorf("the volume is fenced before its time: %+v", got)
	}
}

func TestTheProgressOfAThickVolume(t *testing.T) {
	for want, record := range map[int]v1alpha1.CopyRecord{0: {}, 25: {SizeBytes: 100, CopiedBytes: 50},
		50: {SizeBytes: 100, CopiedBytes: 100}, 100: {SizeBytes: 100, CopiedBytes: 100, ComparedBytes: 100}} {
		if got := percent(record); got != want {
			t.Errorf("%+v: %d%%, want %d%%", record, got, want)
		}
	}
	s := copiedThick()
	s.target.Annotations[v1alpha1.CopiedAnnotation] = `{"source":"pv","sizeBytes":100,"copiedBytes":50,"error":"no answer"}`
	if got := plan(s, now, time.Time{}); !strings.Contains(got.message, "tries again: no answer") ||
		!strings.Contains(got.message, "delete the VolumeMove") {
		t.Errorf("got %q", got.message)
	}
	current := resource.MustParse("1028Mi")
	s.volume.Status.CurrentSize = &current
	if got := (thickCopy{s}).sizeOfThick(); got.Cmp(current) != 0 {
		t.Errorf("the copy of a logical volume with %s has %s", current.String(), got.String())
	}
}

// TestTheFenceIsALeaseOnProgress: a thick volume that is being copied is opened for a Pod when the copy makes no
// progress, or a node is lost.
func TestTheFenceIsALeaseOnProgress(t *testing.T) {
	// known has the status say which progress was noticed when, and the record how much is copied and compared now.
	known := func(ago time.Duration, before int64, copied, compared uint64) func(*state) {
		return func(s *state) {
			s.move.Status.ProgressBytes = before
			s.move.Status.ProgressTime = &metav1.Time{Time: now.Add(-ago)}
			s.target.CreationTimestamp = metav1.NewTime(now.Add(-100 * time.Hour))
			text, _ := json.Marshal(v1alpha1.CopyRecord{Source: s.target.Spec.Source, SizeBytes: 1 << 30,
				CopiedBytes: copied, ComparedBytes: compared, Error: "no route to host"})
			s.target.Annotations[v1alpha1.CopiedAnnotation] = string(text)
		}
	}
	const late = fence.ProgressLimit
	for name, test := range map[string]struct {
		change func(*state)
		pod    bool
		want   action
		phase  v1alpha1.VolumeMovePhase
		says   string
	}{
		"progress":               {known(late, 10, 11, 0), true, wait, v1alpha1.MoveCopying, "cannot start"},
		"it compares":            {known(late, 10, 10, 1), true, wait, v1alpha1.MoveCopying, "cannot start"},
		"no progress yet":        {known(late-time.Second, 10, 10, 0), true, wait, v1alpha1.MoveCopying, "cannot start"},
		"no progress, no Pod":    {known(late, 10, 10, 0), false, wait, v1alpha1.MoveCopying, "no route to host"},
		"no progress":            {known(late, 10, 10, 0), true, unfence, v1alpha1.MovePending, "node b has copied nothing from node a since 2026-01-02T02:59:05Z, so the copy is discarded for the Pods that wait for the volume on node a: n/p"},
		"it begins again always": {known(late, 10, 5, 0), true, unfence, v1alpha1.MovePending, "copied nothing"},
		"another copy": {func(s *state) {
			known(late, 10, 5, 0)(s)
			s.target.CreationTimestamp = metav1.NewTime(now)
		}, true, wait, v1alpha1.MoveCopying, "cannot start"},
		"target lost":         {func(s *state) { known(0, 10, 10, 0)(s); s.to = lostNode("b") }, true, unfence, v1alpha1.MovePending, "node b is not ready since"},
		"source lost":         {func(s *state) { known(0, 10, 10, 0)(s); s.from = lostNode("a") }, true, unfence, v1alpha1.MovePending, "node a is not ready since"},
		"target lost, no Pod": {func(s *state) { known(0, 10, 10, 0)(s); s.to = lostNode("b") }, false, wait, v1alpha1.MoveCopying, ""},
		"target down": {func(s *state) {
			known(0, 10, 10, 0)(s)
			s.to = fence.Node{Name: "b", NotReady: true, Since: now}
		}, true, wait, v1alpha1.MoveCopying, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := copiedThick()
			s.from, s.to = fence.Node{Name: "a"}, fence.Node{Name: "b"}
			test.change(s)
			if test.pod {
				withPod(s)
			}
			got := plan(s, now, time.Time{})
			if got.action != test.want || got.phase != test.phase || !strings.Contains(got.message, test.says) {
				t.Errorf("got the action %d in phase %s with %q, want %d in %s with %q", got.action, got.phase, got.message,
					test.want, test.phase, test.says)
			}
		})
	}
}

// TestAMoveReturnsToTheQueue when its fence was withdrawn: its copy is removed, and then it begins again.
func TestAMoveReturnsToTheQueue(t *testing.T) {
	s := copiedThick()
	s.move.Status.Phase, s.move.Status.Message = v1alpha1.MovePending, "node b is lost"
	expect := func(want action, after time.Time) {
		t.Helper()
		got := plan(s, now, after)
		if want == remove && got.object != s.target {
			t.Errorf("another object is removed: %+v", got.object)
		}
		if got.action != want || got.phase != v1alpha1.MovePending ||
			want != begin && got.message != "node b is lost" {
			t.Errorf("got %+v, want the action %d", got, want)
		}
	}
	expect(unfence, time.Time{})
	fence.Withdraw(s.volume)
	expect(remove, time.Time{})
	s.target.DeletionTimestamp = &metav1.Time{Time: now}
	expect(wait, time.Time{})
	s.target = nil
	expect(wait, time.Time{}) // The node agent opens the volume.
	delete(s.volume.Annotations, v1alpha1.FencedAnnotation)
	expect(wait, now.Add(time.Second))
	expect(begin, time.Time{})
	s.claim = nil
	if got := plan(s, now, time.Time{}); got.phase != v1alpha1.MoveFailed {
		t.Errorf("got %+v", got)
	}
}

// TestACopyWithALostNodeSaysSo, also if the volume is thin and nobody waits for it.
func TestACopyWithALostNodeSaysSo(t *testing.T) {
	s := copied(1)
	delete(s.target.Annotations, v1alpha1.CopiedAnnotation)
	s.to = lostNode("b")
	if got := plan(s, now, time.Time{}); got.action != wait || got.phase != v1alpha1.MoveCopying ||
		!strings.Contains(got.message, "node b is not ready since 2026-01-02T02:59:05Z: other moves do not wait for this one") {
		t.Errorf("got %+v", got)
	}
}
