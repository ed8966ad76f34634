package event

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type recorder struct{ notes []string }

func (r *recorder) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	r.notes = append(r.notes, eventType+" "+reason+" "+fmt.Sprintf(note, args...))
}

func TestEachTextIsSaidOnceUntilItChanges(t *testing.T) {
	r := &recorder{}
	emitter := NewEmitter(r)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"}}
	broken := Warning("Broken", "Look", "disk %s is gone")
	fine := Normal("Fine", "Look", "fine")
	emitter.Emit(pod, broken, "a")
	emitter.Emit(pod, broken, "a")
	emitter.Emit(other, broken, "a")
	emitter.Emit(pod, fine)
	emitter.Emit(pod, broken, "a")
	emitter.Emit(pod, broken, "b")
	emitter.Clear(pod, "Broken")
	emitter.Emit(pod, broken, "b")
	emitter.Forget(other)
	emitter.Emit(other, broken, "100%d")
	want := []string{
		"Warning Broken disk a is gone", "Warning Broken disk a is gone", "Normal Fine fine",
		"Warning Broken disk b is gone", "Warning Broken disk b is gone", "Warning Broken disk 100%d is gone",
	}
	if diff := cmp.Diff(want, r.notes); diff != "" {
		t.Error(diff)
	}
}

func TestALongTextIsTruncated(t *testing.T) {
	r := &recorder{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	NewEmitter(r).Emit(pod, Warning("Broken", "Look", "%s"), strings.Repeat("ä", 1000))
	note := strings.TrimPrefix(r.notes[0], "Warning Broken ")
	if len(note) > maxNote || len(note) < maxNote-2 || !strings.HasSuffix(note, "ä…") {
		t.Errorf("%d bytes: %q", len(note), note)
	}
}
