//go:build lab

package volumegroup

import (
	"strings"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
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
	_, err := s.engine.ResizeLV(s.Context(), &proto.ResizeLVRequest{Name: "c", DeviceClass: "vg1", SizeBytes: 80 << 20})
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

// lv returns a logical volume of the device class.
func (s *scene) lv(name string) *lvm.LV {
	s.Helper()
	report, err := lvm.New(s.runner).Report(s.Context())
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
