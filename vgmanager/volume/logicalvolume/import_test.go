package logicalvolume

import (
	"errors"
	"slices"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// orphaned creates a logical volume of another cluster in the thin class.
func (w *world) orphaned(name string) {
	w.Helper()
	w.must(w.lvm.Apply(w.Context(), lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: name, VirtualSize: 12 << 20,
		Tags: []string{"lvms.uid=" + name, "lvms.pv=pvc-old", "lvms.pvc=old/old", "lvms.cluster=c0", "lvms.formatted=xfs"}}))
}

// importing creates an object for an existing logical volume, like the operator.
func (w *world) importing(object, volume string) {
	w.Helper()
	w.ask(object, thin(12))
	lv := w.get(object)
	lv.Annotations[wellknown.ImportAnnotation] = volume
	w.must(w.api.Update(w.Context(), lv))
}

// tags returns the sorted tags of a logical volume.
func (w *world) tags(group, volume string) []string {
	w.Helper()
	report, err := w.lvm.Report(w.Context())
	w.must(err)
	return slices.Sorted(slices.Values(report.VG(group).LV(volume).Tags))
}

// TestAnExistingVolumeIsImported: the process is killed before and after each change. Nothing is created, and the tags
// name the new object.
func TestAnExistingVolumeIsImported(t *testing.T) { importAtEveryPoint(t, newWorld) }

func importAtEveryPoint(t *testing.T, newWorld func(*testing.T) *world) {
	for step := 0; ; step++ {
		w := newWorld(t)
		w.orphaned("orphan")
		w.importing("pvc-1", "orphan")
		reached := 0
		w.point = func(string) error {
			if reached++; reached == step {
				return errKilled
			}
			return nil
		}
		_ = w.run(w.agent(), "pvc-1")
		killed := reached >= step
		w.point = nil
		w.must(w.run(w.agent(), "pvc-1"))
		lv := w.get("pvc-1")
		if lv.Status.VolumeID != "orphan" || lv.Status.CurrentSize.Value() != 12<<20 || lv.Status.Code != codes.OK {
			t.Errorf("killed at %d: got the status %+v", step, lv.Status)
		}
		w.see("after the import", "thin/orphan 12")
		want := []string{"lvms.cluster=c1", "lvms.formatted=xfs", "lvms.pv=pvc-1", "lvms.pvc=ns/pvc-1",
			"lvms.uid=" + string(lv.UID)}
		if got := w.tags("thin", "orphan"); !slices.Equal(got, want) {
			t.Errorf("killed at %d: the tags are %q, want %q", step, got, want)
		}
		if !killed && step > 0 {
			if step < 6 {
				t.Errorf("the process was killed at %d places only", step)
			}
			return
		}
	}
}

// TestNothingIsCreatedForAnImport: the volume does not exist, belongs to another object, or cannot be read. The object
// can then be deleted, and no volume is removed with it.
// TestAnImportedVolumeIsStillEncrypted also checks a copy of it, and that the object says so if it cannot be read again
// from the disk.
func TestAnImportedVolumeIsStillEncrypted(t *testing.T) {
	w := newWorld(t)
	w.orphaned("orphan")
	w.must(w.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thin", Name: "orphan",
		Add: []string{"lvms.encryption=luks2"}}))
	w.importing("pvc-1", "orphan")
	for range 2 {
		w.must(w.run(w.agent(), "pvc-1"))
	}
	lv := w.get("pvc-1")
	if got := lv.Annotations[wellknown.EncryptionAnnotation]; got != wellknown.EncryptionLUKS2 {
		t.Errorf("got the annotation %q", got)
	}
	w.ask("copy", thin(12))
	copied := w.get("copy")
	copied.Spec.Source = "pvc-1"
	copied.Spec.AccessType = "rw"
	w.must(w.api.Update(t.Context(), copied))
	w.fake.Fail("Report", errors.New("input/output error"))
	if err := w.run(w.agent(), "copy"); err == nil && w.get("copy").Status.VolumeID != "" {
		t.Error("a copy was created without reading whether its source is encrypted")
	}
	w.fake.Fail("Report", nil)
	w.must(w.run(w.agent(), "copy"))
	if got := w.tags("thin", string(copied.UID)); !slices.Contains(got, "lvms.encryption=luks2") {
		t.Errorf("the copy has the tags %q", got)
	}
}

func TestNothingIsCreatedForAnImport(t *testing.T) {
	for name, test := range map[string]struct {
		volume string
		do     func(*world)
		says   string
	}{
		"it does not exist": {volume: "missing", says: "has no logical volume missing: nothing is created in its place"},
		"it belongs to another object": {volume: "uid-other-1", do: func(w *world) {
			w.ask("other", thin(12))
			w.must(w.run(w.agent(), "other"))
		}, says: "logical volume uid-other-1 belongs to LogicalVolume other"},
		"LVM cannot be read": {volume: "orphan", do: func(w *world) {
			w.orphaned("orphan")
			w.fake.Fail("Report", errors.New("input/output error"))
		}, says: "input/output error"},
		"it cannot be tagged": {volume: "orphan", do: func(w *world) {
			w.orphaned("orphan")
			w.fake.Fail("LVChangeTags", errors.New("no space for metadata"))
		}, says: "no space for metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.do != nil {
				test.do(w)
			}
			w.importing("pvc-1", test.volume)
			if err := w.run(w.agent(), "pvc-1"); err == nil {
				t.Error("the import is not tried again")
			}
			lv := w.get("pvc-1")
			if lv.Status.VolumeID != "" || !strings.Contains(lv.Status.Message, test.says) {
				t.Fatalf("got the status %+v, want %q", lv.Status, test.says)
			}
			w.fake.Fail("Report", nil)
			w.fake.Fail("LVChangeTags", nil)
			before := w.volumes()
			w.must(w.api.Delete(t.Context(), lv))
			w.must(w.run(w.agent(), "pvc-1"))
			w.see("after the deletion of the object", before...)
			if err := w.api.Get(t.Context(), client.ObjectKey{Name: "pvc-1"}, &topolvmv1.LogicalVolume{}); err == nil {
				t.Error("the object still exists")
			}
		})
	}
}
