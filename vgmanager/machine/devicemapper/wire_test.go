package devicemapper

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeTargets(t *testing.T) {
	want := []Target{{0, 8, "linear", ""}, {8, 2048, "thin-pool", "1 18/1024 512/4096 - rw"},
		{2056, 1, "raid", "raid1 2 AA 1/1"}}
	got, err := decodeTargets(answer(want...))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	whole := answer(want...)
	for cut := range len(whole) {
		if got, err := decodeTargets(whole[:cut]); err == nil {
			t.Errorf("%d bytes: got %v", cut, got)
		}
	}
	for name, spoil := range map[string]func([]byte){
		"more targets than there are": func(b []byte) { binary.NativeEndian.PutUint32(b[atCount:], 4) },
		"it begins in the header":     func(b []byte) { binary.NativeEndian.PutUint32(b[atDataStart:], 8) },
		"it begins behind its end":    func(b []byte) { binary.NativeEndian.PutUint32(b[atDataStart:], 1<<31) },
		"the next is the same":        func(b []byte) { binary.NativeEndian.PutUint32(b[headerSize+20:], 0) },
		"the next is far away":        func(b []byte) { binary.NativeEndian.PutUint32(b[headerSize+20:], 1<<32-1) },
	} {
		buffer := answer(want...)
		spoil(buffer)
		if got, err := decodeTargets(buffer); err == nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestDecodeNumbers(t *testing.T) {
	devices := example().devices
	whole := listAnswer(devices...)
	got, err := decodeNumbers(whole)
	if err != nil || len(got) != len(devices) || got[0] != devices[0].number {
		t.Errorf("got %v, %v", got, err)
	}
	for _, cut := range []int{0, 100, headerSize - 1, headerSize + 4, len(whole) - 1} {
		if got, err := decodeNumbers(whole[:cut]); err == nil {
			t.Errorf("%d bytes: got %v", cut, got)
		}
	}
	for _, next := range []uint32{1, nameSize - 1, 1 << 30} {
		buffer := listAnswer(devices...)
		binary.NativeEndian.PutUint32(buffer[headerSize+8:], next)
		if got, err := decodeNumbers(buffer); err == nil {
			t.Errorf("the next is %d bytes away: got %v", next, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	// The second column is the number as stat(1) and the kernel encode it: huge_encode_dev.
	for number, want := range map[string]uint64{"0:0": 0, "8:16": 0x810, "254:3": 0xfe03, "254:256": 0x10fe00,
		"4095:1048575": 0xffffffff} {
		got, err := parseNumber(number)
		if err != nil || got != want {
			t.Errorf("%s: got %#x, %v, want %#x", number, got, err, want)
		}
		if back := numberText(got); back != number {
			t.Errorf("%s came back as %s", number, back)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(answer(Target{0, 2048, "thin-pool", "1 18/1024 512/4096 - rw"}))
	f.Add(answer(Target{0, 1, "linear", ""}, Target{1, 1, "raid", "raid1 2 AA 1/1"})[:headerSize+specSize+4])
	f.Add(listAnswer(example().devices...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if targets, err := decodeTargets(data); err != nil && targets != nil {
			t.Error("an error, and targets")
		}
		if numbers, err := decodeNumbers(data); err != nil && numbers != nil {
			t.Error("an error, and numbers")
		}
		if d, err := decodeDevice(data); err == nil &&
			(len(d.Name) > nameLength || len(d.UUID) > uuidLength || d.Number == "") {
			t.Errorf("got %+v", d)
		}
		_, _ = decodeTypes(data)
	})
}
