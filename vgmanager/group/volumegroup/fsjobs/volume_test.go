package fsjobs

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestTheFileSystemOfAnEncryptedVolumeIsNotOnItsDevice checks that a check does not look for the file system of an
// encrypted volume on its logical volume, for example after its header was lost.
func TestTheFileSystemOfAnEncryptedVolumeIsNotOnItsDevice(t *testing.T) {
	formatted := wellknown.FormattedTagPrefix + "xfs"
	marked := wellknown.EncryptionTagPrefix + wellknown.EncryptionLUKS2
	for _, test := range []struct {
		tags []string
		want string
	}{{[]string{formatted}, "xfs"}, {[]string{marked, formatted}, ""}, {[]string{formatted, marked}, ""}} {
		if got := volumeOf(&lvm.LV{Tags: test.tags}).Formatted; got != test.want {
			t.Errorf("%q: got %q", test.tags, got)
		}
	}
	if device.OpenVolumePrefix != "/dev/mapper/"+wellknown.MappingPrefix {
		t.Errorf("the inventory knows open volumes as %s", device.OpenVolumePrefix)
	}
}
