package erase

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
)

// blockDevice is a block device that is open for writing.
type blockDevice struct{ file *os.File }

// openDevice opens the device of a target. It returns an error if the device is not the one of the target, or is
// mounted or used by another device.
func openDevice(t Target) (device, error) {
	f, err := blockdevice.Open(blockdevice.Identity{Path: t.Path, Number: t.Number, Size: uint64(t.Size)},
		os.O_RDWR|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	return &blockDevice{file: f}, nil
}

func (d *blockDevice) erase(start, length int64, discard bool) error {
	span := [2]uint64{uint64(start), uint64(length)}
	if !discard {
		return blockdevice.Ioctl(d.file, unix.BLKZEROOUT, unsafe.Pointer(&span))
	}
	err := blockdevice.Ioctl(d.file, unix.BLKDISCARD, unsafe.Pointer(&span))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return errors.New("the device does not support discards: use eraseOnDelete Zero or None")
	}
	return err
}

func (d *blockDevice) flush() error { return blockdevice.Control(d.file, unix.Fsync) }

func (d *blockDevice) close() error { return d.file.Close() }
