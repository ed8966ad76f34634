package mountedfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const (
	// trimStep is how much of a file system one call trims, in bytes. It is a multiple of the block groups of ext4,
	// which ext4 does not trim again if nothing was deleted in them.
	trimStep = 16 << 30
	// trimTimeout is the time in which a file system must trim trimStep.
	trimTimeout = 10 * time.Minute
	// maxSilentTrims is the maximum number of file systems with a trim that has not returned. Each blocks a thread.
	maxSilentTrims = 8
	// ioctlTrim is FITRIM (include/uapi/linux/fs.h).
	ioctlTrim = 0xC0185879
)

// Used returns what the file systems on devices use in bytes, by device. Devices are "MAJOR:MINOR". The result has no
// entry for a device that is not mounted. It has 0 for a file system that does not respond or returns an error.
func (f *FileSystems) Used(ctx context.Context, devices []string) (map[string]int64, error) {
	mounts, err := f.mountsOf(func(device string) bool { return slices.Contains(devices, device) })
	if err != nil {
		return nil, err
	}
	used := map[string]int64{}
	var all sync.WaitGroup
	var mu sync.Mutex
	for device, list := range mounts {
		all.Go(func() {
			bytes := f.usedBytes(ctx, list)
			mu.Lock()
			defer mu.Unlock()
			used[device] = bytes
		})
	}
	all.Wait()
	return used, nil
}

func (f *FileSystems) usedBytes(ctx context.Context, mounts []mount.MountInfo) int64 {
	usage, err := f.ask(ctx, wholeMount(mounts).MountPoint)
	if err != nil || len(usage) == 0 {
		return 0
	}
	return usage[0].Used
}

// Trim trims the file system on a device, which is "MAJOR:MINOR" (FITRIM, as fstrim(8)). A file system that does not
// respond does not block it, and no second trim of it starts. Trim ends early when the context is canceled.
func (f *FileSystems) Trim(ctx context.Context, device string) error {
	mounts, err := f.mountsOf(func(mounted string) bool { return mounted == device })
	if err != nil {
		return err
	}
	if len(mounts[device]) == 0 {
		return fmt.Errorf("device %s is no longer mounted on node %s", device, f.node)
	}
	mounted := wholeMount(mounts[device])
	path := mounted.MountPoint
	on := deviceOf(mounted)
	return f.trimSteps(ctx, device, path, func(start uint64) error {
		_, err := f.trim(ctx, on, func() (uint64, error) {
			return f.TrimRange(path, on, start, trimStep)
		})
		return err
	})
}

// trimSteps calls step for each trimStep bytes of the file system that is mounted at a path, until the context is
// canceled.
func (f *FileSystems) trimSteps(ctx context.Context, device, path string, step func(start uint64) error) error {
	size, err := f.sizeOf(device)
	if err != nil {
		return err
	}
	if _, err := f.ask(ctx, path); err != nil {
		return fmt.Errorf("the file system at %s on node %s is not accessible: %w", path, f.node, err)
	}
	for start := uint64(0); start < size && ctx.Err() == nil; start += trimStep {
		err := step(start)
		if start > 0 && errors.Is(err, unix.EINVAL) {
			return nil // the file system is smaller than its device
		}
		if err != nil {
			return fmt.Errorf("trim the file system at %s on node %s: %w", path, f.node, err)
		}
	}
	return ctx.Err()
}

// trim makes a call that trims a file system. It runs at most one call for each device at a time.
func (f *FileSystems) trim(ctx context.Context, device string,
	call func() (uint64, error)) (trimmed uint64, err error) {
	type answer struct {
		trimmed uint64
		err     error
	}
	got, err := bounded.Do(ctx, f.trims, device, func(context.Context) answer {
		trimmed, err := call()
		return answer{trimmed, err}
	})
	return got.trimmed, errors.Join(err, got.err)
}

// wholeMount returns a mount of the root of the file system if there is one. Other mounts can be those of single files.
func wholeMount(mounts []mount.MountInfo) mount.MountInfo {
	at := slices.IndexFunc(mounts, func(m mount.MountInfo) bool { return m.Root == "/" })
	return mounts[max(at, 0)]
}

// sizeOf returns the size of a block device in bytes (Documentation/ABI/stable/sysfs-block of the kernel).
func (f *FileSystems) sizeOf(device string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(f.Sysfs, "dev/block", device, "size"))
	if err != nil {
		return 0, fmt.Errorf("read the size of device %s on node %s: %w", device, f.node, err)
	}
	sectors, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 54)
	if err != nil {
		return 0, fmt.Errorf("read the size of device %s on node %s: %w", device, f.node, err)
	}
	return sectors * 512, nil
}

// fstrimRange is struct fstrim_range (include/uapi/linux/fs.h).
type fstrimRange struct{ start, length, minimum uint64 }

// trimRange trims a range of the file system that is mounted at a path, and returns how many bytes the file system
// discarded. It does nothing if another file system than the one on the device is mounted there.
func trimRange(path, device string, start, length uint64) (trimmed uint64, err error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	var stat unix.Stat_t
	if err := mounter.Retry(func() error { return unix.Fstat(int(f.Fd()), &stat) }); err != nil {
		return 0, err
	}
	mounted := fmt.Sprintf("%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	if mounted != device {
		return 0, fmt.Errorf("device %s is mounted there, not %s", mounted, device)
	}
	err = mounter.Retry(func() error {
		r := fstrimRange{start: start, length: length}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ioctlTrim, uintptr(unsafe.Pointer(&r)))
		if errno != 0 {
			return errno
		}
		trimmed = r.length // FITRIM returns the number of discarded bytes in it.
		return nil
	})
	return trimmed, err
}
