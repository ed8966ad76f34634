package csinode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
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
	checkTimeout  = 24 * time.Hour
	mountTimeout  = 24 * time.Hour
	growTimeout   = 24 * time.Hour
	// stageTimeout limits all steps that stage a volume, one of which is a check or format.
	stageTimeout = checkTimeout + time.Hour
)

// Programs runs the programs of the agent's image. *host.Local implements it. At its time limit a program gets SIGTERM,
// and a minute later SIGKILL: e2fsck writes its repairs in between.
type Programs interface {
	RunAccepting(ctx context.Context, accepted func(code int) bool, name string, args ...string) ([]byte, int, error)
}

// deviceNumber is the number of a block device; zero for none.
type deviceNumber struct{ major, minor uint32 }

func (n deviceNumber) String() string { return fmt.Sprintf("%d:%d", n.major, n.minor) }

// disks are the operations of the node service on devices and mounts. Tests replace them.
type disks interface {
	// number returns the number of the device at a path.
	number(path string) (deviceNumber, error)
	// probe reads a device and returns its content. After an error the content is unknown.
	probe(ctx context.Context, path string) (content, error)
	// isZero reads both ends of a device, and reports whether they have only zeros. It starts no process.
	isZero(path string) (bool, error)
	// recorded returns the record that the formatting of a volume has begun, or nil. record creates it and forget
	// removes it; both are durable when they return, and succeed if there is nothing to do.
	recorded(id string) (*formattingRecord, error)
	record(id string, r formattingRecord) error
	forget(id string) error
	format(ctx context.Context, mkfs []string, path string) error
	// held reports whether something has exclusive use of the device at a path: a mount in any mount namespace, or a
	// program that changes its file system.
	held(path string) (bool, error)
	// check repairs what can be repaired automatically, and returns an error for other damage.
	check(ctx context.Context, path, fileSystem string) error
	// mount, unmount and grow do not end with their context: a mount that was ended halfway would lack its options.
	mount(ctx context.Context, source, target, fileSystem string, options []string) error
	// setReadOnly makes a bind mount of source read-only, unless it is.
	setReadOnly(ctx context.Context, source, target string) error
	// unmount unmounts a path. It succeeds if the path does not exist or is not a mount point.
	unmount(ctx context.Context, path string) error
	// removeMountPoint removes a directory or file on which nothing is mounted. It succeeds if the path does not exist.
	removeMountPoint(path string) error
	isMountPoint(path string) (bool, error)
	// mounted returns the device whose file system is mounted at a directory, or zero if the directory is not a mount
	// point.
	mounted(path string) (deviceNumber, error)
	// backingDevice returns the device of a device file, or of the file system that contains a directory.
	backingDevice(path string) (deviceNumber, error)
	// mountPoints returns the mount points of a device and of the file system on it.
	mountPoints(number deviceNumber) ([]string, error)
	// users describes what uses a device, as the end of a sentence.
	users(ctx context.Context, number deviceNumber) string
	// sameFileSystem returns the mount points of the file system that is mounted at a path, with the path itself, or
	// none if nothing is mounted there. It does not access the file system, which may be broken.
	sameFileSystem(path string) ([]string, error)
	setMode(path string, mode os.FileMode) error
	// grow expands a mounted file system to the size of its device. Unless always is true, it does nothing if the file
	// system is known to have this size, or cannot be expanded.
	grow(ctx context.Context, device, path string, always bool) error
}

// nodeDisks are the devices and mounts of this node.
type nodeDisks struct {
	programs Programs
	// stateDir has the records of volumes that are being formatted.
	stateDir string
}

func (nodeDisks) number(path string) (deviceNumber, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return deviceNumber{}, fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return deviceNumber{}, fmt.Errorf("%s is not a block device", path)
	}
	return deviceNumber{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}, nil
}

func (d nodeDisks) backingDevice(path string) (deviceNumber, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return deviceNumber{}, err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		return deviceNumber{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}, nil
	}
	return deviceNumber{unix.Major(stat.Dev), unix.Minor(stat.Dev)}, nil
}

func (d nodeDisks) isMountPoint(path string) (bool, error) {
	there, err := (&mount.Mounter{}).IsMountPoint(path) // mount.New would run a program.
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return there, err
}

func (d nodeDisks) mounted(path string) (deviceNumber, error) {
	there, err := d.isMountPoint(path)
	if err != nil || !there {
		return deviceNumber{}, err
	}
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return deviceNumber{}, fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return deviceNumber{}, nil
	}
	return deviceNumber{unix.Major(stat.Dev), unix.Minor(stat.Dev)}, nil
}

// mountInfo is the mount table of this process (proc_pid_mountinfo(5)).
const mountInfo = "/proc/self/mountinfo"

func (d nodeDisks) mountPoints(number deviceNumber) ([]string, error) {
	table, err := mount.ParseMountInfo(mountInfo)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range table {
		is := deviceNumber{uint32(m.Major), uint32(m.Minor)} == number
		if !is && (strings.HasPrefix(filepath.Base(m.Root), "dm-") || strings.HasPrefix(m.Root, "/mapper/")) {
			// The mount may be a bind mount of a device file. Without udev, those in /dev/mapper are no links.
			shown, err := d.backingDevice(m.MountPoint)
			is = err == nil && shown == number
		}
		if is {
			points = append(points, m.MountPoint)
		}
	}
	return points, nil
}

// userSearch finds the users of devices of this node.
var userSearch = stack.NewSearch(stack.New())

