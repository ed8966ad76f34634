package copies

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
)

// block is the unit in bytes in which zeros are found. It is the smallest chunk of a thin pool, and a multiple of any
// logical block size.
const block = 64 << 10

// ranges calls yield with the parts of a volume to send, in the order of their offsets, without overlap, until yield
// returns false. Parts that end before the offset from can be left out. It ends after an error.
type ranges func(ctx context.Context, from uint64, yield func(changedblocks.Range, error) bool)

// whole returns all of a volume, for volumes that do not record what is allocated.
func whole(size uint64) ranges {
	return func(_ context.Context, _ uint64, yield func(changedblocks.Range, error) bool) {
		yield(changedblocks.Range{Length: size}, nil)
	}
}

// opened is a source that is open until it is closed. Its content does not change while it is sent.
type opened struct {
	description
	device io.ReaderAt
	// ranges are the parts to send, from the byte from on.
	ranges ranges
	from   uint64
	// wait delays the sender until it may read this number of bytes, at most maxData. It is nil without a limit.
	wait  func(ctx context.Context, bytes int) error
	close func() error
}

// sendData sends the data of a volume. Parts that have zeros only are sent as such.
func sendData(ctx context.Context, to io.Writer, o *opened) error {
	return o.send(ctx, to, (*streamWriter).Data)
}

// sendSums sends the checksums of the data that sendData sends, for the same records.
func sendSums(ctx context.Context, to io.Writer, o *opened) error {
	return o.send(ctx, to, (*streamWriter).Sum)
}

// sending is a stream that is being sent. part writes a record with data.
type sending struct {
	*opened
	to     *streamWriter
	part   func(w *streamWriter, offset uint64, data []byte) error
	buffer []byte
}

func (o *opened) send(ctx context.Context, to io.Writer,
	part func(w *streamWriter, offset uint64, data []byte) error) error {
	w, err := newStreamWriter(to, o.Size)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	s := sending{opened: o, to: w, part: part, buffer: aligned(maxData)}
	list := func(yield func(changedblocks.Range, error) bool) { o.ranges(ctx, o.from, yield) }
	for r, err := range list {
		if err != nil {
			return err
		}
		if r.Offset > o.Size || r.Length > o.Size-r.Offset {
			return fmt.Errorf("%d bytes at offset %d are not in the volume, which has %d bytes", r.Length, r.Offset,
				o.Size)
		}
		if err := s.sendRange(ctx, r); err != nil {
			return err
		}
	}
	return w.End()
}

// sendRange sends a range in pieces that begin at multiples of the size of the buffer, so that a stream that continues
// another one has the same records.
func (s *sending) sendRange(ctx context.Context, r changedblocks.Range) error {
	end := r.Offset + r.Length
	for offset := max(r.Offset, min(s.from, end)); offset < end; {
		length := min(uint64(len(s.buffer))-offset%uint64(len(s.buffer)), end-offset)
		piece := s.buffer[:length]
		if s.wait != nil {
			if err := s.wait(ctx, len(piece)); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := s.device.ReadAt(piece, int64(offset)); err != nil {
			return fmt.Errorf("read %d bytes at offset %d: %w", length, offset, err)
		}
		if err := s.sendPiece(offset, piece); err != nil {
			return err
		}
		offset += length
	}
	return nil
}

// sendPiece sends a piece as runs of blocks that have data, or zeros only.
func (s *sending) sendPiece(offset uint64, piece []byte) error {
	for len(piece) > 0 {
		length, zeros := run(piece)
		var err error
		if zeros {
			err = s.to.Zeros(offset, uint64(length))
		} else {
			err = s.part(s.to, offset, piece[:length])
		}
		if err != nil {
			return fmt.Errorf("send %d bytes at offset %d: %w", length, offset, err)
		}
		offset += uint64(length)
		piece = piece[length:]
	}
	return nil
}

// run returns the length of the first blocks that all have data, or that all have zeros only.
func run(piece []byte) (length int, zeros bool) {
	zeros = isZero(piece[:min(block, len(piece))])
	for length < len(piece) {
		end := min(length+block, len(piece))
		if isZero(piece[length:end]) != zeros {
			break
		}
		length = end
	}
	return length, zeros
}

var zeroPiece [maxData]byte

// isZero reports whether a piece of at most maxData bytes has zeros only.
func isZero(b []byte) bool { return bytes.Equal(b, zeroPiece[:len(b)]) }
