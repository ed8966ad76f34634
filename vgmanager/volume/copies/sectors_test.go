package copies

import (
	"encoding/binary"
	"testing"
)

// TestTheLargestSectorOfAContent: that which mkfs writes is tested on a lab node.
func TestTheLargestSectorOfAContent(t *testing.T) {
	ext4 := func(shift uint32) func([]byte) {
		return func(b []byte) {
			binary.LittleEndian.PutUint16(b[ext4MagicAt:], ext4Magic)
			binary.LittleEndian.PutUint32(b[ext4BlockAt:], shift)
		}
	}
	for name, test := range map[string]struct {
		write func(start []byte)
		want  uint64
	}{
		"blank":           {func([]byte) {}, 0},
		"ext4, 1024":      {ext4(0), 1024},
		"ext4, 4096":      {ext4(2), 4096},
		"ext4, damaged":   {ext4(1 << 31), 0},
		"xfs, 512":        {func(b []byte) { copy(b, "XFSB"); b[xfsSectorAt] = 2 }, 512},
		"xfs, 4096":       {func(b []byte) { copy(b, "XFSB"); b[xfsSectorAt] = 16 }, 4096},
		"partition table": {func(b []byte) { copy(b[512:], "EFI PART") }, 512},
		"encrypted":       {func(b []byte) { copy(b, "LUKS\xba\xbe") }, 0},
	} {
		start := make([]byte, startLength)
		test.write(start)
		if got := maxSector(start); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// TestACopyToLargerSectors is refused only if its content cannot be used there.
func TestACopyToLargerSectors(t *testing.T) {
	for _, test := range []struct {
		largest, sector uint64
		refused         bool
	}{{0, 4096, false}, {512, 512, false}, {512, 4096, true}, {1024, 512, false}, {1024, 4096, true},
		{4096, 4096, false}} {
		err := checkSector(&memoryDevice{sector: test.sector}, test.largest)
		if (err != nil) != test.refused {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
