package mountedfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// The mounts of one volume, in the format of mountinfo (proc_pid_mountinfo(5)).
const (
	staged    = "120 30 254:7 / /staging %s,noatime shared:60 - %s /dev/mapper/vg1-8a6e %s\n"
	published = "121 30 254:7 / /target %s,noatime shared:61 - %s /dev/mapper/vg1-8a6e %s\n"
	// Two unrelated mounts. The second path contains a space.
	others = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n23 22 8:2 / /a\\040b ro " +
		"shared:2 - xfs /dev/sda2 ro\n"
	// A block volume is a bind mount of a file in /dev. The state of /dev does not concern it.
	block = "140 30 0:5 /dm-7 /block rw,nosuid shared:2 - devtmpfs udev rw,size=1k\n"
)

func mountsOf(perMount, kind, super string) string {
	return fmt.Sprintf(others+block+staged+published, perMount, kind, super, perMount, kind, super)
}

// newFileSystems returns FileSystems with a mount table. Calls return an error.
func newFileSystems(t *testing.T, table string, answer error) *FileSystems {
	t.Helper()
	f := New("node1")
	dir := t.TempDir()
	f.MountInfo = filepath.Join(dir, "mountinfo")
	f.Sysfs = dir
	writeFile(t, f.MountInfo, table)
	f.Usage = func(string) ([]Usage, error) {
		if answer != nil {
			return nil, answer
		}
		return []Usage{{Total: 1}}, nil
	}
	return f
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// record writes an ext4 error count, as the kernel does.
func (f *FileSystems) record(t *testing.T, count string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(f.Sysfs, "dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/virtual/block/dm-7", filepath.Join(f.Sysfs, "dev/block/254:7")); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"errors_count": count, "last_error_time": "1767225600",
		"last_error_func": "ext4_lookup"} {
		writeFile(t, filepath.Join(f.Sysfs, "fs/ext4/dm-7", name), content+"\n")
	}
}

// TestAnEncryptedFileSystemIsThatOfItsVolume checks that the file system on a mapped device is found by the device of
// its logical volume.
func TestAnEncryptedFileSystemIsThatOfItsVolume(t *testing.T) {
	const table = "120 30 253:1 / /staging rw,noatime shared:60 - xfs /dev/mapper/lvms-crypt-8a6e rw\n"
	f := newFileSystems(t, others+table, unix.EIO)
	below := filepath.Join(f.Sysfs, "dev/block/253:1/slaves/dm-7/dev")
	find := func() (map[string]health.Condition, error) {
		return f.Problems(t.Context(), map[string]service.Volume{"254:7": orders})
	}
	if got, err := find(); err != nil || len(got) != 0 {
		t.Errorf("closed meanwhile: got %v, %v", got, err)
	}
	writeFile(t, below, "254:7\n")
	if got, err := find(); err != nil || !strings.Contains(got["254:7"].Message, "is not accessible") {
		t.Errorf("got %v, %v", got, err)
	}
	f.Usage = func(string) ([]Usage, error) { return []Usage{{Used: 4}}, nil }
	if used, err := f.Used(t.Context(), []string{"254:7"}); err != nil || used["254:7"] != 4 {
		t.Errorf("got %v, %v", used, err)
	}
	writeFile(t, filepath.Join(f.Sysfs, "dev/block/254:7/size"), "8\n")
	var trimmed []string
	f.TrimRange = func(path, device string, _, _ uint64) (uint64, error) {
		trimmed = append(trimmed, path+" "+device)
		return 5, nil
	}
	if err := f.Trim(t.Context(), "254:7"); err != nil || !slices.Equal(trimmed, []string{"/staging 253:1"}) {
		t.Errorf("trimmed %q, %v", trimmed, err)
	}
	trimmed = nil
	if bytes, err := f.TrimStaged(t.Context(), "254:7", "/staging"); err != nil || bytes != 5 ||
		!slices.Equal(trimmed, []string{"/staging 253:1"}) {
		t.Errorf("trimmed %q, %d bytes, %v", trimmed, bytes, err)
	}
	if _, err := f.TrimStaged(t.Context(), "254:7", "/unmounted"); err == nil {
		t.Error("a path that is not mounted was trimmed")
	}
	writeFile(t, filepath.Join(f.Sysfs, "dev/block/253:1/slaves/dm-8/dev"), "254:8\n")
	if got, err := find(); err == nil {
		t.Errorf("on two devices: got %v", got)
	}
}

var orders = service.Volume{Class: "vg1", Name: "8a6e", Claim: "shop/orders"}

// advice is part of what to do about each broken file system.
const advice = "{nodeName: node1, deviceClassName: vg1, action: CheckFileSystems, volumes: [8a6e]}"

