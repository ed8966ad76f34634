package copies

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const (
	// ioLimit is the maximum time of a read or write of a record, or of a flush. A disk that takes longer has failed.
	ioLimit = 10 * time.Minute
	// zeroStep is the maximum number of bytes that one call sets to zero or discards, so that it ends in time.
	zeroStep = 256 << 20
	// memoryAlignment is the alignment in memory that reads and writes past the page cache need.
	memoryAlignment = 4096
)

// device is the device of a target. Offsets and lengths are in bytes.
type device interface {
	file
	// SectorSize returns the size of a logical sector in bytes.
	SectorSize() (uint64, error)
	// Zero lets a part of the device read as zeros.
	Zero(offset, length uint64) error
	// Discard lets whole chunks of a thin volume read as zeros, and frees their space.
	Discard(offset, length uint64) error
	// Flush returns when all that was written is on stable storage.
	Flush() error
}

// file can be read and written at any position.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// blockDevice is an open block device. Reads and writes bypass the page cache. After a call that did not return in
// time, all calls fail. It is not safe for concurrent use.
type blockDevice struct {
	file   *os.File
	calls  *bounded.Calls
	buffer []byte
	// failed is the error of a call that did not return: its memory can still be written to.
	failed error
}

// openSource opens a device to read it.
func openSource(id blockdevice.Identity) (*blockDevice, error) { return openDevice(id, os.O_RDONLY) }

// openTarget opens a device to write it. It returns an error if the device is mounted, or used by another one.
func openTarget(id blockdevice.Identity) (*blockDevice, error) {
	return openDevice(id, os.O_RDWR|unix.O_EXCL)
}

func openDevice(id blockdevice.Identity, flags int) (*blockDevice, error) {
	f, err := blockdevice.Open(id, flags|unix.O_DIRECT)
	if err != nil {
		return nil, err
	}
	return &blockDevice{file: f, calls: bounded.New(ioLimit, 1), buffer: aligned(maxData)}, nil
}

// ReadAt implements io.ReaderAt for at most maxData bytes.
func (d *blockDevice) ReadAt(p []byte, offset int64) (int, error) {
	piece := d.buffer[:len(p)]
	n, err := d.whole(piece, offset, unix.Pread)
	return copy(p, piece[:n]), err
}

// WriteAt implements io.WriterAt for at most maxData bytes.
func (d *blockDevice) WriteAt(p []byte, offset int64) (int, error) {
	piece := d.buffer[:len(p)]
	if err := d.failed; err != nil {
		return 0, err // The call that has not returned still uses the memory.
	}
	copy(piece, p)
	return d.whole(piece, offset, unix.Pwrite)
}

// whole reads or writes all of a piece.
func (d *blockDevice) whole(piece []byte, offset int64, call func(fd int, p []byte, at int64) (int, error)) (int,
	error) {
	done := 0
	for done < len(piece) {
		var n int
		err := d.control(func(fd int) (err error) {
			n, err = call(fd, piece[done:], offset+int64(done))
			return err
		})
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.ErrUnexpectedEOF
		}
		done += n
	}
	return done, nil
}

// SectorSize implements device.
func (d *blockDevice) SectorSize() (uint64, error) {
	var size int32
	err := d.ioctl(unix.BLKSSZGET, unsafe.Pointer(&size))
	return uint64(size), err //nolint:gosec // the kernel has only sizes above 0
}

// Zero implements device.
func (d *blockDevice) Zero(offset, length uint64) error {
	return d.inSteps(unix.BLKZEROOUT, offset, length)
}

// Discard implements device.
func (d *blockDevice) Discard(offset, length uint64) error {
	return d.inSteps(unix.BLKDISCARD, offset, length)
}

func (d *blockDevice) inSteps(request uintptr, offset, length uint64) error {
	for length > 0 {
		step := min(length, zeroStep)
		span := [2]uint64{offset, step}
		if err := d.ioctl(request, unsafe.Pointer(&span)); err != nil {
			return err
		}
		offset += step
		length -= step
	}
	return nil
}

// Flush implements device.
func (d *blockDevice) Flush() error { return d.control(unix.Fsync) }

// Close closes the device. It does not wait for a call that does not return.
func (d *blockDevice) Close() error {
	if d.failed != nil {
		go func() { _ = d.file.Close() }() // It ends with the call.
		return nil
	}
	return d.file.Close()
}

func (d *blockDevice) ioctl(request uintptr, argument unsafe.Pointer) error {
	return d.bound(func() error { return blockdevice.Ioctl(d.file, request, argument) })
}

// control calls f with the file descriptor, if it returns in time.
func (d *blockDevice) control(f func(fd int) error) error {
	return d.bound(func() error { return blockdevice.Control(d.file, f) })
}

// bound calls f, and returns its result if it returns in time.
func (d *blockDevice) bound(f func() error) error {
	if d.failed != nil {
		return d.failed
	}
	result, err := bounded.Do(context.Background(), d.calls, d.file.Name(), func(context.Context) error { return f() })
	if err != nil {
		d.failed = fmt.Errorf("device %s: %w", d.file.Name(), err)
		return d.failed
	}
	return result
}

// aligned returns memory for reads and writes that bypass the page cache.
func aligned(length int) []byte {
	b := make([]byte, length+memoryAlignment)
	skip := memoryAlignment - int(uintptr(unsafe.Pointer(&b[0]))%memoryAlignment)
	return b[skip : skip+length : skip+length]
}
