package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// physical is the metadata of a volume group without volumes, with a physical volume that was missing.
const physical = `vg1 {
id = "vg-uuid"
seqno = 7
physical_volumes {
pv0 {
id = "p0"
}
pv1 {
id = "p1"
flags = ["MISSING"]
}
}
}
`

// filesOfNode answers as a node with these files, by their paths.
func filesOfNode(files map[string]string, report string) *runner {
	return &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
		switch args[0] {
		case "-1":
			var names []string
			for path := range files {
				if filepath.Dir(path)+"/" == args[1] {
					names = append(names, filepath.Base(path))
				}
			}
			return []byte(strings.Join(names, "\n")), nil
		case "fullreport":
			return []byte(report), nil
		case "vgcfgrestore":
			return nil, nil
		}
		text, is := files[args[len(args)-1]]
		if !is {
			return nil, errors.New("input/output error")
		}
		return []byte(text), nil
	}}
}

func TestFindMetadata(t *testing.T) {
	of := func(seqno int) string {
		return strings.Replace(physical, "seqno = 7", fmt.Sprint("seqno = ", seqno), 1)
	}
	for name, test := range map[string]struct {
		files   map[string]string
		fits    []uint64
		want    uint64
		reasons []string
		err     string
	}{
		"the backup is the newest": {map[string]string{lvm.BackupDir + "vg1": of(9), lvm.ArchiveDir + "vg1_00002-1.vg": of(8)},
			[]uint64{8, 9}, 9, nil, ""},
		"the newest archive that fits": {map[string]string{lvm.BackupDir + "vg1": of(3), lvm.ArchiveDir + "vg1_00002-1.vg": of(8),
			lvm.ArchiveDir + "vg1_00003-1.vg": of(9), lvm.ArchiveDir + "vg1_00001-1.vg": of(7)}, []uint64{7, 8}, 8, nil, ""},
		"after churn in vg1_x": {withChurn(map[string]string{lvm.BackupDir + "vg1": of(3), lvm.ArchiveDir + "vg1_00002-1.vg": of(8)},
			lvm.ArchiveDir+"vg1_x", of(8)), []uint64{8}, 8, nil, ""},
		"no backup": {map[string]string{lvm.BackupDir + "vg10": "x", lvm.ArchiveDir + "vg1_00002-1.vg": of(8)}, []uint64{8}, 8, nil,
			""},
		"none fits": {map[string]string{lvm.BackupDir + "vg1": of(3), lvm.ArchiveDir + "vg1_00002-1.vg": of(3)}, nil, 0,
			[]string{"seqno 3"}, ""},
		"no files": {nil, nil, 0, nil, ""},
		"an older one is not used": {map[string]string{lvm.BackupDir + "vg1": "x", lvm.ArchiveDir + "vg1_00002-1.vg": of(8)},
			[]uint64{8}, 0, nil, lvm.BackupDir + "vg1: the text is not"},
	} {
		m, reasons, err := New(filesOfNode(test.files, "")).FindMetadata(t.Context(), "vg1", func(m *textmeta.Metadata) string {
			if slices.Contains(test.fits, m.Seqno) {
				return ""
			}
			return fmt.Sprint("seqno ", m.Seqno)
		})
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: got %+v, %v", name, m, err)
			}
		case err != nil || !slices.Equal(reasons, test.reasons) || (m != nil) != (test.want > 0):
			t.Errorf("%s: got %+v, %v, %v", name, m, reasons, err)
		case m != nil && (m.Seqno != test.want || string(m.Text) != test.files[m.File]):
			t.Errorf("%s: got %+v", name, m)
		}
	}
	// A directory that cannot be listed is not empty.
	for _, dir := range []string{lvm.BackupDir, lvm.ArchiveDir} {
		r := filesOfNode(nil, "")
		answer := r.answer
		r.answer = func(ctx context.Context, args []string) ([]byte, error) {
			if slices.Contains(args, dir) {
				return nil, errors.New("away")
			}
			return answer(ctx, args)
		}
		if _, _, err := New(r).FindMetadata(t.Context(), "vg1", func(*textmeta.Metadata) string { return "" }); err == nil ||
			!strings.Contains(err.Error(), "away") {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

func TestMetadataRestoreRefuses(t *testing.T) {
	whole := strings.Replace(physical, `["MISSING"]`, "[]", 1)
	m, err := textmeta.Decode([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	o := lvm.MetadataRestore{VG: "vg1", UUID: "vg-uuid", File: "/f"}
	group := lvm.VG{Name: "vg1", UUID: "vg-uuid", PVs: []lvm.PV{{UUID: "p1"}, {UUID: "p0"}},
		LVs: []lvm.LV{{Name: "a", Attr: "-wi-------"}}, Hidden: []lvm.LV{{Name: "h", Attr: "ewi-------"}}}
	if err := checkRestorable(o, m)(&group); err != nil {
		t.Errorf("got %v", err)
	}
	for name, test := range map[string]struct {
		change func(*lvm.MetadataRestore, *textmeta.Metadata, *lvm.VG)
		err    error
	}{
		"metadata of another group": {func(_ *lvm.MetadataRestore, m *textmeta.Metadata, _ *lvm.VG) { m.UUID = "o" },
			lvm.ErrDamaged},
		"another group": {func(_ *lvm.MetadataRestore, _ *textmeta.Metadata, v *lvm.VG) { v.UUID = "o" },
			lvm.ErrDamaged},
		"another request": {func(o *lvm.MetadataRestore, _ *textmeta.Metadata, _ *lvm.VG) { o.UUID = "o" },
			lvm.ErrDamaged},
		"a missing device": {func(_ *lvm.MetadataRestore, _ *textmeta.Metadata, v *lvm.VG) { v.MissingPVs = 1 },
			lvm.ErrMissingPV},
		"a device was missing": {func(_ *lvm.MetadataRestore, m *textmeta.Metadata,
			_ *lvm.VG) {
			m.MissingPVs = []string{"p0"}
		},
			lvm.ErrMissingPV},
		"another device": {func(_ *lvm.MetadataRestore, _ *textmeta.Metadata, v *lvm.VG) { v.PVs[0].UUID = "p2" }, lvm.ErrDamaged},
		"a move": {func(_ *lvm.MetadataRestore, _ *textmeta.Metadata, v *lvm.VG) { v.Hidden[0].MoveSource = "p0" },
			lvm.ErrMoving},
		"an active volume": {func(_ *lvm.MetadataRestore, _ *textmeta.Metadata, v *lvm.VG) { v.LVs[0].Attr = "-wi-a-----" },
			lvm.ErrInUse},
		"an active hidden volume": {func(_ *lvm.MetadataRestore, _ *textmeta.Metadata,
			v *lvm.VG) {
			v.Hidden[0].Attr = "ewi-a-----"
		},
			lvm.ErrInUse},
		"a volume with an unknown state": {func(_ *lvm.MetadataRestore, _ *textmeta.Metadata, v *lvm.VG) {
			v.LVs[0].Attr = "-wi-XX----"
		}, lvm.ErrInUse},
	} {
		other := o
		metadata := *m
		vg := group
		vg.PVs = slices.Clone(group.PVs)
		vg.LVs = slices.Clone(group.LVs)
		vg.Hidden = slices.Clone(group.Hidden)
		test.change(&other, &metadata, &vg)
		if err := checkRestorable(other, &metadata)(&vg); !errors.Is(err, test.err) {
			t.Errorf("%s: got %v, want %v", name, err, test.err)
		}
	}
	// A file that cannot be read, and a group that does not exist.
	for name, files := range map[string]map[string]string{"no file": nil, "no group": {"/f": whole}} {
		r := filesOfNode(files, `{"report": []}`)
		if err := New(r).Apply(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if slices.ContainsFunc(r.commands, func(c string) bool { return strings.Contains(c, "vgcfgrestore") }) {
			t.Errorf("%s: got %q", name, r.commands)
		}
	}
}
