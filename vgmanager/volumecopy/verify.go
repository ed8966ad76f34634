package volumecopy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lvm-storage/lvm-operator/vgmanager/copystream"
)

// ErrDiffers says that a copy does not have the data of its source, so it must be made again from the start.
var ErrDiffers = errors.New("the copy differs from its source")

// Verify compares a copy of this size with the checksums of the source (SendSums). It reads the whole copy that the
// stream describes from the device. Progress is called with the offset up to which the copy was compared, for each
// record; it can be nil.
func Verify(ctx context.Context, sums io.Reader, copied io.ReaderAt, size uint64, progress func(uint64)) error {
	reader, err := copystream.NewReader(sums, size)
	if err != nil {
		return err
	}
	defer reader.Close()
	buffer := aligned(copystream.MaxData)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		record, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive checksums of the source: %w", err)
		}
		if err := verifyRecord(copied, record, buffer); err != nil {
			return err
		}
		if progress != nil {
			progress(record.Offset + record.Length)
		}
	}
}

func verifyRecord(copied io.ReaderAt, r copystream.Record, buffer []byte) error {
	for offset := r.Offset; offset < r.Offset+r.Length; {
		piece := buffer[:min(uint64(len(buffer)), r.Offset+r.Length-offset)]
		if _, err := copied.ReadAt(piece, int64(offset)); err != nil {
			return fmt.Errorf("read %d bytes of the copy at offset %d: %w", len(piece), offset, err)
		}
		if r.Zeros && !isAllZero(piece) {
			return fmt.Errorf("%w: %d bytes at offset %d are not zero", ErrDiffers, len(piece), offset)
		}
		// A record with data has at most the size of the buffer.
		if sum := copystream.Sum(piece); !r.Zeros && sum != r.Sum {
			return fmt.Errorf("%w: %d bytes at offset %d have the checksum %08x, the source has %08x", ErrDiffers,
				len(piece), offset, sum, r.Sum)
		}
		offset += uint64(len(piece))
	}
	return nil
}

func isAllZero(b []byte) bool {
	for len(b) > 0 {
		n := min(block, len(b))
		if !isZero(b[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}
