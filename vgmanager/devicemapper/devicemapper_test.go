package devicemapper

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseThinPool(t *testing.T) {
	tests := map[string]struct {
		params string
		want   ThinPool
	}{
		"in order":    {"1 18/1024 512/4096 - rw discard_passdown queue_if_no_space - 1024", ThinPool{Mode: "rw", MetadataPercent: 1, DataPercent: 12}},
		"out of data": {"4 20/1024 4096/4096 - out_of_data_space discard_passdown error_if_no_space - 1024", ThinPool{Mode: "out_of_data_space", MetadataPercent: 1, DataPercent: 100}},
		"read-only":   {"4 512/512 10/4096 - ro discard_passdown queue_if_no_space needs_check 1024", ThinPool{Mode: "ro", NeedsCheck: true, MetadataPercent: 100}},
		"failed":      {"Fail", ThinPool{Mode: "Fail"}},
		"no answer":   {"Error", ThinPool{Mode: "Error"}},
	}
	for name, tt := range tests {
		got, err := ParseThinPool(tt.params)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", name, err, diff)
		}
	}
	for _, bad := range []string{"", "1 2 3", "1 x/1 1/1 - rw", "1 2/1 1/1 - rw -", "1 1/0 1/1 - rw -", "1 1/1 1/1 - - -"} {
		if got, err := ParseThinPool(bad); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestParseRAID(t *testing.T) {
	tests := map[string]RAID{
		"raid1 2 AA 65536/65536 idle 0 0 -":        {Level: "raid1", Health: "AA", InSync: true},
		"raid1 2 AD 65536/65536 idle 0 0 -":        {Level: "raid1", Health: "AD", InSync: true},
		"raid5_ls 3 Aaa 1024/65536 recover 0 0 -":  {Level: "raid5_ls", Health: "Aaa"},
		"raid6_zr 5 AA-AA 65536/65536 idle 0 0 - ": {Level: "raid6_zr", Health: "AA-AA", InSync: true},
	}
	for params, want := range tests {
		got, err := ParseRAID(params)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", params, err, diff)
		}
	}
	for _, bad := range []string{"", "raid1 2 A 1/1", "raid1 2 AX 1/1", "raid1 2 AA 1", "raid1 two AA 1/1"} {
		if got, err := ParseRAID(bad); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

// answer is what the kernel gives for some targets.
func answer(targets ...Target) []byte {
	buffer := make([]byte, headerSize)
	binary.NativeEndian.PutUint32(buffer[16:], headerSize)
	binary.NativeEndian.PutUint32(buffer[20:], uint32(len(targets)))
	var data []byte
	for _, target := range targets {
		spec := make([]byte, specSize, 256)
		copy(spec[24:], target.Type)
		spec = append(append(spec, target.Params...), 0)
		for len(spec)%8 != 0 {
			spec = append(spec, 0)
		}
		binary.NativeEndian.PutUint32(spec[20:], uint32(len(data)+len(spec)))
		data = append(data, spec...)
	}
	return append(buffer, data...)
}

func TestDecodeStatus(t *testing.T) {
	want := []Target{{"linear", ""}, {"thin-pool", "1 18/1024 512/4096 - rw"}, {"raid", "raid1 2 AA 1/1"}}
	got, err := decodeStatus(answer(want...))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	whole := answer(want...)
	for _, cut := range []int{0, 100, headerSize, headerSize + 10, headerSize + specSize, len(whole) - 20} {
		if got, err := decodeStatus(whole[:cut]); err == nil {
			t.Errorf("%d bytes: got %v", cut, got)
		}
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"dm/name": "vg1-a\n", "dm/uuid": "LVM-x\n", "dev": "253:0\n", "dm/suspended": "1\n"} {
		write("block/dm-0/"+file, text)
	}
	write("block/dm-1/dev", "253:1\n") // It goes away in this moment.
	r := &Reader{sysfs: dir}
	got, err := r.List()
	if diff := cmp.Diff([]Device{{Name: "vg1-a", UUID: "LVM-x", Number: "253:0", Suspended: true}}, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if got, err := (&Reader{sysfs: filepath.Join(dir, "nosuch")}).List(); err == nil {
		t.Errorf("a folder that cannot be read has the devices %v", got)
	}
	if got, err := (&Reader{control: filepath.Join(dir, "nosuch")}).Status("253:0"); err == nil {
		t.Errorf("a device-mapper that is not there says %v", got)
	}
}

func FuzzDecodeStatus(f *testing.F) {
	f.Add(answer(Target{"thin-pool", "1 18/1024 512/4096 - rw"}))
	f.Add(answer(Target{"linear", ""}, Target{"raid", "raid1 2 AA 1/1"})[:headerSize+specSize+4])
	f.Fuzz(func(t *testing.T, data []byte) {
		targets, err := decodeStatus(data)
		if err != nil && targets != nil {
			t.Error("an error, and targets")
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("1 18/1024 512/4096 - rw discard_passdown queue_if_no_space - 1024")
	f.Add("raid1 2 AA 65536/65536 idle 0 0 -")
	f.Add("Fail")
	f.Fuzz(func(t *testing.T, params string) {
		if p, err := ParseThinPool(params); err == nil && (p.Mode == "" || p.DataPercent < 0 || p.DataPercent > 100 || p.MetadataPercent > 100) {
			t.Errorf("%q: %+v", params, p)
		}
		if r, err := ParseRAID(params); err == nil && r.Health == "" && r.Level != "" && len(params) == 0 {
			t.Errorf("%q: %+v", params, r)
		}
	})
}
