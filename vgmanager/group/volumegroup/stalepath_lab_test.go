//go:build lab

package volumegroup

import (
	"os"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// TestSceneLinksOfAnEarlierGroup removes the volumes of a volume group with dmsetup, and its disk is replaced. On a
// host without LVM, their links stay, and LVM does not create a volume group of this name. The status says where they
// are, and its command removes them.
func TestSceneLinksOfAnEarlierGroup(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[0])}
	})
	disk := kernelName(s.disks[0])
	s.sh("/usr/sbin/lvm", "vgcreate", "vg1", disk)
	s.sh("/usr/sbin/lvm", "lvcreate", "--name", "a", "--size", "8m", "vg1")
	s.sh("/usr/sbin/dmsetup", "remove", "--retry", "vg1-a")
	clean(disk)
	if s.hasDevicesFile() {
		s.sh("/usr/sbin/lvm", "lvmdevices", "--yes", "--deldev", disk)
	}
	s.settleUdev()
	if !nodelvm.Absent() {
		// With the rules of LVM, udev removes the links. Here they are as without these rules.
		s.ok(os.MkdirAll("/dev/vg1", 0o755))
		s.ok(os.Symlink("/dev/mapper/vg1-a", "/dev/vg1/a"))
	}
	if target, err := os.Readlink("/dev/vg1/a"); err != nil || target != "/dev/mapper/vg1-a" {
		t.Fatalf("the link leads to %q: %v", target, err)
	}

	e := s.converge("Failed", func(e v1alpha1.VGStatus) bool { return e.Status == v1alpha1.VGStatusFailed })
	t.Log(e.Reason)
	_, after, _ := strings.Cut(e.Reason, "run on the node: ")
	command, _, found := strings.Cut(after, ";")
	if !found || !strings.Contains(e.Reason, "/dev/vg1 exists on node "+nodeName) {
		t.Fatalf("the status does not say what to do: %s", e.Reason)
	}
	// A path of something else is kept.
	s.ok(os.WriteFile("/dev/vg1/kept", nil, 0o600))
	if out, err := nodelvm.Command("/bin/sh", "-c", command).CombinedOutput(); err == nil {
		t.Errorf("the folder was removed with a file in it: %s", out)
	}
	s.ok(os.Remove("/dev/vg1/kept"))
	s.sh("/bin/sh", "-c", command)
	s.ready()
	s.discard()
}
