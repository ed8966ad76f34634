//go:build lab

package volumegroup

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// systemDevices is the path of the devices file.
const systemDevices = "/etc/lvm/devices/system.devices"

// onAnotherHost runs LVM like a host that does not have this host's devices file.
func (s *scene) onAnotherHost(command string, args ...string) {
	s.Helper()
	s.sh("/usr/sbin/lvm", append([]string{command, "--config", "devices/use_devicesfile=0"}, args...)...)
}

// hide makes LVM not list the disks of a volume group, with the devices file or, on a host without one, with a system
// ID.
func (s *scene) hide(vg string, disks ...string) {
	s.Helper()
	s.onAnotherHost("vgchange", "--activate", "n", vg)
	if s.hasDevicesFile() {
		for _, d := range disks {
			_ = nodelvm.Command("/usr/sbin/lvm", "lvmdevices", "--deldev", kernelName(d)).Run()
		}
	} else {
		s.onAnotherHost("vgchange", "--yes", "--systemid", "elsewhere", vg)
	}
	s.settleUdev()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	if report.VG(vg) != nil {
		s.Fatalf("LVM lists %s: this shows nothing", vg)
	}
}

func (s *scene) hasDevicesFile() bool {
	s.Helper()
	_, err := os.Stat(systemDevices)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	s.ok(err)
	return true
}

// look reconciles several times and ignores the results.
func (s *scene) look() {
	s.Helper()
	for range 4 {
		s.agent.Wake()
		_, _ = s.reconcile()
	}
}

// wiping returns a device class that allows wiping its disks.
func wiping(disks int) func(*scene) v1alpha1.LVMVolumeGroupSpec {
	return func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		yes := true
		selector := byPath(s.disks[:disks]...)
		selector.ForceWipeDevicesAndDestroyAllData = &yes
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: selector}
	}
}

// TestSceneHiddenGroupIsNotWiped has disks of this product that LVM on this host does not list: of a failed node, or
// of this node before it was reinstalled. The device class names the disks and allows wiping them.
func TestSceneHiddenGroupIsNotWiped(t *testing.T) {
	tests := map[string]struct {
		group  string
		tags   []string
		damage func(s *scene)
		says   []string
	}{
		"another node": {"vg1", []string{"lvms", "lvms.cluster=c1", "lvms.node=node9"}, nil,
			[]string{"VGMoved", "node9"}},
		"this node": {"vg1", []string{"lvms", "lvms.cluster=c1", "lvms.node=" + nodeName}, nil,
			[]string{"lvmdevices --adddev", "adopt"}},
		"another cluster": {"vg1", []string{"lvms", "lvms.cluster=elsewhere"}, nil,
			[]string{"OtherClusterVG", "elsewhere"}},
		"another class": {"vg9", []string{"lvms", "lvms.cluster=c1"}, nil, []string{"vg9", "belongs to this product"}},
		"a disk is missing": {
			"vg9", []string{"lvms"}, func(s *scene) { clean(kernelName(s.disks[1])) },
			[]string{"vg9", "belongs to this product"},
		},
		"its metadata cannot be read": {
			"vg9", nil, func(s *scene) { s.writeAt(s.disks[0], 4096, make([]byte, 512)) },
			[]string{"cannot determine its volume group"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, wiping(1))
			args := []string{tt.group, s.disks[0], s.disks[1]}
			for _, tag := range tt.tags {
				args = append(args, "--addtag", tag)
			}
			s.onAnotherHost("vgcreate", args...)
			s.onAnotherHost("lvcreate", "--name", "precious", "--size", "32m", "--wipesignatures", "n",
				"--zero", "n", tt.group)
			s.hide(tt.group, s.disks[:2]...)
			if tt.damage != nil {
				tt.damage(s)
				s.settleUdev()
			}
			sums := []string{s.hash(s.disks[0]), s.hash(s.disks[1])}
			s.look()
			if got := []string{s.hash(s.disks[0]), s.hash(s.disks[1])}; !slices.Equal(got, sums) {
				t.Errorf("the disks of a volume group of this product changed: %s", s.entry().Reason)
			}
			s.wantState(v1alpha1.VGStatusFailed, tt.says...)
			if n := len(s.entry().WipedDevices); n != 0 {
				t.Errorf("%d devices were wiped", n)
			}
		})
	}
}

