//go:build lab

package volumegroup

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// TestLabADiskThatHangsHoldsUpNobody has an unused disk whose reads do not end when the agent starts, as with
// multipath and queue_if_no_path.
func TestLabADiskThatHangsHoldsUpNobody(t *testing.T) {
	l := newLabBench(t, func(disks []string) v1alpha1.LVMVolumeGroupSpec {
		return selectingDisks([]string{disks[1]}, v1alpha1.LVMVolumeGroupSpec{})
	})
	// The mapping itself is not suspended, but the device below it is.
	l.sh("/usr/sbin/dmsetup", "create", "lower", "--table", fmt.Sprintf("0 200000 linear %s 0", l.disks[0]))
	l.sh("/usr/sbin/dmsetup", "create", "dead", "--table", "0 200000 linear /dev/mapper/lower 0")
	l.sh("/usr/bin/udevadm", "settle")
	l.sh("/usr/sbin/dmsetup", "suspend", "lower")
	t.Cleanup(func() {
		l.sh("/usr/sbin/dmsetup", "resume", "lower")
		l.sh("/usr/bin/udevadm", "settle")
		l.sh("/usr/sbin/dmsetup", "remove", "--retry", "dead")
		l.sh("/usr/sbin/dmsetup", "remove", "--retry", "lower")
	})
	begun := time.Now()
	l.inTime(2*time.Minute, "the device class", func() { l.settle() })
	entry := l.entry()
	t.Logf("after %s: %s %v %s", time.Since(begun).Round(time.Second), entry.Status, entry.Devices, entry.Reason)
	if len(entry.Devices) != 1 || entry.Devices[0] != l.disks[1] || entry.Status != v1alpha1.VGStatusReady {
		t.Errorf("got %s, %v", entry.Status, entry.Devices)
	}
	// Volumes are created and the group is observed while the disk hangs.
	l.inTime(30*time.Second, "a volume", func() {
		_, err := l.engine.CreateLV(t.Context(),
			engine.NewVolume{Name: "a", Class: "vg1", Size: 16 << 20})
		l.ok(err)
		err = l.engine.RemoveLV(t.Context(), "vg1", "a")
		l.ok(err)
	})
	// Extending the group requires LVM's global lock, which a report that hangs would hold.
	l.inTime(time.Minute, "another device", func() {
		object := l.object()
		object.Spec.DeviceSelector.Paths = append(object.Spec.DeviceSelector.Paths, v1alpha1.DevicePath(l.disks[2]))
		l.ok(l.client.Update(t.Context(), object))
		l.agent.Wake()
		l.settle()
	})
	if entry := l.entry(); len(entry.Devices) != 2 || entry.Status != v1alpha1.VGStatusReady {
		t.Errorf("got %s, %v, %s", entry.Status, entry.Devices, entry.Reason)
	}
	if out, err := exec.Command("/usr/bin/pgrep", "-x", "lvm").Output(); err == nil {
		t.Errorf("LVM hangs: %s", out)
	}
	l.inTime(time.Minute, "the removal", l.cleanUp)
}

// inTime fails the test if f takes longer than limit.
func (l *labBench) inTime(limit time.Duration, what string, f func()) {
	l.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		out, _ := exec.Command("/usr/bin/ps", "-eo", "pid,stat,wchan:20,etime,args").CombinedOutput()
		l.Fatalf("%s is not there after %s:\n%s", what, limit, out)
	}
}
