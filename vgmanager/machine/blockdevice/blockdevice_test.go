package blockdevice

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOnlyTheDeviceIsOpened: real devices are opened in the tests of copies and of erasures on lab nodes.
func TestOnlyTheDeviceIsOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		id   Identity
		says string
	}{
		"no device":      {Identity{Path: file + "x", Number: "253:1", Size: 4096}, "no such file"},
		"a file":         {Identity{Path: file, Number: "0:0", Size: 4096}, "is device 0:0, not 0:0: run on the node"},
		"another device": {Identity{Path: "/dev/null", Number: "253:1", Size: 4096}, "/dev/null is device 1:3, not 253:1"},
		"no block device": {Identity{Path: "/dev/null", Number: "1:3", Size: 4096},
			"/dev/null is device 1:3, not 1:3: run on the node: udevadm trigger"},
	} {
		f, err := Open(test.id, unix.O_RDWR)
		if err == nil || !strings.Contains(err.Error(), test.says) || f != nil {
			t.Errorf("%s: got %v, %v", name, f, err)
		}
	}
}

// TestAnInterruptedCallIsRepeated: the signals of the Go runtime interrupt calls.
func TestAnInterruptedCallIsRepeated(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	if err := Control(f, func(int) error {
		if calls++; calls < 3 {
			return unix.EINTR
		}
		return nil
	}); err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Control(f, func(int) error { return nil }); err == nil {
		t.Error("a closed file was used")
	}
}
