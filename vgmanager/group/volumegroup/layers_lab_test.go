//go:build lab

package volumegroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/layers"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// layered is a device on disks that only a program of the administrator can open or assemble.
type layered struct {
	// path is how the device class names the device.
	path string
	// lower are the disks, and closed and open why these are not used.
	lower        []string
	closed, open string
	// setUp writes the headers to the disks. start starts the device with the nth number, and stop stops it.
	setUp, stop func()
	start       func(nth int)
	// headers returns what must stay of the headers on the disks; nil for all of their first MiB.
	headers func() string
}

// container opens a LUKS container as /dev/mapper/NAME.
type container struct {
	format func(disk string)
	open   func(disk, name string) error
	close  func(name string) error
}

// TestSceneEncryptedDevice has a group on an open LUKS container. The container is opened again with another number.
func TestSceneEncryptedDevice(t *testing.T) {
	keepsAContainer(t, func(s *scene) container {
		return container{
			format: func(disk string) { s.writeAt(disk, 0, layers.LUKSHeader(2)) },
			open:   layers.OpenLUKS2, close: layers.CloseLUKS,
		}
	})
}

// TestSceneContainerOfCryptsetup is TestSceneEncryptedDevice with cryptsetup.
func TestSceneContainerOfCryptsetup(t *testing.T) {
	keepsAContainer(t, func(s *scene) container {
		key := filepath.Join(s.TempDir(), "key")
		s.ok(os.WriteFile(key, []byte(rand.Text()), 0o600))
		return container{
			format: func(disk string) {
				s.sh("/usr/sbin/cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2", "--uuid", layers.LUKSUUID,
					"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", key, disk)
			},
			open: func(disk, name string) error {
				return exec.Command("/usr/sbin/cryptsetup", "open", "--key-file", key, disk, name).Run()
			},
			close: func(name string) error { return exec.Command("/usr/sbin/cryptsetup", "close", name).Run() },
		}
	})
}

func keepsAContainer(t *testing.T, with func(*scene) container) {
	const name, blocker = "data", "blocker"
	for _, path := range []string{"/dev/mapper/" + name, "/dev/disk/by-id/dm-uuid-" + layers.LUKSMappingUUID(name)} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if nodelvm.Absent() && strings.HasPrefix(path, "/dev/disk") {
				t.Skip("without the rules of device mapper, udev creates no links for mapped devices")
			}
			s := newLayeredScene(t, path, 1)
			disk := kernelName(s.disks[0])
			c := with(s)
			s.keepsItsData(layered{path: path, lower: s.disks[:1],
				closed: "is encrypted (crypto_LUKS, uuid " + layers.LUKSUUID + ") and not open",
				open:   "/dev/mapper/" + name + " (crypt)",
				setUp:  func() { c.format(disk) },
				start: func(nth int) {
					if nth == 1 { // another mapped device takes the number
						s.sh("/usr/sbin/dmsetup", "create", blocker, "--table",
							fmt.Sprintf("0 2048 linear %s 0", kernelName(s.disks[3])))
					}
					s.ok(c.open(disk, name))
				},
				stop: func() { s.ok(c.close(name)) },
			})
			s.sh("/usr/sbin/dmsetup", "remove", "--retry", blocker)
		})
	}
}

// TestSceneArrayOfTheHost has a group on a RAID array of the host. The array is assembled again with another number.
func TestSceneArrayOfTheHost(t *testing.T) {
	const link = "/dev/md/data"
	s := newLayeredScene(t, link, 2)
	members := []string{kernelName(s.disks[0]), kernelName(s.disks[1])}
	array := ""
	stop := func() {
		if array == "" {
			return
		}
		s.ok(layers.StopArray(array))
		s.ok(os.RemoveAll(link))
		array = ""
	}
	t.Cleanup(func() {
		for range 3 {
			removeMappings()
		}
		stop()
	})
	s.keepsItsData(layered{path: link, lower: s.disks[:2],
		closed: "is a member of an array (linux_raid_member", open: "/dev/md",
		setUp: func() {
			for _, member := range members {
				s.writeAt(member, layers.MemberOffset, layers.MemberSuperblock())
			}
		},
		start: func(nth int) {
			array = fmt.Sprintf("md%d", 120+nth)
			s.ok(layers.StartMirror(array, 128<<20, members...))
			// udev creates this link with the rules of mdadm.
			s.ok(os.MkdirAll(filepath.Dir(link), 0o755))
			s.ok(os.Symlink("/dev/"+array, link))
		},
		stop: stop,
	})
}

