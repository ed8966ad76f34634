package doubt

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// changeOf returns metadata with this number of changes and the volumes in a text.
func changeOf(seqno uint64, volumes string) *textmeta.Metadata {
	m := &textmeta.Metadata{VG: "vg1", UUID: "u", Seqno: seqno, File: lvm.ArchiveDir + "vg1_00001-1.vg"}
	for _, name := range strings.Fields(volumes) {
		m.Volumes = append(m.Volumes, textmeta.LV{Name: name, Visible: true})
	}
	return m
}

func TestReplacedMetadataIsFound(t *testing.T) {
	other := changeOf(9, "a b")
	other.UUID = "other"
	for name, test := range map[string]struct {
		present *textmeta.Metadata
		// files are the newest first.
		files  []*textmeta.Metadata
		absent string
		want   string
	}{
		"no file": {changeOf(5, "a"), nil, "b", ""},
		"the replaced metadata is LVM's backup": {changeOf(5, "a"),
			[]*textmeta.Metadata{changeOf(7, "a b c"), changeOf(6, "a b"), changeOf(5, "a")}, "b c", "b c"},
		"only part of it is in the archive": {changeOf(5, "a"), []*textmeta.Metadata{changeOf(6, "a b")}, "b c", "b"},
		"as many changes since then": {changeOf(7, "a x y"),
			[]*textmeta.Metadata{changeOf(6, "a x"), changeOf(7, "a b c")}, "b c", "b c"},
		"more changes since then": {changeOf(20, "a x"),
			[]*textmeta.Metadata{changeOf(20, "a x"), changeOf(19, "a"), changeOf(6, "a"), changeOf(6, "a b"),
				changeOf(5, "a")}, "b", "b"},
		"a volume was removed": {changeOf(8, "a"),
			[]*textmeta.Metadata{changeOf(8, "a"), changeOf(7, "a b"), changeOf(6, "a b"), changeOf(5, "a")}, "b", ""},
		"a volume was removed, and others later": {changeOf(10, "a"),
			[]*textmeta.Metadata{changeOf(10, "a"), changeOf(9, "a c"), changeOf(8, "a c"), changeOf(7, "a b c")}, "b", ""},
		"one was removed before another was lost": {changeOf(7, "a"),
			[]*textmeta.Metadata{changeOf(9, "a c"), changeOf(8, "a c"), changeOf(6, "a b")}, "b c", "c"},
		"the volume is there":        {changeOf(5, "a b"), []*textmeta.Metadata{changeOf(7, "a b")}, "b", ""},
		"of another volume group":    {changeOf(5, "a"), []*textmeta.Metadata{other}, "b", ""},
		"a volume was never created": {changeOf(5, "a"), []*textmeta.Metadata{changeOf(7, "a b")}, "c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			absent := strings.Fields(test.absent)
			fits := WasReplaced(test.present, absent)
			at := slices.IndexFunc(test.files, func(m *textmeta.Metadata) bool { return fits(m) == "" })
			var found *textmeta.Metadata
			if at >= 0 {
				found = test.files[at]
			}
			if got := strings.Join(NewReplaced(test.present, found, absent).Volumes, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
