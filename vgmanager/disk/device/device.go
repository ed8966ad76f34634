// Package device lists the block devices of the node and explains why a device cannot be given to LVM.
//
// Only Wipe writes to a device.
package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/mapped"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

// Programs of the node (util-linux 2.37 or later, as in RHEL 9 and Debian 12).
const (
	lsblk  = "/usr/bin/lsblk"
	wipefs = "/usr/sbin/wipefs"
)

const (
	// timeout is the time limit of a read. A disk that does not respond can block lsblk and wipefs for as long as its
	// driver retries.
	timeout = 30 * time.Second
	// maxUnanswered is the maximum number of devices with a pending read. Each one blocks a thread or a process.
	maxUnanswered = 32
	// wipeTimeout is the time limit of a wipe after the device was checked.
	wipeTimeout = 2 * time.Minute
)

// Device is a block device of the node.
type Device struct {
	// Name is the usual path: /dev/sdb, /dev/mapper/mpatha.
	Name string
	// KernelName is the path with the kernel's name: /dev/sdb, /dev/dm-3.
	KernelName string
	// Number is the device number. It identifies the device while the device is attached.
	Number Number
	// Type is lsblk's type: disk, part, lvm, crypt, mpath, raid1, loop, rom, and so on. It is lvm for the mapped device
	// of an encrypted volume that is open, which has the data of a logical volume.
	Type string
	// Size is the size in bytes, and SectorSize that of a logical sector. SectorSize is 0 if it is not known.
	Size       int64
	SectorSize int64
	ReadOnly   bool
	Removable  bool
	Rotational bool
	// State is the state of a device-mapper or SCSI device: running, suspended, and so on.
	State                      string
	Model, Vendor, Serial, WWN string
	Signature, UUID, Label     string // from udev's database
	PartitionTable             string // gpt, dos, and so on; of the disk itself
	PartitionType              string
	PartitionLabel             string
	BackingFile                string   // of a loop device
	Mountpoints                []string // of the device itself; "[SWAP]" for swap space in use
	Children                   []Child  // devices built on this one

	// ByID and ByPath are the links under /dev/disk/by-id and by-path. Links are all links. They come from udev and
	// are sorted.
	ByID, ByPath, Links []string
	// Transport is sata, sas, nvme, virtio, usb, scsi, fc, iscsi or mmc. It is empty if it is not known.
	Transport string
	// Parent is the kernel name of the disk that contains a partition.
	Parent string
	// Partitions and Holders are the sorted names of the devices built on this one. Partitions has the partitions,
	// and Holders all others.
	Partitions, Holders []string
	// Signatures are the signatures that udev found on the device, including a partition table.
	Signatures []Signature
	// Appeared is the time since udev first saw the device, if AppearedKnown. It restarts when the device is
	// reattached.
	Appeared      time.Duration
	AppearedKnown bool
	// Guest: the device is built on a volume, so its content belongs to whoever uses the volume, and no field of the
	// device has it (stack.Blocks.Guests).
	Guest bool
	// OSDisk: the operating system of the node is on the device, or on something built on it.
	OSDisk bool
	// Labels are those that an administrator gave the device.
	Labels map[string]string
	// Problems describe what could not be determined about the device.
	Problems []string

	// properties are the properties in udev's database.
	properties map[string]string
}

// Signature is a mark that shows that a device is in use, in libblkid's terms.
type Signature struct {
	Type, UUID, Label string
}

// SignatureLVM is libblkid's type of a physical volume.
const SignatureLVM = "LVM2_member"

// Names returns the names of devices.
func Names(devices []Device) []string {
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names
}

// Child is a device built on another one: a partition, a mapping, an array.
type Child struct {
	Name, Type string
}

// Number is a device number in the form MAJOR:MINOR.
type Number = direct.Number

// NewNumber returns the Number for a major and a minor number.
func NewNumber(major, minor uint32) Number { return direct.NewNumber(major, minor) }

// kernel reads sysfs, udev's database and the mounts of the node.
type kernel struct {
	// sysfs, udev and mounts are paths on the node: /sys, /run/udev/data, and the mounts of PID 1.
	sysfs, udev, mounts string
	// uptime is the clock of udev's timestamps.
	uptime func() (time.Duration, error)
	// resolve returns the device that a path leads to.
	resolve func(path string) (Number, error)
	// loop returns what is behind a loop device.
	loop func(path string) (stack.Backing, error)
}

// Node reads the block devices of the node. It is safe for concurrent use.
type Node struct {
	kernel
	*mapped.Devices
	runner host.Runner
	now    func() time.Time
	// groups returns the names of the volume groups of device classes.
	groups func() []string

	// reads and labels are calls for single devices, lists for all devices, wipes and flushes write. Any of them may
	// never return.
	reads, labels, lists, wipes, flushes *bounded.Calls
	// pulse checks the devices that LVM opens.
	pulse *direct.Pulse
	// examine is the function examine. Tests replace it.
	examine func(Device) []Reason

	mu       sync.Mutex
	recent   []Device
	recentAt time.Time
}

