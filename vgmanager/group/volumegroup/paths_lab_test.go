//go:build lab

package volumegroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

// link is a path that leads to a disk (lead).
const link = "/dev/lvms-test-disk"

func (s *scene) lead(disk string) {
	s.Helper()
	_ = os.Remove(link)
	s.ok(os.Symlink(kernelName(disk), link))
	s.Cleanup(func() { _ = os.Remove(link) })
}

// TestScenePathLeadsToAnotherDisk has a path with consent to wipe that leads to another disk after a restart, while the
// disk that was chosen by it is attached. The other disk has a file system, and then is blank.
func TestScenePathLeadsToAnotherDisk(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		s.lead(s.disks[0])
		selector := byPath(link)
		selector.ForceWipeDevicesAndDestroyAllData = new(true)
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: selector}
	})
	e := s.ready()
	if len(e.PhysicalVolumes) != 1 || e.PhysicalVolumes[0].Path != link {
		t.Fatalf("got %+v", e.PhysicalVolumes)
	}
	sum := s.fill(s.volume("a", 16<<20), 16<<20)

	other := s.disks[1]
	s.format(other)
	before := s.hash(other)
	s.lead(other)
	for range 2 {
		s.boot()
		s.excludes(link, device.PathMoved)
		for range 3 {
			s.agent.Wake()
			_, _ = s.reconcile()
		}
		s.wantState(v1alpha1.VGStatusDegraded, "is not the device to which "+link+" led before")
		if s.hash(other) != before {
			t.Fatal("the other disk was written")
		}
	}
	clean(kernelName(other))
	s.settleUdev()
	s.boot()
	s.excludes(link, device.PathMoved)
	if e := s.entry(); len(e.Devices) != 1 {
		t.Errorf("the blank disk was added: %v", e.Devices)
	}
	// A path that does not change is another consent.
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceSelector = byPath(s.disks[:2]...)
	})
	if e = s.ready(); len(e.Devices) != 2 {
		t.Errorf("got the devices %v", e.Devices)
	}
	s.unchanged("/dev/vg1/a", sum)
	s.discard()
}

// TestSceneDiskOfAnotherSectorSize has a disk with logical sectors of another size, which LVM does not use in the same
// volume group. It is neither wiped nor added.
func TestSceneDiskOfAnotherSectorSize(t *testing.T) {
	image := filepath.Join(t.TempDir(), "disk")
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	size := "4096"
	if s.output("blockdev", "--getss", s.disks[0]) == "4096\n" {
		size = "512"
	}
	s.ok(os.WriteFile(image, nil, 0o600))
	s.ok(os.Truncate(image, 64<<20))
	loop := s.losetup(image, "--sector-size", size)
	s.lead(loop)
	defer s.detach(loop)
	s.ready()
	if _, err := s.runner.Run(t.Context(), "/usr/sbin/lvm", "vgextend", "--yes", "vg1", loop); err == nil {
		t.Fatal("LVM uses both sizes in one group")
	}
	clean(loop) // vgextend makes it a physical volume before it refuses
	s.format(loop)
	before := s.hash(loop)
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceSelector.OptionalPaths = []v1alpha1.DevicePath{link}
		spec.DeviceSelector.ForceWipeDevicesAndDestroyAllData = new(true)
	})
	s.excludes(link, device.OtherSectorSize)
	if e := s.ready(); len(e.Devices) != 1 || len(e.WipedDevices) != 0 || s.hash(loop) != before {
		t.Errorf("devices %v, wiped %v", e.Devices, e.WipedDevices)
	}
	s.discard()
}

// TestSceneDeviceChangesItsSize has a device that is made larger and then smaller under its physical volume, like a
// virtual disk or a LUN.
func TestSceneDeviceChangesItsSize(t *testing.T) {
	image := filepath.Join(t.TempDir(), "disk")
	loop := ""
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		s.ok(os.WriteFile(image, nil, 0o600))
		s.ok(os.Truncate(image, 160<<20))
		loop = s.losetup(image)
		s.lead(loop)
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(link)}
	})
	defer s.detach(loop)
	resize := func(size int64) {
		s.ok(os.Truncate(image, size))
		s.sh("/usr/sbin/losetup", "--set-capacity", loop)
		s.settleUdev()
	}
	s.ready()
	sum := s.fill(s.volume("a", 16<<20), 16<<20)
	resize(320 << 20)
	e := s.converge("a note", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && strings.Contains(e.PhysicalVolumes[0].Message, "pvresize "+loop)
	})
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceResizePolicy = v1alpha1.DeviceResizeAutomatic })
	grown := s.converge("the new size", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && e.PhysicalVolumes[0].Message == ""
	})
	if grown.Size.Cmp(*e.Size) <= 0 {
		t.Errorf("the size is %s, and was %s", grown.Size, e.Size)
	}
	resize(160 << 20)
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceShrunk, "as large as it was", "a")
	resize(320 << 20)
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.discardGroup()
}
