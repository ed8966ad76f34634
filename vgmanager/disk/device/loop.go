package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

// loopBacking returns what is behind a loop device. A loop device that does not respond delays the caller by at most 15
// s,
// and returns a *bounded.NoAnswerError.
func (n *Node) loopBacking(path string) (stack.Backing, error) {
	type answer struct {
		backing stack.Backing
		err     error
	}
	got, err := bounded.Do(context.Background(), n.labels, "loop "+path, func(context.Context) answer {
		backing, err := stack.LoopBacking(path)
		return answer{backing, err}
	})
	if err != nil {
		return stack.Backing{}, err
	}
	return got.backing, got.err
}

// addLoops adds loop devices to their backing devices. The kernel does not list a loop device as a holder, and a loop
// device does not open a disk exclusively, so a disk in use would otherwise look free. If the backing device of a
// loop device cannot be determined, it can be any device: addLoops then adds a problem to each device.
func (k *kernel) addLoops(devices []Device) {
	for i := range devices {
		loop := &devices[i]
		if loop.Type != "loop" {
			continue
		}
		number, err := k.behind(loop)
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
func (k *kernel) behind(loop *Device) (Number, error) {
	status, err := k.loop(loop.KernelName)
	if err == nil {
		return Number(status.Device), nil
	}
	_, gone := os.Stat(filepath.Join(k.sysfs, "block", filepath.Base(loop.KernelName), "loop", "backing_file"))
	if errors.Is(gone, os.ErrNotExist) {
		return "", nil
	}
	if number, err := k.resolve(loop.BackingFile); err == nil {
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
