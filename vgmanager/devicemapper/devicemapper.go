// Package devicemapper reads what the kernel knows about mapped devices: which there are, of what they are made, and
// how pools, RAID volumes and moves are doing. It starts no process, reads no disk, and changes nothing.
package devicemapper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// limit is how long the kernel may take. An answer is in memory, but a thin pool's waits for a lock that is held while
// its metadata is written, and so for ever if the disk below hangs.
const limit = 5 * time.Second

// ErrNotFound is about a mapped device that is not there, or no longer.
var ErrNotFound = errors.New("no such mapped device")

// Device is a mapped device.
type Device struct {
	// Name is device-mapper's, for example "vg1-pool-tpool".
	Name string
	// UUID begins with "LVM-" for logical volumes and their parts.
	UUID string
	// Number is MAJOR:MINOR.
	Number string
	// Suspended: input and output are held back. ReadOnly: it cannot be written.
	Suspended, ReadOnly bool
	// Open is how often it is open: mounted, part of another device, or held by a process.
	Open int
	// Event counts what happened to it.
	Event uint32
	// Types are the targets that it consists of, each once: linear, thin-pool, raid, mirror, … Only logical volumes
	// have them: to ask an encrypted device would bring its key into this process.
	Types []string
}

// IsVolume tells whether LVM made the device.
func (d Device) IsVolume() bool { return strings.HasPrefix(d.UUID, "LVM-") }

// Target is a part of a mapped device.
type Target struct {
	// Start and Length are in sectors of 512 bytes.
	Start, Length uint64
	// Type: linear, thin-pool, raid, mirror, …
	Type string
	// Params is the status line, in the target's own format.
	Params string
}

// Reader reads mapped devices. It is safe for concurrent use. No question takes longer than 5 s. A question that the
// kernel does not answer stays open, in a goroutine and a thread of its own; the same device is not asked again before
// it is answered, and so there is never more than one for a device, and one for the list.
type Reader struct {
	control string
	limit   time.Duration
	ioctl   func(control uintptr, command uintptr, buffer []byte) error

	mu    sync.Mutex
	asked map[string]time.Time // the questions that were not answered yet
}

// New returns a Reader. The process needs the node's /dev/mapper/control, and to be root there.
func New() *Reader {
	return &Reader{control: "/dev/mapper/control", limit: limit, ioctl: ioctl, asked: map[string]time.Time{}}
}

// List returns the mapped devices, sorted by name. One that goes away meanwhile is left out. It costs one system call,
// two more for each logical volume, and one for each other device.
func (r *Reader) List(ctx context.Context) ([]Device, error) {
	devices, err := ask(ctx, r, "", r.list)
	if err != nil {
		return nil, fmt.Errorf("list of mapped devices: %w", err)
	}
	return devices, nil
}

// Status returns the targets of a device, in their order. It does not make a thin pool write its metadata, as `dmsetup
// status` would. The error is ErrNotFound if it is gone.
func (r *Reader) Status(ctx context.Context, number string) ([]Target, error) {
	parsed, err := parseNumber(number)
	if err != nil {
		return nil, err
	}
	targets, err := ask(ctx, r, number, func() ([]Target, error) { return r.status(subject{number: parsed}) })
	if err != nil {
		return nil, fmt.Errorf("status of mapped device %s: %w", number, err)
	}
	return targets, nil
}

// ask puts a question in a goroutine of its own, and waits for the answer until the limit.
func ask[T any](ctx context.Context, r *Reader, about string, question func() (T, error)) (T, error) {
	var none T
	r.mu.Lock()
	since, waiting := r.asked[about]
	if !waiting {
		r.asked[about] = time.Now()
	}
	r.mu.Unlock()
	if waiting {
		return none, fmt.Errorf("the kernel does not answer for %s", time.Since(since).Round(time.Second))
	}
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		value, err := question()
		r.mu.Lock()
		delete(r.asked, about)
		r.mu.Unlock()
		answered <- answer{value, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return none, fmt.Errorf("the kernel does not answer within %s", r.limit)
		}
		return none, ctx.Err()
	}
}

// list asks for the names, and then about each.
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
	// One for all devices, and not the large one of the list: the kernel copies the whole of it with each question.
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

// device asks about one.
func (r *Reader) device(control *os.File, number uint64, buffer *[]byte) (Device, error) {
	var err error
	if *buffer, err = r.request(control, commandDevice, subject{number: number}, *buffer); err != nil {
		return Device{}, err
	}
	d, err := decodeDevice(*buffer)
	if err != nil || !d.IsVolume() {
		return d, err
	}
	// Its table, and not its status: this never waits for a lock, and thin volumes need no more.
	if *buffer, err = r.request(control, commandTable, subject{number: number}, *buffer); err != nil {
		return Device{}, err
	}
	d.Types, err = decodeTypes(*buffer)
	return d, err
}

// ThinPool returns the state of the thin pool of a volume group. The error is ErrNotFound if it is not active.
func (r *Reader) ThinPool(ctx context.Context, vg, pool string) (ThinPool, error) {
	var err error
	// A pool without active volumes has no layer of its own.
	for _, name := range []string{volumeName(vg, pool) + "-tpool", volumeName(vg, pool)} {
		var state ThinPool
		if state, err = r.thinPool(ctx, name); !errors.Is(err, ErrNotFound) {
			return state, err
		}
	}
	return ThinPool{}, err
}

func (r *Reader) thinPool(ctx context.Context, name string) (ThinPool, error) {
	if len(name) >= nameLength {
		return ThinPool{}, fmt.Errorf("thin pool %s: its name is longer than device-mapper's", name)
	}
	targets, err := ask(ctx, r, name, func() ([]Target, error) { return r.status(subject{name: name}) })
	if err != nil {
		return ThinPool{}, fmt.Errorf("status of thin pool %s: %w", name, err)
	}
	if len(targets) != 1 || targets[0].Type != "thin-pool" {
		return ThinPool{}, fmt.Errorf("mapped device %s is no thin pool: %w", name, ErrNotFound)
	}
	return ParseThinPool(targets[0].Params)
}

// Volume returns the device of a logical volume. The error is ErrNotFound if it is not active.
func (r *Reader) Volume(ctx context.Context, vg, lv string) (Device, error) {
	name := volumeName(vg, lv)
	if len(name) >= nameLength {
		return Device{}, fmt.Errorf("logical volume %s/%s: its name is longer than device-mapper's", vg, lv)
	}
	d, err := ask(ctx, r, name, func() (Device, error) {
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
	if err != nil {
		return Device{}, fmt.Errorf("device of logical volume %s/%s: %w", vg, lv, err)
	}
	return d, nil
}

// volumeName is what device-mapper calls a logical volume: LVM doubles the hyphens of both names and joins them with
// one (libdm/libdm-string.c, dm_build_dm_name).
func volumeName(vg, lv string) string {
	double := func(name string) string { return strings.ReplaceAll(name, "-", "--") }
	return double(vg) + "-" + double(lv)
}

func (r *Reader) status(about subject) ([]Target, error) {
	control, err := r.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	buffer, err := r.request(control, commandStatus, about, nil)
	if err != nil {
		return nil, err
	}
	return decodeTargets(buffer)
}

func (r *Reader) open() (*os.File, error) {
	return os.OpenFile(r.control, os.O_RDWR|unix.O_CLOEXEC, 0)
}

// request puts a question, in a larger buffer each time the answer did not fit, and returns the buffer with the answer.
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
