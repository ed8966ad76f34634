package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// Mount runs mount(8). It does not end with its context: a mount that was ended halfway would lack its options. A bind
// mount with further options takes two steps: the kernel ignores other options together with bind, and sets all flags
// of a mount at a remount. So those of the source are repeated. Without further options, the bind mount has the flags
// of its source, as the kernel copies them.
func (m Mounter) Mount(ctx context.Context, source, target, fileSystem string, options []string) error {
	bind, first, second := mount.MakeBindOpts(options)
	if !bind {
		return m.mountLabeled(ctx, source, target, fileSystem, options)
	}
	if err := m.runMount(ctx, source, target, fileSystem, first); err != nil || len(second) <= len(bindRemount) {
		return err
	}
	flags, err := mountFlags(source)
	if err != nil {
		return err
	}
	return m.runMount(ctx, source, target, fileSystem, append(second, flags...))
}

// bindRemount are the options that MakeBindOpts returns for a remount without further options.
var bindRemount = []string{"bind", "remount"}

// SetReadOnly makes a bind mount of source read-only, unless it is.
func (m Mounter) SetReadOnly(ctx context.Context, source, target string) error {
	flags, err := mountFlags(target)
	if err != nil || slices.Contains(flags, "ro") {
		return err
	}
	return m.runMount(ctx, source, target, "", append([]string{"bind", "remount", "ro"}, flags...))
}

func (m Mounter) runMount(ctx context.Context, source, target, fileSystem string, options []string) error {
	_, _, err := m.run(context.WithoutCancel(ctx), mountTimeout, exits(0), mountProgram,
		mount.MakeMountArgs(source, target, fileSystem, options)...)
	return err
}

// flagOptions are the options of mount(8) for the flags of statfs(2).
var flagOptions = []struct {
	flag   int64
	option string
}{
	{unix.ST_RDONLY, "ro"}, {unix.ST_NODEV, "nodev"}, {unix.ST_NOEXEC, "noexec"}, {unix.ST_NOSUID, "nosuid"},
	{unix.ST_NOATIME, "noatime"}, {unix.ST_RELATIME, "relatime"}, {unix.ST_NODIRATIME, "nodiratime"},
}

// mountFlags returns the options of the mount that contains a path.
func mountFlags(path string) ([]string, error) {
	var stat unix.Statfs_t
	if err := Retry(func() error { return unix.Statfs(path, &stat) }); err != nil {
		return nil, fmt.Errorf("read the mount flags of %s: %w", path, err)
	}
	var options []string
	for _, f := range flagOptions {
		if int64(stat.Flags)&f.flag != 0 { //nolint:unconvert // Its type depends on the architecture.
			options = append(options, f.option)
		}
	}
	return options, nil
}

// notMounted is the message of umount(8) for a path that is not a mount point.
const notMounted = "not mounted"

// Unmount unmounts a path. It succeeds if the path does not exist or is not a mount point. It does not end with its
// context.
func (m Mounter) Unmount(ctx context.Context, path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	_, _, err := m.run(context.WithoutCancel(ctx), mountTimeout, exits(0), umountProgram, path)
	if failure := (*host.Error)(nil); errors.As(err, &failure) && strings.Contains(failure.Stderr, notMounted) {
		err = nil
	}
	return err
}

// RemoveMountPoint removes a directory or file on which nothing is mounted. It succeeds if the path does not exist.
func (Mounter) RemoveMountPoint(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
