package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// copiedThick returns a state whose thick volume is fenced and copied, and which no Pod uses.
func copiedThick() *State {
	s := copied(1)
	s.Move.Status.Thick = true
	s.Snapshots = nil
	s.Target.Spec.Source = s.Volume.Name
	s.Target.Annotations[wellknown.FenceTimeAnnotation] = fenceToken
	s.done(100, 1<<30)
	s.close(true)
	return s
}

func withPod(s *State) { s.Pods = []string{"n/p"} }

// TestTheSwitchOfAThickVolumeNeedsEveryCondition: the state of the first case is switched, and each other one lacks
// something.
func TestTheSwitchOfAThickVolumeNeedsEveryCondition(t *testing.T) {
	larger := resource.MustParse("2Gi")
	for name, test := range map[string]struct {
		change func(*State)
		want   Action
		phase  v1alpha1.VolumeMovePhase
	}{
		"complete":                 {func(*State) {}, SwitchVolume, v1alpha1.MoveSwitching},
		"a Pod waits":              {withPod, Wait, v1alpha1.MoveWaitingForPods},
		"not complete":             {func(s *State) { delete(s.Target.Annotations, wellknown.CopiedAnnotation) }, Wait, v1alpha1.MoveCopying},
		"bad record":               {func(s *State) { s.Target.Annotations[wellknown.CopiedAnnotation] = "{" }, Wait, v1alpha1.MoveCopying},
		"record of another source": {func(s *State) { s.Target.Spec.Source = "other" }, Wait, v1alpha1.MoveCopying},
		"not complete, a Pod waits": {func(s *State) {
			delete(s.Target.Annotations, wellknown.CopiedAnnotation)
			withPod(s)
		}, Wait, v1alpha1.MoveCopying},
		"not confirmed": {func(s *State) { delete(s.Volume.Annotations, wellknown.FencedAnnotation) }, Unfence,
			v1alpha1.MoveCopying},
		"confirmed for another move": {func(s *State) { s.Volume.Annotations[wellknown.FencedAnnotation] = "x" }, Unfence,
			v1alpha1.MoveCopying},
		"fenced again": {func(s *State) { s.Volume.Annotations[wellknown.FenceTimeAnnotation] = "x" }, Unfence,
			v1alpha1.MoveCopying},
		"no fence time": {func(s *State) {
			delete(s.Volume.Annotations, wellknown.FenceTimeAnnotation)
			delete(s.Target.Annotations, wellknown.FenceTimeAnnotation)
		}, Unfence, v1alpha1.MoveCopying},
		"copy of no fence": {func(s *State) { delete(s.Target.Annotations, wellknown.FenceTimeAnnotation) }, Unfence,
			v1alpha1.MoveCopying},
		"not fenced, a Pod uses it": {func(s *State) {
			s.Volume.Annotations = map[string]string{}
			withPod(s)
		}, Remove, v1alpha1.MoveWaitingForPods},
		"not fenced": {func(s *State) { s.Volume.Annotations = map[string]string{} }, Remove,
			v1alpha1.MoveCopying},
		"being opened": {func(s *State) { delete(s.Volume.Annotations, wellknown.FenceAnnotation) }, Remove,
			v1alpha1.MoveCopying},
		"fenced for a clone": {func(s *State) { s.Volume.Annotations[wellknown.FenceAnnotation] = "clone-x" }, Remove,
			v1alpha1.MoveCopying},
		"fenced for another move": {func(s *State) { s.Volume.Annotations[wellknown.FenceAnnotation] = "x" }, Remove,
			v1alpha1.MoveCopying},
		"copy is deleted": {func(s *State) { s.Target.DeletionTimestamp = &metav1.Time{Time: now} }, Unfence,
			v1alpha1.MoveCopying},
		"copy is deleted, not fenced": {func(s *State) {
			s.Target.DeletionTimestamp = &metav1.Time{Time: now}
			s.Volume.Annotations = map[string]string{}
		}, Wait, v1alpha1.MoveCopying},
		"larger": {func(s *State) { s.Volume.Spec.Size = larger }, Unfence, v1alpha1.MoveCopying},
		"larger than the copy": {func(s *State) {
			s.Volume.Spec.Size = larger
			s.Target.Spec.Size = larger
		}, Unfence, v1alpha1.MoveCopying},
		"larger logical volume":    {func(s *State) { s.Volume.Status.CurrentSize = &larger }, Unfence, v1alpha1.MoveCopying},
		"volume deleted":           {func(s *State) { s.Volume.DeletionTimestamp = &metav1.Time{Time: now} }, Unfence, v1alpha1.MoveFailed},
		"no pv":                    {func(s *State) { s.PV = nil }, Unfence, v1alpha1.MoveFailed},
		"target not ready":         {func(s *State) { s.To = lostNode("b") }, Wait, v1alpha1.MoveCopying},
		"target lost, a Pod waits": {func(s *State) { s.To = lostNode("b"); withPod(s) }, Unfence, v1alpha1.MovePending},
		"source lost, a Pod waits": {func(s *State) { s.From = lostNode("a"); withPod(s) }, Unfence, v1alpha1.MovePending},
		"target down, a Pod waits": {func(s *State) { s.To = fence.Node{Name: "b", NotReady: true}; withPod(s) }, Wait,
			v1alpha1.MoveWaitingForPods},
		"older agent":    {func(s *State) { s.Target.Status.VolumeID = "x" }, Unfence, v1alpha1.MoveFailed},
		"refused target": {func(s *State) { s.Target.Status.Code = codes.InvalidArgument }, Unfence, v1alpha1.MoveFailed},
		"no room":        {func(s *State) { s.Target.Status.Code = codes.ResourceExhausted }, Unfence, v1alpha1.MovePending},
		"undone":         {func(s *State) { s.Move.DeletionTimestamp = &metav1.Time{Time: now} }, Unfence, v1alpha1.MoveCopying},
	} {
		t.Run(name, func(t *testing.T) {
			s := copiedThick()
			test.change(s)
			// A copy takes as long as it takes: the age of the fence does not matter.
			for _, age := range []time.Duration{0, 100 * time.Hour} {
				if got := Next(s, now.Add(age), time.Time{}); got.Action != test.want || got.Phase != test.phase {
					t.Errorf("got the action %d in phase %s with %q, want %d in %s", got.Action, got.Phase, got.Message,
						test.want, test.phase)
				}
			}
		})
	}
}

