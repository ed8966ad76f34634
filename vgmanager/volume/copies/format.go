package copies

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
)

// This file has the format in which a node agent sends the data of a volume to another one: records of data and of
// zeros, each with a checksum, and an end that says what was sent. A stream that was cut off has no end.
//
// A stream begins with the 8 bytes of magic. Then come records, in the order of their offsets, without overlap. All
// numbers are big-endian. A record has a header of 32 bytes:
//
//	kind      uint8   data, sum (of data that is not sent), zeros or end
//	encoding  uint8   raw or zstd; raw if the record has no data
//	reserved  uint16  0
//	stored    uint32  bytes that follow the header
//	offset    uint64  where in the volume
//	length    uint64  bytes in the volume
//	sum       uint32  CRC-32C of the data before compression
//	header    uint32  CRC-32C of the 28 bytes before
//
// The offset of the end is the size of the volume, its length is the number of records before it, and it is followed by
// the SHA-256 of their headers with the kind, offset, length and sum, as they would be without compression.

const (
	magic        = "LVMScpy1"
	headerLength = 32
	// maxData is the maximum number of bytes of a data record. Both sides hold a few of them in memory.
	maxData = 1 << 20
	// maxStored limits what a receiver reads for a record: data that grows when compressed is sent raw.
	maxStored = maxData
)

type kind uint8

const (
	kindData kind = iota + 1
	kindZeros
	kindEnd
	kindSum
)

type encoding uint8

const (
	encodingRaw encoding = iota
	encodingZstd
)

// errDamaged says that a stream is not as it was sent: it was cut off, or changed.
var errDamaged = errors.New("the stream is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of the data of a record, CRC-32C.
func sumOf(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

type header struct {
	kind           kind
	encoding       encoding
	stored         uint32
	offset, length uint64
	sum            uint32
}

func (h header) encode() [headerLength]byte {
	var b [headerLength]byte
	b[0] = byte(h.kind)
	b[1] = byte(h.encoding)
	binary.BigEndian.PutUint32(b[4:], h.stored)
	binary.BigEndian.PutUint64(b[8:], h.offset)
	binary.BigEndian.PutUint64(b[16:], h.length)
	binary.BigEndian.PutUint32(b[24:], h.sum)
	binary.BigEndian.PutUint32(b[28:], sumOf(b[:28]))
	return b
}

func decode(b [headerLength]byte) (header, error) {
	if sumOf(b[:28]) != binary.BigEndian.Uint32(b[28:]) {
		return header{}, fmt.Errorf("%w: a header has a wrong checksum", errDamaged)
	}
	h := header{kind: kind(b[0]), encoding: encoding(b[1]), stored: binary.BigEndian.Uint32(b[4:]),
		offset: binary.BigEndian.Uint64(b[8:]), length: binary.BigEndian.Uint64(b[16:]),
		sum: binary.BigEndian.Uint32(b[24:])}
	return h, h.check(binary.BigEndian.Uint16(b[2:]))
}

// check returns an error if a header is not one that a streamWriter of this version writes.
func (h header) check(reserved uint16) error {
	if reserved != 0 || h.encoding > encodingZstd || h.offset+h.length < h.offset || !h.fitsKind() {
		return fmt.Errorf("%w: a record has the kind %d, the encoding %d and %d bytes for %d bytes at offset %d, "+
			"which this version does not know", errDamaged, h.kind, h.encoding, h.stored, h.length, h.offset)
	}
	return nil
}

// fitsKind returns true if the lengths, the encoding and the checksum are possible for the kind of record.
func (h header) fitsKind() bool {
	isPiece := h.length > 0 && h.length <= maxData
	hasNoContent := h.stored == 0 && h.encoding == encodingRaw
	switch h.kind {
	case kindData:
		return isPiece && h.stored > 0 && h.stored <= maxStored &&
			(h.encoding != encodingRaw || uint64(h.stored) == h.length)
	case kindSum:
		return isPiece && hasNoContent
	case kindZeros:
		return h.length > 0 && hasNoContent && h.sum == 0
	case kindEnd:
		return h.stored == sha256.Size && h.encoding == encodingRaw
	}
	return false
}

// digest is what the end of a stream says about the records before it.
type digest struct {
	hash    hash.Hash
	records uint64
	// next is the lowest offset that the next record can have.
	next uint64
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

// add counts a record. It returns an error if the record is not behind the one before, or not within the volume.
func (d *digest) add(h header, size uint64) error {
	if h.offset < d.next || h.offset > size || h.length > size-h.offset {
		return fmt.Errorf("%w: a record of %d bytes at offset %d, after offset %d of a volume of %d bytes", errDamaged,
			h.length, h.offset, d.next, size)
	}
	d.next = h.offset + h.length
	d.records++
	plain := header{kind: h.kind, offset: h.offset, length: h.length, sum: h.sum}.encode()
	d.hash.Write(plain[:])
	return nil
}