func (nodeDisks) users(ctx context.Context, number deviceNumber) string {
	return userSearch.Describe(ctx, fmt.Sprintf("%d:%d", number.major, number.minor))
}

func (nodeDisks) sameFileSystem(path string) ([]string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path = filepath.Join(parent, filepath.Base(path))
	table, err := mount.ParseMountInfo(mountInfo)
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

func sizeOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	return f.Seek(0, io.SeekEnd)
}

// readable is the number of bytes that readEnds reads at both ends of a device, where file systems, RAID and partition
// tables have their signatures.
const readable = 1 << 20

// probe first reads the device, bypassing the page cache: blkid returns the same exit status for a blank device and for
// one with read errors.
func (d nodeDisks) probe(ctx context.Context, path string) (content, error) {
	if _, err := readEnds(path); err != nil {
		return content{}, err
	}
	return d.signature(ctx, path)
}

func (nodeDisks) isZero(path string) (bool, error) { return readEnds(path) }

// readEnds reads both ends of a device and reports whether they have only zeros.
func readEnds(path string) (zero bool, err error) {
	zero = true
	err = readDirectly(path, readable, func(f *os.File, size int64, buffer []byte) error {
		buffer = buffer[:min(size, readable)]
		for _, at := range []int64{0, max(0, size-readable)} {
			n, err := f.ReadAt(buffer, at)
			if err != nil {
				return fmt.Errorf("read at %d: %w", at, err)
			}
			if n != len(buffer) {
				return fmt.Errorf("read at %d: got only %d bytes", at, n)
			}
			zero = zero && !slices.ContainsFunc(buffer, func(b byte) bool { return b != 0 })
		}
		return nil
	})
	return zero && err == nil, err
}

// readDirectly opens a device for reads that bypass the page cache, and passes it with its size and a buffer for them.
func readDirectly(path string, length int, read func(f *os.File, size int64, buffer []byte) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	// O_DIRECT needs aligned memory, which mmap returns.
	buffer, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	return read(f, size, buffer)
}

// Exit statuses of blkid(8).
const (
	blkidNothing   = 2
	blkidAmbiguous = 8
)

// signature returns the content of a device by its signatures.
func (d nodeDisks) signature(ctx context.Context, path string) (content, error) {
	out, code, err := d.run(ctx, probeTimeout, exits(blkidNothing), sbin+"blkid", "--probe", "--output", "export", path)
	failure := (*host.Error)(nil)
	switch {
	case errors.As(err, &failure) && failure.ExitCode == blkidAmbiguous:
		return content{}, errors.New("it has signatures of several kinds: see wipefs --no-act")
	case err != nil:
		return content{}, err
	}
	return parseBlkid(out, code)
}

// parseBlkid parses the output and exit status of blkid --probe.
func parseBlkid(out []byte, code int) (content, error) {
	if code == blkidNothing && len(bytes.TrimSpace(out)) == 0 {
		return content{}, nil
	}
	if code != 0 {
		return content{}, fmt.Errorf("blkid exited with %d and printed %q", code, out)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = value
		}
	}
	switch {
	case values["TYPE"] != "":
		return content{kind: values["TYPE"], fileSystem: values["USAGE"] == "filesystem"}, nil
	case values["PTTYPE"] != "":
		return content{kind: "a partition table (" + values["PTTYPE"] + ")"}, nil
	}
	return content{}, fmt.Errorf("blkid reports neither a blank device nor its content: %q", out)
}

// isReadOnly reports whether a device refuses writes.
func isReadOnly(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	value, err := unix.IoctlGetUint32(int(f.Fd()), unix.BLKROGET)
	if err != nil {
		return false, fmt.Errorf("BLKROGET of %s: %w", path, err)
	}
	return value != 0, nil
}

func (d nodeDisks) format(ctx context.Context, mkfs []string, path string) error {
	_, _, err := d.run(ctx, formatTimeout, exits(0), sbin+mkfs[0], append(mkfs[1:len(mkfs):len(mkfs)], path)...)
	return err
}

// fsckRepaired is the exit status of fsck(8) after it corrected errors.
const fsckRepaired = 1

// check checks only ext file systems: XFS replays its log when it is mounted, and fsck.xfs does nothing.
func (d nodeDisks) check(ctx context.Context, path, fileSystem string) error {
	if !strings.HasPrefix(fileSystem, "ext") {
		return nil
	}
	if held, err := d.held(path); err == nil && held {
		return nil // it is mounted, so the kernel manages the file system
	}
	_, _, err := d.run(ctx, checkTimeout, exits(fsckRepaired), sbin+"e2fsck", "-p", path)
	return err
}

func (nodeDisks) held(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_EXCL, 0)
	if err == nil {
		return false, f.Close()
	}
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	return false, err
}

func (nodeDisks) setMode(path string, mode os.FileMode) error { return os.Chmod(path, mode) }

// exits accepts an exit code. 0 is always accepted.
func exits(code int) func(int) bool { return func(c int) bool { return c == code } }

// run runs a program with a time limit. Its error has stdout too: e2fsck writes there what it has found.
func (d nodeDisks) run(ctx context.Context, limit time.Duration, accepted func(code int) bool, program string,
	args ...string) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, code, err := d.programs.RunAccepting(ctx, accepted, program, args...)
	if failure := (*host.Error)(nil); errors.As(err, &failure) && failure.Stdout != "" {
		err = fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(failure.Stdout), " "))
	}
	return out, code, err
}
