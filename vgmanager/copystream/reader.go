package copystream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Record is a part of a volume. Data is valid until the next record is read.
type Record struct {
	Offset, Length uint64
	// Zeros says that the part has zeros only. Data is nil then, and if only the checksum was sent.
	Zeros bool
	Data  []byte
	// Sum is the checksum of the data, 0 for zeros.
	Sum uint32
}

// Reader reads a stream. It must be closed.
type Reader struct {
	from    io.Reader
	size    uint64
	digest  *digest
	decoder *zstd.Decoder
	stored  []byte
	data    []byte
	begun   bool
}

// NewReader returns the Reader of a stream with data of a volume with this size in bytes.
func NewReader(from io.Reader, size uint64) (*Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxData),
		zstd.WithDecoderMaxWindow(MaxData), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return &Reader{from: from, size: size, digest: newDigest(), decoder: decoder}, nil
}

// Next returns the next record, with correct checksums. It returns io.EOF after the end of a stream that is whole; an
// error that wraps ErrDamaged if the stream was cut off or changed; or the error of the connection.
func (r *Reader) Next() (Record, error) {
	if err := r.begin(); err != nil {
		return Record{}, err
	}
	var encoded [headerLength]byte
	if err := r.fill(encoded[:]); err != nil {
		return Record{}, err
	}
	h, err := decode(encoded)
	if err != nil {
		return Record{}, err
	}
	r.stored = grow(r.stored, int(h.stored))
	if err := r.fill(r.stored); err != nil {
		return Record{}, err
	}
	if h.kind == kindEnd {
		return Record{}, r.end(h)
	}
	if err := r.digest.add(h, r.size); err != nil {
		return Record{}, err
	}
	record := Record{Offset: h.offset, Length: h.length, Zeros: h.kind == kindZeros, Sum: h.sum}
	if h.kind == kindData {
		record.Data, err = r.plain(h)
	}
	return record, err
}

// Close releases memory.
func (r *Reader) Close() { r.decoder.Close() }

func (r *Reader) begin() error {
	if r.begun {
		return nil
	}
	var first [len(magic)]byte
	if err := r.fill(first[:]); err != nil {
		return err
	}
	if string(first[:]) != magic {
		return fmt.Errorf("%w: it begins with %q, must begin with %q", ErrDamaged, first, magic)
	}
	r.begun = true
	return nil
}

func (r *Reader) fill(b []byte) error {
	_, err := io.ReadFull(r.from, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it was cut off after offset %d", ErrDamaged, r.digest.next)
	}
	return err
}

// end compares the end of a stream with what was read.
func (r *Reader) end(h header) error {
	if h.offset != r.size || h.length != r.digest.records || !bytes.Equal(r.stored, r.digest.hash.Sum(nil)) {
		return fmt.Errorf("%w: its end is that of %d other records of a volume of %d bytes", ErrDamaged, h.length,
			h.offset)
	}
	return io.EOF
}

// plain returns the data of a record.
func (r *Reader) plain(h header) ([]byte, error) {
	data := r.stored
	if h.encoding == encodingZstd {
		var err error
		if data, err = r.decoder.DecodeAll(r.stored, r.data[:0]); err != nil {
			return nil, fmt.Errorf("%w: decompress the record at offset %d: %w", ErrDamaged, h.offset, err)
		}
		r.data = data
	}
	if uint64(len(data)) != h.length || Sum(data) != h.sum {
		return nil, fmt.Errorf("%w: the data at offset %d has %d bytes and the checksum %08x, must have %d and %08x",
			ErrDamaged, h.offset, len(data), Sum(data), h.length, h.sum)
	}
	return data, nil
}

func grow(b []byte, length int) []byte {
	if cap(b) < length {
		return make([]byte, length)
	}
	return b[:length]
}
