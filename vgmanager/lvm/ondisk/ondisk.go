// Package ondisk reads what LVM has on a physical volume, without a process: the label, the header of the metadata area
// and the metadata of the volume group (lib/label/label.h, lib/format_text/layout.h and format-text.c of LVM). It
// verifies all checksums, as LVM does, and writes nothing.
package ondisk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	sectorSize = 512
	// labelSectors is the number of sectors in which LVM looks for a label (LABEL_SCAN_SECTORS).
	labelSectors = 4
	// headerSize is the size of the header of a metadata area (MDA_HEADER_SIZE). The metadata begins after it, and
	// wraps around to this offset at the end of the area.
	headerSize = 512
	// maxAreas is the maximum number of areas of each kind that are read.
	maxAreas = 8
	// MaxText is the maximum size of metadata in bytes. LVM's areas have 1 MiB by default.
	MaxText = 64 << 20
	// ignored is the flag of a metadata area that LVM does not use (RAW_LOCN_IGNORED).
	ignored = 1
)

// areaMagic and areaVersion identify the header of a metadata area (FMTT_MAGIC, FMTT_VERSION).
var areaMagic = []byte("\x20\x4c\x56\x4d\x32\x20\x78\x5b\x35\x41\x25\x72\x30\x4e\x2a\x3e")

const areaVersion = 1

// Device is a block device of the node.
type Device struct {
	// Path is a name of the device. It must be the device with this Number, "MAJOR:MINOR".
	Path, Number string
}

// Group is a volume group as its devices have it.
type Group struct {
	// UUIDs are those of the physical volumes, in the order of the devices.
	UUIDs []string
	// Metadata is the text that LVM committed last, which is the same on all devices that have it.
	Metadata []byte
}

// Label is the label of a physical volume.
type Label struct {
	// UUID is that of the physical volume, as LVM prints it.
	UUID string
	// Areas are its metadata areas.
	Areas []Area
}

// Area is where something is on a device, in bytes.
type Area struct{ Offset, Size uint64 }

// Location is where the committed metadata of a volume group is in a metadata area. Two areas with the same metadata
// have the same Size and Checksum.
type Location struct {
	Area Area
	// Offset is the offset in the area.
	Offset, Size uint64
	Checksum     uint32
}

// ReadLabel reads the label at the beginning of a device. It returns an error if there is none, or if it is damaged.
func ReadLabel(device io.ReaderAt) (Label, error) {
	start := make([]byte, labelSectors*sectorSize)
	if _, err := device.ReadAt(start, 0); err != nil {
		return Label{}, err
	}
	for n := range labelSectors {
		sector := start[n*sectorSize : (n+1)*sectorSize]
		if !bytes.HasPrefix(sector, []byte("LABELONE")) {
			continue
		}
		switch {
		case binary.LittleEndian.Uint64(sector[8:]) != uint64(n):
			return Label{}, fmt.Errorf("the label in sector %d says that it is in another one", n)
		case checksum(sector[20:]) != binary.LittleEndian.Uint32(sector[16:]):
			return Label{}, errors.New("the checksum of the label is wrong")
		case !bytes.Equal(sector[24:32], []byte("LVM2 001")):
			return Label{}, fmt.Errorf("the label has the type %q", sector[24:32])
		}
		return decodeHeader(sector, binary.LittleEndian.Uint32(sector[20:]))
	}
	return Label{}, errors.New("the device has no label of LVM")
}

// decodeHeader decodes the header of the physical volume (struct pv_header): UUID, size of the device, the data areas
// up to an empty one, and the metadata areas up to an empty one.
func decodeHeader(sector []byte, offset uint32) (Label, error) {
	const uuidSize, sizeSize = 32, 8
	if uint64(offset)+uuidSize+sizeSize > uint64(len(sector)) {
		return Label{}, errors.New("the label is damaged")
	}
	label := Label{UUID: uuidText(sector[offset : offset+uuidSize])}
	rest, _, err := decodeAreas(sector[offset+uuidSize+sizeSize:])
	if err == nil {
		_, label.Areas, err = decodeAreas(rest)
	}
	return label, err
}

func decodeAreas(b []byte) (rest []byte, areas []Area, err error) {
	for range maxAreas + 1 {
		if len(b) < 16 {
			break
		}
		a := Area{Offset: binary.LittleEndian.Uint64(b), Size: binary.LittleEndian.Uint64(b[8:])}
		b = b[16:]
		if a.Offset == 0 {
			return b, areas, nil
		}
		areas = append(areas, a)
	}
	return nil, nil, errors.New("the list of areas in the label has no end")
}

// uuidText returns a UUID as LVM prints it: with dashes.
func uuidText(id []byte) string {
	var parts [][]byte
	for _, n := range []int{6, 4, 4, 4, 4, 4, 6} {
		parts = append(parts, id[:n])
		id = id[n:]
	}
	return string(bytes.Join(parts, []byte("-")))
}

// ReadLocation reads the header of a metadata area. ok is false if the area has no metadata, or LVM does not use it.
func ReadLocation(device io.ReaderAt, area Area) (l Location, ok bool, err error) {
	header := make([]byte, headerSize)
	if _, err := device.ReadAt(header, int64(area.Offset)); err != nil {
		return Location{}, false, err
	}
	switch {
	case checksum(header[4:]) != binary.LittleEndian.Uint32(header):
		return Location{}, false, errors.New("the checksum of the header of the metadata area is wrong")
	case !bytes.Equal(header[4:20], areaMagic), binary.LittleEndian.Uint32(header[20:]) != areaVersion:
		return Location{}, false, errors.New("the header of the metadata area is of an unknown format")
	case binary.LittleEndian.Uint64(header[24:]) != area.Offset:
		return Location{}, false, errors.New("the header of the metadata area is of another area")
	}
	area.Size = binary.LittleEndian.Uint64(header[32:])
	l = Location{Area: area, Offset: binary.LittleEndian.Uint64(header[40:]),
		Size: binary.LittleEndian.Uint64(header[48:]), Checksum: binary.LittleEndian.Uint32(header[56:])}
	if l.Offset == 0 || binary.LittleEndian.Uint32(header[60:])&ignored != 0 {
		return Location{}, false, nil
	}
	if l.Offset < headerSize || l.Offset >= area.Size || l.Size > area.Size-headerSize || l.Size > MaxText {
		return Location{}, false, errors.New("the header of the metadata area refers to a place outside of the area")
	}
	return l, true, nil
}

// ReadText reads the metadata of a volume group.
func ReadText(device io.ReaderAt, l Location) ([]byte, error) {
	text := make([]byte, l.Size)
	first := min(l.Size, l.Area.Size-l.Offset)
	if _, err := device.ReadAt(text[:first], int64(l.Area.Offset+l.Offset)); err != nil {
		return nil, err
	}
	if first < l.Size {
		if _, err := device.ReadAt(text[first:], int64(l.Area.Offset+headerSize)); err != nil {
			return nil, err
		}
	}
	if checksum(text) != l.Checksum {
		return nil, errors.New("the checksum of the metadata is wrong")
	}
	return bytes.TrimRight(text, "\x00"), nil
}

// initialChecksum is the first value of LVM's checksums (INITIAL_CRC in lib/misc/crc.h). LVM does not invert the value
// before and after, as Go does.
const initialChecksum uint32 = 0xf597a6cf

func checksum(b []byte) uint32 { return ^crc32.Update(^initialChecksum, crc32.IEEETable, b) }
