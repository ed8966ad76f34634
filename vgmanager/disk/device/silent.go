package device

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
)

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
	var beats []direct.Beat
	for number, d := range devices {
		beats = append(beats, direct.Beat{Number: number, Path: d.KernelName})
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
