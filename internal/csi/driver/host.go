package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// probeTimeout limits the probe of a device; checkTimeout and formatTimeout limit programs that process the whole
	// device. e2fsck needs hours for a damaged file system of many TiB.
	probeTimeout  = 30 * time.Second
	checkTimeout  = 24 * time.Hour
	formatTimeout = time.Hour
	// stageTimeout limits all steps that stage a volume, one of which is a check or format.
	stageTimeout = checkTimeout + time.Hour
	// killDelay is the time between SIGTERM and SIGKILL, in which e2fsck writes its repairs.
	killDelay = time.Minute
)

// deviceNumber is the number of a block device; zero for none.
type deviceNumber struct{ major, minor uint32 }

func (n deviceNumber) String() string { return fmt.Sprintf("%d:%d", n.major, n.minor) }

// hostDisks are the operations of the node service on devices and mounts. Tests replace them.
type hostDisks interface {
	// number returns the number of the device at a path.
	number(path string) (deviceNumber, error)
	// probe reads a device and returns its content. After an error the content is unknown.
	probe(ctx context.Context, path string) (content, error)
	format(ctx context.Context, mkfs []string, path string) error
	// check repairs what can be repaired automatically, and returns an error for other damage.
	check(ctx context.Context, path, fileSystem string) error
	mount(source, target, fileSystem string, options []string) error
	// unmount unmounts and removes a mount point. It succeeds if the mount point does not exist.
	unmount(path string) error
	isMountPoint(path string) (bool, error)
	// mounted returns the device whose file system is mounted at a directory, or zero if the directory is not a mount
	// point.
	mounted(path string) (deviceNumber, error)
	// shows returns the device of a device file, or of the file system that contains a directory.
	shows(path string) (deviceNumber, error)
	// mountPoints returns the mount points of a device and of the file system on it.
	mountPoints(number deviceNumber) ([]string, error)
	setMode(path string, mode os.FileMode) error
	// grow expands a mounted file system to the size of its device. always skips the check whether that is necessary.
	grow(device, path string, always bool) error
}

type host struct {
	mounter mount.Interface
	resizer *mount.ResizeFs
}

func newHost() host {
	// The agent's container has no systemd.
	return host{mounter: mount.NewWithoutSystemd(""), resizer: mount.NewResizeFs(utilexec.New())}
}

func (host) number(path string) (deviceNumber, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return deviceNumber{}, fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return deviceNumber{}, fmt.Errorf("%s is no block device", path)
	}
	return deviceNumber{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}, nil
}

func (h host) shows(path string) (deviceNumber, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return deviceNumber{}, err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		return deviceNumber{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}, nil
	}
	return deviceNumber{unix.Major(stat.Dev), unix.Minor(stat.Dev)}, nil
}

func (h host) isMountPoint(path string) (bool, error) {
	there, err := h.mounter.IsMountPoint(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return there, err
}

func (h host) mounted(path string) (deviceNumber, error) {
	there, err := h.isMountPoint(path)
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

func (h host) mountPoints(number deviceNumber) ([]string, error) {
	table, err := mount.ParseMountInfo(mountInfo)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range table {
		is := deviceNumber{uint32(m.Major), uint32(m.Minor)} == number
		if !is && strings.HasPrefix(filepath.Base(m.Root), "dm-") {
			// The mount may be a bind mount of a device file.
			shown, err := h.shows(m.MountPoint)
			is = err == nil && shown == number
		}
		if is {
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
func (host) probe(ctx context.Context, path string) (content, error) {
	if err := readEnds(path); err != nil {
		return content{}, err
	}
	out, err := run(ctx, probeTimeout, "blkid", "--probe", "--output", "export", path)
	return parseBlkid(out, err)
}

func readEnds(path string) error {
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
	buffer, err := unix.Mmap(-1, 0, readable, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	for _, at := range []int64{0, max(0, size-readable)} {
		n, err := f.ReadAt(buffer[:min(size, readable)], at)
		if err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		if int64(n) != min(size, readable) {
			return fmt.Errorf("read at %d: only %d bytes came", at, n)
		}
	}
	return nil
}

// Exit statuses of blkid(8).
const (
	blkidNothing   = 2
	blkidAmbiguous = 8
)

// parseBlkid parses the output of blkid --probe.
func parseBlkid(out []byte, err error) (content, error) {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == blkidNothing && len(bytes.TrimSpace(out)) == 0:
		return content{}, nil
	case errors.As(err, &exit) && exit.ExitCode() == blkidAmbiguous:
		return content{}, errors.New("it carries more than one kind of content: see wipefs --no-act")
	case err != nil:
		return content{}, err
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
	return content{}, fmt.Errorf("blkid says neither that it is blank nor what it carries: %q", out)
}

func (host) format(ctx context.Context, mkfs []string, path string) error {
	_, err := run(ctx, formatTimeout, mkfs[0], append(mkfs[1:len(mkfs):len(mkfs)], path)...)
	return err
}

// fsckRepaired is the exit status of fsck(8) after it corrected errors.
const fsckRepaired = 1

// check checks only ext file systems: XFS replays its log when it is mounted, and fsck.xfs does nothing.
func (host) check(ctx context.Context, path, fileSystem string) error {
	if !strings.HasPrefix(fileSystem, "ext") || isHeld(path) {
		return nil
	}
	_, err := run(ctx, checkTimeout, "e2fsck", "-p", path)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == fsckRepaired {
		return nil
	}
	return err
}

// isHeld reports whether a device is mounted in any mount namespace. The kernel then manages the file system.
func isHeld(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_EXCL, 0)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, unix.EBUSY)
}

func (h host) mount(source, target, fileSystem string, options []string) error {
	return h.mounter.Mount(source, target, fileSystem, options)
}

func (h host) unmount(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	const resolveLinks = true
	return mount.CleanupMountPoint(path, h.mounter, resolveLinks)
}

func (host) setMode(path string, mode os.FileMode) error { return os.Chmod(path, mode) }

func (h host) grow(device, path string, always bool) error {
	if !always {
		needed, err := h.resizer.NeedResize(device, path)
		if err != nil || !needed {
			return err
		}
	}
	_, err := h.resizer.Resize(device, path)
	return err
}

// accepted reports whether an exit status is an expected result of a program.
func accepted(program string, exitCode int) bool {
	return program == "blkid" && exitCode == blkidNothing || program == "e2fsck" && exitCode == fsckRepaired
}

// run runs a program of the agent's image. The error contains the output. When the limit is over or ctx ends, run sends
// SIGTERM, and SIGKILL after killDelay.
func run(ctx context.Context, limit time.Duration, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = killDelay // This also limits the wait for a child process that keeps the pipes open.
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begun := time.Now()
	out, err := cmd.Output()
	logger := log.FromContext(ctx).WithName("host").WithValues("command",
		strings.Join(append([]string{program}, args...), " "),
		"took", time.Since(begun).Round(time.Millisecond).String())
	if err == nil {
		logger.V(1).Info("command succeeded")
		return out, nil
	}
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	if cmd.ProcessState != nil && accepted(program, cmd.ProcessState.ExitCode()) {
		logger.V(1).Info("command succeeded", "exitCode", cmd.ProcessState.ExitCode())
	} else {
		logger.Info("command failed", "cause", err.Error(), "stderr", strings.TrimSpace(stderr.String()))
	}
	said := strings.Join(strings.Fields(stderr.String()+" "+string(out)), " ")
	return out, fmt.Errorf("%s: %w: %s", program, err, said)
}
