// Package mountedfs reports the usage and the problems of mounted file systems, and trims them.
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

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const (
	// fileSystemTimeout is the time in which a file system must answer stat and statfs.
	fileSystemTimeout = 10 * time.Second
	// maxSilent is the maximum number of file systems with a call that has not returned. Each such call blocks a
	// thread.
	maxSilent = 64
)

// FileSystems reports problems of mounted file systems. It starts no process, and a file system that hangs does not
// block it. It is safe for concurrent use.
type FileSystems struct {
	node string
	Kernel
	// calls and trims are the calls of Usage and of TrimRange.
	calls, trims *bounded.Calls
	// trimming are the trims of staged file systems that run, by mount point. mu guards it.
	mu       sync.Mutex
	trimming map[string]*stagedTrim
}

// Kernel is what FileSystems reads and calls. Tests replace it.
type Kernel struct {
	// MountInfo is the path of the mount table. Sysfs is the mount point of sysfs.
	MountInfo, Sysfs string
	// Usage returns the usage of the file system or device at a path.
	Usage func(path string) ([]Usage, error)
	// TrimRange trims a range of the file system on a device that is mounted at a path.
	TrimRange func(path string, device string, start, length uint64) (trimmed uint64, err error)
}

// New returns the FileSystems of this node. The process needs the node's /sys and the mounts of its volumes.
func New(node string) *FileSystems {
	return &FileSystems{
		node:     node,
		Kernel:   Kernel{MountInfo: mounter.MountInfo, Sysfs: "/sys", Usage: UsageOf, TrimRange: trimRange},
		calls:    bounded.New(fileSystemTimeout, maxSilent),
		trims:    bounded.New(trimTimeout, maxSilentTrims),
		trimming: map[string]*stagedTrim{},
	}
}

// Problems returns the problems of the file systems on devices. volumes maps each device, as "MAJOR:MINOR", to its
// volume. The result has no entry for devices that are not mounted or are healthy.
func (f *FileSystems) Problems(ctx context.Context,
	volumes map[string]service.Volume) (map[string]health.Condition, error) {
	mounts, err := f.mountsOf(func(device string) bool { return volumes[device].Name != "" })
	if err != nil {
		return nil, err
	}
	problems := map[string]health.Condition{}
	var all sync.WaitGroup
	var mu sync.Mutex
	for device, list := range mounts {
		all.Go(func() {
			if problem := f.problem(ctx, volumes[device], list); problem != nil {
				mu.Lock()
				defer mu.Unlock()
				problems[device] = *problem
			}
		})
	}
	all.Wait()
	return problems, nil
}

// mountsOf returns the mounts of the file systems on some devices, by device. The file system of an encrypted volume
// is returned by the device of its logical volume.
func (f *FileSystems) mountsOf(wanted func(device string) bool) (map[string][]mount.MountInfo, error) {
	table, err := mount.ParseMountInfo(f.MountInfo)
	if err != nil {
		return nil, fmt.Errorf("read the mounts of node %s: %w", f.node, err)
	}
	mounts := map[string][]mount.MountInfo{}
	for _, m := range table {
		device, err := f.volumeDeviceOf(m)
		if err != nil {
			return nil, fmt.Errorf("find the device below %s on node %s: %w", m.Source, f.node, err)
		}
		if wanted(device) {
			mounts[device] = append(mounts[device], m)
		}
	}
	return mounts, nil
}

// At returns the usage of the file system or device at a path, and its problem or nil. The usage is nil if the file
// system does not return it. An error concerns the path, not the file system.
func (f *FileSystems) At(ctx context.Context, volume service.Volume, path string) ([]Usage, *health.Condition, error) {
	mounts, err := f.mountsLike(path)
	if err != nil {
		return nil, nil, err
	}
	usage, err := f.ask(ctx, path)
	if err != nil && !isBroken(err) {
		return nil, nil, err
	}
	return usage, f.judge(volume, path, mounts, err), nil
}

// mountsLike returns all mounts of the file system that is mounted at a path, or none if the path is not a mount
// point.
func (f *FileSystems) mountsLike(path string) ([]mount.MountInfo, error) {
	table, err := mount.ParseMountInfo(f.MountInfo)
	if err != nil {
		return nil, fmt.Errorf("read the mounts of node %s: %w", f.node, err)
	}
	// The last mount at a path hides the earlier ones.
	at := -1
	for i := range table {
		if table[i].MountPoint == path {
			at = i
		}
	}
	// A device file is a bind mount from the file system of /dev, whose state is not that of the volume.
	if at < 0 || !strings.HasPrefix(table[at].Source, "/dev/") {
		return nil, nil
	}
	device := deviceOf(table[at])
	return slices.DeleteFunc(table, func(m mount.MountInfo) bool { return deviceOf(m) != device }), nil
}