// New returns a Node that runs programs with runner. The process itself must have access to the node's /dev, /sys,
// /run/udev and process table.
func New(runner host.Runner) *Node {
	n := &Node{
		kernel: kernel{sysfs: "/sys", udev: "/run/udev/data", mounts: "/proc/1/mountinfo", uptime: uptime,
			resolve: resolve},
		Devices: &mapped.Devices{Runner: runner, Sysfs: "/sys"},
		runner:  runner, now: time.Now,
		groups:  func() []string { return nil },
		examine: readable, pulse: direct.NewPulse(),
		reads: bounded.New(timeout, maxUnanswered), labels: bounded.New(direct.Limit, maxUnanswered),
		lists: bounded.New(timeout, 1),
		wipes: bounded.New(wipeTimeout, maxUnanswered), flushes: bounded.New(flushTimeout, maxUnanswered),
	}
	n.loop = n.loopBacking
	return n
}

// ReadPhysicalVolumes reads the labels and the metadata of a volume group from its devices, past all caches, and
// without a process. See direct.PhysicalVolumes.
func (n *Node) ReadPhysicalVolumes(ctx context.Context, devices []ondisk.Device) (ondisk.Group, error) {
	return (&direct.PhysicalVolumes{Pulse: n.pulse, Calls: n.labels}).Read(ctx, devices)
}

// List reads all devices and returns them sorted by name. The caller must not modify the list. lsblk omits devices of
// size 0 (empty drives, unused loop devices) and RAM disks.
func (n *Node) List(ctx context.Context) ([]Device, error) {
	return n.listOnce(ctx, func() []Device { return nil })
}

// Recent returns a list that is not older than maxAge. The caller must not modify the list.
func (n *Node) Recent(ctx context.Context, maxAge time.Duration) ([]Device, error) {
	kept := func() []Device { return n.kept(maxAge) }
	if devices := kept(); devices != nil {
		return devices, nil
	}
	return n.listOnce(ctx, kept)
}

func (n *Node) kept(maxAge time.Duration) []Device {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.recent != nil && n.now().Sub(n.recentAt) <= maxAge {
		return n.recent
	}
	return nil
}

// listing is the result of a list.
type listing struct {
	devices []Device
	err     error
}

// listOnce lists the devices after a running list has ended, or returns its result if kept accepts it.
func (n *Node) listOnce(ctx context.Context, kept func() []Device) ([]Device, error) {
	got, err := bounded.Do(ctx, n.lists, lsblk, func(ctx context.Context) listing {
		if devices := kept(); devices != nil {
			return listing{devices, nil}
		}
		devices, err := n.list(ctx)
		return listing{devices, err}
	})
	var late *bounded.NoAnswerError
	if errors.As(err, &late) {
		return nil,
			fmt.Errorf(
				"list the node's block devices: lsblk %w: a device does not answer, and udev has no record of it: "+
					"see the kernel's log, and on the node: ps -eo pid,etime,stat,wchan,args | grep -E 'lsblk|udev'",
				late)
	}
	if err != nil {
		return nil, fmt.Errorf("list the node's block devices: %w", err)
	}
	return got.devices, got.err
}

func (n *Node) list(ctx context.Context) ([]Device, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begun := n.now()
	out, err := n.runner.Run(ctx, lsblk, "--json", "--bytes", "--paths", "--output", strings.Join(columns, ","))
	if err != nil {
		return nil, fmt.Errorf("list the node's block devices: %w", err)
	}
	devices, err := decode(out)
	if err != nil {
		return nil, err
	}
	mounts, err := n.mountsByNumber()
	if err != nil {
		return nil, err
	}
	for i := range devices {
		n.complete(&devices[i], mounts)
	}
	n.addLoops(devices)
	markOSDisks(devices)
	if err := n.markGuests(devices); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recent = devices
	n.recentAt = begun
	return devices, nil
}

// addBackingFile sets the backing file of a loop device. It leaves the name empty if the loop device no longer
// exists.
func (k *kernel) addBackingFile(d *Device) {
	if d.Type != "loop" {
		return
	}
	file, err := os.ReadFile(filepath.Join(k.sysfs, "block", filepath.Base(d.KernelName), "loop", "backing_file"))
	if err == nil {
		d.BackingFile = strings.TrimSpace(string(file))
	}
}

var columns = []string{
	"NAME", "KNAME", "PATH", "TYPE", "SIZE", "RO", "RM", "ROTA", "MODEL", "VENDOR", "SERIAL", "WWN", "STATE",
	"FSTYPE", "UUID", "LABEL", "PTTYPE", "PTUUID", "PARTTYPE", "PARTLABEL", "MOUNTPOINTS", "PKNAME", "MAJ:MIN", "TRAN",
	"LOG-SEC",
}

// flag is a bool. lsblk up to 2.36 prints "1" and "0".
type flag bool

