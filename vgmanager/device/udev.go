package device

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// udevRecord is what udev noted about a device: a file of /run/udev/data (systemd,
// src/libsystemd/sd-device/device-private.c).
type udevRecord struct {
	// links are below /dev, without it.
	links      []string
	properties map[string]string
	// initialized is when udev first saw the device, on CLOCK_MONOTONIC.
	initialized      time.Duration
	initializedKnown bool
}

// maxRecord is the most that is read of a record, in bytes.
const maxRecord = 1 << 20

// decodeRecord reads a record. Lines of a kind that is not known are left out: udev adds such.
func decodeRecord(data []byte) (udevRecord, error) {
	r := udevRecord{properties: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxRecord)
	for lines.Scan() {
		kind, value, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		switch kind {
		case "S":
			r.links = append(r.links, value)
		case "E":
			if name, property, ok := strings.Cut(value, "="); ok {
				r.properties[name] = property
			}
		case "I":
			microseconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil || microseconds < 0 || microseconds > int64(1<<62/time.Microsecond) {
				return r, fmt.Errorf("udev's record has the time %q", value)
			}
			r.initialized = time.Duration(microseconds) * time.Microsecond
			r.initializedKnown = true
		}
	}
	return r, lines.Err()
}

// complete adds what lsblk does not tell. What cannot be read is a problem of this device alone.
func (n *Node) complete(d *Device, mounts map[Number][]string) {
	n.addBackingFile(d)
	n.addRecord(d)
	n.addHolders(d)
	for _, m := range mounts[d.Number] {
		if !slices.Contains(d.Mountpoints, m) {
			d.Mountpoints = append(d.Mountpoints, m)
		}
	}
	slices.Sort(d.Mountpoints)
	if d.Transport == "" {
		d.Transport = transport(d)
	}
}

func (n *Node) addRecord(d *Device) {
	data, err := os.ReadFile(filepath.Join(n.udev, "b"+string(d.Number)))
	if errors.Is(err, fs.ErrNotExist) {
		// udev has not come to it yet, or does not run.
		return
	}
	r := udevRecord{}
	if err == nil {
		r, err = decodeRecord(data)
	}
	if err != nil {
		d.Problems = append(d.Problems, fmt.Sprintf("udev's record: %v", err))
		return
	}
	d.properties = r.properties
	for _, l := range r.links {
		d.Links = append(d.Links, "/dev/"+l)
		switch {
		case strings.HasPrefix(l, "disk/by-id/"):
			d.ByID = append(d.ByID, "/dev/"+l)
		case strings.HasPrefix(l, "disk/by-path/"):
			d.ByPath = append(d.ByPath, "/dev/"+l)
		}
	}
	slices.Sort(d.Links)
	slices.Sort(d.ByID)
	slices.Sort(d.ByPath)
	if now, err := n.uptime(); err == nil && r.initializedKnown && now >= r.initialized {
		d.Appeared = now - r.initialized
		d.AppearedKnown = true
	}
	if d.Serial == "" {
		d.Serial = r.properties["ID_SERIAL_SHORT"]
	}
}