// volumeDeviceOf returns the device of the logical volume of a mount. Below the file system of an encrypted volume
// is its mapped device, which has one device below it (sysfs). It returns that of the mount if the volume has been
// closed.
func (f *FileSystems) volumeDeviceOf(m mount.MountInfo) (string, error) {
	if !strings.HasPrefix(m.Source, "/dev/mapper/"+wellknown.MappingPrefix) {
		return deviceOf(m), nil
	}
	folder := filepath.Join(f.Sysfs, "dev/block", deviceOf(m), "slaves")
	below, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return deviceOf(m), nil
	}
	if err == nil && len(below) != 1 {
		err = fmt.Errorf("%s lists %d devices, want 1", folder, len(below))
	}
	if err != nil {
		return "", err
	}
	number, err := os.ReadFile(filepath.Join(folder, below[0].Name(), "dev"))
	if errors.Is(err, os.ErrNotExist) {
		return deviceOf(m), nil
	}
	return strings.TrimSpace(string(number)), err
}

func deviceOf(m mount.MountInfo) string { return fmt.Sprintf("%d:%d", m.Major, m.Minor) }

// problem returns the problem of the file system with the given mounts, or nil.
func (f *FileSystems) problem(ctx context.Context, volume service.Volume, mounts []mount.MountInfo) *health.Condition {
	path := mounts[0].MountPoint
	_, err := f.ask(ctx, path)
	if err != nil && !isBroken(err) {
		return nil // The file system was unmounted meanwhile.
	}
	return f.judge(volume, path, mounts, err)
}

type usageAnswer struct {
	usage []Usage
	err   error
}

// ask calls stat and statfs. It runs at most one call for each path at a time.
func (f *FileSystems) ask(ctx context.Context, path string) ([]Usage, error) {
	got, err := bounded.Do(ctx, f.calls, path, func(context.Context) usageAnswer {
		usage, err := f.Usage(path)
		return usageAnswer{usage, err}
	})
	if err != nil {
		return nil, err
	}
	return got.usage, got.err
}

// isBroken reports whether an error is one of the file system and not one of its path.
func isBroken(err error) bool {
	var late *bounded.NoAnswerError
	isErrno := func(errno unix.Errno) bool { return errors.Is(err, errno) }
	return errors.As(err, &late) || slices.ContainsFunc([]unix.Errno{unix.EIO, unix.ESHUTDOWN, unix.EUCLEAN}, isErrno)
}

// judge describes the problem of a file system, or returns nil if there is none.
func (f *FileSystems) judge(volume service.Volume, path string, mounts []mount.MountInfo,
	err error) *health.Condition {
	problem := stateOf(mounts)
	recorded := f.recorded(mounts)
	switch {
	case err != nil:
		problem = health.Inaccessible(health.FileSystemUnavailable, fmt.Sprintf("is not accessible (%v)", err))
	case problem.Reason == "" && recorded == "":
		return nil
	case problem.Reason == "":
		problem = health.Degraded(health.FileSystemErrors, "has errors")
	}
	kind := "the file system"
	source := ""
	if len(mounts) > 0 {
		kind = "the " + mounts[0].FsType + " file system"
		source = ", device " + mounts[0].Source
	}
	problem.Message = fmt.Sprintf(
		"%s of volume %s on node %s (%s%s) %s%s: see the kernel's log on the node for the cause; %s", kind,
		volume, f.node, path, source, problem.Message, recorded, volume.RepairAdvice(f.node))
	return &problem
}

// stateOf returns what the mount options say about an error: the file system became read-only, or was shut down. If
// a file system was mounted read-only on purpose, each of its mounts has the option ro, too. The reason is "" if
// there is no error.
func stateOf(mounts []mount.MountInfo) health.Condition {
	for _, m := range mounts {
		switch {
		case slices.Contains(m.SuperOptions, "shutdown"):
			return health.Inaccessible(health.FileSystemUnavailable, "was shut down after an error")
		case slices.Contains(m.SuperOptions, "emergency_ro"),
			slices.Contains(m.SuperOptions, "ro") && !slices.Contains(m.MountOptions, "ro"):
			return health.Degraded(health.FileSystemReadOnly, "became read-only after an error")
		}
	}
	return health.Condition{}
}

// recorded returns the errors that ext4 has recorded since the last check (Documentation/ABI/testing/sysfs-fs-ext4
// of the kernel). With the mount option errors=continue there is no other sign of them.
func (f *FileSystems) recorded(mounts []mount.MountInfo) string {
	if len(mounts) == 0 || !strings.HasPrefix(mounts[0].FsType, "ext") {
		return ""
	}
	link, err := os.Readlink(filepath.Join(f.Sysfs, "dev/block", deviceOf(mounts[0])))
	if err != nil {
		return ""
	}
	note := func(name string) string {
		value, err := os.ReadFile(filepath.Join(f.Sysfs, "fs/ext4", filepath.Base(link), name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(value))
	}
	count, err := strconv.Atoi(note("errors_count"))
	if err != nil || count == 0 {
		return ""
	}
	text := fmt.Sprintf("; it has recorded %d errors", count)
	if seconds, err := strconv.ParseInt(note("last_error_time"), 10, 64); err == nil && seconds > 0 {
		text += ", the last at " + time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	if where := note("last_error_func"); where != "" {
		text += " in " + where
	}
	return text
}
