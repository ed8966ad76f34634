package copies

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// streamWriter writes a stream. It must be closed.
type streamWriter struct {
	to      io.Writer
	size    uint64
	digest  *digest
	encoder *zstd.Encoder
	effort  effort
	buffer  []byte
	// failed is the first error. What follows it must not be written: the receiver could take it for whole.
	failed error
	// first is what the stream begins with, until it is written.
	first []byte
}

// newStreamWriter returns the streamWriter of a stream with data of a volume with this size in bytes.
func newStreamWriter(to io.Writer, size uint64) (*streamWriter, error) {
	// One goroutine, and a window that fits a record.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(maxData), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return &streamWriter{to: to, size: size, digest: newDigest(), encoder: encoder, first: []byte(magic)}, nil
}

// Data writes data of the volume, at most maxData bytes. It compresses the data if that pays.
func (w *streamWriter) Data(offset uint64, data []byte) error {
	h := header{kind: kindData, stored: uint32(len(data)), offset: offset, length: uint64(len(data)), sum: sumOf(data)}
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

// Sum writes the checksum of data of the volume, at most maxData bytes, without the data.
func (w *streamWriter) Sum(offset uint64, data []byte) error {
	return w.record(header{kind: kindSum, offset: offset, length: uint64(len(data)), sum: sumOf(data)}, nil)
}

// Zeros writes that a part of the volume has zeros only.
func (w *streamWriter) Zeros(offset, length uint64) error {
	return w.record(header{kind: kindZeros, offset: offset, length: length}, nil)
}

// End writes the end of the stream, after which nothing can be written.
func (w *streamWriter) End() error {
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
func (w *streamWriter) Close() error { return w.encoder.Close() }

func (w *streamWriter) record(h header, stored []byte) error {
	if w.failed != nil {
		return w.failed
	}
	if err := errors.Join(h.check(0), w.digest.add(h, w.size)); err != nil {
		return w.fail(err)
	}
	return w.write(h, stored)
}

func (w *streamWriter) write(h header, stored []byte) error {
	if w.failed != nil {
		return w.failed
	}
	encoded := h.encode()
	for _, part := range [][]byte{w.first, encoded[:], stored} {
		if len(part) == 0 {
			continue
		}
		if _, err := w.to.Write(part); err != nil {
			return w.fail(err)
		}
	}
	w.first = nil
	return nil
}

func (w *streamWriter) fail(err error) error {
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

// record is a part of a volume. Data is valid until the next record is read.
type record struct {
	Offset, Length uint64
	// Zeros says that the part has zeros only. Data is nil then, and if only the checksum was sent.
	Zeros bool
	Data  []byte
	// Sum is the checksum of the data, 0 for zeros.
	Sum uint32
}

// streamReader reads a stream. It must be closed.
type streamReader struct {
	from    io.Reader
	size    uint64
	digest  *digest
	decoder *zstd.Decoder
	stored  []byte
	data    []byte
	begun   bool
}

// newStreamReader returns the streamReader of a stream with data of a volume with this size in bytes.
func newStreamReader(from io.Reader, size uint64) (*streamReader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxData),
		zstd.WithDecoderMaxWindow(maxData), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return &streamReader{from: from, size: size, digest: newDigest(), decoder: decoder}, nil
}

// Next returns the next record, with correct checksums. It returns io.EOF after the end of a stream that is whole; an
// error that wraps errDamaged if the stream was cut off or changed; or the error of the connection.
func (r *streamReader) Next() (record, error) {
	if err := r.begin(); err != nil {
		return record{}, err
	}
	var encoded [headerLength]byte
	if err := r.fill(encoded[:]); err != nil {
		return record{}, err
	}
	h, err := decode(encoded)
	if err != nil {
		return record{}, err
	}
	r.stored = grow(r.stored, int(h.stored))
	if err := r.fill(r.stored); err != nil {
		return record{}, err
	}
	if h.kind == kindEnd {
		return record{}, r.end(h)
	}
	if err := r.digest.add(h, r.size); err != nil {
		return record{}, err
	}
	next := record{Offset: h.offset, Length: h.length, Zeros: h.kind == kindZeros, Sum: h.sum}
	if h.kind == kindData {
		next.Data, err = r.plain(h)
	}
	return next, err
}

// Close releases memory.
func (r *streamReader) Close() { r.decoder.Close() }

func (r *streamReader) begin() error {
	if r.begun {
		return nil
	}
	var first [len(magic)]byte
	if err := r.fill(first[:]); err != nil {
		return err
	}
	if string(first[:]) != magic {
		return fmt.Errorf("%w: it begins with %q, must begin with %q", errDamaged, first, magic)
	}
	r.begun = true
	return nil
}

func (r *streamReader) fill(b []byte) error {
	_, err := io.ReadFull(r.from, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it was cut off after offset %d", errDamaged, r.digest.next)
	}
	return err
}

// end compares the end of a stream with what was read.
func (r *streamReader) end(h header) error {
	if h.offset != r.size || h.length != r.digest.records || !bytes.Equal(r.stored, r.digest.hash.Sum(nil)) {
		return fmt.Errorf("%w: its end is that of %d other records of a volume of %d bytes", errDamaged, h.length,
			h.offset)
	}
	return io.EOF
}

// plain returns the data of a record.
func (r *streamReader) plain(h header) ([]byte, error) {
	data := r.stored
	if h.encoding == encodingZstd {
		var err error
		if data, err = r.decoder.DecodeAll(r.stored, r.data[:0]); err != nil {
			return nil, fmt.Errorf("%w: decompress the record at offset %d: %w", errDamaged, h.offset, err)
		}
		r.data = data
	}
	if uint64(len(data)) != h.length || sumOf(data) != h.sum {
		return nil, fmt.Errorf("%w: the data at offset %d has %d bytes and the checksum %08x, must have %d and %08x",
			errDamaged, h.offset, len(data), sumOf(data), h.length, h.sum)
	}
	return data, nil
}

func grow(b []byte, length int) []byte {
	if cap(b) < length {
		return make([]byte, length)
	}
	return b[:length]
}
