//go:build lab

package volumegroup

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// TestSceneAttachedCache has a volume to which an administrator attached a cache or a writecache with LVM. It stays a
// volume of its device class: it is expanded, its devices are drained or the refusal says why not, it is not erased
// while its data can be in the cache, and its cache is removed with it.
func TestSceneAttachedCache(t *testing.T) {
	for _, kind := range lane.Cases("writecache", "cache") {
		t.Run(kind, func(t *testing.T) {
			s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
				return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:3]...),
					EraseOnDelete: v1alpha1.EraseZero}
			})
			s.ready()
			const size = 24 << 20
			volume := s.claimed("a", size)
			s.sh("/usr/sbin/lvm", "lvcreate", "--yes", "--name", "fast", "--size", "16M", "vg1", kernelName(s.disks[2]))
			s.sh("/usr/sbin/lvm", "lvchange", "--activate", "n", "vg1/fast")
			s.sh("/usr/sbin/lvm", "lvconvert", "--yes", "--type", kind, "--cachevol", "fast", "vg1/a")
			s.fill(volume, size)
			sum := s.hashOf(volume, size)
			s.wantCached(kind)
			for range 2 {
				response, err := s.engine.ResizeLV(s.Context(), "vg1", "a", 2*size)
				s.ok(err)
				if response != 2*size {
					t.Errorf("got %d bytes", response)
				}
			}
			_, err := s.engine.CreateLV(s.Context(), engine.NewVolume{Name: "a", Class: "vg1", Size: size})
			s.ok(err)
			s.wantCached(kind)
			s.drainCached(kind)
			if s.hashOf(volume, size) != sum {
				t.Error("the data of the volume changed")
			}
			s.deleteCached(kind)
			s.discard()
		})
	}
}

// wantCached waits until the status names the volume with a cache, and checks what LVM's report says.
func (s *scene) wantCached(kind string) {
	s.Helper()
	e := s.ready()
	if !strings.Contains(e.Reason, "have a cache that was attached on the node: a") {
		s.Errorf("the reason is %q", e.Reason)
	}
	lv := s.lv("a")
	if lv.SegType != kind || lv.PoolName != "" || lv.Origin != "" {
		s.Errorf("got %+v", lv)
	}
	volumes, _, err := s.engine.Volumes(s.Context())
	s.ok(err)
	if len(volumes) != 1 {
		s.Errorf("the engine has the volumes %+v", volumes)
	}
}

// drainCached drains the device of the volume, and that of its cache.
func (s *scene) drainCached(kind string) {
	s.Helper()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	uuids := map[string]string{}
	for _, pv := range report.VG("vg1").PVs {
		uuids[pv.Name] = pv.UUID
	}
	request := func(link string) {
		s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
			spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: uuids[kernelName(link)],
				Action: v1alpha1.DeviceActionDrain}}
		})
	}
	state := func(link string) func(e v1alpha1.VGStatus) v1alpha1.PhysicalVolumeStatus {
		return func(e v1alpha1.VGStatus) v1alpha1.PhysicalVolumeStatus {
			for _, pv := range e.PhysicalVolumes {
				if pv.UUID == uuids[kernelName(link)] {
					return pv
				}
			}
			return v1alpha1.PhysicalVolumeStatus{}
		}
	}
	cache := state(s.disks[2])
	request(s.disks[2])
	if kind == "cache" {
		s.converge("drained", func(e v1alpha1.VGStatus) bool {
			return cache(e).State == v1alpha1.PhysicalVolumeDrained
		})
	} else {
		e := s.converge("blocked", func(e v1alpha1.VGStatus) bool {
			return cache(e).State == v1alpha1.PhysicalVolumeBlocked
		})
		if message := cache(e).Message; !strings.Contains(message, "lvconvert --splitcache vg1/a") {
			s.Errorf("the drain is refused with %q", message)
		}
		if moves := s.moves(); len(moves) > 0 {
			s.Errorf("there are the moves %v", moves)
		}
	}
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceRequests = nil })
	s.ready()
	first := s.disks[0]
	request(first)
	s.converge("the data is moved", func(e v1alpha1.VGStatus) bool {
		return state(first)(e).State == v1alpha1.PhysicalVolumeDrained
	})
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceRequests = nil })
	s.wantCached(kind)
}

func (s *scene) moves() []lvm.Move {
	s.Helper()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	return report.VG("vg1").Moves()
}

// deleteCached deletes the volume. Its cache must be detached before, because the class erases volumes; with
// eraseOnDelete: None, it is removed with the volume.
func (s *scene) deleteCached(kind string) {
	s.Helper()
	for range 2 {
		_, err := s.engine.Erasure(s.Context(), "vg1", "a", false)
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "--splitcache vg1/a") {
			s.Errorf("the erasure of a volume with a %s: %v", kind, err)
		}
	}
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.EraseOnDelete = v1alpha1.EraseNone })
	s.ready()
	erasure, err := s.engine.Erasure(s.Context(), "vg1", "a", false)
	s.ok(err)
	if erasure != nil {
		s.Errorf("got %+v", erasure)
	}
	s.ok(s.delete("a"))
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	if vg := report.VG("vg1"); len(vg.LVs)+len(vg.Hidden) > 0 {
		s.Errorf("left are %+v and %+v", vg.LVs, vg.Hidden)
	}
}
