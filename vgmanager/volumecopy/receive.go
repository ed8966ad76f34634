package volumecopy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lvm-storage/lvm-operator/vgmanager/copystream"
)

const (
	// SaveInterval is a good value for Target.SaveInterval.
	SaveInterval = 256 << 20
	// roomInterval is the number of bytes, of data or zeros, for which room is asked for at once.
	roomInterval = 16 << 20
)

// Device is the device of a target. Offsets and lengths are in bytes.
type Device interface {
	io.ReaderAt
	io.WriterAt
	// Zero lets a part of the device read as zeros.
	Zero(offset, length uint64) error
	// Discard lets whole chunks of a thin volume read as zeros, and frees their space.
	Discard(offset, length uint64) error
	// Flush returns when all that was written is on stable storage.
	Flush() error
}

// Target is where a copy is written.
type Target struct {
	Device Device
	// Size is the size of the source in bytes. The target has at least that.
	Size uint64
	// Content says what the device has where nothing was written yet.
	Content Content
	// Chunk is the size of the chunks of the thin pool in bytes, 0 for a thick volume.
	Chunk uint64
	// NewFrom is for ContentBase: from this byte on, the target has anything, because it was extended after the earlier
	// copy. 0: nowhere.
	NewFrom uint64
	// From is the byte up to which an earlier call has written everything (Save).
	From uint64
	// SaveInterval is the number of bytes, of data or set to zero, after which what was written is flushed and saved.
	// Parts of the volume that stay as they are do not count: few changes all over a large volume are not saved.
	SaveInterval uint64
	// Save records that everything before an offset is on stable storage.
	Save func(ctx context.Context, offset uint64) error
	// Room returns an error if the thin pool must not get more data. It is called before each 16 MiB are written. It is
	// nil for a thick volume.
	Room func(ctx context.Context) error
	// Progress is called with the offset up to which the source was received, for each record. It can be nil.
	Progress func(offset uint64)
}

// Content is what a target has where nothing was written yet.
type Content int

const (
	// ContentUnknown is anything: a thick volume has what was on its disks before.
	ContentUnknown Content = iota
	// ContentZeros is a new thin volume of a pool that sets new chunks to zero.
	ContentZeros
	// ContentZeroChunks is a new thin volume of a pool that does not: a chunk of which a part is written has anything
	// in the rest.
	ContentZeroChunks
	// ContentBase is an earlier copy. A stream has what is different, and the rest stays. In a pool that does not set
	// new chunks to zero, the copy must have been written as ContentUnknown, and Chunk must be 0 in both calls: then
	// all chunks are provided, and none of them is freed. Behind NewFrom, what is not in the stream reads as zeros.
	ContentBase
)

// Receive writes a stream to a target. What is not in the stream reads as zeros then, or stays with ContentBase. When
// it returns, all of it is on stable storage. After an error, a call with the offset that was saved last continues:
// that is the end of what was written, if the stream ended early or Room returned an error.
//
// The copy must not be used before Verify has compared it.
func Receive(ctx context.Context, from io.Reader, t Target) error {
	reader, err := copystream.NewReader(from, t.Size)
	if err != nil {
		return err
	}
	defer reader.Close()
	w := writing{Target: t, next: t.From, filled: t.From, saved: t.From}
	err = w.all(ctx, reader)
	if w.early && ctx.Err() == nil {
		return errors.Join(err, w.saveWritten(ctx))
	}
	return err
}

// writing is the state of a call of Receive.
type writing struct {
	Target
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

// all writes all records of a stream.
func (w *writing) all(ctx context.Context, reader *copystream.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		record, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return w.finish(ctx)
		}
		if err != nil {
			w.early = true
			return fmt.Errorf("receive the data behind offset %d: %w", w.next, err)
		}
		if err := w.record(ctx, record); err != nil {
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
		if err := w.Room(ctx); err != nil {
			w.early = true
			return err
		}
		w.room = max(roomInterval, bytes)
	}
	w.room -= bytes
	return nil
}

func (w *writing) record(ctx context.Context, r copystream.Record) error {
	if r.Offset < w.next {
		return fmt.Errorf("%w: it has %d bytes at offset %d, but was asked for those from offset %d on",
			copystream.ErrDamaged, r.Length, r.Offset, w.next)
	}
	if !r.Zeros && r.Data == nil {
		return fmt.Errorf("%w: it has a checksum without data at offset %d", copystream.ErrDamaged, r.Offset)
	}
	if err := w.write(ctx, r); err != nil {
		return err
	}
	w.next = r.Offset + r.Length
	if w.Progress != nil {
		w.Progress(w.next)
	}
	if w.unsaved < w.SaveInterval {
		return nil
	}
	return w.save(ctx, w.chunkBefore(w.next))
}

func (w *writing) write(ctx context.Context, r copystream.Record) error {
	switch {
	case r.Zeros && w.Content == ContentBase:
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
	if _, err := w.Device.WriteAt(r.Data, int64(r.Offset)); err != nil {
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
func (w *writing) toZero(filled, offset uint64) []Range {
	switch w.Content {
	case ContentZeros:
		return nil
	case ContentBase:
		if from := max(filled, w.NewFrom); w.NewFrom > 0 && from < offset {
			return []Range{{Offset: from, Length: offset - from}}
		}
		return nil
	case ContentUnknown:
		return []Range{{Offset: filled, Length: offset - filled}}
	}
	// The rest of the chunk in which the last data ends, and the begin of the one in which the next data begins.
	var list []Range
	tail := min(w.chunkAfter(filled), offset)
	if tail > filled {
		list = append(list, Range{Offset: filled, Length: tail - filled})
	}
	if head := max(w.chunkBefore(offset), tail); offset > head {
		list = append(list, Range{Offset: head, Length: offset - head})
	}
	return list
}

// clear lets a part of an earlier copy read as zeros. It frees whole chunks.
func (w *writing) clear(ctx context.Context, offset, end uint64) error {
	first, last := w.chunkAfter(offset), w.chunkBefore(end)
	if w.Chunk == 0 || first >= last {
		return w.zero(ctx, offset, end-offset)
	}
	if err := w.Device.Discard(first, last-first); err != nil {
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
	if err := w.Device.Zero(offset, length); err != nil {
		return fmt.Errorf("write %d zeros at offset %d: %w", length, offset, err)
	}
	w.unsaved += length
	return nil
}

// chunkBefore and chunkAfter round an offset to a chunk. A thick volume has no chunks.
func (w *writing) chunkBefore(offset uint64) uint64 {
	if w.Chunk == 0 {
		return offset
	}
	return offset / w.Chunk * w.Chunk
}

func (w *writing) chunkAfter(offset uint64) uint64 {
	if w.Chunk == 0 {
		return offset
	}
	return (offset + w.Chunk - 1) / w.Chunk * w.Chunk
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
	if err := w.Save(ctx, offset); err != nil {
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
	if err := w.Device.Flush(); err != nil {
		return fmt.Errorf("flush what was written before offset %d: %w", offset, err)
	}
	return nil
}

// finish flushes the rest. It saves the end only if much was written since the last time.
func (w *writing) finish(ctx context.Context) error {
	w.next = w.Size
	if err := w.fill(ctx, w.Size); err != nil {
		return err
	}
	if w.unsaved < w.SaveInterval {
		return w.flush(ctx, w.Size)
	}
	return w.save(ctx, w.Size)
}
