package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
)

const (
	scsiTarget = "/sys/kernel/config/target"
	scsiHBA    = scsiTarget + "/loopback/naa.5001405000000001"
	scsiCore   = scsiTarget + "/core/fileio_0"
	scsiDir    = labDir + "/scsi"
	scsiLimit  = 2 * time.Minute
)

// scsi manages the node's SCSI disks: the kernel's own SCSI target, looped back to the kernel's own SCSI initiator,
// with a file of the root disk for each disk. The disks have the properties of real disks: vendor, serial, WWN, and a
// write cache that a power cut loses. They can be pulled, set offline and expanded while in use, and they exist again
// after a restart.
//
// If the flavor has multipath, a disk has two paths: the node sees it through two ports of the host adapter.
type scsi struct {
	flavor spec.Flavor
	// modules is that of the machine.
	modules string
	mu      sync.Mutex
	disks   []scsiDisk
}

type scsiDisk struct {
	Name   string `json:"name"`
	Serial string `json:"serial"`
	Size   int64  `json:"size"`
	LUN    int    `json:"lun"`
}

func (d scsiDisk) file() string { return filepath.Join(scsiDir, d.Name+".img") }

// restore attaches the disks that existed before a restart.
func (s *scsi) restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := spec.Load(filepath.Join(scsiDir, "disks.json"), &s.disks)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range s.disks {
		if err := s.attach(d); err != nil {
			return err
		}
	}
	return nil
}

// add creates an empty disk and returns its device.
func (s *scsi) add(args wire.DiskArgs) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := scsiDisk{Name: args.Name, Serial: args.Serial, Size: args.Size}
	for slices.ContainsFunc(s.disks, func(o scsiDisk) bool { return o.LUN == d.LUN }) {
		d.LUN++
	}
	if err := mkdirs(scsiDir); err != nil {
		return "", err
	}
	if err := os.WriteFile(d.file(), nil, 0o600); err != nil {
		return "", err
	}
	if err := os.Truncate(d.file(), d.Size); err != nil {
		return "", err
	}
	if err := s.attach(d); err != nil {
		return "", err
	}
	s.disks = append(s.disks, d)
	if err := s.save(); err != nil {
		return "", err
	}
	return s.device(d)
}

// remove removes a disk, even if it is in use.
func (s *scsi) remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.find(name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(scsiCore, d.Name)); err == nil { // It may be pulled already.
		if err := s.detach(d); err != nil {
			return err
		}
	}
	s.disks = slices.DeleteFunc(s.disks, func(o scsiDisk) bool { return o.Name == name })
	if err := s.save(); err != nil {
		return err
	}
	return os.Remove(d.file())
}

// pull removes a disk, even if it is in use, and keeps its data until put returns it.
func (s *scsi) pull(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.find(name)
	if err != nil {
		return err
	}
	return s.detach(d)
}

// put returns a disk that was pulled. Its device may have another name.
func (s *scsi) put(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.find(name)
	if err != nil {
		return err
	}
	return s.attach(d)
}

func (s *scsi) detach(d scsiDisk) error {
	for port := range s.flavor.Paths() {
		if path, err := d.sys(port); err == nil {
			if err := os.WriteFile(path+"/delete", []byte("1"), 0); err != nil {
				return err
			}
		}
		for _, path := range []string{d.lun(port) + "/disk", d.lun(port)} {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return os.Remove(filepath.Join(scsiCore, d.Name))
}

// grow expands a disk while it is in use.
func (s *scsi) grow(name string, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.find(name)
	if err != nil {
		return err
	}
	if err := os.Truncate(d.file(), size); err != nil {
		return err
	}
	control := filepath.Join(scsiCore, d.Name, "control")
	if err := os.WriteFile(control, []byte("fd_dev_size="+strconv.FormatInt(size, 10)), 0); err != nil {
		return err
	}
	for i := range s.disks {
		if s.disks[i].Name == name {
			s.disks[i].Size = size
		}
	}
	if err := s.save(); err != nil {
		return err
	}
	return s.tell(d, "rescan", "1")
}

// tell writes to a file of the disk's SCSI device in sysfs, on each path.
func (s *scsi) tell(d scsiDisk, file, text string) error {
	for port := range s.flavor.Paths() {
		path, err := d.sys(port)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0); err != nil {
			return err
		}
	}
	return nil
}

// setState sets a disk's state: "offline" (every read and write fails with an I/O error) or "running".
func (s *scsi) setState(name, state string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.find(name)
	if err != nil {
		return err
	}
	return s.tell(d, "state", state+"\n") // the kernel requires the newline
}

// devices returns the current device names of the disks, as JSON.
func (s *scsi) devices() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]string{}
	for _, d := range s.disks {
		device, err := s.device(d)
		if err != nil {
			return "", err
		}
		names[d.Name] = device
	}
	data, err := json.Marshal(names)
	return string(data), err
}