// addHolders reads who holds the device from the kernel itself: lsblk leaves out what it does not understand.
func (n *Node) addHolders(d *Device) {
	entries, err := os.ReadDir(filepath.Join(n.sysfs, "class/block", filepath.Base(d.KernelName), "holders"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.Problems = append(d.Problems, fmt.Sprintf("its holders: %v", err))
		return
	}
	for _, e := range entries {
		known := slices.ContainsFunc(d.Children, func(c Child) bool { return filepath.Base(c.Name) == e.Name() })
		if name := n.nameOf(e.Name()); !known && !slices.Contains(d.Holders, name) {
			d.Holders = append(d.Holders, name)
			d.Children = append(d.Children, Child{Name: name, Type: n.kindOf(e.Name())})
		}
	}
	slices.Sort(d.Holders)
}

// Below returns the numbers of the devices that a device is made of, as the kernel has them mapped now. One that was
// pulled is not among them.
func (n *Node) Below(number Number) ([]Number, error) {
	dir := filepath.Join(n.sysfs, "dev/block", string(number), "slaves")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("devices below %s: %w", number, err)
	}
	var list []Number
	for _, e := range entries {
		below, err := os.ReadFile(filepath.Join(dir, e.Name(), "dev"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("devices below %s: %w", number, err)
		}
		list = append(list, Number(strings.TrimSpace(string(below))))
	}
	return list, nil
}

// nameOf returns the path that people use for a kernel name.
func (n *Node) nameOf(kernel string) string {
	if name, err := os.ReadFile(filepath.Join(n.sysfs, "class/block", kernel, "dm/name")); err == nil {
		return "/dev/mapper/" + strings.TrimSpace(string(name))
	}
	return "/dev/" + kernel
}

// kindOf returns lsblk's word for a mapping, where something depends on it.
func (n *Node) kindOf(kernel string) string {
	uuid, err := os.ReadFile(filepath.Join(n.sysfs, "class/block", kernel, "dm/uuid"))
	if err == nil && strings.HasPrefix(string(uuid), "mpath-") {
		return "mpath"
	}
	return "holder"
}

// transport is what the kernel name or udev tells where lsblk does not.
func transport(d *Device) string {
	name := filepath.Base(d.KernelName)
	for prefix, transport := range map[string]string{"vd": "virtio", "nvme": "nvme", "mmcblk": "mmc"} {
		if strings.HasPrefix(name, prefix) {
			return transport
		}
	}
	return d.properties["ID_BUS"]
}

// mountsByNumber reads the mounts of the node's first process. lsblk shows those of the mount namespace it runs in.
func (n *Node) mountsByNumber() (map[Number][]string, error) {
	data, err := os.ReadFile(n.mounts)
	if err != nil {
		return nil, fmt.Errorf("mounts of the node: %w", err)
	}
	return decodeMounts(data)
}

// decodeMounts reads mountinfo (proc_pid_mountinfo(5)).
func decodeMounts(data []byte) (map[Number][]string, error) {
	mounts := map[Number][]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxRecord)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 7 || !strings.Contains(fields[2], ":") {
			return nil, fmt.Errorf("mounts of the node: %q is not a line of mountinfo", lines.Text())
		}
		number := Number(fields[2])
		point := unescape(fields[4])
		if !slices.Contains(mounts[number], point) {
			mounts[number] = append(mounts[number], point)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("mounts of the node: %w", err)
	}
	return mounts, nil
}

// unescape replaces \040 and the like.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// uptime is CLOCK_MONOTONIC, which is the same in a container and on its node.
func uptime() (time.Duration, error) {
	now := unix.Timespec{}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	return time.Duration(now.Nano()), nil
}

// osMounts are where a machine that runs has its system.
var osMounts = []string{"/", "/boot", "/boot/efi", "/efi", "/sysroot", "/usr", "/var", "/etc"}

// markOSDisks marks what the machine runs from, and all that this is made of.
func markOSDisks(devices []Device) {
	byName := map[string]int{}
	for i := range devices {
		byName[devices[i].Name] = i
	}
	seen := map[int]bool{}
	var needed func(i int) bool
	needed = func(i int) bool {
		if seen[i] {
			return devices[i].OSDisk
		}
		seen[i] = true
		d := &devices[i]
		d.OSDisk = slices.ContainsFunc(d.Mountpoints,
			func(m string) bool { return slices.Contains(osMounts, m) || m == "[SWAP]" })
		for _, c := range d.Children {
			if child, ok := byName[c.Name]; ok && needed(child) {
				d.OSDisk = true
			}
		}
		return d.OSDisk
	}
	for i := range devices {
		needed(i)
	}
}
