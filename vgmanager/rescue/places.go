package rescue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// places finds out which disks a device or a file is on, from sysfs.
type places struct{ sysfs string }

// mostDevices limits the devices below a device.
const mostDevices = 4096

// number returns the number of a block device, or that of the device of the file system that has a file or folder.
func number(path string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	device := stat.Dev
	if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		device = stat.Rdev
	}
	return fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device)), nil
}

// disks returns a device and all devices below it: those that a mapped device or an array is made of, and the disks of
// partitions. A file system without a block device has none.
func (p places) disks(number string) ([]string, error) {
	found := []string{}
	for next := []string{number}; len(next) > 0; next = next[1:] {
		device := next[0]
		if slices.Contains(found, device) {
			continue
		}
		if len(found) >= mostDevices {
			return nil, fmt.Errorf("device %s: more than %d devices are below it", number, mostDevices)
		}
		below, err := p.below(device)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a file system without a block device, or one of which the kernel tells no device
		}
		if err != nil {
			return nil, fmt.Errorf("find the disks of device %s: %w", number, err)
		}
		found = append(found, device)
		next = append(next, below...)
	}
	return found, nil
}

// below returns the devices directly below a device.
func (p places) below(number string) ([]string, error) {
	folder := p.folder(number)
	if _, err := os.Stat(folder); err != nil {
		return nil, err
	}
	var files []string
	if _, err := os.Stat(filepath.Join(folder, "partition")); err == nil {
		real, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return nil, err
		}
		files = append(files, filepath.Join(filepath.Dir(real), "dev"))
	}
	slaves, err := os.ReadDir(filepath.Join(folder, "slaves"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, slave := range slaves {
		files = append(files, filepath.Join(folder, "slaves", slave.Name(), "dev"))
	}
	var numbers []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, strings.TrimSpace(string(content)))
	}
	return numbers, nil
}

func (p places) folder(number string) string { return filepath.Join(p.sysfs, "dev/block", number) }

// apart returns an error if what is at two paths shares a device. what names the second path.
func (p places) apart(source, what, path string) error {
	var devices [2][]string
	for i, at := range []string{source, path} {
		own, err := number(at)
		if err != nil {
			return err
		}
		if devices[i], err = p.disks(own); err != nil {
			return err
		}
	}
	for _, device := range devices[1] {
		if slices.Contains(devices[0], device) {
			return fmt.Errorf("the %s %s is on the same device as the source %s (%s): name one on another disk",
				what, path, source, p.name(device))
		}
	}
	return nil
}

// name returns the kernel's name of a device.
func (p places) name(number string) string {
	real, err := filepath.EvalSymlinks(p.folder(number))
	if err != nil {
		return number
	}
	return filepath.Base(real)
}

// identities are the files of sysfs that identify a device after a restart of the node.
var identities = []string{"dm/uuid", "wwid", "device/wwid", "device/serial", "serial", "loop/backing_file"}

// identity returns what identifies a block device after a restart of the node, or "".
func (p places) identity(path string) (string, error) {
	own, err := number(path)
	if err != nil {
		return "", err
	}
	for _, file := range identities {
		content, err := os.ReadFile(filepath.Join(p.folder(own), file))
		if text := strings.TrimSpace(string(content)); err == nil && text != "" {
			return text, nil
		}
	}
	return "", nil
}
