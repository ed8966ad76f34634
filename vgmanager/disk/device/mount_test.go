package device

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
)

func TestLastMountOfASuperblock(t *testing.T) {
	block := func(magic uint16, seconds uint32, high byte) []byte {
		b := make([]byte, direct.BlockSize)
		binary.LittleEndian.PutUint16(b[1024+0x38:], magic)
		binary.LittleEndian.PutUint32(b[1024+0x2C:], seconds)
		b[1024+0x275] = high
		return b
	}
	for name, test := range map[string]struct {
		block []byte
		want  time.Time
	}{
		"mounted":       {block(0xEF53, 1_774_000_000, 0), time.Unix(1_774_000_000, 0)},
		"after 2106":    {block(0xEF53, 5, 1), time.Unix(1<<32+5, 0)},
		"never mounted": {block(0xEF53, 0, 0), time.Time{}},
		"not ext4":      {block(0, 1_774_000_000, 0), time.Time{}},
		"short":         {make([]byte, 512), time.Time{}},
		"nothing":       {nil, time.Time{}},
	} {
		if got := lastMount(test.block); !got.Equal(test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestLastMountOfADeviceThatIsNotThere(t *testing.T) {
	n := New(&runner{})
	for _, d := range []Device{{Name: t.TempDir() + "/sdx", Number: "8:0"}, {Name: "/etc/hostname", Number: "8:0"}} {
		if got, err := n.LastMount(t.Context(), d); err == nil {
			t.Errorf("%s: got %s", d.Name, got)
		}
	}
}
