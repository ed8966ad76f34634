// Package volumecopy copies the data of a volume to another node: the agent of the source sends what is allocated or
// has changed, the agent of the target writes it and then compares all of it with the source.
package volumecopy

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/lvm-storage/lvm-operator/vgmanager/copystream"
)

// block is the unit in bytes in which zeros are found. It is the smallest chunk of a thin pool, and a multiple of any
// logical block size.
const block = 64 << 10

// MaxPiece is the maximum number of bytes of a call of Source.Wait.
const MaxPiece = copystream.MaxData

// Range is a part of a volume, in bytes.
type Range struct{ Offset, Length uint64 }

// Ranges calls yield with the parts of a volume to send, in the order of their offsets, without overlap, until yield
// returns false. Parts that end before the offset from can be left out. It ends after an error.
type Ranges func(ctx context.Context, from uint64, yield func(Range, error) bool)

// Whole returns all of a volume, for volumes that do not record what is allocated.
func Whole(size uint64) Ranges {
	return func(_ context.Context, _ uint64, yield func(Range, error) bool) { yield(Range{Length: size}, nil) }
}

// Source is a volume whose content does not change while it is sent.
type Source struct {
	Device io.ReaderAt
	// Size is the size of the volume in bytes.
	Size uint64
	// Ranges are the parts to send.
	Ranges Ranges
	// From is the byte from which on to send.
	From uint64
	// Wait delays the sender until it may read this number of bytes, at most MaxPiece. It is nil without a limit.
	Wait func(ctx context.Context, bytes int) error
}

// Send sends the data of a volume. Parts that have zeros only are sent as such.
func Send(ctx context.Context, to io.Writer, s Source) error {
	return s.write(ctx, to, (*copystream.Writer).Data)
}

// SendSums sends the checksums of the data that Send sends, for the same records.
func SendSums(ctx context.Context, to io.Writer, s Source) error {
	return s.write(ctx, to, (*copystream.Writer).Sum)
}

// write sends records. part writes one with data.
func (s Source) write(ctx context.Context, to io.Writer,
	part func(w *copystream.Writer, offset uint64, data []byte) error) error {
	w, err := copystream.NewWriter(to, s.Size)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	buffer := aligned(copystream.MaxData)
	ranges := func(yield func(Range, error) bool) { s.Ranges(ctx, s.From, yield) }
	for r, err := range ranges {
		if err != nil {
			return err
		}
		if r.Offset > s.Size || r.Length > s.Size-r.Offset {
			return fmt.Errorf("%d bytes at offset %d are not in the volume, which has %d bytes", r.Length, r.Offset,
				s.Size)
		}
		if err := s.writeRange(ctx, w, r, buffer, part); err != nil {
			return err
		}
	}
	return w.End()
}

// writeRange sends a range in pieces that begin at multiples of the size of the buffer, so that a stream that continues
// another one has the same records.
func (s Source) writeRange(ctx context.Context, w *copystream.Writer, r Range, buffer []byte,
	part func(w *copystream.Writer, offset uint64, data []byte) error) error {
	end := r.Offset + r.Length
	for offset := max(r.Offset, min(s.From, end)); offset < end; {
		length := min(uint64(len(buffer))-offset%uint64(len(buffer)), end-offset)
		piece := buffer[:length]
		if s.Wait != nil {
			if err := s.Wait(ctx, len(piece)); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := s.Device.ReadAt(piece, int64(offset)); err != nil {
			return fmt.Errorf("read %d bytes at offset %d: %w", length, offset, err)
		}
		if err := writePiece(w, offset, piece, part); err != nil {
			return err
		}
		offset += length
	}
	return nil
}

// writePiece sends a piece as runs of blocks that have data, or zeros only.
func writePiece(w *copystream.Writer, offset uint64, piece []byte,
	part func(w *copystream.Writer, offset uint64, data []byte) error) error {
	for len(piece) > 0 {
		length, zeros := run(piece)
		var err error
		if zeros {
			err = w.Zeros(offset, uint64(length))
		} else {
			err = part(w, offset, piece[:length])
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

var zeroBlock [block]byte

func isZero(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }
