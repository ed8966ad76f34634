// Package blockdevice opens the block devices of logical volumes, and no other ones.
package blockdevice

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Identity is what a device must be, so that no other one is read or written.
type Identity struct {
	// Path is the path of the device, and Number its MAJOR:MINOR.
	Path, Number string
	// Size is its size in bytes.
	Size uint64
}

// Open opens a device with the flags of open(2). With O_EXCL, it returns an error if the device is mounted, or used by
// another one.
func Open(id Identity, flags int) (*os.File, error) {
	f, err := os.OpenFile(id.Path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%s is in use", id.Path)
	}
	if err != nil {
		return nil, err
	}
	if err := check(f, id); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func check(f *os.File, id Identity) error {
	var stat unix.Stat_t
	if err := Control(f, func(fd int) error { return unix.Fstat(fd, &stat) }); err != nil {
		return fmt.Errorf("read the device number of %s: %w", id.Path, err)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK || number != id.Number {
		return fmt.Errorf("%s is device %s, not %s: run on the node: udevadm trigger", id.Path, number, id.Number)
	}
	size, err := Size(f)
	if err != nil {
		return fmt.Errorf("read the size of %s: %w", id.Path, err)
	}
	if size != id.Size {
		return fmt.Errorf("%s has %d bytes, not %d: run on the node: lvchange --refresh %s", id.Path, size, id.Size,
			id.Path)
	}
	return nil
}

// Size returns the size of a device in bytes. It does not wait for the lock of the device's inode, as lseek(2) does, so
// it also answers while the device does not.
func Size(f *os.File) (uint64, error) {
	var size uint64
	err := Ioctl(f, unix.BLKGETSIZE64, unsafe.Pointer(&size))
	return size, err
}

// Ioctl calls ioctl(2).
func Ioctl(f *os.File, request uintptr, argument unsafe.Pointer) error {
	return Control(f, func(fd int) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
			return errno
		}
		return nil
	})
}

// Control calls a function with the file descriptor, which stays open meanwhile. It repeats the call while a signal
// interrupts it.
func Control(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Control(func(fd uintptr) {
		for result = call(int(fd)); errors.Is(result, unix.EINTR); {
			result = call(int(fd))
		}
	})
	return errors.Join(err, result)
}