// TestHowTheCopyOfAThickVolumeBegins: without a target.
func TestHowTheCopyOfAThickVolumeBegins(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*State)
		want   Action
		phase  v1alpha1.VolumeMovePhase
		says   string
	}{
		"a Pod uses it": {withPod, Wait, v1alpha1.MoveWaitingForPods, "To start the copy of 1Gi, which takes about 20s at " +
			"100Mi for each second, end: n/p"},
		"no Pod": {func(*State) {}, CloseVolume, v1alpha1.MoveCopying, "about 20s"},
		"no Pod any more: it waits for its turn": {func(s *State) { s.Move.Status.Phase = v1alpha1.MoveWaitingForPods },
			Begin, v1alpha1.MovePending, ""},
		"the target is lost":        {func(s *State) { s.To = lostNode("b") }, Begin, v1alpha1.MovePending, ""},
		"the source is lost":        {func(s *State) { s.From = lostNode("a") }, Begin, v1alpha1.MovePending, ""},
		"the target is lost, a Pod": {func(s *State) { s.To = lostNode("b"); withPod(s) }, Wait, v1alpha1.MoveWaitingForPods, ""},
		"the target is not ready": {func(s *State) { s.To = fence.Node{Name: "b", NotReady: true} }, Wait,
			v1alpha1.MoveCopying, "the volume is closed when it is ready"},
		"still opened": {func(s *State) { s.Volume.Annotations[wellknown.FencedAnnotation] = "x" }, Wait, v1alpha1.MoveCopying, "opens the volume again"},
		"fenced for a clone": {func(s *State) {
			s.Volume.Annotations[wellknown.FenceAnnotation] = "clone-x"
			s.Volume.Annotations[wellknown.FencedAnnotation] = "clone-x"
			s.Volume.Annotations[wellknown.FenceForAnnotation] = "pvc-2"
		}, Wait, v1alpha1.MoveCopying, "is being copied to LogicalVolume pvc-2, a clone of it"},
		"fenced for another move": {func(s *State) { s.Volume.Annotations[wellknown.FenceAnnotation] = "x" }, Wait,
			v1alpha1.MoveCopying, "for the VolumeMove with the UID x"},
		"being expanded": {func(s *State) {
			size := resource.MustParse("512Mi")
			s.Volume.Status.CurrentSize = &size
		}, Wait, v1alpha1.MoveCopying, "extends the volume"},
		"not confirmed": {func(s *State) {
			s.close(false)
			s.Volume.Annotations[wellknown.FenceErrorAnnotation] = "it is mounted"
		}, Wait, v1alpha1.MoveCopying, "node a closes the volume: it is mounted"},
		"a Pod is faster": {func(s *State) {
			s.close(false)
			withPod(s)
		}, Unfence, v1alpha1.MoveWaitingForPods, "n/p"},
		"a Pod was bound meanwhile": {func(s *State) {
			s.close(true)
			withPod(s)
		}, Unfence, v1alpha1.MoveWaitingForPods, "n/p"},
		"confirmed": {func(s *State) { s.close(true) }, CreateTarget, v1alpha1.MoveCopying, "is being prepared"},
	} {
		t.Run(name, func(t *testing.T) {
			s := copiedThick()
			s.Target = nil
			s.Volume.Annotations = map[string]string{}
			test.change(s)
			got := Next(s, now, time.Time{})
			if got.Action != test.want || got.Phase != test.phase || !strings.Contains(got.Message, test.says) {
				t.Errorf("got the action %d in phase %s with %q, want %d in %s with %q", got.Action, got.Phase, got.Message,
					test.want, test.phase, test.says)
			}
			if got.Action == CreateTarget && got.Snapshot != s.Volume {
				t.Error("the source is not the volume")
			}
		})
	}
	s := copiedThick()
	s.Target = nil
	s.Volume.Annotations = map[string]string{}
	s.close(false)
	if got := Next(s, now.Add(FenceTimeout), time.Time{}); got.Action != Unfence || got.Phase != v1alpha1.MovePending {
		t.Errorf("a fence that is not confirmed stays, or keeps its place in the queue: %+v", got)
	}
	s.Volume.Annotations = map[string]string{}
	if got := Next(s, now, now.Add(time.Second)); got.Action != Wait {
		t.Errorf("the volume is fenced before its time: %+v", got)
	}
}

