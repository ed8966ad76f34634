//go:build lab

package volumegroup

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// TestSceneGroupsOfOneName attaches a disk whose volume group has the name of the device class. Neither group is
// changed, and the volumes of one are not reported as those of the other.
func TestSceneGroupsOfOneName(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	ours := s.ready().UUID
	volume := s.volume("a", 32<<20)
	sum := s.fill(volume, 32<<20)
	s.ready()

	second := kernelName(s.disks[4])
	on := func(command string, args ...string) {
		t.Helper()
		s.sh("/usr/sbin/lvm", append([]string{command, "--devices", second}, args...)...)
	}
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	on("vgcreate", "--addtag", "lvms", "vg1", second)
	on("lvcreate", "--name", "precious", "--size", "8m", "--wipesignatures", "n", "--zero", "n", "vg1")
	on("vgchange", "--activate", "n", "vg1")
	if s.hasDevicesFile() {
		s.sh("/usr/sbin/lvm", "lvmdevices", "--adddev", second)
	}
	s.sh("/usr/sbin/lvm", "vgchange", "--devices", kernelName(s.disks[0]), "--activate", "y", "vg1")
	s.settleUdev()
	theirs := strings.TrimSpace(s.output("lvm", "vgs", "--devices", second, "--noheadings", "-o", "vg_uuid", "vg1"))

	refused := func() {
		t.Helper()
		s.wantUnavailable("delete", s.delete("a"))
		s.wantUnavailable("tag", s.engine.TagLV(s.Context(), "vg1", "a", []string{"x"}, nil))
		_, err := s.engine.FreeBytes(s.Context(), "vg1")
		s.wantUnavailable("capacity", err)
		_, err = s.engine.CreateLV(s.Context(),
			engine.NewVolume{Name: "b", Class: "vg1", Size: 4 << 20})
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("create: got %v", err)
		}
		volumes, classes, err := s.engine.Volumes(s.Context())
		s.ok(err)
		if len(volumes) != 0 || classes["vg1"] == nil {
			t.Errorf("the volumes of somebody else are told: %+v, %v", volumes, classes)
		}
	}
	for range 2 {
		e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDuplicateVolumeGroup, ours, theirs, "vgrename")
		if e.UUID != ours {
			t.Errorf("the record is %s, was %s", e.UUID, ours)
		}
		refused()
		s.boot()
	}

	// With another name there is no conflict.
	s.sh("/usr/sbin/lvm", "vgrename", theirs, "other")
	if e := s.ready(); e.UUID != ours {
		t.Errorf("got %s, want %s", e.UUID, ours)
	}
	s.unchanged(volume, sum)

	// The disk of the device class is missing, and the other group has the name.
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.pull(s.disks[0])
	s.sh("/usr/sbin/lvm", "vgrename", theirs, "vg1")
	for range 2 {
		e := s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDuplicateVolumeGroup, ours, theirs, "adopt")
		if e.UUID != ours {
			t.Errorf("the record is %s, was %s", e.UUID, ours)
		}
		refused()
		s.boot()
	}
	s.sh("/usr/sbin/lvm", "vgrename", theirs, "other")
	rescan()
	s.ready()
	s.unchanged(volume, sum)
	s.sh("/usr/sbin/lvm", "vgrename", theirs, "vg2")
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg2")
	if got := s.output("lvm", "lvs", "--noheadings", "-o", "lv_name", "vg2"); strings.TrimSpace(got) != "precious" {
		t.Errorf("the volume group of somebody else has %q", got)
	}
	s.sh("/usr/sbin/lvm", "vgremove", "--yes", "--force", "vg2")
	s.sh("/usr/sbin/lvm", "pvremove", second)
	s.discard()
}

// TestSceneAdoptedGroupOfAnotherNameIsRenamed attaches disks of two other nodes with volume groups of the same name.
// The device class adopts one of them, which gets its name. The agent is killed after the command. The other group is
// not changed.
func TestSceneAdoptedGroupOfAnotherNameIsRenamed(t *testing.T) {
	uuids := map[string]string{}
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		for i, volume := range []string{"precious", "other"} {
			disk := kernelName(s.disks[i])
			for _, args := range [][]string{
				{"vgcreate", "--addtag", "lvms", "--addtag", "lvms.cluster=c0", "--addtag", "lvms.class=old", "old", disk},
				{"lvcreate", "--name", volume, "--size", "32m", "--wipesignatures", "n", "--zero", "n", "old"},
				{"vgchange", "--activate", "n", "old"},
			} {
				s.sh("/usr/sbin/lvm", append([]string{args[0], "--devices", disk}, args[1:]...)...)
			}
			uuids[volume] = strings.TrimSpace(
				s.output("lvm", "vgs", "--devices", disk, "--noheadings", "-o", "vg_uuid", "old"))
		}
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: &v1alpha1.DeviceSelector{
			OptionalPaths: []v1alpha1.DevicePath{v1alpha1.DevicePath(s.disks[0])}}}
	})
	if s.hasDevicesFile() {
		for i := range 2 {
			s.sh("/usr/sbin/lvm", "lvmdevices", "--adddev", kernelName(s.disks[i]))
		}
	}
	s.look()
	if e := s.entry(); e.UUID != "" {
		t.Fatalf("the class has a group that it does not adopt: %+v", e)
	}
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: nodeName, VolumeGroupUUID: uuids["precious"]}}
	})
	_, _ = s.reconcile()
	s.boot()
	if e := s.ready(); e.UUID != uuids["precious"] {
		t.Fatalf("the class has the group %s, want %s", e.UUID, uuids["precious"])
	}
	report, err := lvmexec.New(s.runner).Report(t.Context())
	s.ok(err)
	adopted, other := report.VG("vg1"), report.VG("old")
	if adopted.LV("precious") == nil {
		t.Fatalf("got %+v", report.VGs)
	}
	expect.Equal(t, `LV("precious").Attr.Active()`, adopted.LV("precious").Attr.Active(), true)
	if other == nil {
		t.Fatalf("got %+v", report.VGs)
	}
	expect.Equal(t, "UUID", other.UUID, uuids["other"])
	expect.NotZero(t, `LV("other")`, other.LV("other"))
	t.Log(adopted.Tags, other.Tags)
	if adopted.HasTag("lvms.cluster=c0") || !other.HasTag("lvms.cluster=c0") {
		t.Errorf("got the tags %v and %v", adopted.Tags, other.Tags)
	}
	s.fill("/dev/vg1/precious", 32<<20)
	s.ok(s.delete("precious"))
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "old")
	s.sh("/usr/sbin/lvm", "vgremove", "--yes", "--force", "old")
	s.sh("/usr/sbin/lvm", "pvremove", kernelName(s.disks[1]))
	s.discard()
}
