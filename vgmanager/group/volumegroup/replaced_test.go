package volumegroup

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// threeThickVolumes makes a thick class with the volumes a, b and c of the API.
func threeThickVolumes(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.settle()
	for _, name := range []string{"a", "b", "c"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: name, Size: 1 << 20}))
		b.mapped("vg1", name)
		b.logicalVolume(name)
	}
	b.agent.Wake()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	return b
}

// rollBackTo restores the metadata with this number of volumes.
func (b *bench) rollBackTo(volumes int) {
	b.Helper()
	b.ok(b.lvm.Apply(b.Context(), lvm.LVDeactivate{VG: "vg1", Names: b.volumes()}))
	b.lvm.Rollback("vg1", "", volumes)
	b.agent.Wake()
	b.settle()
}

func (b *bench) volumesHealthy() *metav1.Condition {
	return meta.FindStatusCondition(b.entry().Conditions, v1alpha1.ConditionVolumesHealthy)
}

// TestReplacedMetadataIsReported: the status of a class without a thin pool names the action, also after a restart and
// after further changes, until the metadata was restored.
func TestReplacedMetadataIsReported(t *testing.T) {
	b := threeThickVolumes(t)
	if n := b.lvm.Calls()["FindMetadata"]; n != 0 {
		t.Errorf("searched the archive %d times while all volumes were there", n)
	}
	b.rollBackTo(1)
	check := func() {
		t.Helper()
		e := b.wantState(v1alpha1.VGStatusDegraded, "the metadata of volume group vg1 on node node1 was replaced",
			"nodeName: node1, deviceClassName: vg1, action: RestoreMetadata", "b, c")
		if c := b.volumesHealthy(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonVolumesBroken {
			t.Errorf("got %+v", e.Conditions)
		}
		if class, _ := b.engine.Class("vg1"); !strings.Contains(class.Closed, "space that it calls free can have data") {
			t.Errorf("new volumes could overwrite lost ones: got the class %+v", class)
		}
	}
	check()
	for range 5 {
		b.agent.Wake()
		b.settle()
	}
	if n := b.lvm.Calls()["FindMetadata"]; n != 1 {
		t.Errorf("searched the archive %d times for the same volumes", n)
	}
	for _, name := range []string{"x", "y", "z"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: name, Size: 1 << 20}))
		b.mapped("vg1", name)
	}
	b.restart()
	b.agent.Wake()
	b.settle()
	check()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"x", "y", "z"}}))
	b.requestRestore("restore")
	b.until("restore", v1alpha1.RecoveryAwaitingApproval)
	b.approvePlan("restore")
	b.until("restore", v1alpha1.RecoverySucceeded)
	b.agent.Wake()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	if class, _ := b.engine.Class("vg1"); class.Closed != "" {
		t.Errorf("got the class %+v", class)
	}
}

// TestARemovedVolumeIsNotCalledReplaced: an administrator removed a logical volume whose object exists.
func TestARemovedVolumeIsNotCalledReplaced(t *testing.T) {
	b := threeThickVolumes(t)
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"b"}}))
	b.agent.Wake()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.rollBackTo(1)
	b.wantState(v1alpha1.VGStatusDegraded, "was replaced", "volumes at risk: c")
}

// TestArchiveThatCannotBeRead: whether the metadata was replaced is not known, and is found out later.
func TestArchiveThatCannotBeRead(t *testing.T) {
	for _, call := range []string{"FindMetadata", "ReadMetadata"} {
		t.Run(call, func(t *testing.T) {
			b := threeThickVolumes(t)
			b.lvm.Fail(call, errors.New("input/output error"))
			b.rollBackTo(1)
			c := b.volumesHealthy()
			if c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonObservationFailed ||
				!strings.Contains(c.Message, "input/output error") {
				t.Errorf("got %+v", c)
			}
			b.lvm.Fail(call, nil)
			b.agent.Wake()
			b.settle()
			b.wantState(v1alpha1.VGStatusDegraded, "was replaced")
		})
	}
}
