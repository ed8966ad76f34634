package copies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
)

// roomInterval is the number of bytes, of data or zeros, for which room is asked for at once.
const roomInterval = 16 << 20

// ErrDiffers says that a copy does not have the data of its source, so it must be made again from the start.
var ErrDiffers = errors.New("the copy differs from its source")

// writing is how the stream of a round is written to its target, and how far it is.
type writing struct {
	Target
	device device
	// size is the size of the source in bytes, which the target has at least. baseSize is that of the base, 0 without
	// one.
	size, baseSize uint64
	// saveEvery is the number of bytes, of data or set to zero, after which what was written is flushed and saved.
	// Parts of the volume that stay as they are do not count: few changes all over a large volume are not saved.
	saveEvery uint64
	// saveOffset records that everything before an offset is on stable storage: the next call has it as Done.
	saveOffset Record
	// progress is called with the offset up to which the source was received, for each record.
	progress func(offset uint64)

	// next is the lowest offset of the next record. What is between filled and next is zero in the source, and may not
	// be zero in the target yet. Everything before saved is on stable storage.
	next, filled, saved uint64
	// unsaved is how many bytes were written or set to zero since the last save.
	unsaved uint64
	// room is how many bytes can be written before Room is asked again.
	room uint64
	// early: the stream ended, or Room returned an error, before all was written. The device has not failed.
	early bool
}

// content says what the device of a target has where nothing was written yet.
type content int

const (
	// contentUnknown is anything: a thick volume has what was on its disks before.
	contentUnknown content = iota
	// contentZeros is a new thin volume of a pool that sets new chunks to zero.
	contentZeros
	// contentZeroChunks is a new thin volume of a pool that does not: a chunk of which a part is written has anything
	// in the rest.
	contentZeroChunks
	// contentBase is an earlier copy. A stream has what is different, and the rest stays. In a pool that does not set
	// new chunks to zero, the copy must have been written as contentUnknown, and chunk must be 0 in both rounds: then
	// all chunks are provided, and none of them is freed. Behind the size of the base, what is not in the stream reads
	// as zeros.
	contentBase
)

// receive writes a stream to a target. What is not in the stream reads as zeros then, or stays with contentBase. When
// it returns, all of it is on stable storage. After an error, a call with the offset that was saved last continues:
// that is the end of what was written, if the stream ended early or Room returned an error.
//
// The copy must not be used before verify has compared it.
func (w writing) receive(ctx context.Context, from io.Reader) error {
	reader, err := newStreamReader(from, w.size)
	if err != nil {
		return err
	}
	defer reader.Close()
	w.next = w.Done
	w.filled = w.Done
	w.saved = w.Done
	err = w.all(ctx, reader)
	if w.early && ctx.Err() == nil {
		return errors.Join(err, w.saveWritten(ctx))
	}
	return err
}

// all writes all records of a stream.
func (w *writing) all(ctx context.Context, reader *streamReader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return w.finish(ctx)
		}
		if err != nil {
			w.early = true
			return fmt.Errorf("receive the data behind offset %d: %w", w.next, err)
		}
		if err := w.record(ctx, r); err != nil {
			return err
		}
	}
}

// saveWritten saves the end of what was written, so that a stream that always ends early, for example because the
// device is slow, is received nevertheless.
func (w *writing) saveWritten(ctx context.Context) error {
	if w.unsaved == 0 {
		return nil
	}
	return w.save(ctx, w.chunkBefore(w.filled))
}

// reserve asks for room before bytes are written.
func (w *writing) reserve(ctx context.Context, bytes uint64) error {
	if w.Room == nil {
		return nil
	}
	if w.room < bytes {
		if err := w.Room(ctx, 0); err != nil {
			w.early = true
			return err
		}
		w.room = max(roomInterval, bytes)
	}
	w.room -= bytes
	return nil
}

func (w *writing) record(ctx context.Context, r record) error {
	if r.Offset < w.next {
		return fmt.Errorf("%w: it has %d bytes at offset %d, but was asked for those from offset %d on",
			errDamaged, r.Length, r.Offset, w.next)
	}
	if !r.Zeros && r.Data == nil {
		return fmt.Errorf("%w: it has a checksum without data at offset %d", errDamaged, r.Offset)
	}
	if err := w.write(ctx, r); err != nil {
		return err
	}
	w.next = r.Offset + r.Length
	w.progress(w.next)
	if w.unsaved < w.saveEvery {
		return nil
	}
	return w.save(ctx, w.chunkBefore(w.next))
}

func (w *writing) write(ctx context.Context, r record) error {
	switch {
	case r.Zeros && w.content() == contentBase:
		return w.clear(ctx, r.Offset, r.Offset+r.Length)
	case r.Zeros:
		return nil // As if it were not in the stream.
	}
	if err := w.fill(ctx, r.Offset); err != nil {
		return err
	}
	if err := w.reserve(ctx, r.Length); err != nil {
		return err
	}
	if _, err := w.device.WriteAt(r.Data, int64(r.Offset)); err != nil {
		return fmt.Errorf("write %d bytes at offset %d: %w", len(r.Data), r.Offset, err)
	}
	w.filled = r.Offset + r.Length
	w.unsaved += r.Length
	return nil
}

// fill lets everything before an offset be as in the source.
func (w *writing) fill(ctx context.Context, offset uint64) error {
	if offset <= w.filled {
		return nil
	}
	for _, r := range w.toZero(w.filled, offset) {
		for at, end := r.Offset, r.Offset+r.Length; at < end; at = w.filled {
			step := min(end-at, roomInterval)
			if err := w.zero(ctx, at, step); err != nil {
				return err
			}
			w.filled = at + step
		}
	}
	w.filled = offset
	return nil
}

