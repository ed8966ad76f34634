package logicalvolume

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// fakeEraser records the beginning of an erasure, and then returns what a test sets. By default, the volume is erased
// at once.
type fakeEraser struct {
	w       *world
	targets []erase.Target
	stopped []string
	running bool
	at      *erase.Progress
	err     error
}

func (f *fakeEraser) Running(string) bool { return f.running }

func (f *fakeEraser) Erase(ctx context.Context, target erase.Target, record erase.Record) (erase.Progress, error) {
	if err := record(ctx, target.Done); err != nil {
		return erase.Progress{}, err
	}
	f.targets = append(f.targets, target)
	if f.err != nil {
		return erase.Progress{}, f.err
	}
	if f.at != nil {
		f.running = true
		return *f.at, nil
	}
	f.running = false
	return erase.Progress{Done: target.Size, Size: target.Size, Finished: true}, f.w.around("erase",
		func() error { return nil })
}

func (f *fakeEraser) Stop(_ context.Context, key string) error {
	f.stopped = append(f.stopped, key)
	f.running = false
	return nil
}

// use marks a logical volume as used.
func (w *world) use(group, name string) {
	w.Helper()
	w.must(w.lvm.Apply(w.Context(), lvm.LVChangeTags{VG: group, Name: name, Remove: []string{wellknown.NewTag}}))
}

// agentThatErases returns a new process whose thick class has this method to erase volumes.
func (w *world) agentThatErases(method string) *Reconciler {
	w.Helper()
	engine, err := engine.New(commands{w.lvm, w}, nil, "")
	w.must(err)
	w.must(engine.Publish(deviceclass.Class{Name: "thick", VolumeGroup: "thick", Type: types.TypeThick,
		EraseOnDelete: method}))
	return New(Options{Client: w.api, Live: w.api, Node: "node1", Cluster: "c1", Volumes: engine,
		Eraser: w.eraser, Copier: w.copier, SourceOn: w.copier.sourceOn, Removed: w.forget,
		Recorder: events.NewFakeRecorder(100)})
}

// deleting returns a world with a used thick volume whose object is deleted, and its eraser.
func deleting(t *testing.T) (*world, *fakeEraser) {
	w := newWorld(t)
	w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(10)})
	w.must(w.run(w.agent(), "a"))
	w.use("thick", "uid-a-1")
	w.must(w.api.Delete(t.Context(), w.get("a")))
	return w, w.eraser.(*fakeEraser)
}

func (w *world) reconcile(r *Reconciler) (ctrl.Result, error) {
	return r.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
}

func (w *world) seeGone() {
	w.Helper()
	w.see("after the removal")
	if err := w.api.Get(w.Context(), client.ObjectKey{Name: "a"}, &topolvmv1.LogicalVolume{}); !apierrors.IsNotFound(
		err) {
		w.Errorf("the object still exists: %v", err)
	}
}

func TestAVolumeIsErasedBeforeItIsRemoved(t *testing.T) {
	w, eraser := deleting(t)
	eraser.at = &erase.Progress{Done: 3 << 20, Size: 12 << 20}
	for range 2 {
		result, err := w.reconcile(w.agent())
		if err != nil || result.RequeueAfter != erasePoll {
			t.Fatalf("got %+v, %v", result, err)
		}
		w.see("while it is erased", "thick/uid-a-1 12")
		lv := w.get("a")
		if want := "3 of 12 MiB (25 %) are erased"; lv.Status.Code != codes.Aborted ||
			!strings.Contains(lv.Status.Message, want) {
			t.Errorf("the status is %+v, want %q", lv.Status, want)
		}
	}
	want := erase.Target{Key: "thick/uid-a-1", Name: "thick/uid-a-1", Path: "/dev/thick/uid-a-1", Size: 12 << 20}
	for _, got := range eraser.targets {
		got.Number = ""
		if got != want {
			t.Errorf("got the target %+v, want %+v", got, want)
		}
	}
	if tags := w.tagsOf("thick", "uid-a-1"); !slices.Contains(tags, "lvms.erased=0") {
		t.Errorf("the tags are %q", tags)
	}
	eraser.at = nil
	_, err := w.reconcile(w.agent())
	w.must(err)
	w.seeGone()
	_, err = w.reconcile(w.agent())
	w.must(err)
}

