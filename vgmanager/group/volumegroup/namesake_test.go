package volumegroup

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// TestAnotherGroupDoesNotTakeOverTheClass attaches a disk with a volume group of the same name to a node, and then
// detaches the disk of the device class.
func TestAnotherGroupDoesNotTakeOverTheClass(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{
		DeviceSelector: &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdb"}}})
	b.devices.belowErr = errRead // the simulated kernel maps nothing
	b.settle()
	ours := b.wantState(v1alpha1.VGStatusReady).UUID
	if class, _ := b.engine.Class("vg1"); ours == "" || class.VolumeGroupUUID != ours {
		t.Fatalf("the class has the volume group %q, want %q", class.VolumeGroupUUID, ours)
	}
	_, err := b.engine.CreateLV(t.Context(), engine.NewVolume{Name: "a", Class: "vg1", Size: 4 << 20})
	b.ok(err)
	remove := func() error {
		err := b.engine.RemoveLV(t.Context(), "vg1", "a")
		return err
	}
	other := lvm.VG{Name: "vg1", UUID: "other", Tags: []string{"lvms"}, Attr: "wz--n-", ExtentSize: 4 << 20,
		Size: 1 << 30, Free: 1 << 30}
	b.lvm.AddNamesake(other)
	for range 2 {
		b.settle()
		e := b.wantState(v1alpha1.VGStatusDegraded, ours, "other")
		if falseReason(e) != v1alpha1.ReasonDuplicateVolumeGroup || e.UUID != ours {
			t.Errorf("got %+v", e)
		}
		if err := remove(); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
		b.restart()
	}
	b.lvm.Detach("/dev/sdb")
	for range 2 {
		b.settle()
		e := b.wantState(v1alpha1.VGStatusDegraded, ours, "adopt")
		if falseReason(e) != v1alpha1.ReasonDuplicateVolumeGroup || e.UUID != ours {
			t.Errorf("got %+v", e)
		}
		if err := remove(); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
		b.restart()
	}
	b.lvm.Fail("Report", errRead)
	if _, err := b.reconcile(); !errors.Is(err, errRead) || b.entry().UUID != ours {
		t.Errorf("got %v and %+v", err, b.entry())
	}
	b.lvm.Fail("Report", nil)
	b.lvm.TakeNamesake("vg1")
	b.lvm.Attach("/dev/sdb")
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.ok(remove())
}

func falseReason(e v1alpha1.VGStatus) string {
	for _, c := range e.Conditions {
		if c.Type == v1alpha1.ConditionDevicesHealthy && c.Status == "False" {
			return c.Reason
		}
	}
	return ""
}
