package unclaimed

import (
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// pending returns a LogicalVolume whose node has not created its volume yet.
func pending(name, claim string) *topolvmv1.LogicalVolume {
	lv := volume(name, claim)
	lv.Status = topolvmv1.LogicalVolumeStatus{}
	return lv
}

func TestWhichPendingVolumesAreMarked(t *testing.T) {
	refused, imported := pending("pvc-b", "shop/b"), pending("pvc-c", "shop/c")
	refused.Status.Code = codes.ResourceExhausted
	imported.Annotations[wellknown.ImportAnnotation] = "vg1/c"
	s := newSetup(t, true,
		pending("pvc-gone", "shop/gone"), // its claim was deleted
		pending("pvc-old", "shop/same"),  // its claim was deleted, and another one was created
		pending("pvc-new", "shop/same"), claim("same", "new"),
		pending("pvc-restored", "shop/r"), persistent("pvc-restored", wellknown.DriverName, "earlier"),
		pending("pvc-unknown", ""), pending("snapshot-a", "shop/gone"), refused, imported,
		volume("pvc-created", "shop/gone"))
	for range 2 {
		s.MarkPending(t.Context())
		if got := s.marked(); got != "pvc-gone pvc-old" || s.writes != 2 {
			t.Fatalf("marked %q in %d writes", got, s.writes)
		}
	}
	if len(s.events) != 0 {
		t.Errorf("nothing takes up space yet, got the events %v", s.events)
	}
	// The node is unavailable: the marks stay. They are removed if a restore brings the PersistentVolume back.
	if got, _ := s.look(time.Hour); got != "pvc-gone pvc-old" {
		t.Errorf("after an audit, %q are marked", got)
	}
	if err := s.Client.(client.Client).Create(t.Context(), persistent("pvc-old", wellknown.DriverName,
		"x")); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.look(2 * time.Hour); got != "pvc-created pvc-gone" {
		t.Errorf("with the PersistentVolume, %q are marked", got)
	}
}

func TestPendingVolumesThatCannotBeJudged(t *testing.T) {
	for _, kind := range []string{"LogicalVolumeList", "PersistentVolumeClaim", "PersistentVolume"} {
		s := newSetup(t, true, pending("pvc-gone", "shop/gone"))
		s.attempts = wait.Backoff{Duration: time.Millisecond, Steps: 2}
		s.fail = kind
		if err := s.markAllPending(t.Context()); err == nil {
			t.Errorf("%s: no error", kind)
		}
		s.MarkPending(t.Context())
		if s.writes != 0 {
			t.Errorf("%s: %d writes", kind, s.writes)
		}
		s.fail = ""
		if s.MarkPending(t.Context()); s.marked() != "pvc-gone" {
			t.Errorf("%s: the next attempt marked %q", kind, s.marked())
		}
	}
}

// TestAVolumeThatWasJustCreated is not marked as pending: the audit reports it.
func TestAVolumeThatWasJustCreated(t *testing.T) {
	s := newSetup(t, true, pending("pvc-gone", "shop/gone"))
	read := &topolvmv1.LogicalVolume{}
	if err := s.Live.Get(t.Context(), client.ObjectKey{Name: "pvc-gone"}, read); err != nil {
		t.Fatal(err)
	}
	created := read.DeepCopy()
	created.Status.VolumeID = "handle"
	if err := s.Client.(client.Client).Update(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	if err := s.markPending(t.Context(), read); err != nil || s.marked() != "" {
		t.Errorf("%v: marked %q", err, s.marked())
	}
}
