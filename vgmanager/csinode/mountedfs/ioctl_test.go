package mountedfs

import (
	"testing"
	"unsafe"
)

// FITRIM is _IOWR('X', 121, struct fstrim_range). The encodings differ among architectures in the width of the size,
// and in the value and place of the direction (include/uapi/asm-generic/ioctl.h and
// arch/powerpc/include/uapi/asm/ioctl.h), but not for a number with both directions.
func TestTheNumberOfFITRIMIsThatOfAllArchitectures(t *testing.T) {
	const size = unsafe.Sizeof(fstrimRange{})
	for name, direction := range map[string]uintptr{
		"generic": (2 | 1) << (16 + 14),
		"powerpc": (2 | 4) << (16 + 13),
	} {
		if want := direction | size<<16 | 'X'<<8 | 121; ioctlTrim != want {
			t.Errorf("%s: got %#x, want %#x", name, ioctlTrim, want)
		}
	}
}
