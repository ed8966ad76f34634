//go:build lab

package volumegroup

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// delete requests the removal of a volume.
func (s *scene) delete(volume string) error {
	s.Helper()
	err := s.engine.RemoveLV(s.Context(), "vg1", volume)
	return err
}

// wantUnavailable checks for an error that is retried.
func (s *scene) wantUnavailable(what string, err error) {
	s.Helper()
	if status.Code(err) != codes.Unavailable {
		s.Errorf("%s: got %v, want %s", what, err, codes.Unavailable)
	}
}

// missing returns the number of physical volumes that LVM reports as missing.
func (s *scene) missing() int {
	s.Helper()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	return report.VG("vg1").MissingPVs
}

func twoDisks(s *scene) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...)}
}

// TestSceneDiskIsAwayForAMoment resets a disk enclosure. Meanwhile a claim is deleted, and a volume is used for the
// first time. LVM would permanently record the disk as missing in the metadata.
func TestSceneDiskIsAwayForAMoment(t *testing.T) {
	s := newScene(t, twoDisks)
	before := s.ready()
	s.volume("b", 32<<20)
	volume := s.volume("a", 240<<20)
	sum := s.fill(volume, 240<<20)
	s.ready()
	s.pull(s.disks[1])
	// The agent has not observed the node since.
	for range 2 {
		s.wantUnavailable("delete", s.delete("b"))
		s.wantUnavailable("tag", s.engine.TagLV(s.Context(), "vg1", "a", []string{"x"}, nil))
	}
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.wantUnavailable("delete", s.delete("b"))
	rescan()
	after := s.ready()
	if n := s.missing(); n != 0 || len(after.PhysicalVolumes) != len(before.PhysicalVolumes) {
		t.Errorf("%d physical volumes are missing for good: %+v", n, after.PhysicalVolumes)
	}
	s.unchanged(volume, sum)
	s.ok(s.delete("b"))
	s.ok(s.engine.TagLV(s.Context(), "vg1", "a", []string{"x"}, nil))

	// Now the disk is lost, and its removal is requested.
	s.pull(s.disks[1])
	e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "LVMRecovery")
	at := slices.IndexFunc(e.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.State == v1alpha1.PhysicalVolumeMissing
	})
	lost := v1alpha1.DeviceRequest{Node: nodeName, Device: e.PhysicalVolumes[at].UUID,
		Action: v1alpha1.DeviceActionRemove}
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceSelector = byPath(s.disks[0])
		spec.DeviceRequests = []v1alpha1.DeviceRequest{lost}
	})
	s.look()
	s.ok(s.delete("a"))
	s.converge("a group without the lost disk",
		func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.PhysicalVolumes) == 1 })
	s.discard()
}

// TestSceneDiskThatTheAgentDoesNotKnow deletes a volume right after a disk was added to the group manually, before
// the agent knows of it.
func TestSceneDiskThatTheAgentDoesNotKnow(t *testing.T) {
	s := newScene(t, twoDisks)
	s.ready()
	s.volume("a", 32<<20)
	s.volume("b", 32<<20)
	s.ready()
	s.count("before a removal")
	s.ok(s.delete("a"))
	if n := s.count("a removal"); len(n) != 1 || n["lvm lvremove"] != 1 {
		t.Errorf("a removal from a known volume group started %v, want one", n)
	}
	s.sh("/usr/sbin/lvm", "vgextend", "vg1", s.disks[2])
	s.sh("/usr/sbin/lvm", "lvcreate", "--name", "byhand", "--size", "32m", "--wipesignatures", "n", "vg1", s.disks[2])
	s.ok(s.delete("b"))
	if n := s.missing(); n != 0 {
		t.Errorf("%d physical volumes are missing for good", n)
	}
	s.sh("/usr/sbin/lvm", "lvremove", "--yes", "vg1/byhand")
}

// TestSceneRAIDIsExtendedOnRequest has a new disk while another one is missing. The group is extended after the
// removal of the missing disk is requested.
func TestSceneRAIDIsExtendedOnRequest(t *testing.T) {
	s := newScene(t, raidScene(v1alpha1.RAIDType1, 2))
	s.ready()
	sum := s.fill(s.volume("a", 32<<20), 32<<20)
	s.pull(s.disks[1])
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:3]...) })
	s.look()
	if n := len(s.entry().PhysicalVolumes); n != 2 {
		t.Errorf("it has %d devices: it was extended while one is away", n)
	}
	rescan()
	s.converge("whole, with the new disk", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && len(e.PhysicalVolumes) == 3 && e.RAIDStatus.Status == v1alpha1.RAIDHealthy
	})
	if n := s.missing(); n != 0 {
		t.Errorf("%d physical volumes are missing for good", n)
	}
	s.unchanged("/dev/vg1/a", sum)
	s.discard()
}
