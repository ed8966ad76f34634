package device

import (
	"os"
	"path/filepath"
	"testing"
)

func seed(f *testing.F, more ...string) {
	f.Helper()
	files, err := filepath.Glob("testdata/*/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, m := range more {
		f.Add([]byte(m))
	}
}

func FuzzDecodeLsblk(f *testing.F) {
	seed(f, "", "{}", `{"blockdevices":null}`)
	f.Fuzz(func(t *testing.T, data []byte) {
		devices, err := decode(data)
		if err != nil && devices != nil {
			t.Error("an error, and devices")
		}
		markOSDisks(devices)
		for _, d := range devices {
			if d.Number == "" || d.Name == "" {
				t.Errorf("a device without name or number: %+v", d)
			}
			Explain(d, nil)
			d.Identity()
		}
	})
}

func FuzzDecodeSignatures(f *testing.F) {
	seed(f, "", `{"signatures":[{"type":"ext4","uuid":"u","label":null}]}`)
	f.Fuzz(func(t *testing.T, data []byte) {
		if found, err := decodeSignatures(data); err != nil && found != nil {
			t.Error("an error, and signatures")
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(scsiRecord))
	f.Add([]byte("I:\nE:\nS:\n:\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := decodeRecord(data); err == nil && r.initialized < 0 {
			t.Errorf("a time before the beginning: %v", r.initialized)
		}
	})
}

func FuzzDecodeMounts(f *testing.F) {
	f.Add([]byte("36 35 8:16 / /mnt/my\\040disk rw,noatime master:1 - ext4 /dev/sdb rw\n"))
	f.Add([]byte("36 35 8:16 / /\\ \\777 - x y z\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if mounts, err := decodeMounts(data); err != nil && mounts != nil {
			t.Error("an error, and mounts")
		}
	})
}
