package logicalvolume

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// spreadTagsOf returns the tags of a logical volume that keep it apart from others.
func (w *world) spreadTagsOf(volume string) []string {
	return slices.DeleteFunc(w.tags("thin", volume), func(tag string) bool {
		return !strings.HasPrefix(tag, wellknown.SpreadTagPrefix)
	})
}

// TestTheTagOfASpread also checks that a copy has its own, and that a second reconcile changes nothing.
func TestTheTagOfASpread(t *testing.T) {
	w := newWorld(t)
	for _, row := range []struct{ name, source, annotation, want string }{
		{"a", "", "node:required:ns/web", "lvms.spread=node:required:ns/web"},
		{"copy-in-another-group", "a", "device:preferred:ns/db", "lvms.spread=device:preferred:ns/db"},
		{"copy-in-no-group", "a", "", ""},
		{"not-a-spread", "", "rack:required:ns/web", ""},
		{"not-a-tag", "", "node:required:ns/w b", ""},
	} {
		w.ask(row.name, thin(4))
		lv := w.get(row.name)
		if row.source != "" {
			lv.Spec.Source, lv.Spec.AccessType = row.source, "rw"
		}
		if row.annotation != "" {
			metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.SpreadAnnotation, row.annotation)
		}
		w.must(w.api.Update(t.Context(), lv))
		for range 2 {
			w.must(w.run(w.agent(), row.name))
		}
		if got := strings.Join(w.spreadTagsOf(string(lv.UID)), " "); got != row.want {
			t.Errorf("%s: got %q", row.name, got)
		}
	}
}

// TestTheSpreadOfAnImportedVolume also checks that a failed read of the tags is not "no spread".
func TestTheSpreadOfAnImportedVolume(t *testing.T) {
	const onDisk, inObject = "node:required:ns/web", "device:required:ns/web"
	for name, row := range map[string]struct{ tag, annotation, want string }{
		"from the tag":                  {tag: onDisk, want: onDisk},
		"the object has one":            {tag: onDisk, annotation: inObject, want: inObject},
		"of another namespace":          {tag: "node:required:other/web"},
		"of a namespace with its start": {tag: "node:required:ns2/web"},
		"not a spread":                  {tag: "x"},
		"none":                          {},
	} {
		w := newWorld(t)
		w.orphaned("orphan")
		if row.tag != "" {
			w.must(w.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thin", Name: "orphan",
				Add: []string{"lvms.spread=" + row.tag}}))
		}
		w.importing("pvc-1", "orphan")
		if row.annotation != "" {
			lv := w.get("pvc-1")
			metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.SpreadAnnotation, row.annotation)
			w.must(w.api.Update(t.Context(), lv))
		}
		w.fake.Fail("Report", errors.New("input/output error"))
		_ = w.run(w.agent(), "pvc-1")
		if lv := w.get("pvc-1"); lv.Status.VolumeID != "" {
			t.Errorf("%s: imported without reading its tags", name)
		}
		w.fake.Fail("Report", nil)
		for range 2 {
			w.must(w.run(w.agent(), "pvc-1"))
		}
		lv := w.get("pvc-1")
		if got := lv.Annotations[wellknown.SpreadAnnotation]; got != row.want || lv.Status.VolumeID != "orphan" {
			t.Errorf("%s: got %q for %q", name, got, lv.Status.VolumeID)
		}
		want := ""
		if spread, ok := view.ParseSpread(row.want); ok && row.annotation == "" {
			want = spread.GroupHash()
		}
		if got := lv.Labels[wellknown.SpreadGroupHashLabel]; got != want {
			t.Errorf("%s: got the label %q", name, got)
		}
	}
}
