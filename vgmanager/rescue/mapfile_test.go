package rescue

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func record() *Record {
	r := &Record{Source: "/dev/vg1/a", SourceID: "LVM-x", Target: "/mnt/a b\n.img", TargetID: "inode 3", Smallest: 512,
		Map: NewMap(1 << 20)}
	r.Map.Set(Range{0, 4096}, Saved, 0)
	r.Map.Set(Range{4096, 512}, Lost, 2)
	r.Map.Set(Range{4608, 1024}, Pending, 65536)
	return r
}

func TestAMapIsSavedAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map")
	if got, err := Load(path); got != nil || err != nil {
		t.Fatalf("without a file: %v, %v", got, err)
	}
	for range 2 {
		if err := record().Save(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record(), got, cmp.AllowUnexported(Map{})); diff != "" {
		t.Error(diff)
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	if len(entries) != 1 {
		t.Errorf("files: %v", entries)
	}
}

func TestADamagedMapIsRefused(t *testing.T) {
	good := string(record().Encode())
	for name, text := range map[string]string{
		"empty":           "",
		"another file":    "hello",
		"no header":       mapTitle + "\n0 1048576 saved\n",
		"a gap":           strings.Replace(good, "4096 512 lost 2\n", "", 1),
		"cut":             good[:strings.LastIndex(good, "\n5632")+1],
		"an overlap":      strings.Replace(good, "4096 512", "4095 513", 1),
		"a state":         strings.Replace(good, "lost 2", "eaten 2", 1),
		"no number":       strings.Replace(good, "lost 2\n", "lost\n", 1),
		"a wrong number":  strings.Replace(good, "4096 saved", "4096 saved 7", 1),
		"a negative size": strings.Replace(good, "4096 512", "4096 -512", 1),
		"words":           good + "what is this\n",
		"an overflow":     good + "1048576 9223372036854775807 saved\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "map")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(record().Encode())
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := Decode(content)
		if err != nil {
			return
		}
		again, err := Decode(r.Encode())
		if err != nil || !bytes.Equal(again.Encode(), r.Encode()) {
			t.Fatalf("does not survive: %v", err)
		}
	})
}