// TestSceneHiddenGroupOfSomebodyElse wipes, with consent, a volume group that is not of this product, hidden or not.
func TestSceneHiddenGroupOfSomebodyElse(t *testing.T) {
	s := newScene(t, wiping(1))
	s.onAnotherHost("vgcreate", "old", s.disks[0])
	s.hide("old", s.disks[0])
	if e := s.ready(); len(e.WipedDevices) != 1 {
		t.Errorf("got %+v", e.WipedDevices)
	}
	s.discard()
}

// TestSceneHiddenGroupIsAdopted adopts a volume group that was moved with its disks and is not in the devices file.
func TestSceneHiddenGroupIsAdopted(t *testing.T) {
	for name, node := range map[string]string{"of another node": "node9", "of this node": nodeName} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, wiping(2))
			if !s.hasDevicesFile() {
				t.Fatal("this host has no devices file: the lab's list of flavors excludes the test there")
			}
			s.onAnotherHost("vgcreate", "vg1", s.disks[0], s.disks[1],
				"--addtag", "lvms", "--addtag", "lvms.cluster=c1", "--addtag", "lvms.node="+node)
			s.onAnotherHost("lvcreate", "--name", "a", "--size", "200m", "--wipesignatures", "n", "--zero", "n", "vg1")
			sum := s.fill("/dev/vg1/a", 200<<20)
			s.hide("vg1", s.disks[:2]...)
			s.look()
			s.wantState(v1alpha1.VGStatusFailed, "adopt: [{node: "+nodeName+", volumeGroupUUID: ")
			_, uuid, _ := strings.Cut(s.entry().Reason, "volumeGroupUUID: ")
			uuid, _, _ = strings.Cut(uuid, "}")
			s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
				spec.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: nodeName, VolumeGroupUUID: uuid}}
			})
			if e := s.ready(); e.UUID != uuid || len(e.Devices) != 2 || len(e.WipedDevices) != 0 {
				t.Errorf("got %+v", e)
			}
			s.unchanged("/dev/vg1/a", sum)
			s.discard()
		})
	}
}

// TestSceneDeviceIsRemovedWithoutADevicesFile removes a device from a group on a host whose LVM supports a devices
// file but does not have one. LVM then uses all devices, and creates no file while it finds a volume group.
func TestSceneDeviceIsRemovedWithoutADevicesFile(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...)}
	})
	if s.hasDevicesFile() {
		before, err := os.ReadFile(systemDevices)
		s.ok(err)
		s.ok(os.Remove(systemDevices))
		t.Cleanup(func() { s.ok(os.WriteFile(systemDevices, before, 0o600)) })
	}
	s.onAnotherHost("vgcreate", "other", s.disks[4])
	s.ready()
	sum := s.fill(s.volume("a", 32<<20), 32<<20)
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: s.disks[1],
			Action: v1alpha1.DeviceActionRemove}}
	})
	s.converge("one device", func(e v1alpha1.VGStatus) bool { return isReady(e) && len(e.Devices) == 1 })
	s.look()
	if s.hasDevicesFile() {
		t.Errorf("the host has a devices file now: %s", s.output("lvm", "lvmdevices"))
	}
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	if report.VG("vg1") == nil || report.VG("other") == nil {
		t.Errorf("volume groups are hidden: %+v", report.VGs)
	}
	s.unchanged("/dev/vg1/a", sum)
	s.sh("/usr/sbin/lvm", "vgremove", "--yes", "other")
	s.sh("/usr/sbin/lvm", "pvremove", s.disks[4])
	s.discard()
}
