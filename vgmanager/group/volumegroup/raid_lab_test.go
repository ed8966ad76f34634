//go:build lab

package volumegroup

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
)

func raidScene(kind v1alpha1.RAIDType, disks int) func(*scene) v1alpha1.LVMVolumeGroupSpec {
	return func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:disks]...),
			RAIDConfig: &v1alpha1.RAIDConfig{Type: kind}}
	}
}

// raidDisks is the minimum number of disks of each level.
var raidDisks = map[v1alpha1.RAIDType]int{
	v1alpha1.RAIDType1: 2, v1alpha1.RAIDType4: 3, v1alpha1.RAIDType5: 3, v1alpha1.RAIDType6: 5, v1alpha1.RAIDType10: 4,
}

// TestSceneRAIDSurvivesAPulledDisk removes a disk of each level during writes, and replaces it.
func TestSceneRAIDSurvivesAPulledDisk(t *testing.T) {
	for _, kind := range lane.Cases(slices.Sorted(maps.Keys(raidDisks))...) {
		disks := raidDisks[kind]
		t.Run(string(kind), func(t *testing.T) {
			s := newScene(t, raidScene(kind, disks))
			s.ready()
			volume := s.volume("a", 48<<20)
			other := s.volume("b", 16<<20)
			sum := s.fill(other, 16<<20)
			s.converge("in sync", func(e v1alpha1.VGStatus) bool {
				return e.RAIDStatus != nil && e.RAIDStatus.MinSyncPercent != nil && *e.RAIDStatus.MinSyncPercent == 100
			})
			writing := s.startWriting(volume)
			lost := s.disks[disks-1]
			s.disaster()
			s.pull(lost)
			e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "volumes at risk", "a", "b")
			s.says(v1alpha1.ConditionRAIDHealthy, v1alpha1.ReasonRAIDDegraded, "a")
			s.named()
			if e.RAIDStatus == nil || e.RAIDStatus.Status != v1alpha1.RAIDDegraded ||
				e.RAIDStatus.DegradedMemberCount != 1 {
				t.Errorf("got %+v", e.RAIDStatus)
			}
			var uuid string
			for _, pv := range s.entry().PhysicalVolumes {
				if pv.State == v1alpha1.PhysicalVolumeMissing {
					uuid = pv.UUID
				}
			}
			s.unchanged(other, sum)
			// A new disk replaces the old one, whose removal is requested.
			s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
				spec.DeviceSelector = byPath(append(slices.Clone(s.disks[:disks-1]), s.disks[disks])...)
				spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: uuid,
					Action: v1alpha1.DeviceActionRemove}}
			})
			s.incident.approved = time.Now()
			s.converge("repaired", func(e v1alpha1.VGStatus) bool {
				return isReady(e) && len(e.Devices) == disks && e.RAIDStatus.Status == v1alpha1.RAIDHealthy
			})
			s.recovered(0)
			if err := writing.finish(); err != nil {
				t.Errorf("a write failed: %v", err)
			}
			s.unchanged(other, sum)
			s.discard()
		})
	}
}

// TestSceneRAIDDeviceComesBack simulates a loose cable.
func TestSceneRAIDDeviceComesBack(t *testing.T) {
	s := newScene(t, raidScene(v1alpha1.RAIDType1, 2))
	s.ready()
	volume := s.volume("a", 32<<20)
	s.converge("in sync", func(e v1alpha1.VGStatus) bool {
		return e.RAIDStatus.MinSyncPercent != nil && *e.RAIDStatus.MinSyncPercent == 100
	})
	writing := s.startWriting(volume)
	s.pull(s.disks[1])
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.ok(writing.finish())
	sum := s.hash(volume)
	rescan()
	s.converge("whole again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && e.RAIDStatus.Status == v1alpha1.RAIDHealthy && len(e.Devices) == 2
	})
	s.unchanged(volume, sum)
	// Now the other disk is removed, so data is read from the disk that returned.
	s.pull(s.disks[0])
	s.unchanged(volume, sum)
	rescan()
	s.converge("whole again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) &&
			e.RAIDStatus.Status == v1alpha1.RAIDHealthy
	})
	s.discard()
}
