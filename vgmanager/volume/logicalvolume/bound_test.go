package logicalvolume

import (
	"context"
	"errors"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// persistentVolume creates a PersistentVolume with a handle and a phase.
func (w *world) persistentVolume(name, handle string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	w.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "demo", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: handle},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: phase},
	}
	w.must(w.api.Create(w.Context(), volume))
	return volume
}

// TestABoundVolumeIsNotRemoved checks that a deletion that the API server already accepted, for example of the CRD,
// does not remove the data of a bound volume.
func TestABoundVolumeIsNotRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		volume string // name of the PersistentVolume
		phase  corev1.PersistentVolumePhase
		kept   bool
		driver string // if it is not this product
	}{
		"bound":                          {"a", corev1.VolumeBound, true, ""},
		"bound under another name":       {"restored", corev1.VolumeBound, true, ""},
		"released":                       {"a", corev1.VolumeReleased, false, ""},
		"failed":                         {"a", corev1.VolumeFailed, false, ""},
		"available under another name":   {"restored", corev1.VolumeAvailable, false, ""},
		"status not known":               {"a", "", true, ""},
		"status not known, another name": {"restored", corev1.VolumePending, true, ""},
		"bound, of the earlier driver":   {"a", corev1.VolumeBound, true, wellknown.EarlierDriverName},
		"bound, of another driver":       {"a", corev1.VolumeBound, false, "example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.agent()
			w.ask("a", thin(8))
			w.must(w.run(r, "a"))
			volume := w.persistentVolume(test.volume, "uid-a-1", test.phase)
			if test.driver != "" {
				volume.Spec.CSI.Driver = test.driver
				w.must(w.api.Update(t.Context(), volume))
			}
			w.persistentVolume("other", "of-another-volume", corev1.VolumeBound)
			w.must(w.api.Delete(t.Context(), w.get("a")))
			if !test.kept {
				w.must(w.run(r, "a"))
				w.see("removed")
				return
			}
			for range 2 {
				if err := w.run(r, "a"); err == nil || !strings.Contains(err.Error(), "PersistentVolume "+test.volume) {
					t.Errorf("error %v", err)
				}
			}
			w.see("kept", "thin/uid-a-1 8")
			if lv := w.get("a"); !strings.Contains(lv.Status.Message, "demo/data") || len(lv.Finalizers) != 1 {
				t.Errorf("got %+v", lv)
			}
			volume.Status.Phase = corev1.VolumeReleased
			w.must(w.api.Status().Update(t.Context(), volume))
			w.must(w.run(r, "a"))
			w.see("removed")
		})
	}
}

// failing is an API server whose reads fail.
type failing struct {
	client.Reader
	get, list error
}

func (f failing) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	if f.get != nil {
		return f.get
	}
	return f.Reader.Get(ctx, key, object, options...)
}

func (f failing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if f.list != nil {
		return f.list
	}
	return f.Reader.List(ctx, list, options...)
}

func TestNothingIsRemovedWhilePersistentVolumesCannotBeRead(t *testing.T) {
	away := errors.New("the API server is away")
	for name, live := range map[string]failing{"get": {get: away}, "list": {list: away}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.agent()
			w.ask("a", thin(8))
			w.must(w.run(r, "a"))
			w.must(w.api.Delete(t.Context(), w.get("a")))
			live.Reader = w.api
			r.Live = live
			if err := w.run(r, "a"); err == nil || !strings.Contains(err.Error(), away.Error()) {
				t.Errorf("error %v", err)
			}
			w.see("kept", "thin/uid-a-1 8")
			r.Live = w.api
			w.must(w.run(r, "a"))
			w.see("removed")
		})
	}
}

// TestASnapshotIsRemovedWithoutAListOfPersistentVolumes: a snapshot has no PersistentVolume, so its removal must not
// list the PersistentVolumes of the cluster.
func TestASnapshotIsRemovedWithoutAListOfPersistentVolumes(t *testing.T) {
	w := newWorld(t)
	r := w.agent()
	w.ask("a", thin(8))
	w.must(w.run(r, "a"))
	w.ask("s", topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Source: "a", AccessType: "ro",
		Size: w.get("a").Spec.Size})
	w.must(w.run(r, "s"))
	r.Live = failing{Reader: w.api, list: errors.New("nobody should list")}
	w.must(w.api.Delete(t.Context(), w.get("s")))
	w.must(w.run(r, "s"))
	w.see("the snapshot is removed", "thin/uid-a-1 8")
}
