package mountedfs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// subpath is a mount of a single file in the volume.
const subpath = "119 30 254:7 /config.yaml /file rw shared:59 - ext4 /dev/mapper/vg1-8a6e rw\n"

// trimmable returns FileSystems with the mounts of a volume of this size, which trim with do.
func trimmable(t *testing.T, size uint64, do func(path string, start uint64) error) *FileSystems {
	t.Helper()
	f := newFileSystems(t, subpath+mountsOf("rw", "ext4", "rw")+mountLine("/", "/staged", "rw", "rw"), nil)
	f.Usage = func(string) ([]Usage, error) { return []Usage{{Total: 10, Used: 4}}, nil }
	writeFile(t, filepath.Join(f.Sysfs, "dev/block/254:7/size"), fmt.Sprintf("%d\n", size/512))
	f.TrimRange = func(path, device string, start, _ uint64) (uint64, error) {
		if device != "254:7" {
			t.Errorf("trimmed device %s", device)
		}
		return 1 << 20, do(path, start)
	}
	return f
}

func TestUsedBytes(t *testing.T) {
	f := trimmable(t, 1, nil)
	for _, test := range []struct {
		err  error
		want int64
	}{{nil, 4}, {unix.EIO, 0}} {
		f.Usage = func(string) ([]Usage, error) { return []Usage{{Total: 10, Used: 4}}, test.err }
		used, err := f.Used(t.Context(), []string{"254:7", "254:8"})
		if got, is := used["254:7"]; err != nil || len(used) != 1 || !is || got != test.want {
			t.Errorf("%v: got %v, %v", test.err, used, err)
		}
	}
	f.MountInfo = "/nonexistent"
	if used, err := f.Used(t.Context(), []string{"254:7"}); err == nil || !strings.Contains(err.Error(), "node1") {
		t.Errorf("without the mounts: got %v, %v", used, err)
	}
	if err := f.Trim(t.Context(), "254:7"); err == nil {
		t.Error("trimmed without the mounts")
	}
}

func TestTrimInSteps(t *testing.T) {
	for name, test := range map[string]struct {
		size  uint64
		end   uint64 // the end of the file system
		steps []uint64
	}{
		"small":                       {size: 1 << 30, end: 1 << 30, steps: []uint64{0}},
		"large":                       {size: 40 << 30, end: 40 << 30, steps: []uint64{0, 16 << 30, 32 << 30}},
		"a file system that is small": {size: 64 << 30, end: 10 << 30, steps: []uint64{0, 16 << 30}},
	} {
		var steps []uint64
		f := trimmable(t, test.size, func(path string, start uint64) error {
			steps = append(steps, start)
			if path != "/staging" {
				t.Errorf("%s: trimmed %s, once for each file system", name, path)
			}
			if start >= test.end {
				return unix.EINVAL
			}
			return nil
		})
		if err := f.Trim(t.Context(), "254:7"); err != nil || !slices.Equal(steps, test.steps) {
			t.Errorf("%s: got %v, %v", name, steps, err)
		}
	}
}

func TestTrimErrors(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EOPNOTSUPP, unix.EROFS, unix.EIO, unix.EINVAL} {
		f := trimmable(t, 1<<30, func(string, uint64) error { return errno })
		err := f.Trim(t.Context(), "254:7")
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), "/staging on node node1") {
			t.Errorf("%v: got %v", errno, err)
		}
	}
	f := trimmable(t, 1<<30, func(string, uint64) error { return nil })
	if err := f.Trim(t.Context(), "254:8"); err == nil || !strings.Contains(err.Error(), "no longer mounted") {
		t.Errorf("not mounted: got %v", err)
	}
	f.Usage = func(string) ([]Usage, error) { return nil, unix.EIO }
	if err := f.Trim(t.Context(), "254:7"); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "not accessible") {
		t.Errorf("an inaccessible file system: got %v", err)
	}
}

// TestTrimThatNeverReturns: a second trim of the file system does not start, and the caller goes on in time.
func TestTrimThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		f := trimmable(t, 1<<30, func(string, uint64) error {
			calls.Add(1)
			<-release
			return nil
		})
		begun := time.Now()
		for range 2 {
			var late *bounded.NoAnswerError
			if err := f.Trim(t.Context(), "254:7"); !errors.As(err, &late) {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(begun); took != trimTimeout || calls.Load() != 1 {
			t.Errorf("%d calls, %v", calls.Load(), took)
		}
		close(release)
	})
}

func TestTrimIsCanceledBetweenSteps(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	f := trimmable(t, 1<<40, func(string, uint64) error {
		calls++
		cancel()
		return nil
	})
	if err := f.Trim(ctx, "254:7"); !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("%d calls: %v", calls, err)
	}
}

// TestTrimRangeChecksTheDevice: the mount table may be outdated.
func TestTrimRangeChecksTheDevice(t *testing.T) {
	_, err := trimRange(t.TempDir(), "254:99", 0, trimStep)
	if err == nil || !strings.Contains(err.Error(), "is mounted there, not 254:99") {
		t.Errorf("got %v", err)
	}
}
