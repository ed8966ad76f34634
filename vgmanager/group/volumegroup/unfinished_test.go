package volumegroup

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
)

func pathsOf(disks ...v1alpha1.DevicePath) *v1alpha1.DeviceSelector {
	return &v1alpha1.DeviceSelector{Paths: disks}
}

// unfinish fails the creation of the volume group as a kill between label and metadata does.
func (b *bench) unfinish(paths ...string) {
	b.Helper()
	b.lvm.Fail("VGCreate", errors.New("killed"))
	if _, err := b.reconcile(); err == nil {
		b.Fatal("the volume group was created")
	}
	b.lvm.Fail("VGCreate", nil)
	for _, path := range paths {
		lvmtest.Unfinish(&b.lvm.Node, path)
	}
}

func TestDeviceWhoseAdditionWasKilledIsAddedAgain(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{DeviceSelector: pathsOf("/dev/sdb", "/dev/sdc")})
	b.unfinish("/dev/sdb", "/dev/sdc")
	b.restart()
	b.settle()
	if e := b.wantState(v1alpha1.VGStatusReady); len(e.Devices) != 2 {
		t.Fatalf("got %+v", e)
	}
	if ids, err := b.agent.group.additions.Read("vg1"); err != nil || len(ids) > 0 {
		t.Errorf("the record of the devices is %q, %v, after the volume group is complete", ids, err)
	}
}

// TestRemovalContinuesAfterAKilledVGRemove has a device whose metadata LVM has removed, and whose label it has not
// changed.
func TestRemovalContinuesAfterAKilledVGRemove(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{DeviceSelector: pathsOf("/dev/sdb", "/dev/sdc")})
	b.settle()
	b.remove()
	b.lvm.Fail("PVRemove", errors.New("the agent was killed"))
	for b.lvm.Calls()["PVRemove"] == 0 {
		_, _ = b.reconcile()
	}
	b.lvm.Fail("PVRemove", nil)
	lvmtest.Unfinish(&b.lvm.Node, "/dev/sdb")
	b.restart()
	b.settle()
	if !b.gone() {
		t.Errorf("the LVMVolumeGroup is still there: %+v", b.entry())
	}
	b.wantBlankDisks()
}

// TestUnfinishedDeviceThatNobodyAddedStays has the device of another program or host.
func TestUnfinishedDeviceThatNobodyAddedStays(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{DeviceSelector: pathsOf("/dev/sdb", "/dev/sdc")})
	lvmtest.Unfinish(&b.lvm.Node, "/dev/sdb")
	_, _ = b.reconcile()
	b.wantState(v1alpha1.VGStatusFailed, "whose metadata LVM cannot find")
	if calls := b.lvm.Calls(); calls["PVRemove"] != 0 {
		t.Errorf("a label was removed: %v", calls)
	}
}

func TestDeviceIsNotAddedIfTheAdditionCannotBeRecorded(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{DeviceSelector: pathsOf("/dev/sdb")})
	b.agent.group.additions = newAdditions("/proc/no-such-folder")
	_, err := b.reconcile()
	if err == nil || !strings.Contains(err.Error(), "adding-vg1.json") {
		t.Errorf("got %v", err)
	}
	if calls := b.lvm.Calls(); calls["VGCreate"] != 0 {
		t.Errorf("the volume group was created: %v", calls)
	}
}

func TestOnlyIdentitiesOfADiskAreRecorded(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{DeviceSelector: pathsOf("/dev/sdb", "/dev/sdc")})
	b.devices.list[1].Serial = ""
	b.lvm.Fail("VGCreate", errors.New("killed"))
	_, _ = b.reconcile()
	ids, err := b.agent.group.additions.Read("vg1")
	if err != nil || !slices.Equal(ids, []string{"serial:/dev/sdb"}) {
		t.Errorf("got %q, %v: another disk can get the path of one without a serial number", ids, err)
	}
}