func TestBrokenFileSystemsAreAbnormal(t *testing.T) {
	for name, test := range map[string]struct {
		table  string
		answer error
		errors string // errors_count of ext4
		want   []string
	}{
		"well":                {table: mountsOf("rw", "ext4", "rw")},
		"XFS, well":           {table: mountsOf("rw", "xfs", "rw,attr2,inode64")},
		"ext4 without errors": {table: mountsOf("rw", "ext4", "rw"), errors: "0"},
		"mounted read-only":   {table: mountsOf("ro", "ext4", "ro")},
		"published read-only": {table: fmt.Sprintf(staged+published, "rw", "ext4", "rw",
			"ro", "ext4", "rw")},
		"read-only after an error": {table: mountsOf("rw", "ext4", "ro,errors=remount-ro"),
			want: []string{"became read-only"}},
		"published read-only, after an error": {table: fmt.Sprintf(published+staged, "ro", "ext4", "ro", "rw", "ext4",
			"ro"), want: []string{"became read-only"}},
		"read-only after an error, Linux 6.14": {table: mountsOf("rw", "ext4", "rw,emergency_ro"),
			want: []string{"became read-only"}},
		"shut down, Linux 6.14": {table: mountsOf("rw", "ext4", "rw,shutdown"), want: []string{"shut down"}},
		"XFS that is shut down": {table: mountsOf("rw", "xfs", "rw"), answer: unix.EIO,
			want: []string{"is not accessible (input/output error)"}},
		"shut down, ESHUTDOWN": {table: mountsOf("rw", "xfs", "rw"), answer: unix.ESHUTDOWN,
			want: []string{"is not accessible"}},
		"corrupt": {table: mountsOf("rw", "xfs", "rw"), answer: fmt.Errorf("stat: %w", unix.EUCLEAN),
			want: []string{"structure needs cleaning"}},
		"goes on after errors": {table: mountsOf("rw", "ext4", "rw"), errors: "3",
			want: []string{"has errors", "recorded 3 errors", "2026-01-01T00:00:00Z", "ext4_lookup"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFileSystems(t, test.table, test.answer)
			if test.errors != "" {
				f.record(t, test.errors)
			}
			list, err := f.Problems(t.Context(), map[string]service.Volume{"254:7": orders, "254:8": {Class: "vg1", Name: "b"}})
			if err != nil || (len(list) != 0) != (test.want != nil) {
				t.Fatalf("got %v, %v", list, err)
			}
			usage, at, err := f.At(t.Context(), orders, "/target")
			if err != nil || (usage == nil) != (test.answer != nil) {
				t.Errorf("got %v, %v", usage, err)
			}
			if at == nil {
				at = &health.Condition{}
			}
			for _, got := range []string{list["254:7"].Message, at.Message} {
				if test.want == nil && got != "" {
					t.Errorf("got %q", got)
				}
				if test.want != nil {
					test.want = append(test.want, "of volume vg1/8a6e (claim shop/orders) on node node1", advice)
				}
				for _, word := range test.want {
					if !strings.Contains(got, word) {
						t.Errorf("%q does not say %q", got, word)
					}
				}
			}
		})
	}
}

func TestABlockVolumeHasNoFileSystem(t *testing.T) {
	f := newFileSystems(t, strings.ReplaceAll(others+block, "rw,size", "ro,size"), nil)
	if usage, wrong, err := f.At(t.Context(), orders, "/block"); err != nil || wrong != nil || usage == nil {
		t.Errorf("got %v, %v, %v", usage, wrong, err)
	}
}

func TestAPathThatIsGoneIsNoBrokenFileSystem(t *testing.T) {
	f := newFileSystems(t, mountsOf("rw", "ext4", "rw"), unix.ENOENT)
	if list, err := f.Problems(t.Context(), map[string]service.Volume{"254:7": orders}); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	if _, wrong, err := f.At(t.Context(), orders, "/target"); err == nil || wrong != nil {
		t.Errorf("got %v, %v", wrong, err)
	}
}

func TestMountsThatCannotBeReadAreNotWell(t *testing.T) {
	f := newFileSystems(t, "nonsense\n", nil)
	if list, err := f.Problems(t.Context(), map[string]service.Volume{"254:7": orders}); err == nil {
		t.Errorf("got %v", list)
	}
	if _, _, err := f.At(t.Context(), orders, "/target"); err == nil {
		t.Error("it is called well")
	}
}

// TestAFileSystemThatHangsIsAbnormalAndHoldsUpNobody has one file system whose statfs does not return, and another one
// that answers.
func TestAFileSystemThatHangsIsAbnormalAndHoldsUpNobody(t *testing.T) {
	table := mountsOf("rw", "ext4", "rw") + "150 30 254:9 / /other rw shared:70 - ext4 /dev/mapper/vg1-other rw\n"
	synctest.Test(t, func(t *testing.T) {
		f := newFileSystems(t, table, nil)
		calls := atomic.Int32{}
		release := make(chan struct{})
		f.Usage = func(path string) ([]Usage, error) {
			if path != "/other" {
				calls.Add(1)
				<-release
			}
			return []Usage{{Total: 1}}, nil
		}
		begun := time.Now()
		for range 3 {
			list, err := f.Problems(t.Context(), map[string]service.Volume{"254:7": orders,
				"254:9": {Class: "vg1", Name: "other"}})
			if err != nil || len(list) != 1 || !strings.Contains(list["254:7"].Message, "has not answered since") ||
				time.Since(begun) != fileSystemTimeout {
				t.Errorf("after %s: got %v, %v", time.Since(begun), list, err)
			}
			usage, wrong, err := f.At(t.Context(), orders, "/staging")
			if err != nil || usage != nil || wrong == nil || !strings.Contains(wrong.Message, "has not answered since") {
				t.Errorf("got %v, %q, %v", usage, wrong, err)
			}
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
		close(release)
		synctest.Wait()
		if list, err := f.Problems(t.Context(), map[string]service.Volume{"254:7": orders}); err != nil || len(list) != 0 {
			t.Errorf("it answers again: got %v, %v", list, err)
		}
	})
}
