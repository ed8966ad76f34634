// Package mounter mounts, formats, checks and expands the file systems of volumes with the programs of the agent's
// image, and reads devices and the mount table of the node.
package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// The programs of the agent's image, which has those of Debian 12. Others are in sbin.
const (
	sbin          = "/usr/sbin/"
	mountProgram  = "/usr/bin/mount"
	umountProgram = "/usr/bin/umount"
)

const (
	// probeTimeout limits the probe of a device; the others limit programs that process the whole device, or wait until
	// it is written. e2fsck needs hours for a damaged file system of many TiB.
	probeTimeout  = 30 * time.Second
	formatTimeout = time.Hour
	// CheckTimeout limits a check.
	CheckTimeout = 24 * time.Hour
	mountTimeout = 24 * time.Hour
	growTimeout  = 24 * time.Hour
)

// Programs runs the programs of the agent's image. *host.Local implements it. At its time limit a program gets SIGTERM,
// and a minute later SIGKILL: e2fsck writes its repairs in between.
type Programs interface {
	RunAccepting(ctx context.Context, accepted func(code int) bool, name string, args ...string) ([]byte, int, error)
}

// Mounter works on the devices and mounts of this node.
type Mounter struct {
	Programs Programs
}

// Format creates a file system with a command of mkfs.
func (m Mounter) Format(ctx context.Context, mkfs []string, path string) error {
	_, _, err := m.run(ctx, formatTimeout, exits(0), sbin+mkfs[0], append(mkfs[1:len(mkfs):len(mkfs)], path)...)
	return err
}

// fsckRepaired is the exit status of fsck(8) after it corrected errors.
const fsckRepaired = 1

// Check repairs what can be repaired automatically, and returns an error for other damage. It checks only ext file
// systems: XFS replays its log when it is mounted, and fsck.xfs does nothing.
func (m Mounter) Check(ctx context.Context, path, fileSystem string) error {
	if !strings.HasPrefix(fileSystem, "ext") {
		return nil
	}
	if held, err := m.Held(path); err == nil && held {
		return nil // it is mounted, so the kernel manages the file system
	}
	_, _, err := m.run(ctx, CheckTimeout, exits(fsckRepaired), sbin+"e2fsck", "-p", path)
	return err
}

// Held reports whether something has exclusive use of the device at a path: a mount in any mount namespace, or a
// program that changes its file system.
func (Mounter) Held(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_EXCL, 0)
	if err == nil {
		return false, f.Close()
	}
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	return false, err
}

// SetMode changes the mode of a directory.
func (Mounter) SetMode(path string, mode os.FileMode) error { return os.Chmod(path, mode) }

// exits accepts an exit code. 0 is always accepted.
func exits(code int) func(int) bool { return func(c int) bool { return c == code } }

// run runs a program with a time limit. Its error has stdout too: e2fsck writes there what it has found.
func (m Mounter) run(ctx context.Context, limit time.Duration, accepted func(code int) bool, program string,
	args ...string) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, code, err := m.Programs.RunAccepting(ctx, accepted, program, args...)
	if failure := (*host.Error)(nil); errors.As(err, &failure) && failure.Stdout != "" {
		err = fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(failure.Stdout), " "))
	}
	return out, code, err
}

// Retry repeats a system call while it returns EINTR.
func Retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
