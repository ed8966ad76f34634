package device

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

// TestADiskBehindALoopDeviceIsHeld: a local block volume of Kubernetes is such a loop device. Its path does not exist
// in the agent's mount namespace.
func TestADiskBehindALoopDeviceIsHeld(t *testing.T) {
	failure := errors.New("input/output error")
	tests := map[string]struct {
		status   stack.Backing
		err      error
		path     string
		gone     bool
		held     []string
		problems int
	}{
		"a path that leads nowhere here": {stack.Backing{Device: "8:16"}, nil, "/var/lib/kubelet/plugins/x", false,
			[]string{"/dev/loop0"}, 0},
		"a path that leads to another here": {stack.Backing{Device: "8:16"}, nil, "/dev/disk/by-id/c", false,
			[]string{"/dev/loop0"}, 0},
		"a file":                           {stack.Backing{}, nil, "/var/lib/image", false, nil, 0},
		"a file that was deleted":          {stack.Backing{}, nil, "/var/lib/image (deleted)", false, nil, 0},
		"another device":                   {stack.Backing{Device: "8:99"}, nil, "/dev/x", false, nil, 0},
		"it went away":                     {stack.Backing{}, stack.ErrDetached, "", true, nil, 0},
		"no answer, and it is still there": {stack.Backing{}, failure, "/var/lib/kubelet/plugins/x", false, nil, 1},
		"no answer, a path that leads here": {stack.Backing{}, failure, "/dev/disk/by-id/b", false,
			[]string{"/dev/loop0"}, 0},
		"no answer, a file": {stack.Backing{}, failure, "/var/lib/image", false, nil, 0},
	}
	for name, tt := range tests {
		n := New(&runner{})
		n.sysfs = t.TempDir()
		if !tt.gone {
			dir := filepath.Join(n.sysfs, "block", "loop0", "loop")
			if err := errors.Join(os.MkdirAll(dir, 0o755),
				os.WriteFile(filepath.Join(dir, "backing_file"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		n.loop = func(string) (stack.Backing, error) { return tt.status, tt.err }
		n.resolve = func(path string) (Number, error) {
			switch path {
			case "/dev/disk/by-id/b":
				return "8:16", nil
			case "/dev/disk/by-id/c":
				return "8:32", nil
			case "/var/lib/image":
				return "", ErrNotBlock
			}
			return "", ErrMissing
		}
		devices := []Device{
			{Name: "/dev/loop0", KernelName: "/dev/loop0", Number: "7:0", Type: "loop",
				BackingFile: tt.path, Size: 1 << 30},
			{Name: "/dev/sdb", Number: "8:16", Type: "disk", Size: 1 << 30},
			{Name: "/dev/sdc", Number: "8:32", Type: "disk", Size: 1 << 30},
		}
		for range 2 {
			n.addLoops(devices)
		}
		if !cmp.Equal(devices[1].Holders, tt.held) || len(devices[2].Holders) != 0 {
			t.Errorf("%s: held by %v and %v", name, devices[1].Holders, devices[2].Holders)
		}
		var want []Code
		switch {
		case tt.problems > 0:
			want = []Code{ProbeError}
		case tt.held != nil:
			want = []Code{HasHolders}
		}
		if got := codes(Explain(devices[1], nil)); !cmp.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
