//go:build lab

package volumegroup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/layers"
)

// contents are types of content of a disk, each created by a program of the node or by its first bytes.
var contents = map[string]func(s *scene, disk string){
	"ext4":        func(s *scene, disk string) { s.sh("/usr/sbin/mkfs.ext4", ext4On(disk)...) },
	"swap":        func(s *scene, disk string) { s.sh("/usr/sbin/mkswap", disk) },
	"crypto_LUKS": func(s *scene, disk string) { s.writeAt(disk, 0, layers.LUKSHeader(2)) },
	"linux_raid_member": func(s *scene, disk string) {
		s.writeAt(disk, layers.MemberOffset, layers.MemberSuperblock())
	},
	"ceph_bluestore": func(s *scene, disk string) {
		s.writeAt(disk, 0, []byte("bluestore block device\n00000000-0000-0000-0000-000000000000\n"))
	},
	"a DOS table": func(s *scene, disk string) {
		table := make([]byte, 512)
		copy(table[446:], []byte{0, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x80, 0, 0})
		table[510] = 0x55
		table[511] = 0xaa
		s.writeAt(disk, 0, table)
	},
}

func (s *scene) writeAt(disk string, offset int64, data []byte) {
	s.Helper()
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	s.ok(err)
	_, err = f.WriteAt(data, offset)
	s.ok(err)
	s.ok(f.Sync())
	s.ok(f.Close())
	s.sh("/usr/bin/udevadm", "trigger", "--settle", kernelName(disk))
}

// TestSceneDiskWithContent names a disk with content. Without consent, no byte changes. With consent, the disk is
// backed up, wiped once and used. Content that is written later is not wiped.
func TestSceneDiskWithContent(t *testing.T) {
	for _, name := range lane.Cases(slices.Sorted(maps.Keys(contents))...) {
		put := contents[name]
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
				return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
			})
			disk := s.disks[0]
			put(s, disk)
			s.settleUdev()
			sum := s.hash(disk)
			for range 3 {
				s.agent.Wake()
				_, err := s.reconcile()
				s.ok(err)
			}
			e := s.wantState(v1alpha1.VGStatusFailed, disk, nodeName)
			if len(e.Excluded) != 1 || s.hash(disk) != sum {
				t.Errorf("the disk changed, or no reason reported it is not used: %+v", e.Excluded)
			}
			t.Log(e.Reason)

			yes := true
			s.change(
				func(
					spec *v1alpha1.LVMVolumeGroupSpec) {
					spec.DeviceSelector.ForceWipeDevicesAndDestroyAllData = &yes
				})
			e = s.ready()
			if len(e.WipedDevices) != 1 || !strings.HasPrefix(e.WipedDevices[0].ID, "wwn:") ||
				len(e.WipedDevices[0].Found) == 0 {
				t.Fatalf("the record is %+v", e.WipedDevices)
			}
			saved, err := filepath.Glob(filepath.Join(e.WipedDevices[0].Backup, "*.bin"))
			if err != nil || len(saved) == 0 {
				t.Errorf("nothing was saved in %s: %v", e.WipedDevices[0].Backup, err)
			}

			// The disk is used for something else, and the agent restarts. Then the node is installed again, and only
			// the node status has the record.
			s.sh("/usr/sbin/lvm", "vgremove", "--yes", "vg1")
			s.sh("/usr/sbin/lvm", "pvremove", disk)
			s.sh("/usr/sbin/mkfs.ext4", ext4On(disk)...)
			s.sh("/usr/bin/udevadm", "trigger", "--settle", kernelName(disk))
			sum = s.hash(disk)
			for _, reinstalled := range []bool{false, true} {
				if reinstalled {
					s.loseFiles()
				}
				s.boot()
				for range 4 {
					s.agent.Wake()
					_, _ = s.reconcile()
				}
				s.wantState(v1alpha1.VGStatusDegraded, "nothing is wiped a second time")
				if s.hash(disk) != sum {
					t.Error("it was wiped a second time")
				}
			}
		})
	}
}

// TestSceneNodeIsRegisteredAnew recreates the node status and deletes the agent's files, as after a reinstallation of
// the node. The volume group on the disk must not be wiped, although no record of the first wipe is left.
func TestSceneNodeIsRegisteredAnew(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		yes := true
		selector := byPath(s.disks[0])
		selector.ForceWipeDevicesAndDestroyAllData = &yes
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: selector}
	})
	s.sh("/usr/sbin/mkfs.ext4", ext4On(s.disks[0])...)
	s.settleUdev()
	s.ready()
	volume := s.volume("a", 32<<20)
	sum := s.fill(volume, 32<<20)
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: namespace}}
	s.ok(s.client.Delete(s.Context(), status))
	status.ResourceVersion = ""
	s.ok(s.client.Create(s.Context(), status))
	s.loseFiles()
	s.boot()
	s.ready()
	s.unchanged(volume, sum)
	if n := len(s.entry().WipedDevices); n != 0 {
		t.Errorf("%d devices were wiped", n)
	}
	s.discard()
}

// loseFiles deletes the agent's files, as a reinstallation of the node.
func (s *scene) loseFiles() {
	s.Helper()
	files, err := os.ReadDir(s.dir)
	s.ok(err)
	for _, f := range files {
		s.ok(os.RemoveAll(filepath.Join(s.dir, f.Name())))
	}
}
