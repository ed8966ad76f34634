package copystream

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Writer writes a stream. It must be closed.
type Writer struct {
	to      io.Writer
	size    uint64
	digest  *digest
	encoder *zstd.Encoder
	effort  effort
	buffer  []byte
	// failed is the first error. What follows it must not be written: the receiver could take it for whole.
	failed error
	begun  bool
}

// NewWriter returns the Writer of a stream with data of a volume with this size in bytes.
func NewWriter(to io.Writer, size uint64) (*Writer, error) {
	// One goroutine, and a window that fits a record.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(MaxData), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return &Writer{to: to, size: size, digest: newDigest(), encoder: encoder}, nil
}

var errNothing = errors.New("a record needs data")

// Data writes data of the volume, at most MaxData bytes. It compresses the data if that pays.
func (w *Writer) Data(offset uint64, data []byte) error {
	if err := checkLength(data); err != nil {
		return w.fail(err)
	}
	h := header{kind: kindData, stored: uint32(len(data)), offset: offset, length: uint64(len(data)), sum: Sum(data)}
	stored := data
	if w.effort.tries() {
		w.buffer = w.encoder.EncodeAll(data, w.buffer[:0])
		if w.effort.paid(len(data), len(w.buffer)) {
			stored = w.buffer
			h.encoding = encodingZstd
			h.stored = uint32(len(stored))
		}
	}
	return w.record(h, stored)
}

// Sum writes the checksum of data of the volume, at most MaxData bytes, without the data.
func (w *Writer) Sum(offset uint64, data []byte) error {
	if err := checkLength(data); err != nil {
		return w.fail(err)
	}
	return w.record(header{kind: kindSum, offset: offset, length: uint64(len(data)), sum: Sum(data)}, nil)
}

func checkLength(data []byte) error {
	if len(data) == 0 || len(data) > MaxData {
		return fmt.Errorf("%w: has %d bytes, can have 1 to %d", errNothing, len(data), MaxData)
	}
	return nil
}

// Zeros writes that a part of the volume has zeros only.
func (w *Writer) Zeros(offset, length uint64) error {
	if length == 0 {
		return w.fail(errNothing)
	}
	return w.record(header{kind: kindZeros, offset: offset, length: length}, nil)
}

// End writes the end of the stream, after which nothing can be written.
func (w *Writer) End() error {
	sum := w.digest.hash.Sum(nil)
	h := header{kind: kindEnd, stored: uint32(len(sum)), offset: w.size, length: w.digest.records}
	if err := w.write(h, sum); err != nil {
		return err
	}
	w.failed = errEnded
	return nil
}

var errEnded = errors.New("the stream has ended")

// Close releases memory. It writes nothing.
func (w *Writer) Close() error { return w.encoder.Close() }

func (w *Writer) record(h header, stored []byte) error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.digest.add(h, w.size); err != nil {
		return w.fail(err)
	}
	return w.write(h, stored)
}

func (w *Writer) write(h header, stored []byte) error {
	if w.failed != nil {
		return w.failed
	}
	if !w.begun {
		if _, err := io.WriteString(w.to, magic); err != nil {
			return w.fail(err)
		}
		w.begun = true
	}
	encoded := h.encode()
	if _, err := w.to.Write(encoded[:]); err != nil {
		return w.fail(err)
	}
	if len(stored) == 0 {
		return nil
	}
	if _, err := w.to.Write(stored); err != nil {
		return w.fail(err)
	}
	return nil
}

func (w *Writer) fail(err error) error {
	if w.failed == nil {
		w.failed = err
	}
	return w.failed
}

// effort decides which records are compressed. Data that does not become smaller is usually followed by more of it:
// after each failure, twice as many records are sent without an attempt, up to maxSkip.
type effort struct{ skip, left int }

const maxSkip = 64

func (e *effort) tries() bool {
	if e.left > 0 {
		e.left--
		return false
	}
	return true
}

// paid reports whether the result of an attempt is at least an eighth smaller.
func (e *effort) paid(before, after int) bool {
	if after <= before-before/8 {
		e.skip = 0
		return true
	}
	e.skip = min(max(1, e.skip*2), maxSkip)
	e.left = e.skip
	return false
}
