package lvmtest_test

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
)

func TestFakeFulfilsTheContract(t *testing.T) {
	fake := lvmtest.New()
	disks := [3]string{"/dev/ubdb", "/dev/ubdc", "/dev/ubdd"}
	for i, path := range disks {
		fake.AddDisk(path, 400<<20, uint32(16*(i+1)))
	}
	lvmtest.Contract(t, lvmtest.Bench{
		LVM: fake, Disks: disks,
		Sign:  func(_ *testing.T, disk string) { fake.Sign(disk, "ext4") },
		Clear: func(_ *testing.T, disk string) { fake.Sign(disk, "") },
	})
}