func TestTheProgressOfAThickVolume(t *testing.T) {
	for want, record := range map[int]view.CopyRecord{0: {}, 25: {SizeBytes: 100, CopiedBytes: 50},
		50: {SizeBytes: 100, CopiedBytes: 100}, 100: {SizeBytes: 100, CopiedBytes: 100, ComparedBytes: 100}} {
		if got := percent(record); got != want {
			t.Errorf("%+v: %d%%, want %d%%", record, got, want)
		}
	}
	s := copiedThick()
	s.Target.Annotations[wellknown.CopiedAnnotation] = `{"source":"pv","sizeBytes":100,"copiedBytes":50,"error":"no answer"}`
	if got := Next(s, now, time.Time{}); !strings.Contains(got.Message, "tries again: no answer") ||
		!strings.Contains(got.Message, "delete the VolumeMove") {
		t.Errorf("got %q", got.Message)
	}
	current := resource.MustParse("1028Mi")
	s.Volume.Status.CurrentSize = &current
	if got := (thickCopy{s}).SizeOfThick(); got.Cmp(current) != 0 {
		t.Errorf("the copy of a logical volume with %s has %s", current.String(), got.String())
	}
}

// TestTheFenceIsALeaseOnProgress: a thick volume that is being copied is opened for a Pod when the copy makes no
// progress, or a node is lost.
func TestTheFenceIsALeaseOnProgress(t *testing.T) {
	// known has the status say which progress was noticed when, and the record how much is copied and compared now.
	known := func(ago time.Duration, before int64, copied, compared uint64) func(*State) {
		return func(s *State) {
			s.Move.Status.ProgressBytes = before
			s.Move.Status.ProgressTime = &metav1.Time{Time: now.Add(-ago)}
			s.Target.CreationTimestamp = metav1.NewTime(now.Add(-100 * time.Hour))
			text, _ := json.Marshal(view.CopyRecord{Source: s.Target.Spec.Source, SizeBytes: 1 << 30,
				CopiedBytes: copied, ComparedBytes: compared, Error: "no route to host"})
			s.Target.Annotations[wellknown.CopiedAnnotation] = string(text)
		}
	}
	const late = fence.ProgressLimit
	for name, test := range map[string]struct {
		change func(*State)
		pod    bool
		want   Action
		phase  v1alpha1.VolumeMovePhase
		says   string
	}{
		"progress":               {known(late, 10, 11, 0), true, Wait, v1alpha1.MoveCopying, "cannot start"},
		"it compares":            {known(late, 10, 10, 1), true, Wait, v1alpha1.MoveCopying, "cannot start"},
		"no progress yet":        {known(late-time.Second, 10, 10, 0), true, Wait, v1alpha1.MoveCopying, "cannot start"},
		"no progress, no Pod":    {known(late, 10, 10, 0), false, Wait, v1alpha1.MoveCopying, "no route to host"},
		"no progress":            {known(late, 10, 10, 0), true, Unfence, v1alpha1.MovePending, "node b has copied nothing from node a since 2026-01-02T02:59:05Z, so the copy is discarded for the Pods that wait for the volume on node a: n/p"},
		"it begins again always": {known(late, 10, 5, 0), true, Unfence, v1alpha1.MovePending, "copied nothing"},
		"another copy": {func(s *State) {
			known(late, 10, 5, 0)(s)
			s.Target.CreationTimestamp = metav1.NewTime(now)
		}, true, Wait, v1alpha1.MoveCopying, "cannot start"},
		"target lost":         {func(s *State) { known(0, 10, 10, 0)(s); s.To = lostNode("b") }, true, Unfence, v1alpha1.MovePending, "node b is not ready since"},
		"source lost":         {func(s *State) { known(0, 10, 10, 0)(s); s.From = lostNode("a") }, true, Unfence, v1alpha1.MovePending, "node a is not ready since"},
		"target lost, no Pod": {func(s *State) { known(0, 10, 10, 0)(s); s.To = lostNode("b") }, false, Wait, v1alpha1.MoveCopying, ""},
		"target down": {func(s *State) {
			known(0, 10, 10, 0)(s)
			s.To = fence.Node{Name: "b", NotReady: true, Since: now}
		}, true, Wait, v1alpha1.MoveCopying, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := copiedThick()
			s.From, s.To = fence.Node{Name: "a"}, fence.Node{Name: "b"}
			test.change(s)
			if test.pod {
				withPod(s)
			}
			got := Next(s, now, time.Time{})
			if got.Action != test.want || got.Phase != test.phase || !strings.Contains(got.Message, test.says) {
				t.Errorf("got the action %d in phase %s with %q, want %d in %s with %q", got.Action, got.Phase, got.Message,
					test.want, test.phase, test.says)
			}
		})
	}
}

