package volumegroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// deletedGroup makes a class of two disks with volume a, and deletes the volume group.
func deletedGroup(t *testing.T, spec v1alpha1.LVMVolumeGroupSpec) *bench {
	t.Helper()
	b := newBench(t, spec)
	b.settle()
	if spec.ThinPoolConfig == nil {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: "a", Size: 1 << 20}))
		b.mapped("vg1", "a")
	}
	b.agent.Wake()
	b.settle()
	b.lvm.DeleteGroup("vg1")
	b.agent.Wake()
	b.settle()
	return b
}

func (b *bench) requestMetadata() {
	b.Helper()
	b.requestRecovery("deleted", nodeName, "vg1", time.Hour)
	r := b.recovery("deleted")
	r.Spec.Action = v1alpha1.RecoveryRestoreMetadata
	b.ok(b.client.Update(b.Context(), r))
	b.agent.Wake()
	b.settle()
}

func (b *bench) approveMetadata() {
	b.Helper()
	r := b.wantPhase("deleted", v1alpha1.RecoveryAwaitingApproval, "to approve this")
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(b.Context(), r))
	b.agent.Wake()
}

func TestADeletedGroupIsRestored(t *testing.T) {
	b := deletedGroup(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	text := fmt.Sprint(b.entry().Conditions)
	if !strings.Contains(text, "was deleted") || !strings.Contains(text, "action: RestoreMetadata") {
		t.Errorf("the status does not name the action: %s", text)
	}
	b.requestMetadata()
	r := b.wantPhase("deleted", v1alpha1.RecoveryAwaitingApproval, "volumes that the metadata does not have: 0")
	p := r.Status.Plan
	if len(p.Devices) != 2 || !strings.HasPrefix(p.MetadataSource, "/etc/lvm/archive/vg1_00001-1.vg, change 2") ||
		p.LostVolumeCount != 0 || p.Devices[0].Name == "" {
		t.Fatalf("got the plan %+v", p)
	}
	r.Spec.ApprovedPlan = "wrong"
	b.ok(b.client.Update(t.Context(), r))
	b.agent.Wake()
	b.settle()
	if n := b.lvm.Calls()["GroupRestore"]; n != 0 {
		t.Fatal("restored without an approval")
	}
	b.approveMetadata()
	b.restart()
	b.settle()
	b.wantPhase("deleted", v1alpha1.RecoverySucceeded, "was restored")
	b.settle()
	if e := b.entry(); e.Status != v1alpha1.VGStatusReady {
		t.Errorf("got %+v", e)
	}
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	if lv := report.VG("vg1").LV("a"); lv == nil || !lv.Attr.Active() {
		t.Errorf("got the volume %+v", lv)
	}
	if n := b.lvm.Calls()["GroupRestore"]; n != 1 {
		t.Errorf("restored %d times", n)
	}
	// The group that exists is not restored again.
	b.ok(b.client.Delete(t.Context(), b.recovery("deleted")))
	b.requestMetadata()
	b.wantPhase("deleted", v1alpha1.RecoveryNotApplicable, "exists")
}

// TestVolumesThatTheArchiveDoesNotHaveAreNamed: a volume was deleted before its group was.
func TestVolumesThatTheArchiveDoesNotHaveAreNamed(t *testing.T) {
	b := deletedGroup(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.logicalVolume("a")
	b.logicalVolume("gone")
	b.requestMetadata()
	p := b.wantPhase("deleted", v1alpha1.RecoveryAwaitingApproval, "volumes restored: 1").Status.Plan
	if p.LostVolumeCount != 1 || p.LostVolumes[0].Name != "gone" {
		t.Errorf("got the plan %+v", p)
	}
}

func TestADeletedGroupThatIsNotRestored(t *testing.T) {
	for name, test := range map[string]struct {
		thin bool
		do   func(*bench)
		text string
	}{
		"thin pools":     {true, func(*bench) {}, "had the thin pool"},
		"a disk is away": {do: func(b *bench) { b.lvm.Detach("/dev/sdc") }, text: "all its physical volumes are needed"},
		"another group has a disk": {do: func(b *bench) {
			b.ok(b.lvm.Apply(b.Context(), lvm.VGCreate{Name: "other", Devices: []string{"/dev/sdc"}}))
		}, text: "all its physical volumes are needed"},
		"a disk is failing": {do: func(b *bench) {
			b.health.failing = map[device.Number]error{b.devices.list[1].Number: errors.New("input/output error")}
		}, text: "is failing: input/output error"},
		"the archive cannot be read": {do: func(b *bench) {
			b.lvm.Fail("ReadArchive", errors.New("input/output error"))
		}, text: "cannot be used: ReadArchive vg1: input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.LVMVolumeGroupSpec{Default: true}
			if test.thin {
				spec = thinOf(50)
			}
			b := deletedGroup(t, spec)
			test.do(b)
			b.requestMetadata()
			b.wantPhase("deleted", v1alpha1.RecoveryNotApplicable, test.text)
			if n := b.lvm.Calls()["GroupRestore"]; n != 0 {
				t.Errorf("restored %d groups", n)
			}
		})
	}
}

// TestAFailedRestoreIsRepeated: the command fails, then the read of the archive, and then a disk is away.
func TestAFailedRestoreIsRepeated(t *testing.T) {
	b := deletedGroup(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.requestMetadata()
	b.approveMetadata()
	b.lvm.Fail("GroupRestore", errors.New("input/output error"))
	for range 3 {
		_, _ = b.reconcile()
	}
	b.wantPhase("deleted", v1alpha1.RecoveryRunning, "GroupRestore vg1: input/output error")
	calls := b.lvm.Calls()["GroupRestore"]
	b.lvm.Fail("GroupRestore", nil)
	b.lvm.Fail("ReadArchive", errors.New("input/output error"))
	b.agent.Wake()
	b.settle()
	b.wantPhase("deleted", v1alpha1.RecoveryNotApplicable, "cannot be used")
	b.lvm.Fail("ReadArchive", nil)
	b.agent.Wake()
	b.settle()
	if n := b.lvm.Calls()["GroupRestore"]; n != calls {
		t.Errorf("restored without a plan: %d calls, then %d", calls, n)
	}
	b.approveMetadata()
	b.settle()
	b.wantPhase("deleted", v1alpha1.RecoverySucceeded, "was restored")
}
