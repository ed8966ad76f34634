// Package mapped finds and removes the device-mapper devices that LVM made for a volume group.
package mapped

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// dmsetup is the path of the host's dmsetup.
const dmsetup = "/usr/sbin/dmsetup"

// timeout is the time limit of a removal.
const timeout = 2 * time.Minute

// Devices are the mapped devices of a node. Sysfs is the mount point of sysfs.
type Devices struct {
	Runner host.Runner
	Sysfs  string
}

// Mapped returns the names of the device-mapper devices that LVM made for a volume group, from the kernel, in an order
// in which they can be removed: a device comes before those that it is built on. They remain after all physical volumes
// of the volume group were detached.
func (d *Devices) Mapped(vgUUID string) ([]string, error) {
	// LVM's UUID of a device is "LVM-", the UUIDs of group and volume without hyphens, and a suffix (LVM's
	// lib/activate/dev_manager.c). The kernel numbers devices as they are made.
	prefix := "LVM-" + strings.ReplaceAll(vgUUID, "-", "")
	entries, err := os.ReadDir(filepath.Join(d.Sysfs, "class/block"))
	if err != nil {
		return nil, fmt.Errorf("list mapped devices: %w", err)
	}
	names := map[int]string{}
	for _, e := range entries {
		number, isMapped := strings.CutPrefix(e.Name(), "dm-")
		if !isMapped || vgUUID == "" {
			continue
		}
		uuid, err := os.ReadFile(filepath.Join(d.Sysfs, "class/block", e.Name(), "dm/uuid"))
		name, nameErr := os.ReadFile(filepath.Join(d.Sysfs, "class/block", e.Name(), "dm/name"))
		at, numberErr := strconv.Atoi(number)
		err = errors.Join(err, nameErr, numberErr)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed
		}
		if err != nil {
			return nil, fmt.Errorf("read mapped device %s: %w", e.Name(), err)
		}
		if strings.HasPrefix(string(uuid), prefix) {
			names[at] = strings.TrimSpace(string(name))
		}
	}
	var list []string
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(names))) {
		list = append(list, names[at])
	}
	return list, nil
}

// Unmap removes mapped devices by name. It changes no data. A device that is open or that another device is built on
// stays, and Unmap returns an error after it has tried all.
func (d *Devices) Unmap(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := d.Runner.Run(ctx, dmsetup, append([]string{"remove", "--retry"}, names...)...); err != nil {
		return fmt.Errorf("remove the mapped devices %s, which are left of a volume group without devices; if one is "+
			"in use, delete the Pods that use it: %w", strings.Join(names, ", "), err)
	}
	return nil
}
