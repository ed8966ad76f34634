//go:build lab

package volumegroup

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// TestSceneDevicesOfThickVolumes keeps volumes on one device, also when a device is drained, and then changes the
// class to stripes and back.
func TestSceneDevicesOfThickVolumes(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{DeviceSelector: byPath(s.disks[:3]...),
			ThickConfig: &v1alpha1.ThickConfig{Allocation: v1alpha1.AllocationSingleDevice}}
	})
	s.ready()
	s.volume("a", 100<<20)
	s.volume("b", 100<<20)
	volume := s.volume("c", 52<<20)
	sum := s.fill(volume, 52<<20)
	first := s.wantOnOne("c")
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: first,
			Action: v1alpha1.DeviceActionDrain}}
	})
	s.converge("drained", func(e v1alpha1.VGStatus) bool {
		return stateOfPV(e, first) == v1alpha1.PhysicalVolumeDrained
	})
	if second := s.wantOnOne("c"); second == first {
		t.Errorf("c is still on %s", first)
	}
	s.unchanged(volume, sum)
	_, err := s.engine.ResizeLV(s.Context(), "vg1", "c", 80<<20)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an extension beyond its device: got %v", err)
	}

	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = nil
		spec.ThickConfig = &v1alpha1.ThickConfig{Stripes: new(int32(4))}
	})
	s.converge("too few devices", func(e v1alpha1.VGStatus) bool {
		return strings.Contains(e.Reason, "a striped volume requires at least 4 devices, and it has 3")
	})
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.ThickConfig.Stripes = new(int32(2)) })
	s.ready()
	s.volume("striped", 16<<20)
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.ThickConfig = nil })
	s.ready()
	s.volume("linear", 16<<20)
	for name, stripes := range map[string]int{"c": 1, "striped": 2, "linear": 1} {
		if lv := s.lv(name); lv.Stripes != stripes {
			t.Errorf("%s has %d stripes, want %d", name, lv.Stripes, stripes)
		}
	}
	s.unchanged(volume, sum)
	s.discard()
}

// TestSceneOneDeviceOfAnExistingVolumeGroup keeps volumes on one device of a volume group that an administrator
// created, beside a logical volume of the host on both devices, and then allows others.
func TestSceneOneDeviceOfAnExistingVolumeGroup(t *testing.T) {
	const first, second = "66666666-2222-3333-4444-555555555555", "77777777-2222-3333-4444-555555555555"
	s := newScene(t, func(*scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data",
			ExistingVolumeGroupConfig: &v1alpha1.ExistingVolumeGroupConfig{
				Allocation: v1alpha1.AllocationSingleDevice}}
	})
	s.dataGroup()
	s.sh("/usr/sbin/lvm", "lvcreate", "--yes", "--type", "striped", "--stripes", "2", "--size", "32m", "--name", "host",
		"data")
	s.ready()
	room := s.capacity()
	create := func(name string, size uint64) error {
		_, err := s.engine.CreateLV(s.Context(), engine.NewVolume{Name: name, Class: "vg1",
			Size: int64(size)})
		return err
	}
	if err := create(first, room+4<<20); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a volume that is larger than each device: got %v", err)
	}
	for range 2 {
		s.ok(create(first, room))
	}
	if next := s.capacity(); next != room {
		t.Errorf("the capacity is %d after a volume that fills a device, want %d of the other one", next, room)
	}
	s.ok(create(second, 52<<20))
	pvs := func(name string) []string {
		report, err := lvmexec.New(s.runner).Report(s.Context())
		s.ok(err)
		return report.VG("data").LV(name).PVs
	}
	if a, b := pvs(first), pvs(second); len(a) != 1 || len(b) != 1 || a[0] == b[0] {
		t.Errorf("the volumes are on %q and %q, want different devices", a, b)
	}
	s.ok(s.delete(second))
	s.ok(create(second, room-16<<20))
	s.fill("/dev/data/"+second, 16<<20)
	sum := s.hashOf("/dev/data/"+second, 16<<20)
	extend := func() error {
		_, err := s.engine.ResizeLV(s.Context(), "vg1", second, int64(room))
		return err
	}
	for range 2 {
		s.ok(extend())
	}
	s.ok(s.delete(first))
	room += 16 << 20
	if err := extend(); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "allocation SingleDevice") {
		t.Errorf("an extension beyond its device: got %v", err)
	}
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.ExistingVolumeGroupConfig.Allocation = v1alpha1.AllocationAny
	})
	s.ready()
	s.ok(extend())
	if got := pvs(second); len(got) != 2 {
		t.Errorf("the extended volume is on %q, want two devices", got)
	}
	if s.hashOf("/dev/data/"+second, 16<<20) != sum {
		t.Error("the extensions changed the data")
	}
	s.ok(s.delete(second))
}

// lv returns a logical volume of the device class.
func (s *scene) lv(name string) *lvm.LV {
	s.Helper()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	lv := report.VG("vg1").LV(name)
	if lv == nil {
		s.Fatalf("logical volume %s does not exist", name)
	}
	return lv
}

// wantOnOne returns the UUID of the physical volume of a logical volume, which must be one.
func (s *scene) wantOnOne(name string) string {
	s.Helper()
	lv := s.lv(name)
	if len(lv.PVs) != 1 {
		s.Fatalf("%s is on %q, want one device", name, lv.PVs)
	}
	return lv.PVs[0]
}
