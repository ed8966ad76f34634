//go:build lab

package volumegroup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
)

// TestSceneDeletedGroupIsRestored deletes a volume group of thick volumes with LVM, as an administrator does by
// mistake. The group is restored with approval. The agent is killed after the command, and in the middle of it.
func TestSceneDeletedGroupIsRestored(t *testing.T) {
	type killing struct {
		keptClass
		mode string
	}
	var all []killing
	for _, mode := range []string{"after", "in the middle of"} {
		for _, c := range keptClasses {
			all = append(all, killing{c, mode})
		}
	}
	for _, k := range lane.Cases(all...) {
		t.Run(fmt.Sprintf("%s, killed %s the command", k.name, k.mode), func(t *testing.T) {
			restoreDeleted(t, k.keptClass, k.mode)
		})
	}
}

// keptClass is a device class whose volumes are kept.
type keptClass struct {
	name  string
	spec  v1alpha1.LVMVolumeGroupSpec
	disks int
	// large is the size of a volume in MiB that is on all devices.
	large int64
}

var keptClasses = []keptClass{
	{"thick", v1alpha1.LVMVolumeGroupSpec{Default: true}, 2, 240},
	{"raid1", v1alpha1.LVMVolumeGroupSpec{Default: true,
		RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType1}}, 2, 64},
	{"raid5", v1alpha1.LVMVolumeGroupSpec{Default: true,
		RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType5}}, 3, 96},
}

// of returns the spec of a class on its number of disks.
func (c keptClass) of(s *scene) v1alpha1.LVMVolumeGroupSpec {
	c.spec.DeviceSelector = byPath(s.disks[:c.disks]...)
	return c.spec
}

func restoreDeleted(t *testing.T, c keptClass, mode string) {
	s := newScene(t, c.of)
	before := s.ready()
	sums := map[string]string{}
	for name, size := range map[string]int64{"a": 32 << 20, "b": c.large << 20} {
		sums[name] = s.fill(s.volume(name, size), size)
	}
	if c.spec.RAIDConfig != nil {
		s.inSync()
	}
	s.ready()
	s.disaster()
	s.sh("/usr/sbin/lvm", "vgremove", "--force", "--yes", "vg1")
	e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "was deleted",
		string(v1alpha1.RecoveryRestoreMetadata))
	s.named()
	t.Logf("%s", falseCondition(e, v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing).Message)
	r := s.plan(v1alpha1.RecoveryRestoreMetadata)
	p := r.Status.Plan
	t.Logf("%s", r.Status.Message)
	if len(p.Devices) != c.disks || p.LostVolumeCount != 0 || !strings.Contains(p.MetadataSource, "vgremove") ||
		p.VolumeGroupUUID != before.UUID {
		t.Fatalf("got the plan %+v", p)
	}
	s.approve(p.ID)
	killed := s.recover(mode, func(n int) int { return n + 1 })
	t.Logf("killed %s %v", mode, killed)
	if len(killed) == 0 {
		t.Error("the agent was never killed: this shows nothing")
	}
	if e := s.ready(); e.UUID != before.UUID {
		t.Errorf("the volume group has the UUID %s, and had %s", e.UUID, before.UUID)
	}
	for name, sum := range sums {
		s.unchanged("/dev/vg1/"+name, sum)
	}
	if out := s.output("vgck", "vg1"); strings.Contains(out, "WARNING") {
		t.Errorf("vgck: %s", out)
	}
	s.fill(s.volume("new", 16<<20), 16<<20)
	s.discard()
}

// TestSceneDeletedThinGroupIsNotRestored: LVM deletes thin volumes from the metadata of their pool, so the archive of
// the volume group does not bring them back. The administrator is told, and the class is usable again afterwards.
func TestSceneDeletedThinGroupIsNotRestored(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	s.fill(s.volume("a", 32<<20), 32<<20)
	s.disaster()
	s.sh("/usr/sbin/lvm", "vgremove", "--force", "--yes", "vg1")
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "was deleted")
	s.named()
	s.request(v1alpha1.RecoveryRestoreMetadata)
	s.converge("the reason", func(v1alpha1.VGStatus) bool {
		status := s.recovery().Status
		return status.Phase == v1alpha1.RecoveryNotApplicable && strings.Contains(status.Message, "had the thin pool pool")
	})
	t.Logf("%s", s.recovery().Status.Message)
	s.ok(s.client.Delete(s.Context(), s.recovery()))
	r := s.plan(v1alpha1.RecoveryRemoveLostDevices)
	s.approve(r.Status.Plan.ID)
	// LVM creates the group again on the same physical volumes.
	s.ready()
	s.converge("the end", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoverySucceeded
	})
	s.recovered(0)
	s.fill(s.volume("new", 16<<20), 16<<20)
	s.discard()
}
