// Package devicemapper reads what the kernel knows about mapped devices: of which target they are, and how pools, RAID volumes and
// moves are doing. It starts no process, and changes nothing.
package devicemapper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Device is a mapped device.
type Device struct {
	// Name is device-mapper's, for example "vg1-pool-tpool".
	Name string
	// UUID begins with "LVM-" for logical volumes and their parts.
	UUID string
	// Number is MAJOR:MINOR.
	Number string
	// Suspended: input and output are held back.
	Suspended bool
}

// Target is a part of a mapped device.
type Target struct {
	// Type: linear, thin-pool, raid, mirror, …
	Type string
	// Params is the status line, in the target's own format.
	Params string
}

// Reader reads mapped devices. It is safe for concurrent use.
type Reader struct{ sysfs, control string }

// New returns a Reader. The process needs the node's /sys and /dev.
func New() *Reader { return &Reader{sysfs: "/sys", control: "/dev/mapper/control"} }

// List returns the mapped devices, sorted by name. One that goes away meanwhile is left out.
func (r *Reader) List() ([]Device, error) {
	dirs, err := filepath.Glob(filepath.Join(r.sysfs, "block", "dm-*"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(r.sysfs, "block")); err != nil {
		return nil, fmt.Errorf("list of mapped devices: %w", err)
	}
	var devices []Device
	for _, dir := range dirs {
		d := Device{}
		var suspended string
		for file, into := range map[string]*string{"dm/name": &d.Name, "dm/uuid": &d.UUID, "dev": &d.Number, "dm/suspended": &suspended} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				d.Number = ""
				break
			}
			*into = strings.TrimSpace(string(text))
		}
		if d.Number != "" {
			d.Suspended = suspended == "1"
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
	return devices, nil
}

// The interface of the kernel (include/uapi/linux/dm-ioctl.h, version 4).
const (
	headerSize = 312
	specSize   = 40
	// commandStatus is DM_TABLE_STATUS: _IOWR(0xfd, 12, struct dm_ioctl).
	commandStatus  = 3<<30 | headerSize<<16 | 0xfd<<8 | 12
	flagBufferFull = 1 << 8
	// flagNoFlush keeps a thin pool from writing its metadata before it answers.
	flagNoFlush = 1 << 11
	// firstBuffer has room for the status of any pool; a RAID volume needs less. maxBuffer is for tables of thousands of parts.
	firstBuffer, maxBuffer = 16 << 10, 4 << 20
)

// Status returns the targets of a device, in their order. It does not wait for input and output of the device.
func (r *Reader) Status(number string) ([]Target, error) {
	control, err := os.OpenFile(r.control, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("status of mapped device %s: %w", number, err)
	}
	defer func() { _ = control.Close() }()
	for size := firstBuffer; size <= maxBuffer; size *= 4 {
		buffer, err := request(number, size)
		if err != nil {
			return nil, err
		}
		_, _, failed := unix.Syscall(unix.SYS_IOCTL, control.Fd(), commandStatus, uintptr(unsafe.Pointer(&buffer[0])))
		if failed != 0 {
			return nil, fmt.Errorf("status of mapped device %s: %w", number, failed)
		}
		if binary.NativeEndian.Uint32(buffer[28:])&flagBufferFull == 0 {
			return decodeStatus(buffer)
		}
	}
	return nil, fmt.Errorf("status of mapped device %s: it has more parts than %d bytes can tell", number, maxBuffer)
}

// request is the question about one device.
func request(number string, size int) ([]byte, error) {
	var major, minor uint32
	if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
		return nil, fmt.Errorf("%q is not the number of a device", number)
	}
	buffer := make([]byte, size)
	binary.NativeEndian.PutUint32(buffer[0:], 4)
	binary.NativeEndian.PutUint32(buffer[12:], uint32(size))
	binary.NativeEndian.PutUint32(buffer[16:], headerSize)
	binary.NativeEndian.PutUint32(buffer[28:], flagNoFlush)
	binary.NativeEndian.PutUint64(buffer[40:], kernelNumber(major, minor))
	return buffer, nil
}

// kernelNumber is huge_encode_dev (include/linux/kdev_t.h).
func kernelNumber(major, minor uint32) uint64 {
	return uint64(minor&0xff | major<<8 | (minor&^0xff)<<12)
}

var errShort = errors.New("answer of device-mapper is cut off")

// decodeStatus reads the answer.
func decodeStatus(buffer []byte) ([]Target, error) {
	if len(buffer) < headerSize {
		return nil, errShort
	}
	start, count := binary.NativeEndian.Uint32(buffer[16:]), binary.NativeEndian.Uint32(buffer[20:])
	if uint64(start) > uint64(len(buffer)) {
		return nil, errShort
	}
	data := buffer[start:]
	var targets []Target
	offset := uint64(0)
	for range count {
		if offset+specSize > uint64(len(data)) {
			return nil, errShort
		}
		spec := data[offset:]
		params, _, ended := bytes.Cut(spec[specSize:], []byte{0})
		if !ended {
			return nil, errShort
		}
		kind, _, _ := bytes.Cut(spec[24:40], []byte{0})
		targets = append(targets, Target{Type: string(kind), Params: string(params)})
		// For an answer, the offset of the next one counts from the first.
		next := uint64(binary.NativeEndian.Uint32(spec[20:]))
		if next <= offset {
			break
		}
		offset = next
	}
	if uint32(len(targets)) != count {
		return nil, errShort
	}
	return targets, nil
}
