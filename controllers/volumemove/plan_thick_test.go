package volumemove

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
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
		"larger logical volume": {func(s *state) { s.volume.Status.CurrentSize = &larger }, unfence, v1alpha1.MoveCopying},
		"volume deleted":        {func(s *state) { s.volume.DeletionTimestamp = &metav1.Time{Time: now} }, unfence, v1alpha1.MoveFailed},
		"no pv":                 {func(s *state) { s.pv = nil }, unfence, v1alpha1.MoveFailed},
		"older agent":           {func(s *state) { s.target.Status.VolumeID = "x" }, unfence, v1alpha1.MoveFailed},
		"refused target":        {func(s *state) { s.target.Status.Code = codes.ResourceExhausted }, unfence, v1alpha1.MoveFailed},
		"undone":                {func(s *state) { s.move.DeletionTimestamp = &metav1.Time{Time: now} }, unfence, v1alpha1.MoveCopying},
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
		"no Pod":       {func(*state) {}, fence, v1alpha1.MoveCopying, "about 20s"},
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
	if got := plan(s, now.Add(fenceTimeout), time.Time{}); got.action != unfence {
		t.Errorf("a fence that is not confirmed stays: %+v", got)
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
	if got := s.sizeOfThick(); got.Cmp(current) != 0 {
		t.Errorf("the copy of a logical volume with %s has %s", current.String(), got.String())
	}
}
