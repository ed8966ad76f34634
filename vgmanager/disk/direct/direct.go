// Package direct reads devices past all caches and without a process: whether they respond, and the labels and the
// metadata of physical volumes.
package direct

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Number is a device number in the form MAJOR:MINOR.
type Number string

// NewNumber returns the Number for a major and a minor number.
func NewNumber(major, minor uint32) Number {
	return Number(fmt.Sprintf("%d:%d", major, minor))
}

// NumberOf returns the number of a block device, or false for another file.
func NumberOf(info os.FileInfo) (Number, bool) {
	const kind = fs.ModeDevice | fs.ModeCharDevice
	if info.Mode()&kind != fs.ModeDevice {
		return "", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	rdev := uint64(stat.Rdev) //nolint:unconvert // Its type depends on the architecture.
	return NewNumber(unix.Major(rdev), unix.Minor(rdev)), true
}

// BlockSize is the unit of direct reads in bytes.
const BlockSize = 4096

// Read reads into a page-aligned buffer, as O_DIRECT requires. Offset and size are multiples of the sector
// size.
func Read(f io.ReaderAt, offset, size int64) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(memory) }()
	if _, err = f.ReadAt(memory, offset); err != nil {
		return nil, err
	}
	return bytes.Clone(memory), nil
}

// open opens a device for reads past the page cache. It returns an error if the path is another device.
func open(d Beat) (*os.File, error) {
	// O_EXCL is not used, because LVM has the device open. O_NONBLOCK is for drives without a medium.
	f, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		if number, ok := NumberOf(info); !ok || number != d.Number {
			err = fmt.Errorf("was removed: its name %s now belongs to another device", d.Path)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// directReader reads from a device that is open for direct I/O, which requires whole blocks.
type directReader struct{ f io.ReaderAt }

func (r directReader) ReadAt(b []byte, offset int64) (int, error) {
	start := offset / BlockSize * BlockSize
	end := (offset + int64(len(b)) + BlockSize - 1) / BlockSize * BlockSize
	whole, err := Read(r.f, start, end-start)
	if err != nil {
		return 0, err
	}
	return copy(b, whole[offset-start:]), nil
}
