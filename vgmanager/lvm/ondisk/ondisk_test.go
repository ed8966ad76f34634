package ondisk

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

const (
	uuid     = "Ab3dEf-Gh1j-Kl2m-No3p-Qr4s-Tu5v-Wx6yZ0"
	areaAt   = 4096
	areaSize = 8192
	text     = "vg1 {\nid = \"x\"\nseqno = 3\n}\n"
)

// image returns the beginning of a physical volume with one metadata area, whose text begins at an offset of the area.
func image(offset uint64) []byte {
	b := make([]byte, 64<<10)
	sector := b[sectorSize : 2*sectorSize]
	copy(sector, "LABELONE")
	binary.LittleEndian.PutUint64(sector[8:], 1)
	binary.LittleEndian.PutUint32(sector[20:], 32)
	copy(sector[24:], "LVM2 001")
	copy(sector[32:], strings.ReplaceAll(uuid, "-", ""))
	areas := []uint64{1 << 20, 0, 0, 0, areaAt, areaSize, 0, 0}
	for i, n := range areas {
		binary.LittleEndian.PutUint64(sector[72+8*i:], n)
	}
	binary.LittleEndian.PutUint32(sector[16:], checksum(sector[20:]))
	header := b[areaAt : areaAt+headerSize]
	copy(header[4:], areaMagic)
	binary.LittleEndian.PutUint32(header[20:], areaVersion)
	for i, n := range []uint64{areaAt, areaSize, offset, uint64(len(text))} {
		binary.LittleEndian.PutUint64(header[24+8*i:], n)
	}
	binary.LittleEndian.PutUint32(header[56:], checksum([]byte(text)))
	binary.LittleEndian.PutUint32(header, checksum(header[4:]))
	for i := range len(text) {
		at := offset + uint64(i)
		if at >= areaSize {
			at -= areaSize - headerSize
		}
		b[areaAt+at] = text[i]
	}
	return b
}

func read(b []byte) (label Label, metadata string, err error) {
	r := bytes.NewReader(b)
	if label, err = ReadLabel(r); err != nil {
		return label, "", err
	}
	for _, area := range label.Areas {
		l, ok, err := ReadLocation(r, area)
		if err != nil {
			return label, "", err
		}
		if ok {
			found, err := ReadText(r, l)
			return label, string(found), err
		}
	}
	return label, "", nil
}

func TestReadsWhatIsThere(t *testing.T) {
	for name, offset := range map[string]uint64{"at the beginning": headerSize, "around the end": areaSize - 10} {
		label, metadata, err := read(image(offset))
		if err != nil || label.UUID != uuid || metadata != text {
			t.Errorf("%s: got %+v, %q, %v", name, label, metadata, err)
		}
	}
}

func TestDamageIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		at   int
		want string
	}{
		"no label":               {sectorSize, "has no label"},
		"another sector":         {sectorSize + 8, "in another one"},
		"the UUID":               {sectorSize + 40, "the checksum of the label"},
		"the checksum":           {sectorSize + 16, "the checksum of the label"},
		"the header of the area": {areaAt + 30, "the checksum of the header"},
		"the metadata":           {areaAt + headerSize + 3, "the checksum of the metadata"},
	} {
		b := image(headerSize)
		b[test.at] ^= 1
		if _, _, err := read(b); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// sealed returns an image whose header of the metadata area was changed, with a valid checksum.
func sealed(change func(header []byte)) []byte {
	b := image(headerSize)
	header := b[areaAt : areaAt+headerSize]
	change(header)
	binary.LittleEndian.PutUint32(header, checksum(header[4:]))
	return b
}

func TestHeadersThatAreNotFollowed(t *testing.T) {
	put := func(at int, n uint64) func([]byte) {
		return func(h []byte) { binary.LittleEndian.PutUint64(h[at:], n) }
	}
	for name, test := range map[string]struct {
		change func([]byte)
		want   string
	}{
		"another area":            {put(24, 8192), "of another area"},
		"behind the area":         {put(40, areaSize), "outside of the area"},
		"in the header":           {put(40, 100), "outside of the area"},
		"larger than the area":    {put(48, areaSize), "outside of the area"},
		"an area of no size":      {put(32, 0), "outside of the area"},
		"another magic":           {func(h []byte) { h[4] = 'x' }, "unknown format"},
		"another version":         {func(h []byte) { h[20] = 2 }, "unknown format"},
		"no metadata":             {put(40, 0), ""},
		"an area that is ignored": {func(h []byte) { h[60] = ignored }, ""},
	} {
		_, metadata, err := read(sealed(test.change))
		if test.want == "" {
			if err != nil || metadata != "" {
				t.Errorf("%s: got %q, %v", name, metadata, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestADeviceThatIsTooShort(t *testing.T) {
	for _, size := range []int{0, 1000, areaAt + 100} {
		if _, _, err := read(image(headerSize)[:size]); err == nil {
			t.Errorf("%d bytes: no error", size)
		}
	}
}

func TestAListOfAreasWithoutEnd(t *testing.T) {
	b := image(headerSize)
	sector := b[sectorSize : 2*sectorSize]
	for at := 72; at+16 <= sectorSize; at += 16 {
		binary.LittleEndian.PutUint64(sector[at:], 1)
	}
	binary.LittleEndian.PutUint32(sector[16:], checksum(sector[20:]))
	if _, _, err := read(b); err == nil || !strings.Contains(err.Error(), "has no end") {
		t.Errorf("got %v", err)
	}
}

// FuzzRead feeds arbitrary bytes with valid checksums: nothing may panic or allocate without limit.
func FuzzRead(f *testing.F) {
	f.Add(uint32(32), uint64(areaAt), uint64(areaSize), uint64(headerSize), uint64(len(text)))
	f.Fuzz(func(_ *testing.T, offset uint32, at, size, textAt, textSize uint64) {
		b := image(headerSize)
		sector := b[sectorSize : 2*sectorSize]
		binary.LittleEndian.PutUint32(sector[20:], offset)
		binary.LittleEndian.PutUint64(sector[104:], at)
		binary.LittleEndian.PutUint32(sector[16:], checksum(sector[20:]))
		header := b[areaAt : areaAt+headerSize]
		for i, n := range []uint64{areaAt, size, textAt, textSize} {
			binary.LittleEndian.PutUint64(header[24+8*i:], n)
		}
		binary.LittleEndian.PutUint32(header, checksum(header[4:]))
		_, _, _ = read(b)
	})
}
