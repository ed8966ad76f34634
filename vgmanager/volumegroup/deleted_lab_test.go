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
	for _, mode := range lane.Rotate("after", "in the middle of") {
		t.Run(fmt.Sprintf("killed %s the command", mode), func(t *testing.T) { restoreDeleted(t, mode) })
	}
}

func restoreDeleted(t *testing.T, mode string) {
	s := newScene(t, twoDisks)
	before := s.ready()
	sums := map[string]string{}
	for name, size := range map[string]int64{"a": 48 << 20, "b": 240 << 20} {
		sums[name] = s.fill(s.volume(name, size), size)
	}
	s.ready()
	s.sh("/usr/sbin/lvm", "vgremove", "--force", "--yes", "vg1")
	e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "was deleted",
		string(v1alpha1.RecoveryRestoreMetadata))
	t.Logf("%s", falseCondition(e, v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing).Message)
	r := s.plan(v1alpha1.RecoveryRestoreMetadata)
	p := r.Status.Plan
	t.Logf("%s", r.Status.Message)
	if len(p.Devices) != 2 || p.LostVolumeCount != 0 || !strings.Contains(p.MetadataSource, "vgremove") ||
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
	s.sh("/usr/sbin/lvm", "vgremove", "--force", "--yes", "vg1")
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing, "was deleted")
	s.request(v1alpha1.RecoveryRestoreMetadata)
	s.converge("the reason", func(v1alpha1.VGStatus) bool {
		status := s.recovery().Status
		return status.Phase == v1alpha1.RecoveryNotApplicable && strings.Contains(status.Message, "had the thin pool pool")
	})
	t.Logf("%s", s.recovery().Status.Message)
}
