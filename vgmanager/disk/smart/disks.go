package smart

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Disk is a whole disk to read.
type Disk struct {
	// Path is the path of the device file. ID is the identity in the node's list of devices, or empty.
	Path, ID string
}

// disks returns the disks of the devices that the product uses or may use, including the disk of a partition and the
// disks of a mapping. It ignores other disks of the node, for example the one of the operating system.
func disks(status *v1alpha1.LVMVolumeGroupNodeStatusStatus, sysfs string) ([]Disk, error) {
	devices := status.Devices
	ours := map[string]bool{}
	for i := range status.NodeStatus {
		ours[status.NodeStatus[i].Group()] = true
	}
	ids := map[string]string{}
	for i := range devices {
		if d := &devices[i]; d.State != v1alpha1.DeviceMissing {
			ids[kernelPath(d)] = d.ID
		}
	}
	found := map[string]bool{}
	var errs []error
	for i := range devices {
		d := &devices[i]
		used := (d.State == v1alpha1.DeviceInUse || d.State == v1alpha1.DeviceFailing) && ours[d.VolumeGroup]
		if !used && d.State != v1alpha1.DeviceAvailable {
			continue
		}
		if err := below(sysfs, filepath.Base(kernelPath(d)), found); err != nil {
			errs = append(errs, fmt.Errorf("list the disks below %s: %w", d.Name, err))
		}
	}
	var list []Disk
	for name := range found {
		path := "/dev/" + name
		list = append(list, Disk{Path: path, ID: ids[path]})
	}
	slices.SortFunc(list, func(a, b Disk) int { return cmp.Compare(a.Path, b.Path) })
	return list, errors.Join(errs...)
}

func kernelPath(d *v1alpha1.DeviceStatus) string { return cmp.Or(d.KernelName, d.Name) }

// below adds the disks that a block device is built on, or the device itself. It adds nothing for a removed device.
func below(sysfs, name string, found map[string]bool) error {
	dir := filepath.Join(sysfs, "class/block", name)
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(real, "partition")); err == nil {
		return below(sysfs, filepath.Base(filepath.Dir(real)), found)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slaves, err := os.ReadDir(filepath.Join(real, "slaves"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, slave := range slaves {
		if err := below(sysfs, slave.Name(), found); err != nil {
			return err
		}
	}
	// A device without hardware (a loop device, a mapping without devices) does not have this link.
	if _, err := os.Stat(filepath.Join(real, "device")); err == nil && len(slaves) == 0 {
		found[name] = true
	}
	return nil
}
