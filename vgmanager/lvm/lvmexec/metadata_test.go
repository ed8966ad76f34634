package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// backup is the metadata of a volume group with a thin pool.
const backup = "vg1 {\nid = \"lFGufU-iEet-k6Qg-Rj27-kKRL-2kUE-Rdt9wI\"\nseqno = 10\nphysical_volumes {\n" +
	"pv0 {\nid = \"2ynber-fnAM-7K35-DZIK-DAra-3YSg-0OKFdu\"\n}\n}\nlogical_volumes {\n" +
	"pool {\nid = \"2\"\nsegment1 {\ntype = \"thin-pool\"\n}\n}\n}\n}\n"

func TestArchivesOf(t *testing.T) {
	files := []string{"vg1_00009-7.vg", "vg1_00010-5.vg", "vg1_x_00011-1.vg", "vg1_00012-1.vg.tmp", "vg10_00013-1.vg",
		"vg1_00014.vg", "vg1_a-1.vg", "vg1_100000-3.vg", ".lvm_node1_1"}
	want := []string{"vg1_100000-3.vg", "vg1_00010-5.vg", "vg1_00009-7.vg"}
	if diff := cmp.Diff(want, newestOf("vg1", files)); diff != "" {
		t.Error(diff)
	}
	var many []string
	for i := range 3 * lvm.MaxArchives {
		many = append(many, fmt.Sprintf("vg1_%05d-1.vg", i))
	}
	if got := newestOf("vg1", many); len(got) != lvm.MaxArchives || got[0] != "vg1_00389-1.vg" {
		t.Errorf("got %v", got)
	}
}

// archive answers as a node with these files in the archive.
func archive(files map[string]string) *runner {
	return &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
		if args[0] == "-1" {
			return []byte(strings.Join(slices.Collect(maps.Keys(files)), "\n")), nil
		}
		if args[0] == "fullreport" {
			return []byte(`{"report": []}`), nil
		}
		text, is := files[filepath.Base(args[0])]
		if !is {
			return nil, errors.New("input/output error")
		}
		return []byte(text), nil
	}}
}

// withChurn adds archives of another volume group, with higher numbers.
func withChurn(files map[string]string, vg, text string) map[string]string {
	for i := range 2 * lvm.MaxArchives {
		files[fmt.Sprintf("%s_%05d-%d.vg", vg, 100+i, i)] = text
	}
	return files
}

func TestReadArchive(t *testing.T) {
	const uuid = "lFGufU-iEet-k6Qg-Rj27-kKRL-2kUE-Rdt9wI"
	older := strings.Replace(backup, "seqno = 10", "seqno = 9", 1)
	other := strings.Replace(backup, "lFGufU", "other0", 1)
	for name, test := range map[string]struct {
		files map[string]string
		seqno uint64
		err   string
	}{
		"the newest":                  {map[string]string{"vg1_00001-1.vg": older, "vg1_00002-1.vg": backup}, 10, ""},
		"not of another group":        {map[string]string{"vg1_00001-1.vg": older, "vg1_00002-1.vg": other}, 9, ""},
		"after churn in vg1_x":        {withChurn(map[string]string{"vg1_00001-1.vg": backup}, "vg1_x", other), 10, ""},
		"none":                        {map[string]string{"vg1_00002-1.vg": other}, 0, "not found"},
		"an older one is not used":    {map[string]string{"vg1_00001-1.vg": older, "vg1_00002-1.vg": "x"}, 0, "vg1_00002-1.vg: the text is not"},
		"an archive without any file": {nil, 0, "not found"},
	} {
		m, err := New(archive(test.files)).ReadArchive(t.Context(), "vg1", uuid)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: got %+v, %v", name, m, err)
			}
			continue
		}
		if err != nil || m.Seqno != test.seqno || !strings.HasPrefix(m.File, lvm.ArchiveDir) {
			t.Errorf("%s: got %+v, %v", name, m, err)
		}
	}
	away := &runner{answer: func(context.Context, []string) ([]byte, error) { return nil, errors.New("away") }}
	if _, err := New(away).ReadArchive(t.Context(), "vg1", uuid); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("the archive cannot be listed: got %v", err)
	}
}

func TestGroupRestoreRefuses(t *testing.T) {
	thick := strings.Replace(backup, "thin-pool", "striped", 1)
	options := lvm.GroupRestore{VG: "vg1", UUID: "lFGufU-iEet-k6Qg-Rj27-kKRL-2kUE-Rdt9wI", File: lvm.ArchiveDir + "f"}
	for name, test := range map[string]struct {
		text  string
		err   error
		other func(*lvm.GroupRestore)
	}{
		"a thin pool":                      {backup, lvm.ErrDamaged, nil},
		"another group":                    {thick, lvm.ErrDamaged, func(o *lvm.GroupRestore) { o.UUID = "other" }},
		"physical volumes that are absent": {thick, lvm.ErrNotFound, nil},
	} {
		o := options
		if test.other != nil {
			test.other(&o)
		}
		r := archive(map[string]string{"f": test.text})
		if err := New(r).Apply(t.Context(), o); !errors.Is(err, test.err) {
			t.Errorf("%s: got %v", name, err)
		}
		if slices.ContainsFunc(r.commands, func(c string) bool { return strings.Contains(c, "vgcfgrestore") }) {
			t.Errorf("%s: got %q", name, r.commands)
		}
	}
}
