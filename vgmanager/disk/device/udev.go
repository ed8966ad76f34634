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

// udevRecord is udev's record of a device, a file in /run/udev/data (systemd,
// src/libsystemd/sd-device/device-private.c).
type udevRecord struct {
	// links are relative to /dev.
	links      []string
	properties map[string]string
	// initialized is the time when udev first saw the device, on CLOCK_MONOTONIC.
	initialized      time.Duration
	initializedKnown bool
}

// maxRecord is the maximum size of a record in bytes.
const maxRecord = 1 << 20

// decodeRecord decodes a record. It ignores lines of unknown kinds, because new versions of udev add them.
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
				return r, fmt.Errorf("invalid time %q", value)
			}
			r.initialized = time.Duration(microseconds) * time.Microsecond
			r.initializedKnown = true
		}
	}
	return r, lines.Err()
}

// complete adds what lsblk does not report. Data that cannot be read is a problem of this device only.
func (k *kernel) complete(d *Device, mounts map[Number][]string) {
	k.addBackingFile(d)
	k.addRecord(d)
	k.addMappingUUID(d)
	k.addHolders(d)
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

func (k *kernel) addRecord(d *Device) {
	data, err := os.ReadFile(filepath.Join(k.udev, "b"+string(d.Number)))
	if errors.Is(err, fs.ErrNotExist) {
		// udev has not processed the device yet, or does not run.
		return
	}
	r := udevRecord{}
	if err == nil {
		r, err = decodeRecord(data)
	}
	if err != nil {
		d.Problems = append(d.Problems, fmt.Sprintf("read its udev record: %v", err))
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
	if now, err := k.uptime(); err == nil && r.initializedKnown && now >= r.initialized {
		d.Appeared = now - r.initialized
		d.AppearedKnown = true
	}
	if d.Serial == "" {
		d.Serial = r.properties["ID_SERIAL_SHORT"]
	}
}

// addMappingUUID reads the UUID of a mapping from the kernel if udev does not report it: a host without LVM does not
// have the udev rules of device-mapper.
func (k *kernel) addMappingUUID(d *Device) {
	if d.properties["DM_UUID"] != "" {
		return
	}
	data, err := os.ReadFile(filepath.Join(k.sysfs, "class/block", filepath.Base(d.KernelName), "dm/uuid"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.Problems = append(d.Problems, fmt.Sprintf("read the UUID of the mapping: %v", err))
		return
	}
	if uuid := strings.TrimSpace(string(data)); uuid != "" {
		if d.properties == nil {
			d.properties = map[string]string{}
		}
		d.properties["DM_UUID"] = uuid
	}
}

// addHolders reads the holders of the device from sysfs, because lsblk omits holders that it does not recognize.
func (k *kernel) addHolders(d *Device) {
	entries, err := os.ReadDir(filepath.Join(k.sysfs, "class/block", filepath.Base(d.KernelName), "holders"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.Problems = append(d.Problems, fmt.Sprintf("read its holders: %v", err))
		return
	}
	for _, e := range entries {
		known := slices.ContainsFunc(d.Children, func(c Child) bool { return filepath.Base(c.Name) == e.Name() })
		if name := k.nameOf(e.Name()); !known && !slices.Contains(d.Holders, name) {
			d.Holders = append(d.Holders, name)
			d.Children = append(d.Children, Child{Name: name, Type: k.kindOf(e.Name())})
		}
	}
	slices.Sort(d.Holders)
}

// Below returns the numbers of the devices that a device is currently built on, from the kernel. It omits devices
// that were removed.
func (k *kernel) Below(number Number) ([]Number, error) {
	dir := filepath.Join(k.sysfs, "dev/block", string(number), "slaves")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the devices below %s: %w", number, err)
	}
	var list []Number
	for _, e := range entries {
		below, err := os.ReadFile(filepath.Join(dir, e.Name(), "dev"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the devices below %s: %w", number, err)
		}
		list = append(list, Number(strings.TrimSpace(string(below))))
	}
	return list, nil
}

// nameOf returns the usual path for a kernel name.
func (k *kernel) nameOf(kernel string) string {
	if name, err := os.ReadFile(filepath.Join(k.sysfs, "class/block", kernel, "dm/name")); err == nil {
		return "/dev/mapper/" + strings.TrimSpace(string(name))
	}
	return "/dev/" + kernel
}

// kindOf returns lsblk's type of a mapping, for the types that the product distinguishes.
func (k *kernel) kindOf(kernel string) string {
	uuid, err := os.ReadFile(filepath.Join(k.sysfs, "class/block", kernel, "dm/uuid"))
	if err == nil && strings.HasPrefix(string(uuid), "mpath-") {
		return "mpath"
	}
	return "holder"
}

// transport returns the transport from the kernel name or udev, for devices for which lsblk reports none.
func transport(d *Device) string {
	name := filepath.Base(d.KernelName)
	for prefix, transport := range map[string]string{"vd": "virtio", "nvme": "nvme", "mmcblk": "mmc"} {
		if strings.HasPrefix(name, prefix) {
			return transport
		}
	}
	return d.properties["ID_BUS"]
}

// mountsByNumber reads the mounts of PID 1 of the node. lsblk only shows those of its own mount namespace.
func (k *kernel) mountsByNumber() (map[Number][]string, error) {
	data, err := os.ReadFile(k.mounts)
	if err != nil {
		return nil, fmt.Errorf("read the mounts of the node: %w", err)
	}
	return decodeMounts(data)
}

// decodeMounts decodes mountinfo (proc_pid_mountinfo(5)).
func decodeMounts(data []byte) (map[Number][]string, error) {
	mounts := map[Number][]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxRecord)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 7 || !strings.Contains(fields[2], ":") {
			return nil, fmt.Errorf("read the mounts of the node: %q is not a line of mountinfo", lines.Text())
		}
		number := Number(fields[2])
		point := unescape(fields[4])
		if !slices.Contains(mounts[number], point) {
			mounts[number] = append(mounts[number], point)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the mounts of the node: %w", err)
	}
	return mounts, nil
}

// unescape replaces octal escapes such as \040.
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

// uptime returns CLOCK_MONOTONIC, which is the same in a container and on its node.
func uptime() (time.Duration, error) {
	now := unix.Timespec{}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	return time.Duration(now.Nano()), nil
}

// osMounts are the mount points of the operating system.
var osMounts = []string{"/", "/boot", "/boot/efi", "/efi", "/sysroot", "/usr", "/var", "/etc"}

// markOSDisks marks the devices of the operating system, and all devices that they are built on.
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
