package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

// Number is the number of a block device; zero for none.
type Number struct{ Major, Minor uint32 }

func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// Number returns the number of the block device at a path.
func (Mounter) Number(path string) (Number, error) {
	var stat unix.Stat_t
	if err := Retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return Number{}, fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Number{}, fmt.Errorf("%s is not a block device", path)
	}
	return Number{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}, nil
}

// BackingDevice returns the device of a device file, or of the file system that contains a directory.
func (m Mounter) BackingDevice(path string) (Number, error) {
	var stat unix.Stat_t
	if err := Retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return Number{}, err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		return Number{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}, nil
	}
	return Number{unix.Major(stat.Dev), unix.Minor(stat.Dev)}, nil
}

// IsMountPoint reports whether something is mounted at a path. It returns false for a path that does not exist.
func (m Mounter) IsMountPoint(path string) (bool, error) {
	there, err := (&mount.Mounter{}).IsMountPoint(path) // mount.New would run a program.
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return there, err
}

// Mounted returns the device whose file system is mounted at a directory, or zero if the directory is not a mount
// point.
func (m Mounter) Mounted(path string) (Number, error) {
	there, err := m.IsMountPoint(path)
	if err != nil || !there {
		return Number{}, err
	}
	var stat unix.Stat_t
	if err := Retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return Number{}, fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return Number{}, nil
	}
	return Number{unix.Major(stat.Dev), unix.Minor(stat.Dev)}, nil
}

// MountInfo is the mount table of this process (proc_pid_mountinfo(5)).
const MountInfo = "/proc/self/mountinfo"

// MountPoints returns the mount points of a device and of the file system on it.
func (m Mounter) MountPoints(number Number) ([]string, error) {
	table, err := mount.ParseMountInfo(MountInfo)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, line := range table {
		is := Number{uint32(line.Major), uint32(line.Minor)} == number
		if !is && (strings.HasPrefix(filepath.Base(line.Root), "dm-") || strings.HasPrefix(line.Root, "/mapper/")) {
			// The mount may be a bind mount of a device file. Without udev, those in /dev/mapper are no links.
			shown, err := m.BackingDevice(line.MountPoint)
			is = err == nil && shown == number
		}
		if is {
			points = append(points, line.MountPoint)
		}
	}
	return points, nil
}

// userSearch finds the users of devices of this node.
var userSearch = stack.NewSearch(stack.New())

// Users describes what uses a device, as the end of a sentence.
func (Mounter) Users(ctx context.Context, number Number) string {
	return userSearch.Describe(ctx, fmt.Sprintf("%d:%d", number.Major, number.Minor))
}

// SameFileSystem returns the mount points of the file system that is mounted at a path, with the path itself, or none
// if nothing is mounted there. It does not access the file system, which may be broken.
func (Mounter) SameFileSystem(path string) ([]string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path = filepath.Join(parent, filepath.Base(path))
	table, err := mount.ParseMountInfo(MountInfo)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(table, func(m mount.MountInfo) bool { return m.MountPoint == path })
	if at < 0 {
		return nil, nil
	}
	var points []string
	for _, m := range table {
		if m.Major == table[at].Major && m.Minor == table[at].Minor {
			points = append(points, m.MountPoint)
		}
	}
	return points, nil
}
