package rescue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// holeSize is the size of an aligned all-zero block that is not written to a file.
const holeSize = 4096

// Target is the file or block device that gets the copy.
type Target struct {
	file   *os.File
	device bool
	// blank is true if what was never written reads as zeros: a file that this process created.
	blank bool
}

// Write writes data. In a file, blocks of zeros become holes.
func (t *Target) Write(data []byte, at int64) error {
	if t.device {
		return t.write(data, at)
	}
	for len(data) > 0 {
		length, zeros := run(data)
		var err error
		if zeros {
			err = t.Zero(Range{at, int64(length)})
		} else {
			err = t.write(data[:length], at)
		}
		if err != nil {
			return err
		}
		data, at = data[length:], at+int64(length)
	}
	return nil
}

var zeroBlock [holeSize]byte

// run returns the length of the blocks at the beginning of data that are all zeros, or that all have content.
func run(data []byte) (length int, zeros bool) {
	for length < len(data) {
		block := data[length:min(length+holeSize, len(data))]
		is := bytes.Equal(block, zeroBlock[:len(block)])
		if length > 0 && is != zeros {
			break
		}
		zeros = is
		length += len(block)
	}
	return length, zeros
}

func (t *Target) write(data []byte, at int64) error {
	if _, err := t.file.WriteAt(data, at); err != nil {
		hint := ""
		if errors.Is(err, unix.ENOSPC) {
			hint = ": free space there, and run the same command again: it continues"
		}
		return fmt.Errorf("write to the target: %w%s", err, hint)
	}
	return nil
}

// Zero writes zeros for a range that was lost, unless the target already has zeros there.
func (t *Target) Zero(r Range) error {
	if t.blank {
		return nil
	}
	if !t.device {
		const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		err := unix.Fallocate(int(t.file.Fd()), mode, r.Start, r.Length)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("write zeros to the target: %w", err)
		}
	}
	for r.Length > 0 {
		n := min(r.Length, holeSize)
		if err := t.write(zeroBlock[:n], r.Start); err != nil {
			return err
		}
		r = Range{r.Start + n, r.Length - n}
	}
	return nil
}

// Sync writes everything to the disk of the target, and frees the memory of the page cache.
func (t *Target) Sync() error {
	if err := t.file.Sync(); err != nil {
		return fmt.Errorf("write to the target: %w", err)
	}
	_ = unix.Fadvise(int(t.file.Fd()), 0, 0, unix.FADV_DONTNEED)
	return nil
}

// Close closes the target.
func (t *Target) Close() error { return t.file.Close() }

func (t *Target) size() (int64, error) { return t.file.Seek(0, io.SeekEnd) }
