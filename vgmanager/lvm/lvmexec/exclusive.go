package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
)

const (
	// lockDir is the directory of LVM's locks (global/locking_dir in lvm.conf(5)). The agent's container has it too.
	lockDir = "/run/lock/lvm"
	// lockTimeout is how long Exclusively waits for commands of other programs that hold LVM's lock.
	lockTimeout = 10 * time.Second
	// lockRetryMin and lockRetryMax limit the time between two attempts to get the lock.
	lockRetryMin = 10 * time.Millisecond
	lockRetryMax = 200 * time.Millisecond
)

// Exclusive is a volume group that no command of LVM reads or changes, neither of this process nor of another one.
type Exclusive struct {
	// Lock holds LVM's lock of the volume group. A process that inherits it holds the lock too, until it ends.
	Lock *os.File

	lvm *LVM
	vg  string
}

// Exclusively calls f while it holds LVM's exclusive lock of a volume group, and returns the error of f. It is for
// changes in the kernel that a command of LVM must not see half done, or undo: LVM resumes a suspended volume of which
// it creates a snapshot. purpose names f in the errors of commands that wait for it.
//
// Commands of LVM for the volume group wait meanwhile, and so do reports for the first five seconds. f must have a time
// limit. It must not use other functions of this package for the volume group: they would wait for it.
//
// The lock is that of LVM's commands (lib/misc/lvm-flock.c): flock(2) on a file with the name of the volume group.
// Exclusively returns ErrBusy if another command holds it for 10 s. The lock ends with the processes that hold it.
func (l *LVM) Exclusively(ctx context.Context, vg, purpose string, f func(*Exclusive) error) error {
	mine, _, err := l.slots.enter(ctx, purpose, command{Command: lvm.Command{VG: vg, Long: true}, purpose: purpose})
	if err != nil {
		return err
	}
	defer l.slots.leave(mine)
	lock, err := lockFile(ctx, filepath.Join(l.lockDir, "V_"+vg))
	if err != nil {
		return fmt.Errorf("%s: lock volume group %s: %w", purpose, vg, err)
	}
	defer func() { _ = lock.Close() }()
	l.reports.begin()
	defer l.reports.end(vg, nil)
	return f(&Exclusive{Lock: lock, lvm: l, vg: vg})
}

// lockFile gets an exclusive lock on a file that LVM may remove when it releases its own lock: then the lock is on a
// file without a name, and does not count.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for wait := lockRetryMin; ; wait = min(2*wait, lockRetryMax) {
		lock, err := tryLock(path)
		if err != nil || lock != nil {
			return lock, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("another command of LVM holds %s: %w: %s", path, lvm.ErrBusy, output.LockHint)
		}
	}
}

// tryLock returns nil if another process holds the lock, or if the file was removed meanwhile.
func tryLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	held := false
	if err == nil {
		held, err = isNamed(lock, path)
	}
	if held {
		return lock, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		err = nil
	}
	return nil, errors.Join(err, lock.Close())
}

// isNamed returns whether the path still leads to an open file.
func isNamed(file *os.File, path string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(opened, named), nil
}

// ThinVolumes returns the thin volumes of the volume group by name. It reads them without LVM's lock, which the caller
// holds.
func (e *Exclusive) ThinVolumes(ctx context.Context) (map[string]lvm.ThinVolume, error) {
	volumes, _, err := e.lvm.executor.thinVolumes(ctx, e.vg)
	return volumes, err
}

// thinVolumes returns the thin volumes of a volume group and the transaction IDs of its thin pools, by name. It reads
// them without LVM's lock, which the caller holds.
func (x *executor) thinVolumes(ctx context.Context, vg string) (map[string]lvm.ThinVolume, map[string]uint64, error) {
	object := "read the thin volumes of volume group " + vg
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := x.execute(ctx, "lvs", "--nolocking", "--reportformat", "json", "-o", output.ThinVolumeColumns, vg)
	if err != nil {
		return nil, nil, output.Classify(object, err)
	}
	volumes, pools, err := output.DecodeThinVolumes(out)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", object, err)
	}
	return volumes, pools, nil
}

// ThinDeviceIDs returns the IDs of the thin devices of a pool in the pool's metadata, by the UUID of the volume.
func (l *LVM) ThinDeviceIDs(ctx context.Context, vg, pool string) (map[string]uint64, error) {
	object := "read the device IDs of thin pool " + lvm.FullName(vg, pool)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := l.executor.execute(ctx, "lvs", "--reportformat", "json", "-o", output.DeviceIDColumns, vg)
	if err != nil {
		return nil, output.Classify(object, err)
	}
	ids, err := output.DecodeDeviceIDs(out, pool)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	return ids, nil
}
