package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// maxLeftovers is the number of mapped devices that are removed for one command.
const maxLeftovers = 8

// nameTaken matches the message of a command that cannot map a new device, because its name is taken.
//
// device-mapper: create ioctl on vg1-a_rmeta_2 LVM-wS4z…m2j0O failed: Device or resource busy
var nameTaken = regexp.MustCompile(`create ioctl on (\S+) LVM-\w{64}\S* failed: Device or resource busy`)

// runOver runs a command. Before LVM commits new images of a RAID volume to the metadata of its group, it maps their
// devices. If it is killed in between, the devices stay, and block each later command that creates images with these
// names. runOver removes such leftovers, and runs the command again.
func runOver(ctx context.Context, l *LVM, c command, args []string) error {
	err := l.run(ctx, c, args)
	for range maxLeftovers {
		failure := (*host.Error)(nil)
		if !errors.As(err, &failure) {
			return err
		}
		taken := nameTaken.FindStringSubmatch(failure.Stderr)
		if taken == nil {
			return err
		}
		if kept := removeLeftover(ctx, l, c.VG, taken[1]); kept != nil {
			return errors.Join(err, kept)
		}
		err = l.run(ctx, c, args)
	}
	return err
}

// removeLeftover removes a mapped device of a volume group, which must not be open, and must be of a logical volume
// that the metadata of the group does not have.
func removeLeftover(ctx context.Context, l *LVM, vg, name string) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	device, err := readMapped(limited, l, name)
	if err != nil {
		return err
	}
	known, err := l.executor.execute(limited, "lvs", "--all", "--noheadings", "-o", "vg_uuid,lv_uuid", vg)
	if err != nil {
		return fmt.Errorf("list the logical volumes, to find the one of the mapped device %s: %w", name, err)
	}
	if why := whyKept(device, string(known)); why != "" {
		return fmt.Errorf("the mapped device %s blocks the command, and is not removed: %s", name, why)
	}
	remove := kernelCommand(vg, "remove", "--retry", name)
	if err := l.run(ctx, remove, remove.Args); err != nil {
		return fmt.Errorf("remove the mapped device %s, which an LVM command that was killed has left: %w", name, err)
	}
	return nil
}

// readMapped returns the UUID of a mapped device and the number of its users, separated by a space.
func readMapped(ctx context.Context, l *LVM, name string) (string, error) {
	out, err := l.runner.Run(ctx, dmsetup, "info", "--columns", "--noheadings", "--separator", " ", "-o", "uuid,open",
		name)
	if err != nil {
		return "", fmt.Errorf("read the mapped device %s, which blocks the command: %w", name, err)
	}
	return string(out), nil
}

// componentInUse matches the message about the metadata and the data volume of a thin pool whose own mapped device
// remains.
var componentInUse = regexp.MustCompile(`(?m)^\s*Device (\S+)_t(?:meta|data) \(\d+:\d+\) is used by another device`)

// poolsInUse returns the names of the mapped devices of thin pools that a message says remain, at most maxLeftovers.
func poolsInUse(message string) []string {
	var names []string
	for _, found := range componentInUse.FindAllStringSubmatch(message, 2*maxLeftovers) {
		names = append(names, found[1]+devicemapper.PoolSuffix)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// removePoolDevice removes the mapped device of a thin pool itself, which must not be open. Its UUID must have the
// prefix.
func removePoolDevice(ctx context.Context, l *LVM, vg, name, prefix string) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	device, err := readMapped(limited, l, name)
	if err != nil {
		return err
	}
	fields := strings.Fields(device)
	if len(fields) != 2 || !strings.HasPrefix(fields[0], prefix) ||
		!strings.HasSuffix(fields[0], devicemapper.PoolSuffix) || fields[1] != "0" {
		return fmt.Errorf("the mapped device %s blocks the command, and is not removed: dmsetup printed %q", name,
			device)
	}
	return l.apply(ctx, "remove the mapped device "+name+", which a deactivation that was killed has left",
		kernelCommand(vg, "remove", "--retry", name))
}

// metadataHeader matches what pvck prints about the committed metadata in the header of a metadata area: its offset,
// which is 0 if there is none, and its flags, which are 0 if LVM uses the area (tools/pvck.c, dump_raw_locn).
var metadataHeader = regexp.MustCompile(`(?m)^\s*mda_header_\d+\.raw_locn\[0\]\.(?:offset|flags) (\S+)`)

// removeUnfinished removes the label of a physical volume that has no metadata, although a volume group uses it: LVM
// writes the label before the metadata.
func removeUnfinished(ctx context.Context, l *LVM, c lvm.PVRemove, main command) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := l.executor.execute(limited, "pvck", "--dump", "headers", c.Device)
	if err != nil {
		return fmt.Errorf("%s: read its metadata areas: %w", c, err)
	}
	values := metadataHeader.FindAllStringSubmatch(string(out), -1)
	isUsed := func(value []string) bool { n, err := strconv.ParseUint(value[1], 0, 64); return err != nil || n != 0 }
	if len(values) < 2 || slices.ContainsFunc(values, isUsed) {
		return fmt.Errorf("%s: it can have metadata of a volume group: %w", c, lvm.ErrNotEmpty)
	}
	return l.apply(ctx, c.String(), main)
}

// whyKept returns why a mapped device is not a leftover of its volume group, or "". device is its UUID and its number
// of users. known has the UUIDs of the group and of all its logical volumes, one volume a line. LVM's UUID of a device
// is "LVM-", the UUIDs of group and volume without hyphens, and a suffix (lib/activate/dev_manager.c, build_dm_uuid).
func whyKept(device, known string) string {
	fields := strings.Fields(device)
	ids := strings.Fields(strings.ReplaceAll(known, "-", ""))
	switch {
	case len(fields) != 2 || len(ids) < 2 || len(ids)%2 != 0:
		return fmt.Sprintf("dmsetup printed %q, and lvs %q", device, known)
	case fields[1] != "0":
		return "it is open"
	}
	uuid, isLVM := strings.CutPrefix(fields[0], "LVM-"+ids[0])
	switch {
	case !isLVM:
		return "it is of another volume group or program"
	case slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(uuid, id) }):
		return "it is of a logical volume that the volume group has"
	}
	return ""
}
