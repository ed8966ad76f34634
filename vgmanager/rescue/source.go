package rescue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const (
	// mostHanging is the number of reads that may hang at the same time.
	mostHanging = 4
	// hangLimit is how long the copy waits for one of them to return, in read time limits.
	hangLimit = 5
	// memoryAlignment is the alignment in memory that reads past the page cache need.
	memoryAlignment = 4096
)

// errStuck is returned if the source does not answer at all.
var errStuck = errors.New("does not answer: see the kernel log of the node; repair the disk or its path, and run the " +
	"same command again: it continues")

// Source reads a block device, never writes to it, and does not wait for a read longer than its time limit. A read that
// hangs continues in the kernel and is abandoned. It is not safe for concurrent use.
type Source struct {
	path   string
	size   int64
	sector int64
	inUse  bool
	limit  time.Duration
	calls  *bounded.Calls
	// reads numbers the reads: none waits for an earlier one.
	reads int
	read  func(buffer []byte, at int64) (int, error)
	close func() error
}

// OpenSource opens a block device for reading. If nothing uses the device, nothing can mount it until it is closed. It
// returns errStuck if the device is not open after hangLimit time limits of a read: other programs that wait for the
// device can block it.
func OpenSource(path string, limit time.Duration) (*Source, error) {
	type opened struct {
		source *Source
		err    error
	}
	result := make(chan opened, 1)
	go func() {
		s, err := openSource(path, limit)
		result <- opened{s, err}
	}()
	timer := time.NewTimer(hangLimit * limit)
	defer timer.Stop()
	select {
	case o := <-result:
		return o.source, o.err
	case <-timer.C:
		// The program ends, and closes the device if it is opened after all.
		return nil, fmt.Errorf("open the source %s: %w", path, errStuck)
	}
}

func openSource(path string, limit time.Duration) (*Source, error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&(os.ModeDevice|os.ModeCharDevice) != os.ModeDevice {
		err = fmt.Errorf("%s is not a block device", path)
	}
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	const flags = os.O_RDONLY | unix.O_DIRECT | unix.O_CLOEXEC
	f, err := os.OpenFile(path, flags|unix.O_EXCL, 0)
	inUse := errors.Is(err, unix.EBUSY)
	if inUse {
		f, err = os.OpenFile(path, flags, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open the source: %w", err)
	}
	s := &Source{path: path, inUse: inUse, limit: limit, calls: bounded.New(limit, mostHanging), close: f.Close}
	if err := s.measure(f); err != nil {
		return nil, errors.Join(fmt.Errorf("source %s: %w", path, err), f.Close())
	}
	descriptor := int(f.Fd())
	s.read = func(buffer []byte, at int64) (int, error) {
		for {
			n, err := unix.Pread(descriptor, buffer, at)
			if !errors.Is(err, unix.EINTR) {
				return n, err
			}
		}
	}
	return s, nil
}

func (s *Source) measure(f *os.File) error {
	sector, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return fmt.Errorf("read the logical block size: %w", err)
	}
	s.sector = int64(sector)
	size, err := blockdevice.Size(f)
	if err != nil {
		return fmt.Errorf("read the size: %w", err)
	}
	if s.size = int64(size); s.size == 0 || s.size%s.sector != 0 {
		return fmt.Errorf("has a size of %d bytes with blocks of %d bytes", s.size, s.sector)
	}
	return nil
}

// Close closes the device.
func (s *Source) Close() error { return s.close() }

// answer is the result of a read.
type answer struct {
	data []byte
	err  error
}

// Read returns the beginning of a range, at least one sector. Any error except errStuck and that of ctx is about this
// range. ended is true if reading others makes no sense.
func (s *Source) Read(ctx context.Context, r Range) (data []byte, ended bool, err error) {
	begun := time.Now()
	for {
		s.reads++
		got, err := bounded.Do(ctx, s.calls, strconv.Itoa(s.reads), func(context.Context) answer {
			buffer := aligned(int(r.Length))
			n, err := s.read(buffer, r.Start)
			return answer{buffer[:max(n, 0)], err}
		})
		var tooMany *bounded.TooManyError
		switch {
		case ctx.Err() != nil:
			return nil, true, ctx.Err()
		case errors.As(err, &tooMany) && time.Since(begun) >= hangLimit*s.limit:
			return nil, true, fmt.Errorf("source %s: %w", s.path, errStuck)
		case errors.As(err, &tooMany):
			sleep(ctx, min(time.Second, s.limit))
		case err != nil:
			return nil, false, err
		default:
			return s.check(got, r)
		}
	}
}

// check accepts what was read before an error.
func (s *Source) check(got answer, r Range) ([]byte, bool, error) {
	got.data = got.data[:int64(len(got.data))/s.sector*s.sector]
	switch {
	case len(got.data) > 0:
		return got.data, false, nil
	case errors.Is(got.err, unix.ENXIO), errors.Is(got.err, unix.ENODEV):
		return nil, true, fmt.Errorf("source %s was removed: %w", s.path, got.err)
	case got.err == nil:
		return nil, true, fmt.Errorf("source %s ends at byte %d: it was reduced", s.path, r.Start)
	}
	return nil, false, got.err
}

// aligned returns a buffer for a read past the page cache. The buffer of an abandoned read is freed when it returns.
func aligned(length int) []byte {
	buffer := make([]byte, length+memoryAlignment)
	shift := -int(uintptr(unsafe.Pointer(unsafe.SliceData(buffer)))) & (memoryAlignment - 1)
	return buffer[shift : shift+length : shift+length]
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
