//go:build lab

package volumegroup

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// TestSceneSuspendedVolumesAreResumed: a killed LVM command leaves a volume suspended, with its pool and the metadata
// of the pool.
func TestSceneSuspendedVolumesAreResumed(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(50)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	volume := s.volume("a", 32<<20)
	sum := s.fill(volume, 32<<20)
	for _, suspended := range [][]string{{"vg1-a", "vg1-pool-tpool", "vg1-pool_tmeta"}, {"vg1-a"}, {"vg1-pool-tpool"}} {
		for _, name := range suspended {
			s.sh("/usr/sbin/dmsetup", "suspend", "--nolockfs", "--noflush", name)
		}
		s.health.suspended = map[device.Number]bool{}
		for _, d := range s.devices() {
			if d.Suspended {
				s.health.suspended[device.Number(d.Number)] = true
			}
		}
		if len(s.health.suspended) != len(suspended) {
			t.Fatalf("suspended %v: %v", suspended, s.health.suspended)
		}
		s.converge("resumed: "+strings.Join(suspended, " "), func(v1alpha1.VGStatus) bool {
			return !slices.ContainsFunc(s.devices(), func(d devicemapper.Device) bool { return d.Suspended })
		})
		s.health.suspended = nil
		s.ready()
		if s.hash(volume) != sum {
			t.Fatal("the data has changed")
		}
	}
}

// TestScenePoolDataIsLeftActive: the deactivation of a pool was killed before that of its data volume. LVM does not
// activate the pool while this volume is active.
func TestScenePoolDataIsLeftActive(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(50)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	volume := s.volume("a", 32<<20)
	sum := s.fill(volume, 32<<20)
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.sh("/usr/sbin/lvm", "lvchange", "--yes", "--activate", "y", "vg1/pool_tdata")
	s.ready()
	for _, name := range []string{"", "vg1-pool_tdata", "vg1-pool_tmeta"} {
		if name != "" {
			s.withoutTable(name)
			s.ready()
		}
		if s.hash(volume) != sum {
			t.Fatalf("%s: the data has changed", name)
		}
	}
}

// devices returns the mapped devices of volume group vg1.
func (s *scene) devices() []devicemapper.Device {
	s.Helper()
	all, err := devicemapper.New().List(s.Context())
	s.ok(err)
	return slices.DeleteFunc(all, func(d devicemapper.Device) bool { return !strings.HasPrefix(d.Name, "vg1-") })
}
