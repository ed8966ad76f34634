package spec

import "testing"

func TestOnlySharedDisksHaveAWWN(t *testing.T) {
	for kind, want := range map[string]string{KindPlain: "", KindSCSI: "", KindShared: "0x5123456789abcdef"} {
		d := Disk{Kind: kind, Serial: "0123456789abcdef"}
		if got := d.WWN(); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
		if d.IsFile() != (kind != KindSCSI) {
			t.Errorf("%s: is a file: %t", kind, d.IsFile())
		}
	}
	if got := (Disk{Kind: KindShared}).WWN(); got != "" {
		t.Errorf("without a serial number: got %q", got)
	}
}
