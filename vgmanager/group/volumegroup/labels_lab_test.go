//go:build lab

package volumegroup

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// eraser overwrites the beginning of a disk.
type eraser struct {
	name    string
	command []string
}

var erasers = []eraser{
	{"wipefs", []string{"/usr/sbin/wipefs", "--all", "--force"}},
	{"the first MiB", []string{"/usr/bin/dd", "if=/dev/zero", "bs=1M", "count=1", "conv=notrunc,fsync"}},
}

// TestSceneLabelsAreRestored overwrites the labels of devices while a volume is open. The labels are restored with
// approval, while the volume stays open. The agent is killed after each command, and in the middle of it.
func TestSceneLabelsAreRestored(t *testing.T) {
	type trial struct {
		eraser
		class  keptClass
		mode   string
		erased int
	}
	thin := func(disks int) keptClass { return keptClass{"thin", thinOf(60), disks, 0} }
	var all []trial
	for _, mode := range []string{"after", "in the middle of"} {
		for _, e := range erasers {
			all = append(all, trial{e, thin(2), mode, 1}, trial{e, thin(2), mode, 2}, trial{e, thin(1), mode, 1})
		}
		for i, class := range keptClasses {
			all = append(all, trial{erasers[i%2], class, mode, 1})
		}
	}
	for _, r := range lane.Cases(all...) {
		name := fmt.Sprintf("%s, %s of %d of %d disks, killed %s commands", r.class.name, r.name, r.erased,
			r.class.disks, r.mode)
		t.Run(name, func(t *testing.T) { r.eraser.run(t, r.class, r.mode, r.erased) })
	}
}

func (e eraser) run(t *testing.T, class keptClass, mode string, erased int) {
	s := newScene(t, class.of)
	s.ready()
	sum := s.fill(s.volume("a", 48<<20), 48<<20)
	s.sh("/usr/sbin/mkfs.ext4", "-q", s.volume("b", 32<<20))
	s.sh("/usr/bin/mkdir", "-p", "/run/labels")
	s.sh("/usr/bin/mount", "/dev/vg1/b", "/run/labels")
	t.Cleanup(func() { _ = exec.Command("/usr/bin/umount", "/run/labels").Run() })
	if class.spec.RAIDConfig != nil {
		s.inSync()
	}
	seqno := s.output("vgs", "--noheadings", "-o", "seqno", "vg1")
	s.disaster()
	for _, disk := range s.disks[:erased] {
		target := disk
		if strings.Contains(e.command[0], "dd") {
			target = "of=" + disk
		}
		s.sh(e.command[0], append(slices.Clone(e.command[1:]), target)...)
	}
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.converge("the action", func(e v1alpha1.VGStatus) bool { // udev reports the change later
		c := falseCondition(e, v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
		return c != nil && strings.Contains(c.Message, string(v1alpha1.RecoveryRestoreLabels))
	})
	s.named()
	r := s.plan(v1alpha1.RecoveryRestoreLabels)
	t.Logf("%s", r.Status.Message)
	if p := r.Status.Plan; len(p.Devices) != erased || p.LostVolumeCount != 0 {
		t.Fatalf("got the plan %+v", p)
	}
	s.approve(r.Status.Plan.ID)
	killed := s.recover(mode, func(n int) int { return n + 1 })
	t.Logf("killed %s %v", mode, killed)
	if len(killed) == 0 {
		t.Error("the agent was never killed: this shows nothing")
	}
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.sh("/usr/bin/touch", "/run/labels/written")
	if got := s.output("vgs", "--noheadings", "-o", "seqno", "vg1"); got != seqno {
		t.Errorf("the volume group was changed: its seqno was %s and is %s", seqno, got)
	}
	out, err := nodelvm.Command("/usr/sbin/vgck", "vg1").CombinedOutput()
	if err != nil || strings.Contains(string(out), "WARNING") {
		t.Errorf("vgck: %v: %s", err, out)
	}
	s.sh("/usr/bin/umount", "/run/labels")
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	s.boot()
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.fill(s.volume("new", 16<<20), 16<<20)
	s.discard()
}