// TestSceneArrayOfMdadm is TestSceneArrayOfTheHost with mdadm, and with the link that mdadm's rules of udev create.
func TestSceneArrayOfMdadm(t *testing.T) {
	const id = "6f5c1d2e:8a9b4c7d:0e1f2a3b:4c5d6e7f"
	// Otherwise udev assembles the array again when it is stopped.
	const config = "/etc/mdadm/mdadm.conf"
	if err := errors.Join(os.MkdirAll(filepath.Dir(config), 0o755),
		os.WriteFile(config, []byte("AUTO -all\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(config) })
	s := newLayeredScene(t, "/dev/disk/by-id/md-uuid-"+id, 2)
	members := []string{kernelName(s.disks[0]), kernelName(s.disks[1])}
	mdadm := func(args ...string) string { return s.output("mdadm", args...) }
	array := ""
	stop := func() {
		if array != "" {
			mdadm("--stop", array)
			array = ""
		}
	}
	t.Cleanup(func() {
		for range 3 {
			removeMappings()
		}
		stop()
	})
	s.keepsItsData(layered{path: "/dev/disk/by-id/md-uuid-" + id, lower: s.disks[:2],
		closed: "is a member of an array (linux_raid_member", open: "/dev/md",
		setUp: func() {
			array = "/dev/md119"
			mdadm(append([]string{"--create", array, "--run", "--metadata=1.2", "--level=1", "--uuid=" + id,
				"--raid-devices=2", "--name=data"}, members...)...)
			mdadm("--wait", array)
			s.settleUdev()
			stop()
		},
		start: func(nth int) {
			array = fmt.Sprintf("/dev/md%d", 120+nth)
			mdadm(append([]string{"--assemble", array}, members...)...)
		},
		stop: stop,
		// The kernel counts events in the superblocks.
		headers: func() string {
			all := ""
			for _, member := range members {
				all += mdadm("--examine", "--export", member)
			}
			return withoutLines(all, "MD_UPDATE_TIME", "MD_EVENTS")
		},
	})
}

// withoutLines returns a text without the lines that begin with one of the names.
func withoutLines(text string, names ...string) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(line, name) })
	}), "")
}

// newLayeredScene names a device, and also the disks on which it is built.
func newLayeredScene(t *testing.T, path string, disks int) *scene {
	t.Helper()
	return newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		selector := byPath(path)
		for _, disk := range s.disks[:disks] {
			selector.OptionalPaths = append(selector.OptionalPaths, v1alpha1.DevicePath(disk))
		}
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: selector}
	})
}

// keepsItsData checks the group of a layered device from its creation to its removal.
func (s *scene) keepsItsData(l layered) {
	s.Helper()
	if l.headers == nil {
		l.headers = func() string { return s.headers(l.lower) }
	}
	l.setUp()
	s.settleUdev()
	headers := l.headers()
	s.look()
	e := s.wantState(v1alpha1.VGStatusFailed, l.path)
	s.Log(e.Reason)
	s.wantExcluded(e, l.lower, l.closed)

	l.start(0)
	s.settleUdev()
	e = s.ready()
	if len(e.Devices) != 1 || len(e.PhysicalVolumes) != 1 {
		s.Fatalf("got the devices %v, %+v", e.Devices, e.PhysicalVolumes)
	}
	s.wantExcluded(e, l.lower, l.open)
	uuid := e.UUID
	volume := s.volume("a", 32<<20)
	sum := s.fill(volume, 32<<20)

	// The node starts, and nobody opens the device.
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	number := s.numberOf(l.path)
	l.stop()
	s.settleUdev()
	s.boot()
	s.look()
	e = s.wantState(v1alpha1.VGStatusDegraded, l.path, "none of its physical volumes was found")
	s.Log(e.Reason)
	if l.headers() != headers {
		s.Error("the headers changed")
	}

	l.start(1)
	s.settleUdev()
	if s.numberOf(l.path) == number {
		s.Fatalf("%s still has the number %#x: this shows nothing", l.path, number)
	}
	if e = s.ready(); e.UUID != uuid {
		s.Errorf("the volume group is %s, not %s", e.UUID, uuid)
	}
	s.unchanged(volume, sum)

	// With consent to wipe, what the device needs is kept.
	yes := true
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.DeviceSelector.ForceWipeDevicesAndDestroyAllData = &yes })
	s.look()
	if e = s.ready(); len(e.WipedDevices) > 0 || l.headers() != headers {
		s.Errorf("the disks below %s were wiped: %+v", l.path, e.WipedDevices)
	}
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	l.stop()
	s.settleUdev()
	s.boot()
	s.look()
	s.wantState(v1alpha1.VGStatusDegraded, l.path)
	if l.headers() != headers {
		s.Fatal("the disks of a volume group were wiped while nobody opened it")
	}
	l.start(2)
	s.settleUdev()
	s.ready()
	s.unchanged(volume, sum)
	s.discardGroup()
	s.wantBlank(append(slices.Clone(s.disks[len(l.lower):]), l.path)...)
	if l.headers() != headers {
		s.Error("the headers are not as before the volume group")
	}
	l.stop()
}

// numberOf returns the device number of a device. Without udev's rules, /dev/mapper has device nodes instead of links.
func (s *scene) numberOf(path string) uint64 {
	s.Helper()
	info := unix.Stat_t{}
	s.ok(unix.Stat(path, &info))
	return info.Rdev
}

// headers returns a hash of the beginnings of disks, without the data of the device that is built on them.
func (s *scene) headers(disks []string) string {
	s.Helper()
	var all []string
	for _, disk := range disks {
		all = append(all, s.hashOf(disk, 1<<20))
	}
	return strings.Join(all, " ")
}

// wantExcluded checks that disks are not used, for a reason.
func (s *scene) wantExcluded(e v1alpha1.VGStatus, disks []string, reason string) {
	s.Helper()
	for _, disk := range disks {
		i := slices.IndexFunc(e.Excluded, func(x v1alpha1.ExcludedDevice) bool {
			return x.Name == kernelName(disk) || x.Name == disk
		})
		if i < 0 || !strings.Contains(strings.Join(e.Excluded[i].Reasons, "; "), reason) {
			s.Errorf("%s should be excluded with %q: %+v", disk, reason, e.Excluded)
		}
	}
}
