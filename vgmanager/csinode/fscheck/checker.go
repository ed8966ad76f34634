// Package fscheck checks and repairs the file systems of volumes that nothing uses.
package fscheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// Programs runs the programs of the agent's image. *host.Local implements it.
type Programs interface {
	mounter.Programs
	fsck.Programs
}

// Devices reads the devices of the node. mounter.Mounter implements it.
type Devices interface {
	Number(path string) (mounter.Number, error)
	// Probe reads a device and returns its content. After an error the content is unknown.
	Probe(ctx context.Context, path string) (mounter.Content, error)
	// Held reports whether something has exclusive use of the device at a path.
	Held(path string) (bool, error)
	// Users describes what uses a device, as the end of a sentence.
	Users(ctx context.Context, number mounter.Number) string
}

// Mounts mounts file systems. mounter.Mounter implements it.
type Mounts interface {
	Mount(ctx context.Context, source, target, fileSystem string, options []string) error
	Unmount(ctx context.Context, path string) error
	IsMountPoint(path string) (bool, error)
	MountPoints(number mounter.Number) ([]string, error)
}

// Tags reads the tags of a logical volume. The TagsOf of engine.Engine is one.
type Tags func(ctx context.Context, vg, name string) ([]string, error)

// Checker checks and repairs the file systems of volumes that nothing uses. It has the lock of a volume meanwhile, so
// that the node service does not stage or publish the volume. It is safe for concurrent use.
type Checker struct {
	// Node is the name of this node. Locks are those of its node service.
	Node     string
	Locks    *service.Locks
	Devices  Devices
	Mounts   Mounts
	Programs fsck.Programs
	Tags     Tags
	// ReplayDir is the mount point where logs are replayed. It must not be visible outside the container of the agent.
	ReplayDir string
}

// New returns the Checker of a node.
func New(node string, locks *service.Locks, programs Programs, tags Tags) *Checker {
	m := mounter.Mounter{Programs: programs}
	return &Checker{Node: node, Locks: locks, Devices: m, Mounts: m, Programs: programs, Tags: tags,
		ReplayDir: filepath.Join(os.TempDir(), "lvms-replay")}
}

// MountPoints returns where a volume is mounted or published, for each volume that is, by its name.
func (c *Checker) MountPoints(volumes []fsck.Volume) (map[string][]string, error) {
	mounted := map[string][]string{}
	for _, v := range volumes {
		points, err := c.Mounts.MountPoints(numberIn(v))
		if err != nil {
			return nil, fmt.Errorf("read the mounts of node %s: %w", c.Node, err)
		}
		if len(points) > 0 {
			mounted[v.Name] = points
		}
	}
	return mounted, nil
}

func numberIn(v fsck.Volume) mounter.Number { return mounter.Number{Major: v.Major, Minor: v.Minor} }

// Identify returns the file system of a volume. It returns fsck.ErrUnsupported for other content.
func (c *Checker) Identify(ctx context.Context, v fsck.Volume) (string, error) {
	found, err := c.Devices.Probe(ctx, v.Device)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s on node %s cannot be read: %w", v.Device, c.Node, err)
	case found.Kind == "" && fsck.Supports(v.Formatted):
		return v.Formatted, nil // its superblock is lost
	case found.Kind == "":
		return "", fmt.Errorf("%s on node %s has no file system: %w", v.Device, c.Node, fsck.ErrUnsupported)
	case !found.FileSystem || !fsck.Supports(found.Kind):
		return "", fmt.Errorf("%s on node %s contains %s: %w", v.Device, c.Node, found.Kind, fsck.ErrUnsupported)
	}
	return found.Kind, nil
}

// Check checks the file system of a volume, and changes nothing.
func (c *Checker) Check(ctx context.Context, v fsck.Volume, kind string) (fsck.Result, error) {
	var result fsck.Result
	err := c.alone(ctx, v, kind, func() (err error) {
		result, err = c.check(ctx, v, kind)
		return err
	})
	return result, err
}

func (c *Checker) check(ctx context.Context, v fsck.Volume, kind string) (fsck.Result, error) {
	defer c.running(v, kind, false)()
	return fsck.Check(ctx, c.Programs, kind, v.Device)
}

// Repair repairs the file system of a volume, and returns what a check finds afterwards. It does not end with its
// context, because a repair that is interrupted leaves a file system that must be repaired again.
func (c *Checker) Repair(ctx context.Context, v fsck.Volume, kind string) (fsck.Result, error) {
	ctx = context.WithoutCancel(ctx)
	var result fsck.Result
	err := c.alone(ctx, v, kind, func() error {
		moved, err := c.repair(ctx, v, kind)
		if errors.Is(err, fsck.ErrDirtyLog) {
			if err = c.replay(ctx, v, kind); err == nil {
				moved, err = c.repair(ctx, v, kind)
			}
		}
		if err != nil {
			return err
		}
		result, err = c.check(ctx, v, kind)
		result.Moved = moved
		return err
	})
	return result, err
}

