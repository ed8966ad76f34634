package logicalvolume

import (
	"errors"
	"slices"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// agentWithDefault returns a new process whose default class has that name. "" stands for no default class.
func (w *world) agentWithDefault(name string) *Reconciler {
	w.Helper()
	r := w.agent()
	engine := r.Volumes.(*engine.Engine)
	for _, known := range []string{"thick", "thin"} {
		class, _ := engine.Class(known)
		class.Default = known == name
		w.must(engine.Publish(class))
	}
	return r
}

func unnamed(mibs int64) topolvmv1.LogicalVolumeSpec {
	return topolvmv1.LogicalVolumeSpec{Size: size(mibs)}
}

// TestAnotherDefaultLeavesVolumesWhereTheyAre checks that an object without a device class keeps the class that was
// the default when its volume was created.
func TestAnotherDefaultLeavesVolumesWhereTheyAre(t *testing.T) {
	w := newWorld(t)
	w.ask("a", unnamed(12))
	w.must(w.run(w.agentWithDefault("thick"), "a"))
	w.see("made", "thick/uid-a-1 12")
	if got := w.get("a").Spec.DeviceClass; got != "thick" {
		t.Errorf("the device class is %q", got)
	}

	r := w.agentWithDefault("thin")
	lv := w.get("a")
	lv.Spec.Size = size(24)
	w.must(w.api.Update(t.Context(), lv))
	w.must(w.run(r, "a"))
	w.see("grown", "thick/uid-a-1 24")
	w.must(w.api.Delete(t.Context(), w.get("a")))
	w.must(w.run(r, "a"))
	w.see("deleted")
}

// TestOldObjectsGetTheClassThatHasTheirVolume checks objects of TopoLVM and older versions, which did not set the
// class.
func TestOldObjectsGetTheClassThatHasTheirVolume(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		w := newWorld(t)
		w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(12)})
		w.must(w.run(w.agent(), "a"))
		lv := w.get("a")
		lv.Spec.DeviceClass = ""
		w.must(w.api.Update(t.Context(), lv))
		if deleted {
			w.must(w.api.Delete(t.Context(), lv))
		}
		w.must(w.run(w.agentWithDefault("thin"), "a"))
		if deleted {
			w.see("deleted")
			continue
		}
		if got := w.get("a").Spec.DeviceClass; got != "thick" {
			t.Errorf("the device class is %q", got)
		}
	}
}

// TestAVolumeThatNoClassHasIsNotCalledDeleted checks that a volume is not treated as deleted if its disks are missing
// or its class was withdrawn.
func TestAVolumeThatNoClassHasIsNotCalledDeleted(t *testing.T) {
	for name, change := range map[string]func(w *world, r *Reconciler){
		"its class is withdrawn": func(w *world, r *Reconciler) { w.must(r.Volumes.(*engine.Engine).Withdraw("thick")) },
		"its volume group is away": func(w *world, r *Reconciler) {
			engine := r.Volumes.(*engine.Engine)
			class, _ := engine.Class("thick")
			class.VolumeGroup = "away"
			w.must(engine.Publish(class))
		},
		"LVM cannot be read": func(w *world, _ *Reconciler) { w.fake.Fail("Report", errors.New("no answer")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(12)})
			w.must(w.run(w.agent(), "a"))
			lv := w.get("a")
			lv.Spec.DeviceClass = ""
			w.must(w.api.Update(t.Context(), lv))
			w.must(w.api.Delete(t.Context(), lv))
			r := w.agentWithDefault("thin")
			change(w, r)
			for range 2 {
				_ = w.run(r, "a") // the status has the result
			}
			lv = w.get("a")
			if !slices.Contains(lv.Finalizers, wellknown.LogicalVolumeFinalizer) || lv.Status.Code == codes.OK {
				t.Errorf("finalizers %q, status %+v", lv.Finalizers, lv.Status)
			}
		})
	}
}

func TestWithoutADefaultClassNothingIsMade(t *testing.T) {
	w := newWorld(t)
	w.ask("a", unnamed(12))
	if err := w.run(w.agentWithDefault(""), "a"); err == nil || !strings.Contains(err.Error(), "default: true") {
		t.Errorf("got %v", err)
	}
	w.see("nothing")
	w.must(w.run(w.agentWithDefault("thick"), "a"))
	w.see("made", "thick/uid-a-1 12")
}

func TestAnObjectThatWasNeverServedGoes(t *testing.T) {
	w := newWorld(t)
	w.ask("a", unnamed(12))
	lv := w.get("a")
	lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
	w.must(w.api.Update(t.Context(), lv))
	w.must(w.api.Delete(t.Context(), lv))
	w.must(w.run(w.agentWithDefault(""), "a"))
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(lv), lv); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}
