package erase

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// blockDevice is a block device that is open for writing.
type blockDevice struct{ file *os.File }

// openDevice opens the device of a target. It returns an error if the device is not the one of the target, or is
// mounted or used by another device (O_EXCL).
func openDevice(t Target) (device, error) {
	f, err := os.OpenFile(t.Path, os.O_RDWR|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%s is in use", t.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	d := &blockDevice{file: f}
	if err := d.check(t); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// check returns an error if the open device is not the one of a target.
func (d *blockDevice) check(t Target) error {
	var stat unix.Stat_t
	if err := d.control(func(fd uintptr) error { return unix.Fstat(int(fd), &stat) }); err != nil {
		return fmt.Errorf("read the device number of %s: %w", t.Path, err)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK || number != t.Number {
		return fmt.Errorf("%s is device %s, not %s: run on the node: udevadm trigger", t.Path, number, t.Number)
	}
	var size uint64
	if err := d.ioctl(unix.BLKGETSIZE64, unsafe.Pointer(&size)); err != nil {
		return fmt.Errorf("read the size of %s: %w", t.Path, err)
	}
	if size != uint64(t.Size) {
		return fmt.Errorf("%s has %d bytes, not %d: run on the node: lvchange --refresh %s", t.Path, size, t.Size,
			t.Name)
	}
	return nil
}

func (d *blockDevice) erase(start, length int64, discard bool) error {
	span := [2]uint64{uint64(start), uint64(length)}
	if !discard {
		return d.ioctl(unix.BLKZEROOUT, unsafe.Pointer(&span))
	}
	err := d.ioctl(unix.BLKDISCARD, unsafe.Pointer(&span))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return errors.New("the device does not support discards: use eraseOnDelete Zero or None")
	}
	return err
}

func (d *blockDevice) flush() error {
	return d.control(func(fd uintptr) error { return unix.Fsync(int(fd)) })
}

func (d *blockDevice) close() error { return d.file.Close() }

func (d *blockDevice) ioctl(request uintptr, argument unsafe.Pointer) error {
	return d.control(func(fd uintptr) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(argument)); errno != 0 {
			return errno
		}
		return nil
	})
}

// control calls f with the file descriptor, which stays open meanwhile. It repeats f while a signal interrupts it.
func (d *blockDevice) control(f func(fd uintptr) error) error {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Control(func(fd uintptr) {
		for result = f(fd); errors.Is(result, unix.EINTR); {
			result = f(fd)
		}
	})
	return errors.Join(err, result)
}