func (c *Checker) repair(ctx context.Context, v fsck.Volume, kind string) (int, error) {
	defer c.running(v, kind, true)()
	return fsck.Repair(ctx, c.Programs, kind, v.Device)
}

// replay mounts a file system, so that the kernel replays its log, and unmounts it (xfs_repair(8)). nouuid is for a
// snapshot, which has the UUID of its source.
func (c *Checker) replay(ctx context.Context, v fsck.Volume, kind string) error {
	c.Locks.Running(v.Name, "the replay of the log of the file system on "+v.Device)
	defer c.Locks.Running(v.Name, "")
	if err := os.MkdirAll(c.ReplayDir, 0o700); err != nil {
		return err
	}
	options := append([]string{"nosuid", "nodev", "noexec"}, service.FileSystems[kind].MountOptions...)
	if err := c.Mounts.Mount(ctx, v.Device, c.ReplayDir, kind, options); err != nil {
		return fmt.Errorf("%w, because the file system cannot be mounted: %w", fsck.ErrDirtyLog, err)
	}
	return c.Mounts.Unmount(ctx, c.ReplayDir)
}

// running records the program that runs on a volume, for the messages of other calls. It returns a function that
// records its end.
func (c *Checker) running(v fsck.Volume, kind string, repair bool) func() {
	c.Locks.Running(v.Name, fsck.Command(kind, v.Device, repair))
	return func() { c.Locks.Running(v.Name, "") }
}

// alone locks a volume, checks that it has the expected file system and that nothing uses it, and calls work.
func (c *Checker) alone(ctx context.Context, v fsck.Volume, kind string, work func() error) error {
	if err := c.Locks.Enter(v.Name); err != nil {
		return lockedError{status.Convert(err).Message()}
	}
	defer c.Locks.Leave(v.Name)
	number, err := c.Devices.Number(v.Device)
	switch {
	case err != nil:
		return fmt.Errorf("read the device of volume %s on node %s: %w", v.Name, c.Node, err)
	case number != numberIn(v):
		return fmt.Errorf(
			"%s on node %s leads to device %s, but volume %s is device %s: run on the node: udevadm trigger",
			v.Device, c.Node, number, v.Name, numberIn(v))
	}
	if err := c.unused(ctx, v); err != nil {
		return err
	}
	if err := c.unmoved(ctx, v); err != nil {
		return err
	}
	found, err := c.Identify(ctx, v)
	if err == nil && found != kind {
		err = fmt.Errorf("%s on node %s has the file system %s now, and had %s", v.Device, c.Node, found, kind)
	}
	if err != nil {
		return err
	}
	return work()
}

// lockedError is fsck.ErrLocked with the message of the lock.
type lockedError struct{ message string }

func (e lockedError) Error() string        { return e.message }
func (e lockedError) Is(target error) bool { return target == fsck.ErrLocked }

// EndReplay unmounts the file system whose replay a killed agent has not ended. The mount normally ends with the
// container. No replay must be running.
func (c *Checker) EndReplay(ctx context.Context) error {
	mounted, err := c.Mounts.IsMountPoint(c.ReplayDir)
	if err != nil || !mounted {
		return err
	}
	return c.Mounts.Unmount(ctx, c.ReplayDir)
}

// unused returns an error if something uses a volume.
func (c *Checker) unused(ctx context.Context, v fsck.Volume) error {
	points, err := c.Mounts.MountPoints(numberIn(v))
	if err != nil {
		return fmt.Errorf("read the mounts of node %s: %w", c.Node, err)
	}
	if len(points) > 0 {
		return fmt.Errorf("%w: it is mounted at %s", fsck.ErrInUse, strings.Join(points, ", "))
	}
	held, err := c.Devices.Held(v.Device)
	if err != nil {
		return fmt.Errorf("%s on node %s cannot be opened: %w", v.Device, c.Node, err)
	}
	if held {
		return fmt.Errorf("%w: %s", fsck.ErrInUse, c.Devices.Users(ctx, numberIn(v)))
	}
	return nil
}

// unmoved returns an error if a volume must not be checked because of a move or a clone.
func (c *Checker) unmoved(ctx context.Context, v fsck.Volume) error {
	tags, err := c.Tags(ctx, path.Base(path.Dir(v.Device)), v.Name)
	if err != nil {
		return fmt.Errorf("read the tags of volume %s on node %s: %w", v.Name, c.Node, err)
	}
	if reason := volume.MovedReason(tags); reason != "" {
		return fmt.Errorf("%w: volume %s on node %s is not checked: %s", fsck.ErrInUse, v.Name, c.Node, reason)
	}
	return nil
}