func (s *scsi) find(name string) (scsiDisk, error) {
	for _, d := range s.disks {
		if d.Name == name {
			return d, nil
		}
	}
	return scsiDisk{}, fmt.Errorf("no SCSI disk %q", name)
}

// save records the disks and their files, so that a power cut does not lose them. It flushes only the file system of
// the folder: other file systems may wait for a full thin pool.
func (s *scsi) save() error {
	if err := spec.Save(filepath.Join(scsiDir, "disks.json"), s.disks); err != nil {
		return err
	}
	dir, err := os.Open(scsiDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("flush %s: %w", scsiDir, err)
	}
	return nil
}

// portDir returns the folder of a port of the host adapter. The port leads to the kernel's SCSI target with its number.
func portDir(port int) string { return fmt.Sprintf("%s/tpgt_%d", scsiHBA, port+1) }

func (d scsiDisk) lun(port int) string { return fmt.Sprintf("%s/lun/lun_%d", portDir(port), d.LUN) }

// sys returns the folder in sysfs of the disk's SCSI device on a path.
func (d scsiDisk) sys(port int) (string, error) {
	found, err := filepath.Glob(fmt.Sprintf("/sys/bus/scsi/devices/*:0:%d:%d/block/sd*", port+1, d.LUN))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("SCSI disk %s: %w", d.Name, unix.ENODEV)
	}
	return filepath.Dir(filepath.Dir(found[0])), nil
}

// device returns the device that users of the disk open: the disk itself, or the multipath device of its paths.
func (s *scsi) device(d scsiDisk) (string, error) {
	disk, err := d.path(0)
	if err != nil || !s.flavor.Multipath {
		return disk, err
	}
	names, err := filepath.Glob("/sys/class/block/" + filepath.Base(disk) + "/holders/dm-*/dm/name")
	if err != nil || len(names) == 0 {
		return "", fmt.Errorf("SCSI disk %s: no multipath device: %w", d.Name, errors.Join(err, unix.ENODEV))
	}
	name, err := os.ReadFile(names[0])
	return "/dev/mapper/" + strings.TrimSpace(string(name)), err
}

// path returns the disk's device on a path.
func (d scsiDisk) path(port int) (string, error) {
	path, err := d.sys(port)
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(path + "/block/sd*")
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("SCSI disk %s: %w", d.Name, errors.Join(err, unix.ENODEV))
	}
	return "/dev/" + filepath.Base(found[0]), nil
}

// attach connects a disk's file to the target and the target to the initiator, and waits until udev has processed the
// disk.
func (s *scsi) attach(d scsiDisk) error {
	if err := s.host(); err != nil {
		return err
	}
	core := filepath.Join(scsiCore, d.Name)
	if err := s.makeCore(d, core); err != nil {
		return err
	}
	for port := range s.flavor.Paths() {
		if err := mkdirs(d.lun(port)); err != nil {
			return err
		}
		if err := os.Symlink(core, d.lun(port)+"/disk"); err != nil {
			return err
		}
	}
	return waitFor(scsiLimit, "SCSI disk "+d.Name, func() bool {
		dev, err := s.device(d)
		return err == nil && settle(blockOf(dev)) == nil
	})
}

// blockOf returns a device's folder in sysfs.
func blockOf(device string) string {
	if real, err := filepath.EvalSymlinks(device); err == nil {
		device = real
	}
	return "/sys/class/block/" + filepath.Base(device)
}

// makeCore creates the disk in the target core, with its file.
func (s *scsi) makeCore(d scsiDisk, core string) error {
	if err := mkdirs(core); err != nil {
		return err
	}
	settings := []setting{
		{"control", fmt.Sprintf("fd_dev_name=%s,fd_dev_size=%d,fd_buffered_io=1", d.file(), d.Size)},
		{"wwn/vpd_unit_serial", d.Serial},
		{"enable", "1"},
		{"attrib/emulate_tpu", "1"},
	}
	if s.flavor.SectorSize != 0 {
		settings = append(settings, setting{"attrib/block_size", strconv.Itoa(s.flavor.SectorSize)})
	}
	for _, set := range settings {
		if err := os.WriteFile(filepath.Join(core, set.file), []byte(set.value), 0); err != nil {
			return fmt.Errorf("%s: %w", set.file, err)
		}
	}
	return nil
}

// setting is a file of configfs and the value to write to it.
type setting struct{ file, value string }

// host loads the modules and creates the host adapter with its ports, once.
func (s *scsi) host() error {
	if exists(portDir(0) + "/nexus") {
		return nil
	}
	if err := loadModules(s.modules, "sd_mod", "target_core_mod", "target_core_file", "tcm_loop"); err != nil {
		return err
	}
	if err := mkdirs(scsiCore); err != nil {
		return err
	}
	for port := range s.flavor.Paths() {
		if err := mkdirs(portDir(port)); err != nil {
			return err
		}
		initiator := fmt.Sprintf("naa.50014050000000%02d", port+2)
		if err := os.WriteFile(portDir(port)+"/nexus", []byte(initiator), 0); err != nil {
			return err
		}
	}
	return nil
}
