// Package devicemapper reads mapped devices from the kernel: the list, the tables, the I/O statistics, and the status
// of pools, RAID volumes and moves. It starts no process and reads no disk. Only a Changer changes something: it
// suspends and resumes devices, and sends messages to thin pools.
package devicemapper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// limit is the time limit of a request to the kernel. The result is in memory, but the status of a thin pool waits
// for a lock that is held while its metadata is written. If the disk below hangs, the request never ends.
const limit = 5 * time.Second

// ErrNotFound: the mapped device does not exist.
var ErrNotFound = errors.New("no such mapped device")

// Device is a mapped device.
type Device struct {
	// Name is the name in device-mapper, for example "vg1-pool-tpool".
	Name string
	// UUID starts with "LVM-" for logical volumes and their hidden volumes.
	UUID string
	// Number is MAJOR:MINOR.
	Number string
	// Suspended: I/O is suspended. ReadOnly: the device cannot be written.
	Suspended, ReadOnly bool
	// Open is the open count: mounts, other devices and processes.
	Open int
	// Event is the event counter of the device.
	Event uint32
	// Types are the distinct target types of the device: linear, thin-pool, raid, mirror, and so on. Only logical
	// volumes have them: the table of an encrypted device would bring its key into this process.
	Types []string
}

// IsVolume returns true if LVM created the device.
func (d Device) IsVolume() bool { return strings.HasPrefix(d.UUID, "LVM-") }

// Target is a target of a mapped device.
type Target struct {
	// Start and Length are in sectors of 512 bytes.
	Start, Length uint64
	// Type is linear, thin-pool, raid, mirror, and so on.
	Type string
	// Params is the status line, in the format of the target.
	Params string
}

// Reader reads mapped devices. It is safe for concurrent use. No call takes longer than 5 s. A request that the
// kernel does not complete stays pending in a goroutine and a thread. There is at most one pending request for each
// device and one for the list; while it is pending, further calls wait, and fail once it has exceeded its time limit.
type Reader struct {
	control   string
	sys       string
	diskstats string
	ioctl     func(control uintptr, command uintptr, buffer []byte) error
	calls     *bounded.Calls // by number or name; "" for the list, "statistics" for the statistics
}

// New returns a Reader. The process must run as root and have access to the node's /dev/mapper/control.
func New() *Reader {
	return &Reader{control: "/dev/mapper/control", sys: "/sys/dev/block", diskstats: "/proc/diskstats",
		ioctl: ioctl,
		calls: bounded.New(limit, math.MaxInt)}
}

// List returns the mapped devices, sorted by name. It omits devices that are removed meanwhile. It costs one system
// call, two more for each logical volume, and one for each other device.
func (r *Reader) List(ctx context.Context) ([]Device, error) {
	devices, err := ask(ctx, r, "", r.list)
	if err != nil {
		return nil, fmt.Errorf("list the mapped devices: %w", err)
	}
	return devices, nil
}

// Status returns the targets of a device, in their order. In contrast to `dmsetup status`, it does not make a thin
// pool write its metadata. It returns ErrNotFound if the device does not exist.
func (r *Reader) Status(ctx context.Context, number string) ([]Target, error) {
	parsed, err := parseNumber(number)
	if err != nil {
		return nil, err
	}
	found, err := ask(ctx, r, number, func() (deviceStatus, error) { return r.status(subject{number: parsed}) })
	if err != nil {
		return nil, fmt.Errorf("read the status of mapped device %s: %w", number, err)
	}
	return found.targets, nil
}

