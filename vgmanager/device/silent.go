package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/stack"
)

// UseGroups sets the function that returns the names of the volume groups of device classes. What is built on their
// logical volumes belongs to whoever uses these.
func (n *Node) UseGroups(groups func() []string) { n.groups = groups }

// ForLVM returns the devices that LVM may read, and those that it must not read: what is built on volumes of device
// classes, and the loop devices of the kubelet. A user of a volume can write anything to it, such as a volume group
// with the name or the UUID of another one. Both are by number: the first with the paths of the device's own names, the
// others with all paths. Logical volumes are in neither, because LVM does not read them (devices/scan_lvs in
// lvm.conf(5)), and loop devices that are not set up neither. ForLVM starts no process.
func (n *Node) ForLVM() (readable, guests map[string][]string, err error) {
	blocks, err := n.blocks()
	if err != nil {
		return nil, nil, err
	}
	readable, guests = map[string][]string{}, map[string][]string{}
	for _, g := range blocks.Guests(n.groups()) {
		if g.IsVolume() {
			continue
		}
		d := Device{Number: Number(g.Number)}
		n.addRecord(&d)
		guests[g.Number] = pathsOf(g.Path(), g.KernelPath(), d.Links)
	}
	for number, b := range blocks {
		if _, guest := guests[number]; !guest && !b.IsVolume() && b.IsSetUp() {
			readable[number] = pathsOf(b.Path(), b.KernelPath(), nil)
		}
	}
	return readable, guests, nil
}

func (n *Node) guests() ([]*stack.Block, error) {
	blocks, err := n.blocks()
	if err != nil {
		return nil, err
	}
	return blocks.Guests(n.groups()), nil
}

func (n *Node) blocks() (stack.Blocks, error) {
	// What is behind a loop device that does not respond is not known. Silent finds it.
	loop := func(path string) (stack.Backing, error) {
		behind, err := n.loop(path)
		if late := (*bounded.NoAnswerError)(nil); errors.As(err, &late) {
			err = stack.ErrDetached
		}
		return behind, err
	}
	reader := stack.Reader{Sysfs: n.sysfs, Loop: loop}
	return reader.Read()
}

// markGuests removes the content of guests from a list of devices.
func (n *Node) markGuests(devices []Device) error {
	guests, err := n.guests()
	if err != nil {
		return err
	}
	numbers := map[Number]bool{}
	for _, g := range guests {
		numbers[Number(g.Number)] = true
	}
	for i := range devices {
		if d := &devices[i]; numbers[d.Number] {
			d.Guest = true
			d.Signature, d.UUID, d.Label, d.Signatures = "", "", "", nil
			d.PartitionTable, d.PartitionType, d.PartitionLabel = "", "", ""
		}
	}
	return nil
}

func pathsOf(name, kernelName string, links []string) []string {
	paths := append([]string{name, kernelName}, links...)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Silent returns the devices that do not respond within 15 s, by number, each with all its paths. It skips logical
// volumes and guests, because LVM does not open them, and devices that udev knows as physical volumes. It starts no
// process. It does not start another read of a device while one is pending.
func (n *Node) Silent(ctx context.Context) (map[string][]string, error) {
	devices, err := n.askable()
	if err != nil {
		return nil, err
	}
	guests, err := n.guests()
	if err != nil {
		return nil, err
	}
	for _, g := range guests {
		delete(devices, Number(g.Number))
	}
	var beats []Beat
	for number, d := range devices {
		beats = append(beats, Beat{Number: number, Path: d.KernelName})
	}
	silent := map[string][]string{}
	for _, number := range n.pulse.Unanswered(ctx, beats) {
		d := devices[number]
		silent[string(number)] = pathsOf(d.Name, d.KernelName, d.Links)
	}
	return silent, nil
}

// askable returns the devices that LVM opens, from sysfs. It omits a device that is removed meanwhile.
func (n *Node) askable() (map[Number]Device, error) {
	dir := filepath.Join(n.sysfs, "class/block")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the block devices of the node: %w", err)
	}
	devices := map[Number]Device{}
	for _, e := range entries {
		note := func(name string) string {
			value, err := os.ReadFile(filepath.Join(dir, e.Name(), name))
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(value))
		}
		sectors, err := strconv.ParseInt(note("size"), 10, 64)
		if err != nil || sectors == 0 || strings.HasPrefix(e.Name(), "ram") ||
			strings.HasPrefix(note("dm/uuid"), "LVM-") {
			continue
		}
		// The kernel writes "!" instead of "/" in a name.
		d := Device{KernelName: "/dev/" + strings.ReplaceAll(e.Name(), "!", "/"), Number: Number(note("dev"))}
		if d.Name = d.KernelName; note("dm/name") != "" {
			d.Name = n.nameOf(e.Name())
		}
		n.addRecord(&d)
		if d.Number != "" && d.properties["ID_FS_TYPE"] != SignatureLVM {
			devices[d.Number] = d
		}
	}
	return devices, nil
}