// TestAMoveReturnsToTheQueue when its fence was withdrawn: its copy is removed, and then it begins again.
func TestAMoveReturnsToTheQueue(t *testing.T) {
	s := copiedThick()
	s.Move.Status.Phase, s.Move.Status.Message = v1alpha1.MovePending, "node b is lost"
	expect := func(want Action, after time.Time) {
		t.Helper()
		got := Next(s, now, after)
		if want == Remove && got.Object != s.Target {
			t.Errorf("another object is removed: %+v", got.Object)
		}
		if got.Action != want || got.Phase != v1alpha1.MovePending ||
			want != Begin && got.Message != "node b is lost" {
			t.Errorf("got %+v, want the action %d", got, want)
		}
	}
	expect(Unfence, time.Time{})
	fence.Withdraw(s.Volume)
	expect(Remove, time.Time{})
	s.Target.DeletionTimestamp = &metav1.Time{Time: now}
	expect(Wait, time.Time{})
	s.Target = nil
	expect(Wait, time.Time{}) // The node agent opens the volume.
	delete(s.Volume.Annotations, wellknown.FencedAnnotation)
	expect(Wait, now.Add(time.Second))
	expect(Begin, time.Time{})
	s.Claim = nil
	if got := Next(s, now, time.Time{}); got.Phase != v1alpha1.MoveFailed {
		t.Errorf("got %+v", got)
	}
}

// TestACopyWithALostNodeSaysSo, also if the volume is thin and nobody waits for it.
func TestACopyWithALostNodeSaysSo(t *testing.T) {
	s := copied(1)
	delete(s.Target.Annotations, wellknown.CopiedAnnotation)
	s.To = lostNode("b")
	if got := Next(s, now, time.Time{}); got.Action != Wait || got.Phase != v1alpha1.MoveCopying ||
		!strings.Contains(got.Message, "node b is not ready since 2026-01-02T02:59:05Z: other moves do not wait for this one") {
		t.Errorf("got %+v", got)
	}
}