// Size returns the size of a mapped device in bytes, by MAJOR:MINOR. It is the size that the device has now, which does
// not include a table that is not in use yet. It is 0 for a device that has never had a table in use: sysfs does not
// have it (Linux, drivers/md/dm.c, dm_setup_md_queue).
func (r *Reader) Size(number string) (int64, error) {
	if _, err := parseNumber(number); err != nil {
		return 0, err
	}
	content, err := os.ReadFile(filepath.Join(r.sys, number, "size"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the size of mapped device %s: %w", number, err)
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil || sectors < 0 {
		return 0, fmt.Errorf("the size of mapped device %s is %q, want sectors", number, content)
	}
	return sectors * 512, nil
}

// ask runs a request and waits for the result until the time limit.
func ask[T any](ctx context.Context, r *Reader, about string, question func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	got, err := bounded.Do(ctx, r.calls, about, func(context.Context) answer {
		value, err := question()
		return answer{value, err}
	})
	late := (*bounded.NoAnswerError)(nil)
	switch {
	case errors.As(err, &late):
		err = fmt.Errorf("the kernel has not answered for %s", time.Since(late.Since).Round(time.Second))
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("the kernel has not answered in time")
	case err == nil:
		err = got.err
	}
	return got.value, err
}

// list reads the names and then each device.
func (r *Reader) list() ([]Device, error) {
	control, err := r.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	answer, err := r.request(control, commandList, subject{}, nil)
	if err != nil {
		return nil, err
	}
	numbers, err := decodeNumbers(answer)
	if err != nil {
		return nil, err
	}
	devices := make([]Device, 0, len(numbers))
	// One small buffer serves all devices. The kernel copies the whole buffer in each request, so the large one of
	// the list is not reused.
	buffer := make([]byte, firstBuffer)
	for _, number := range numbers {
		d, err := r.device(control, number, &buffer)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", numberText(number), err)
		}
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
	return devices, nil
}

// device reads one device.
func (r *Reader) device(control *os.File, number uint64, buffer *[]byte) (Device, error) {
	var err error
	if *buffer, err = r.request(control, commandDevice, subject{number: number}, *buffer); err != nil {
		return Device{}, err
	}
	d, err := decodeDevice(*buffer)
	if err != nil || !d.IsVolume() {
		return d, err
	}
	// The table is read, not the status: reading it never waits for a lock, and thin volumes need no more.
	if *buffer, err = r.request(control, commandTable, subject{number: number}, *buffer); err != nil {
		return Device{}, err
	}
	d.Types, err = decodeTypes(*buffer)
	return d, err
}

// ThinPool returns the status of a thin pool. It returns ErrNotFound if the pool is not active.
func (r *Reader) ThinPool(ctx context.Context, vg, pool string) (ThinPool, error) {
	_, state, err := r.findThinPool(ctx, vg, pool)
	return state, err
}

// ThinPoolDevice returns the device that has the target of a thin pool, without its table, and the status of the pool.
// It returns ErrNotFound if the pool is not active.
func (r *Reader) ThinPoolDevice(ctx context.Context, vg, pool string) (Device, ThinPool, error) {
	name, state, err := r.findThinPool(ctx, vg, pool)
	if err != nil {
		return Device{}, ThinPool{}, err
	}
	d, err := r.Named(ctx, name)
	return d, state, err
}

// findThinPool returns the name of the device that has the target of a thin pool, and the status of the pool.
func (r *Reader) findThinPool(ctx context.Context, vg, pool string) (name string, state ThinPool, err error) {
	for _, name = range []string{VolumeName(vg, pool) + PoolSuffix, VolumeName(vg, pool)} {
		if state, err = r.thinPool(ctx, name); !errors.Is(err, ErrNotFound) {
			return name, state, err
		}
	}
	return "", ThinPool{}, err
}

func (r *Reader) thinPool(ctx context.Context, name string) (ThinPool, error) {
	if len(name) >= nameLength {
		return ThinPool{}, fmt.Errorf("thin pool %s: its name is too long for device-mapper", name)
	}
	found, err := ask(ctx, r, name, func() (deviceStatus, error) { return r.status(subject{name: name}) })
	if err != nil {
		return ThinPool{}, fmt.Errorf("read the status of thin pool %s: %w", name, err)
	}
	if len(found.targets) != 1 || found.targets[0].Type != "thin-pool" {
		return ThinPool{}, fmt.Errorf("mapped device %s is not a thin pool: %w", name, ErrNotFound)
	}
	pool, err := ParseThinPool(found.targets[0].Params)
	pool.Suspended = found.suspended
	return pool, err
}

// Volume returns the device of a logical volume. It returns ErrNotFound if the volume is not active.
func (r *Reader) Volume(ctx context.Context, vg, lv string) (Device, error) {
	name := VolumeName(vg, lv)
	if len(name) >= nameLength {
		return Device{}, fmt.Errorf("logical volume %s/%s: its name is too long for device-mapper", vg, lv)
	}
	d, err := r.named(ctx, name)
	if err != nil {
		return Device{}, fmt.Errorf("read the device of logical volume %s/%s: %w", vg, lv, err)
	}
	return d, nil
}

// MappedSectors returns the number of sectors of 512 bytes of an active thin volume that have blocks in its pool. It
// returns ErrNotFound if the volume is not active.
func (r *Reader) MappedSectors(ctx context.Context, vg, lv string) (uint64, error) {
	name := VolumeName(vg, lv)
	if len(name) >= nameLength {
		return 0, fmt.Errorf("logical volume %s/%s: its name is too long for device-mapper", vg, lv)
	}
	found, err := ask(ctx, r, name, func() (deviceStatus, error) { return r.status(subject{name: name}) })
	if err != nil {
		return 0, fmt.Errorf("read the status of thin volume %s/%s: %w", vg, lv, err)
	}
	if len(found.targets) != 1 || found.targets[0].Type != "thin" {
		return 0, fmt.Errorf("mapped device %s is not a thin volume", name)
	}
	return ParseThin(found.targets[0].Params)
}

// Named returns the mapped device with a name, without its table. It returns ErrNotFound if none has the name, which is
// always the case for a name that is too long.
func (r *Reader) Named(ctx context.Context, name string) (Device, error) {
	if len(name) >= nameLength {
		return Device{}, fmt.Errorf("read mapped device %s: %w", name, ErrNotFound)
	}
	d, err := r.named(ctx, name)
	if err != nil {
		return Device{}, fmt.Errorf("read mapped device %s: %w", name, err)
	}
	return d, nil
}

func (r *Reader) named(ctx context.Context, name string) (Device, error) {
	return ask(ctx, r, name, func() (Device, error) {
		control, err := r.open()
		if err != nil {
			return Device{}, err
		}
		defer func() { _ = control.Close() }()
		answer, err := r.request(control, commandDevice, subject{name: name}, nil)
		if err != nil {
			return Device{}, err
		}
		return decodeDevice(answer)
	})
}

// deviceStatus is the status of a device and of its targets.
type deviceStatus struct {
	targets   []Target
	suspended bool
}

func (r *Reader) status(about subject) (deviceStatus, error) {
	control, err := r.open()
	if err != nil {
		return deviceStatus{}, err
	}
	defer func() { _ = control.Close() }()
	buffer, err := r.request(control, commandStatus, about, nil)
	if err != nil {
		return deviceStatus{}, err
	}
	targets, err := decodeTargets(buffer)
	return deviceStatus{targets: targets, suspended: flagsOf(buffer)&flagSuspended != 0}, err
}

func (r *Reader) open() (*os.File, error) {
	return os.OpenFile(r.control, os.O_RDWR|unix.O_CLOEXEC, 0)
}

// request sends a request and returns the buffer with the result. It retries with a larger buffer while the result
// does not fit.
func (r *Reader) request(control *os.File, c command, about subject, buffer []byte) ([]byte, error) {
	if buffer == nil {
		buffer = make([]byte, firstBuffer)
	}
	for {
		c.encode(about, buffer)
		if err := r.ioctl(control.Fd(), c.code(), buffer); errors.Is(err, unix.ENXIO) {
			return buffer, ErrNotFound
		} else if err != nil {
			return buffer, err
		}
		if flagsOf(buffer)&flagBufferFull == 0 {
			return buffer, nil
		}
		if len(buffer) >= maxBuffer {
			return buffer, fmt.Errorf("the answer is longer than %d bytes", maxBuffer)
		}
		buffer = make([]byte, 4*len(buffer))
	}
}

func ioctl(control, command uintptr, buffer []byte) error {
	if _, _, failed := unix.Syscall(unix.SYS_IOCTL, control, command,
		uintptr(unsafe.Pointer(&buffer[0]))); failed != 0 {
		return failed
	}
	return nil
}
