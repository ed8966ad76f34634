//go:build lab

package volumegroup

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// TestSceneStripedPool stripes a thin pool over two disks, moves a stripe to a third one, and extends the pool when two
// more disks are there. Two stripes are never on one disk, and the data stays.
func TestSceneStripedPool(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(40)
		spec.ThinPoolConfig.Stripes = new(int32(2))
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.converge("too few devices", func(e v1alpha1.VGStatus) bool {
		return strings.Contains(e.Reason, "requires at least 2 devices for a striped thin pool, and 1 can be used")
	})
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:2]...) })
	before := s.ready()
	s.wantStripes(s.disks[:2])
	volume := s.volume("a", 64<<20)
	sum := s.fill(volume, 64<<20)

	remove := func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: s.disks[0],
			Action: v1alpha1.DeviceActionRemove}}
	}
	s.change(remove)
	s.converge("a refusal", func(e v1alpha1.VGStatus) bool {
		return strings.Contains(e.Reason, "a striped thin pool requires at least 2 devices, and only 1 would have data")
	})
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceRequests = nil })
	s.ready()
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:3]...) })
	e := s.converge("a third device", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && len(e.PhysicalVolumes) == 3
	})
	if e.ThinPool.Size.Cmp(before.ThinPool.Size) != 0 {
		s.wantStripes(s.disks[:3])
	}

	s.change(remove)
	s.converge("removed", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.PhysicalVolumes) == 2 })
	s.wantStripes(s.disks[1:3])
	s.unchanged(volume, sum)

	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:4]...) })
	s.converge("a fourth device", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.PhysicalVolumes) == 3 })
	s.unchanged(volume, sum)
	s.boot()
	s.ready()
	s.unchanged(volume, sum)
	s.discard()
}

// wantStripes checks that each segment of the data of the pool has two stripes of 64 KiB on different disks, which are
// some of those.
func (s *scene) wantStripes(disks []string) {
	s.Helper()
	out := s.output("lvm", "lvs", "--noheadings", "--all", "--segments", "--units", "k", "--nosuffix",
		"--options", "lv_name,stripes,stripe_size,devices", "vg1")
	var allowed []string
	for _, disk := range disks {
		allowed = append(allowed, kernelName(disk))
	}
	segments := 0
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasSuffix(fields[0], "_tdata]") {
			continue
		}
		segments++
		var names []string
		for part := range strings.SplitSeq(fields[3], ",") {
			name, _, _ := strings.Cut(part, "(")
			names = append(names, kernelName(name))
		}
		expect.Equal(s, "fields[1]", fields[1], "2")
		expect.Equal(s, "fields[2]", fields[2], "64.00")
		if len(names) != 2 {
			s.Fatalf("got %q, want two stripes on %q", line, allowed)
		}
		if names[0] == names[1] {
			s.Errorf("got %q, want two stripes on %q", line, allowed)
		}
		expect.Equal(s, "ContainsFunc(names, func(name string) bool { return !slices.Contains(allowed, name) })",
			slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(allowed, name) }), false)
	}
	if segments == 0 {
		s.Errorf("no data in %q", out)
	}
}
