//go:build lab

package volumegroup

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// unfinish leaves a disk as a vgcreate or vgextend that was killed after it wrote the label: LVM's flag says that a
// volume group uses the physical volume, and the metadata area is as pvcreate leaves it.
func (s *scene) unfinish(disk string) {
	s.Helper()
	const area, end = 4096, 1 << 20
	s.onAnotherHost("pvcreate", "--yes", disk)
	f, err := os.Open(kernelName(disk))
	s.ok(err)
	empty := make([]byte, end-area)
	_, err = io.ReadFull(io.NewSectionReader(f, area, end-area), empty)
	s.ok(err)
	s.ok(f.Close())
	s.onAnotherHost("vgcreate", "killed", disk)
	s.writeAt(disk, area, empty)
	s.listDevice(disk)
}

// listDevice adds a disk to the devices file of the host, if it has one.
func (s *scene) listDevice(disk string) {
	s.Helper()
	if s.hasDevicesFile() {
		s.sh("/usr/sbin/lvm", "lvmdevices", "--adddev", kernelName(disk))
	}
	s.settleUdev()
}

// recordAddition records the disks as the agent does before it adds them.
func (s *scene) recordAddition(disks ...string) {
	s.Helper()
	var ids []string
	for _, d := range disks {
		ids = append(ids, s.identityOf(d))
	}
	s.ok(s.agent.group.additions.Write("vg1", ids))
}

// TestSceneUnfinishedDeviceIsAddedAgain has the disks of a volume group whose creation was killed, and then one of an
// extension that was. Without the agent's record that it was adding them, their labels stay.
func TestSceneUnfinishedDeviceIsAddedAgain(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...)}
	})
	for _, d := range s.disks[:3] {
		s.unfinish(d)
	}
	s.look()
	s.wantState(v1alpha1.VGStatusFailed, "whose metadata LVM cannot find")

	s.recordAddition(s.disks[:2]...)
	if e := s.ready(); len(e.Devices) != 2 {
		t.Fatalf("got %+v", e)
	}
	s.recordAddition(s.disks[2])
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector = byPath(s.disks[:3]...) })
	s.converge("three devices", func(e v1alpha1.VGStatus) bool {
		return e.Status == v1alpha1.VGStatusReady && len(e.Devices) == 3
	})
	if ids, err := s.agent.group.additions.Read("vg1"); err != nil || len(ids) > 0 {
		t.Errorf("the record is %q, %v", ids, err)
	}
}

// TestSceneDeviceWithoutMetadataOfItsOwnKeepsItsLabel has a disk with data, whose volume group has its metadata on
// another disk. Nothing on the disk shows that its label is not that of a killed command, but the flag of its metadata
// area.
func TestSceneDeviceWithoutMetadataOfItsOwnKeepsItsLabel(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	s.onAnotherHost("pvcreate", "--yes", "--metadataignore", "y", s.disks[0])
	s.onAnotherHost("vgcreate", "data", s.disks[0], s.disks[1])
	s.onAnotherHost("vgchange", "--activate", "n", "data")
	s.sh("/usr/sbin/wipefs", "--all", s.disks[1])
	s.listDevice(s.disks[0])
	before := s.hash(s.disks[0])
	s.recordAddition(s.disks[0])
	s.look()
	e := s.entry()
	if e.Status == v1alpha1.VGStatusReady || s.hash(s.disks[0]) != before {
		t.Fatalf("the disk was used: %+v", e)
	}
	if !strings.Contains(e.Reason, "can have metadata of a volume group") {
		t.Errorf("got %s: %s", e.Status, e.Reason)
	}
}

// TestSceneImagesThatAKilledCommandLeftDoNotBlockTheirVolume has RAID volumes whose images are active without them, as
// after a killed activation or deactivation.
func TestSceneImagesThatAKilledCommandLeftDoNotBlockTheirVolume(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...),
			RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType1}}
	})
	s.ready()
	sum := s.fill(s.claimed("a", 32<<20), 32<<20)
	s.inSync()
	for _, images := range [][]string{nil, {"vg1-a_rimage_0"}} {
		s.sh("/usr/sbin/dmsetup", append([]string{"remove", "vg1-a"}, images...)...)
		if err := nodelvm.Command("/usr/sbin/lvm", "lvchange", "--activate", "y", "vg1/a").Run(); err == nil {
			t.Errorf("LVM activates the volume without %v: this shows nothing", images)
		}
		s.converge("the active volume", func(v1alpha1.VGStatus) bool {
			return strings.TrimSpace(s.output("lvs", "--noheadings", "-o", "lv_active", "vg1/a")) == "active"
		})
		s.unchanged("/dev/vg1/a", sum)
	}

	// A killed activation can leave a device without a table.
	image := s.withoutTable("vg1-a_rimage_0")
	if err := nodelvm.Command("/usr/sbin/lvm", "lvchange", "--activate", "y", "vg1/a").Run(); err == nil {
		t.Errorf("LVM activates the volume beside %s: this shows nothing", image)
	}
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
}

// withoutTable deactivates the volume group, and gives the mapped device of a volume back, without a table.
func (s *scene) withoutTable(name string) string {
	s.Helper()
	uuid := strings.TrimSpace(s.output("dmsetup", "info", "-c", "--noheadings", "-o", "uuid", name))
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.sh("/usr/sbin/dmsetup", "create", name, "--notable", "--uuid", uuid)
	return name
}

// TestSceneUnfinishedPoolIsCreated has what a killed lvcreate leaves of a thin pool: the spare for its metadata under a
// generated name, and the metadata under the name of the pool. Volumes of an administrator are kept.
func TestSceneUnfinishedPoolIsCreated(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[:2]...)
		return spec
	})
	for _, what := range []string{"a new group", "the group of a pool that was removed"} {
		lvcreate := 2 // after the tag
		if what == "a new group" {
			lvcreate++
		}
		c := &crashingRunner{real: s.runner, next: lvcreate, mode: "before"}
		s.bootOver(c)
		s.converge("the death of the agent", func(v1alpha1.VGStatus) bool {
			dead, _ := c.isDead()
			return dead
		})
		if _, said := c.isDead(); !slices.Equal(said, []string{"lvcreate"}) {
			t.Fatalf("%s: the agent was killed at %v", what, said)
		}
		s.sh("/usr/sbin/lvm", "lvcreate", "--extents", "1", "vg1")
		s.sh("/usr/sbin/lvm", "lvcreate", "--extents", "1", "--name", "pool", "vg1")
		if what == "a new group" {
			s.sh("/usr/sbin/lvm", "lvcreate", "--extents", "1", "--name", "mine", "vg1")
		}
		s.boot()
		s.ready()
		s.wantVolumes("mine", "pool")
		if tags := s.output("vgs", "--noheadings", "-o", "vg_tags", "vg1"); strings.Contains(tags, wellknown.NoPoolTag) {
			t.Errorf("%s: the volume group has the tags %s", what, tags)
		}
		if what == "a new group" {
			s.sh("/usr/sbin/lvm", "lvremove", "--yes", "vg1/pool")
		}
	}
	s.sh("/usr/sbin/lvm", "lvcreate", "--extents", "1", "--name", "lvol9", "vg1")
	s.look()
	s.wantVolumes("lvol9", "mine", "pool")
}

// wantVolumes fails if the volume group does not have exactly these logical volumes.
func (s *scene) wantVolumes(want ...string) {
	s.Helper()
	got := strings.Fields(s.output("lvs", "--noheadings", "-o", "lv_name", "vg1"))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.Errorf("the logical volumes are %v, want %v", got, want)
	}
}
