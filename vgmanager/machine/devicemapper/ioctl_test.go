package devicemapper

import (
	"testing"

	"golang.org/x/sys/unix"
)

// ioctlEncodings are the two encodings of an ioctl number on the architectures of the image:
// include/uapi/asm-generic/ioctl.h (x86, arm64, s390) and arch/powerpc/include/uapi/asm/ioctl.h. They differ in the
// width of the size, and in the value and place of the direction.
var ioctlEncodings = map[string]struct{ sizeBits, read, write uintptr }{
	"generic": {sizeBits: 14, read: 2, write: 1},
	"powerpc": {sizeBits: 13, read: 2, write: 4},
}

// A number with both directions is the same in both encodings.
func TestNumbersOfRequestsAreThoseOfAllArchitectures(t *testing.T) {
	for name, e := range ioctlEncodings {
		for command, test := range map[command]uintptr{
			commandList: unix.DM_LIST_DEVICES, commandDevice: unix.DM_DEV_STATUS, commandStatus: unix.DM_TABLE_STATUS,
			commandTable: unix.DM_TABLE_STATUS, commandSuspend: unix.DM_DEV_SUSPEND,
			commandResume: unix.DM_DEV_SUSPEND, commandMessage: unix.DM_TARGET_MSG,
		} {
			want := (e.read|e.write)<<(16+e.sizeBits) | headerSize<<16 | 0xfd<<8 | uintptr(command.number)
			if got := command.code(); got != want || got != test {
				t.Errorf("%s: command %d has the number %#x, want %#x and %#x", name, command.number, got, want, test)
			}
		}
	}
}

// struct dm_ioctl has no padding that depends on the architecture: its fields with eight bytes are at multiples of
// eight on each of them.
func TestTheHeaderHasTheLayoutOfTheKernel(t *testing.T) {
	offset := 0
	for _, field := range []struct {
		name     string
		size, at int
	}{
		{"version", 12, -1}, {"data_size", 4, atDataSize}, {"data_start", 4, atDataStart},
		{"target_count", 4, atCount}, {"open_count", 4, atOpen}, {"flags", 4, atFlags}, {"event_nr", 4, atEvent},
		{"padding", 4, -1}, {"dev", 8, atNumber}, {"name", nameLength, atName}, {"uuid", uuidLength, atUUID},
		{"data", 7, -1},
	} {
		if field.at >= 0 && field.at != offset {
			t.Errorf("%s is at %d, want %d", field.name, field.at, offset)
		}
		if field.size == 8 && offset%8 != 0 {
			t.Errorf("%s is not aligned", field.name)
		}
		offset += field.size
	}
	if offset != headerSize {
		t.Errorf("the header has %d bytes, want %d", headerSize, offset)
	}
}
