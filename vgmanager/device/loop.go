package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// backing describes what is behind a loop device (loop(4), LOOP_GET_STATUS64).
type backing struct {
	// Device is the backing block device. It is empty if the loop device has a backing file.
	Device Number
}

// loopStatus asks the kernel for the backing device or file of a loop device. The path in sysfs is relative to the
// mount namespace that created the loop device (for local block volumes the kubelet's) and may not exist in this one.
// loopStatus returns errDetached if the loop device is not set up.
func loopStatus(path string) (backing, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, os.ErrNotExist) {
		return backing{}, errDetached
	}
	if err != nil {
		return backing{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return backing{}, errDetached
	}
	if err != nil {
		return backing{}, err
	}
	if info.Rdevice == 0 {
		return backing{}, nil
	}
	return backing{Device: NewNumber(unix.Major(info.Rdevice), unix.Minor(info.Rdevice))}, nil
}

// errDetached: the loop device no longer exists or is not set up.
var errDetached = errors.New("is not a loop device with a backing file or device")

// addLoops adds loop devices to their backing devices. The kernel does not list a loop device as a holder, and a loop
// device does not open a disk exclusively, so a disk in use would otherwise look free. If the backing device of a
// loop device cannot be determined, it can be any device: addLoops then adds a problem to each device.
func (n *Node) addLoops(devices []Device) {
	for i := range devices {
		loop := &devices[i]
		if loop.Type != "loop" {
			continue
		}
		number, err := n.behind(loop)
		if err != nil {
			addProblem(devices, err.Error())
		}
		if at := slices.IndexFunc(devices, func(d Device) bool { return number != "" && d.Number == number }); at >= 0 {
			addUser(&devices[at], loop.Name, loop.Type)
		}
	}
}

func addProblem(devices []Device, problem string) {
	for i := range devices {
		devices[i].Problems = append(devices[i].Problems, problem)
	}
}

// behind returns the backing block device of a loop device. It returns "" for a backing file, and if the loop device
// no longer exists.
func (n *Node) behind(loop *Device) (Number, error) {
	status, err := n.loopStatus(loop.KernelName)
	if err == nil {
		return status.Device, nil
	}
	_, gone := os.Stat(filepath.Join(n.sysfs, "block", filepath.Base(loop.KernelName), "loop", "backing_file"))
	if errors.Is(gone, os.ErrNotExist) {
		return "", nil
	}
	if number, err := n.resolve(loop.BackingFile); err == nil {
		return number, nil
	} else if errors.Is(err, ErrNotBlock) {
		return "", nil
	}
	return "", fmt.Errorf("the backing device of %s (%s) cannot be determined, and may be this device: %w", loop.Name,
		loop.BackingFile, err)
}

// addUser records that a device is built on d.
func addUser(d *Device, name, kind string) {
	if slices.Contains(d.Holders, name) {
		return
	}
	d.Holders = append(d.Holders, name)
	d.Children = append(d.Children, Child{Name: name, Type: kind})
	slices.SortFunc(d.Holders, strings.Compare)
}