// toZero returns what must be set to zero between the end of the last data and the begin of the next.
func (w *writing) toZero(filled, offset uint64) []changedblocks.Range {
	switch w.content() {
	case contentZeros:
		return nil
	case contentBase:
		newFrom := w.newFrom(w.baseSize)
		if from := max(filled, newFrom); newFrom > 0 && from < offset {
			return []changedblocks.Range{{Offset: from, Length: offset - from}}
		}
		return nil
	case contentUnknown:
		return []changedblocks.Range{{Offset: filled, Length: offset - filled}}
	}
	// The rest of the chunk in which the last data ends, and the begin of the one in which the next data begins.
	var list []changedblocks.Range
	tail := min(w.chunkAfter(filled), offset)
	if tail > filled {
		list = append(list, changedblocks.Range{Offset: filled, Length: tail - filled})
	}
	if head := max(w.chunkBefore(offset), tail); offset > head {
		list = append(list, changedblocks.Range{Offset: head, Length: offset - head})
	}
	return list
}

// clear lets a part of an earlier copy read as zeros. It frees whole chunks.
func (w *writing) clear(ctx context.Context, offset, end uint64) error {
	first, last := w.chunkAfter(offset), w.chunkBefore(end)
	if w.chunk() == 0 || first >= last {
		return w.zero(ctx, offset, end-offset)
	}
	if err := w.device.Discard(first, last-first); err != nil {
		return fmt.Errorf("discard %d bytes at offset %d: %w", last-first, first, err)
	}
	w.unsaved += last - first
	return errors.Join(w.zero(ctx, offset, first-offset), w.zero(ctx, last, end-last))
}

func (w *writing) zero(ctx context.Context, offset, length uint64) error {
	if length == 0 {
		return nil
	}
	if err := w.reserve(ctx, length); err != nil {
		return err
	}
	if err := w.device.Zero(offset, length); err != nil {
		return fmt.Errorf("write %d zeros at offset %d: %w", length, offset, err)
	}
	w.unsaved += length
	return nil
}

// chunkBefore and chunkAfter round an offset to a chunk. A thick volume has no chunks.
func (w *writing) chunkBefore(offset uint64) uint64 {
	if w.chunk() == 0 {
		return offset
	}
	return offset / w.chunk() * w.chunk()
}

func (w *writing) chunkAfter(offset uint64) uint64 {
	if w.chunk() == 0 {
		return offset
	}
	return (offset + w.chunk() - 1) / w.chunk() * w.chunk()
}

// save flushes and records an offset. In a pool that does not set new chunks to zero, the offset is the begin of a
// chunk: data behind it can still provide the chunk, so nothing of it may count as written before.
func (w *writing) save(ctx context.Context, offset uint64) error {
	if offset <= w.saved {
		return nil
	}
	if err := w.flush(ctx, offset); err != nil {
		return err
	}
	if err := w.saveOffset(ctx, offset); err != nil {
		return fmt.Errorf("save that everything before offset %d was written: %w", offset, err)
	}
	w.saved, w.unsaved = offset, 0
	return nil
}

// flush returns when everything before an offset is as in the source, on stable storage.
func (w *writing) flush(ctx context.Context, offset uint64) error {
	if err := w.fill(ctx, offset); err != nil {
		return err
	}
	if err := w.device.Flush(); err != nil {
		return fmt.Errorf("flush what was written before offset %d: %w", offset, err)
	}
	return nil
}

// finish flushes the rest. It saves the end only if much was written since the last time.
func (w *writing) finish(ctx context.Context) error {
	w.next = w.size
	if err := w.fill(ctx, w.size); err != nil {
		return err
	}
	if w.unsaved < w.saveEvery {
		return w.flush(ctx, w.size)
	}
	return w.save(ctx, w.size)
}

// verify compares a copy of this size with the checksums of the source (sendSums). It reads the whole copy that the
// stream describes from the device. progress is called with the offset up to which the copy was compared, for each
// record.
func verify(ctx context.Context, sums io.Reader, copied io.ReaderAt, size uint64, progress func(uint64)) error {
	reader, err := newStreamReader(sums, size)
	if err != nil {
		return err
	}
	defer reader.Close()
	buffer := aligned(maxData)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive checksums of the source: %w", err)
		}
		if err := verifyRecord(copied, r, buffer); err != nil {
			return err
		}
		progress(r.Offset + r.Length)
	}
}

func verifyRecord(copied io.ReaderAt, r record, buffer []byte) error {
	for offset := r.Offset; offset < r.Offset+r.Length; {
		piece := buffer[:min(uint64(len(buffer)), r.Offset+r.Length-offset)]
		if _, err := copied.ReadAt(piece, int64(offset)); err != nil {
			return fmt.Errorf("read %d bytes of the copy at offset %d: %w", len(piece), offset, err)
		}
		if r.Zeros && !isZero(piece) {
			return fmt.Errorf("%w: %d bytes at offset %d are not zero", ErrDiffers, len(piece), offset)
		}
		// A record with data has at most the size of the buffer.
		if sum := sumOf(piece); !r.Zeros && sum != r.Sum {
			return fmt.Errorf("%w: %d bytes at offset %d have the checksum %08x, the source has %08x", ErrDiffers,
				len(piece), offset, sum, r.Sum)
		}
		offset += uint64(len(piece))
	}
	return nil
}
