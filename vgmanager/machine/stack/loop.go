package stack

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Backing is what is behind a loop device. At most one of its fields is set, and none if it is a file on a file system
// without a block device.
type Backing struct {
	// Device is the number of the backing block device.
	Device string
	// FileSystem is the number of the device with the file system of the backing file.
	FileSystem string
}

// ErrDetached: the loop device no longer exists or is not set up.
var ErrDetached = errors.New("is not a loop device with a backing file or device")

// LoopBacking asks the kernel what is behind a loop device (loop(4), LOOP_GET_STATUS64). The path in sysfs is relative
// to the mount namespace that created the loop device (for local block volumes the kubelet's) and may not exist in this
// one. LoopBacking returns ErrDetached if the loop device is not set up.
func LoopBacking(path string) (Backing, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, os.ErrNotExist) {
		return Backing{}, ErrDetached
	}
	if err != nil {
		return Backing{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return Backing{}, ErrDetached
	}
	if err != nil {
		return Backing{}, err
	}
	if info.Rdevice != 0 {
		return Backing{Device: numberOf(info.Rdevice)}, nil
	}
	if unix.Major(info.Device) == 0 {
		return Backing{}, nil
	}
	return Backing{FileSystem: numberOf(info.Device)}, nil
}

func numberOf(device uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
}
