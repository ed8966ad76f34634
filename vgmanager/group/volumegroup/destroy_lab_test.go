//go:build lab

package volumegroup

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

// oldGroup is a volume group on the disks of a device class, whose name is vg1. It is active.
type oldGroup struct {
	what, name string
	tags       []string
	disks      int
	create     []string
	// by is the name or "UUID" in wipeVolumeGroups.
	by string
}

var elsewhere = []string{"lvms", "lvms.cluster=elsewhere", "lvms.class=vg1", "lvms.node=" + nodeName}

var oldGroups = []oldGroup{
	{"thin, of another cluster, by name", "vg1", elsewhere, 2,
		[]string{"--type", "thin", "--thinpool", "pool", "--virtualsize", "64m", "--extents", "90%VG"}, "vg1"},
	{"thick, of another cluster, by UUID", "vg1", elsewhere, 1, []string{"--size", "64m"}, "UUID"},
	{"raid1, of no product", "data", nil, 2, []string{"--type", "raid1", "--mirrors", "1", "--size", "64m"}, "data"},
	{"of another node of this cluster", "vg1",
		[]string{"lvms", "lvms.cluster=c1", "lvms.class=vg1", "lvms.node=node9"}, 2,
		[]string{"--type", "striped", "--stripes", "2", "--size", "64m"}, "UUID"},
}

// createOn creates the volume group with a logical volume "old" that has content. It returns its UUID and checksum.
func (o oldGroup) createOn(s *scene) (uuid, sum string) {
	s.Helper()
	args := append([]string{o.name}, s.disks[:o.disks]...)
	for _, tag := range o.tags {
		args = append(args, "--addtag", tag)
	}
	s.onAnotherHost("vgcreate", args...)
	s.onAnotherHost("lvcreate", slices.Concat([]string{"--yes", "--name", "old"}, o.create, []string{o.name})...)
	sum = s.fill("/dev/"+o.name+"/old", 64<<20)
	if s.hasDevicesFile() {
		for _, d := range s.disks[:o.disks] {
			s.sh("/usr/sbin/lvm", "lvmdevices", "--adddev", kernelName(d))
		}
	}
	s.settleUdev()
	return strings.TrimSpace(s.output("vgs", "--noheadings", "-o", "vg_uuid", o.name)), sum
}

// TestSceneVolumeGroupIsDestroyedWithConsent has a volume group that is not of this device class on its disks. Without
// consent, with consent for a part of its disks, and while a volume is in use, no byte of it changes. With consent, it
// is destroyed and the device class is ready. The backup brings it back. The agent is killed at each command.
func TestSceneVolumeGroupIsDestroyedWithConsent(t *testing.T) {
	type killing struct {
		oldGroup
		mode string
	}
	var all []killing
	for _, mode := range []string{"after", "in the middle of"} {
		for _, o := range oldGroups {
			all = append(all, killing{o, mode})
		}
	}
	for _, k := range lane.Cases(all...) {
		t.Run(fmt.Sprintf("%s, killed %s commands", k.what, k.mode), func(t *testing.T) { k.run(t, k.mode) })
	}
}