func (w *world) tagsOf(group, name string) []string {
	w.Helper()
	report, err := w.lvm.Report(w.Context())
	w.must(err)
	return report.VG(group).LV(name).Tags
}

func TestAVolumeThatCannotBeErasedIsNotRemoved(t *testing.T) {
	w, eraser := deleting(t)
	eraser.err = errors.New("bytes 0 to 1 of /dev/thick/uid-a-1: input/output error")
	for range 2 {
		if _, err := w.reconcile(w.agent()); err == nil {
			t.Error("got no error")
		}
		w.see("with a broken disk", "thick/uid-a-1 12")
		says := w.get("a").Status.Message
		for _, want := range []string{"input/output error", "set eraseOnDelete: None in device class thick"} {
			if !strings.Contains(says, want) {
				t.Errorf("%q does not say %q", says, want)
			}
		}
	}
	// The administrator sets None.
	_, err := w.reconcile(w.agentThatErases("None"))
	w.must(err)
	w.seeGone()
	if !slices.Contains(eraser.stopped, "thick/uid-a-1") {
		t.Errorf("stopped: %q", eraser.stopped)
	}
}

// TestARemovedVolumeIsForgottenBeforeItsObject checks that the object remains until the node has no record of its
// volume.
func TestARemovedVolumeIsForgottenBeforeItsObject(t *testing.T) {
	w, _ := deleting(t)
	w.forgetErr = errors.New("read-only file system")
	for range 2 {
		if _, err := w.reconcile(w.agent()); err == nil || !strings.Contains(err.Error(), "read-only file system") {
			t.Fatalf("got %v", err)
		}
		w.get("a")
	}
	w.forgetErr = nil
	_, err := w.reconcile(w.agent())
	w.must(err)
	w.seeGone()
	if want := []string{"uid-a-1", "uid-a-1", "uid-a-1"}; !slices.Equal(w.forgotten, want) {
		t.Errorf("forgot %q, want %q", w.forgotten, want)
	}
}

func TestErasingContinuesWhereItEnded(t *testing.T) {
	w, eraser := deleting(t)
	w.must(w.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thick", Name: "uid-a-1",
		Add: []string{"lvms.erased=4194304"}}))
	_, err := w.reconcile(w.agent())
	w.must(err)
	w.seeGone()
	if len(eraser.targets) != 1 || eraser.targets[0].Done != 4<<20 {
		t.Errorf("got %+v", eraser.targets)
	}
}

func TestVolumesThatAreNotErased(t *testing.T) {
	for name, remove := range map[string]func(w *world) *Reconciler{
		"the class says None": func(w *world) *Reconciler {
			w.use("thick", "uid-a-1")
			return w.agentThatErases("None")
		},
		"nobody has used it": func(w *world) *Reconciler { return w.agent() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(10)})
			w.must(w.run(w.agent(), "a"))
			w.must(w.api.Delete(t.Context(), w.get("a")))
			_, err := w.reconcile(remove(w))
			w.must(err)
			w.seeGone()
			if got := w.eraser.(*fakeEraser).targets; len(got) > 0 {
				t.Errorf("it was erased: %+v", got)
			}
		})
	}
}

func TestErasingStopsIfAClaimUsesTheVolume(t *testing.T) {
	w, eraser := deleting(t)
	eraser.at = &erase.Progress{Done: 3 << 20, Size: 12 << 20}
	_, err := w.reconcile(w.agent())
	w.must(err)
	w.persistentVolume("a", "uid-a-1", corev1.VolumeBound)
	if _, err := w.reconcile(w.agent()); err == nil || !strings.Contains(w.get("a").Status.Message,
		"PersistentVolume a") {
		t.Errorf("got %v, %q", err, w.get("a").Status.Message)
	}
	if eraser.running || len(eraser.targets) != 1 {
		t.Errorf("it is still being erased: %+v", eraser)
	}
}

func TestAVolumeThatIsPartlyErasedIsNotImported(t *testing.T) {
	w := newWorld(t)
	w.orphaned("old")
	w.must(w.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thin", Name: "old", Add: []string{"lvms.erased=1024"}}))
	w.importing("a", "old")
	for range 2 {
		_ = w.run(w.agent(), "a")
		if lv := w.get("a"); lv.Status.VolumeID != "" || !strings.Contains(lv.Status.Message,
			"its first 1024 bytes are erased") {
			t.Errorf("the status is %+v", lv.Status)
		}
	}
}