// UnmarshalJSON accepts true, false, "0" and "1".
func (f *flag) UnmarshalJSON(raw []byte) error {
	switch text := strings.Trim(string(raw), `"`); text {
	case "true", "1":
		*f = true
	case "false", "0", "null":
		*f = false
	default:
		return fmt.Errorf("%s is not a boolean", text)
	}
	return nil
}

type rawDevice struct {
	Name        string      `json:"name"`
	KernelName  string      `json:"kname"`
	Path        string      `json:"path"`
	Type        string      `json:"type"`
	Size        json.Number `json:"size"`
	ReadOnly    flag        `json:"ro"`
	Removable   flag        `json:"rm"`
	Rotational  flag        `json:"rota"`
	Model       string      `json:"model"`
	Vendor      string      `json:"vendor"`
	Serial      string      `json:"serial"`
	WWN         string      `json:"wwn"`
	State       string      `json:"state"`
	FSType      string      `json:"fstype"`
	UUID        string      `json:"uuid"`
	Label       string      `json:"label"`
	PTType      string      `json:"pttype"`
	PTUUID      string      `json:"ptuuid"`
	Parent      string      `json:"pkname"`
	Transport   string      `json:"tran"`
	PartType    string      `json:"parttype"`
	PartLabel   string      `json:"partlabel"`
	Mountpoints []string    `json:"mountpoints"`
	Number      string      `json:"maj:min"`
	SectorSize  json.Number `json:"log-sec"`
	Children    []rawDevice `json:"children"`
}

// decode converts lsblk's tree into a list without duplicates. lsblk prints a device built on several others (a thin
// pool, an array) below each of them.
func decode(out []byte) ([]Device, error) {
	tree := struct {
		Devices []rawDevice `json:"blockdevices"`
	}{}
	if err := json.Unmarshal(out, &tree); err != nil {
		return nil, fmt.Errorf("output of lsblk is not the expected JSON: %w", err)
	}
	if tree.Devices == nil {
		return nil, errors.New(`output of lsblk has no "blockdevices"`)
	}
	byNumber := map[Number]Device{}
	if err := flatten(tree.Devices, byNumber); err != nil {
		return nil, err
	}
	devices := make([]Device, 0, len(byNumber))
	for _, d := range byNumber {
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
	return devices, nil
}

func flatten(raw []rawDevice, byNumber map[Number]Device) error {
	for _, r := range raw {
		d, err := convert(r)
		if err != nil {
			return err
		}
		byNumber[d.Number] = d
		if err := flatten(r.Children, byNumber); err != nil {
			return err
		}
	}
	return nil
}

// OpenVolumePrefix precedes the volume ID in the path of the mapped device of an open encrypted volume.
const OpenVolumePrefix = "/dev/mapper/lvms-crypt-"

func convert(r rawDevice) (Device, error) {
	size, err := r.Size.Int64()
	if err != nil || r.Number == "" || r.Path == "" {
		return Device{}, fmt.Errorf("output of lsblk: device %q has size %q, number %q, path %q", r.Name, r.Size,
			r.Number, r.Path)
	}
	d := Device{
		Name: r.Path, KernelName: r.KernelName, Number: Number(strings.TrimSpace(r.Number)), Type: r.Type, Size: size,
		ReadOnly: bool(r.ReadOnly), Removable: bool(r.Removable), Rotational: bool(r.Rotational), State: r.State,
		Model: strings.TrimSpace(r.Model), Vendor: strings.TrimSpace(r.Vendor), Serial: r.Serial, WWN: r.WWN,
		Transport: r.Transport, Signature: r.FSType, UUID: r.UUID, Label: r.Label, PartitionType: r.PartType,
		PartitionLabel: r.PartLabel,
	}
	d.SectorSize, _ = r.SectorSize.Int64() // 0 if lsblk does not print it
	if r.Type == "crypt" && strings.HasPrefix(r.Path, OpenVolumePrefix) {
		d.Type = "lvm"
	}
	if r.FSType != "" {
		d.Signatures = append(d.Signatures, Signature{Type: r.FSType, UUID: r.UUID, Label: r.Label})
	}
	if r.Type == "part" {
		d.Parent = r.Parent
	} else if r.PTType != "" {
		// For a partition, lsblk prints the partition table that contains it.
		d.PartitionTable = r.PTType
		d.Signatures = append(d.Signatures, Signature{Type: r.PTType, UUID: r.PTUUID})
	}
	for _, m := range r.Mountpoints {
		if m != "" {
			d.Mountpoints = append(d.Mountpoints, m)
		}
	}
	for _, c := range r.Children {
		d.Children = append(d.Children, Child{Name: c.Path, Type: c.Type})
		if c.Type == "part" {
			d.Partitions = append(d.Partitions, c.Path)
		} else {
			d.Holders = append(d.Holders, c.Path)
		}
	}
	slices.Sort(d.Partitions)
	slices.Sort(d.Holders)
	return d, nil
}
