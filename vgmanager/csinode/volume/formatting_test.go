package volume

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

const (
	id = "8a6e"
	// ownUUID is the UUID of the logical volume.
	ownUUID = "Zq1TzR-ruWL-vSEr-Ixbd-VXvn-mBAc-hlyVNm"
)

// TestARecordIsAFileOfTheNode uses a real folder.
func TestARecordIsAFileOfTheNode(t *testing.T) {
	d := Directory(t.TempDir())
	want := func(want *Record) {
		t.Helper()
		if got, err := d.Recorded(id); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	want(nil)
	for range 2 {
		for _, r := range []Record{{ownUUID, true}, {"a", false}} {
			for range 2 {
				if err := d.Record(id, r); err != nil {
					t.Error(err)
				}
				want(&r)
			}
		}
		for range 2 {
			if err := d.Forget(id); err != nil {
				t.Error(err)
			}
			want(nil)
		}
	}
	// The file of an earlier version was empty.
	if err := os.WriteFile(d.formattingFile(id), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(&Record{"", true})
	file := filepath.Join(string(d), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(string(d)+"/formatting-x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Forget("x/../file"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a file that is no record was removed: %v", err)
	}
	d = Directory(file)
	if _, err := d.Recorded(id); err == nil {
		t.Error("a folder that cannot be read has no record")
	}
	if err := d.Record(id, Record{}); err == nil {
		t.Error("a record was created in a file")
	}
	if err := d.Forget(id); err == nil {
		t.Error("a record was removed from a file")
	}
}
