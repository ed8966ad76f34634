package event

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

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

func TestLongTextIsCutAtACharacter(t *testing.T) {
	short := shorten(strings.Repeat("ä", 1000))
	if len(short) > maxNote || !utf8.ValidString(short) || !strings.HasSuffix(short, "ä...") {
		t.Errorf("%d bytes: %q", len(short), short[len(short)-8:])
	}
	if whole := strings.Repeat("a", maxNote); shorten(whole) != whole {
		t.Error("a text that fits was cut")
	}
}
