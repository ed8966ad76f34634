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

// backing is what the kernel says is behind a loop device (loop(4), LOOP_GET_STATUS64).
type backing struct {
	// Device is the block device behind it; empty for a file of a file system.
	Device Number
}

// loopStatus asks the kernel what is behind a loop device. The path that sysfs shows is that of the mount namespace in
// which the loop device was set up, as kubelet's is for local block volumes, and may lead nowhere in this one.
// errDetached: nothing is behind it.
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

// errDetached: the loop device went away, or nothing is behind it.
var errDetached = errors.New("is not a loop device that is set up")

// addLoops adds loop devices to the devices that are behind them. The kernel does not note them as holders, nor does a
// loop device open a disk exclusively: without this a disk in use would look like one that is free. What is behind a
// loop device and cannot be found out may be any device: that is a problem of each.
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

// behind returns the block device behind a loop device; "" if it is a file, or if the loop device went away meanwhile.
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
	return "", fmt.Errorf("what is behind %s (%s) cannot be found out, and may be this device: %w", loop.Name,
		loop.BackingFile, err)
}

// addUser notes a device that is made of another one.
func addUser(d *Device, name, kind string) {
	if slices.Contains(d.Holders, name) {
		return
	}
	d.Holders = append(d.Holders, name)
	d.Children = append(d.Children, Child{Name: name, Type: kind})
	slices.SortFunc(d.Holders, strings.Compare)
}