func (o oldGroup) run(t *testing.T, mode string) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:o.disks]...)}
	})
	uuid, sum := o.createOn(s)
	refused := func(words ...string) {
		t.Helper()
		s.look()
		e := s.wantState(v1alpha1.VGStatusFailed, words...)
		t.Log(e.Reason)
		if len(e.WipedDevices) != 0 {
			t.Fatalf("something was wiped: %+v", e)
		}
		s.unchanged("/dev/"+o.name+"/old", sum)
	}
	refused(o.name, "wipeVolumeGroups: ["+uuid+"]")

	by := v1alpha1.VolumeGroupReference(strings.ReplaceAll(o.by, "UUID", uuid))
	if o.disks > 1 {
		s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
			spec.DeviceSelector = byPath(s.disks[0])
			spec.DeviceSelector.WipeVolumeGroups = []v1alpha1.VolumeGroupReference{by}
		})
		refused("also has the devices", kernelName(s.disks[1]))
	}
	holder := s.hold("/dev/" + o.name + "/old")
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceSelector = byPath(s.disks[:o.disks]...)
		spec.DeviceSelector.WipeVolumeGroups = []v1alpha1.VolumeGroupReference{by}
	})
	refused("in use: " + o.name + "/old")
	object := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	object.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "old"}
	s.ok(s.client.Create(s.Context(), object))
	holder()
	refused("belongs to PersistentVolume pvc-1")
	s.ok(s.client.Delete(s.Context(), object))

	killed := s.readyKilled(mode)
	t.Logf("killed %s %v", mode, killed)
	if !slices.Contains(killed, "vgchange") || !slices.Contains(killed, "wipefs") {
		t.Error("the agent was not killed at vgchange and wipefs: this shows nothing")
	}
	e := s.ready()
	if len(e.WipedDevices) != o.disks || len(e.Devices) != o.disks || e.UUID == uuid {
		t.Fatalf("got %+v", e)
	}
	// What was destroyed can be brought back as long as nothing was written.
	s.sh("/usr/sbin/lvm", "vgremove", "--yes", "vg1")
	for _, d := range s.disks[:o.disks] {
		s.sh("/usr/sbin/lvm", "pvremove", d)
	}
	for _, w := range e.WipedDevices {
		metadata, err := filepath.Glob(filepath.Join(w.Backup, uuid+".vg"))
		if err != nil || len(metadata) != 1 {
			t.Errorf("%s has no metadata of the volume group: %v", w.Backup, err)
		}
		s.sh("/bin/sh", filepath.Join(w.Backup, "restore.sh"))
	}
	s.settleUdev()
	if s.hasDevicesFile() {
		for _, d := range s.disks[:o.disks] {
			s.sh("/usr/sbin/lvm", "lvmdevices", "--adddev", kernelName(d))
		}
	}
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "y", o.name)
	s.unchanged("/dev/"+o.name+"/old", sum)
}

// hold opens a volume until the returned function is called.
func (s *scene) hold(volume string) func() {
	s.Helper()
	command := exec.Command("/bin/sh", "-c", "exec sleep 3600 <"+volume)
	s.ok(command.Start())
	end := func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	s.Cleanup(end)
	time.Sleep(time.Second)
	return end
}

// readyKilled reconciles until the device class is ready. It kills each agent at its first changing command, of LVM or
// wipefs. After two agents were killed at a command, it lets this command pass. It returns the commands.
func (s *scene) readyKilled(mode string) []string {
	s.Helper()
	var killed []string
	var c *crashingRunner
	next := func() {
		same, passes := 0, ""
		for _, command := range killed {
			if command == killed[len(killed)-1] {
				same++
			}
		}
		if same > 1 {
			passes = killed[len(killed)-1]
		}
		c = &crashingRunner{real: s.runner, next: 1, mode: mode, passes: passes}
		s.bootOver(c)
		s.agent.Devices = device.New(c)
		s.agent.wiper.devices = s.agent.Devices
	}
	next()
	s.convergeIn(5*time.Minute, "ready", func(e v1alpha1.VGStatus) bool {
		if dead, said := c.isDead(); dead {
			killed = append(killed, said...)
			next()
		}
		return isReady(e)
	})
	s.boot()
	return killed
}

// TestSceneHiddenVolumeGroupIsDestroyedWithConsent has a volume group of another cluster that LVM on this host does not
// list, which is what a reinstalled host finds on its disks.
func TestSceneHiddenVolumeGroupIsDestroyedWithConsent(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{Default: true, DeviceSelector: byPath(s.disks[:2]...)}
	})
	o := oldGroups[0]
	uuid, _ := o.createOn(s)
	s.hide(o.name, s.disks[:2]...)
	s.look()
	e := s.wantState(v1alpha1.VGStatusFailed, "OtherClusterVG", "wipeVolumeGroups: ["+uuid+"]")
	t.Log(e.Reason)
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceSelector.WipeVolumeGroups = []v1alpha1.VolumeGroupReference{v1alpha1.VolumeGroupReference(uuid)}
	})
	if e := s.ready(); len(e.WipedDevices) != 2 || e.UUID == uuid {
		t.Errorf("got %+v", e)
	}
	s.discard()
}
