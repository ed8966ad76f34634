package volumegroup

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// damagedPool makes a thin class with two volumes, and damages the metadata of its pool while it is inactive.
func damagedPool(t *testing.T, gone ...string) *bench {
	t.Helper()
	b := newBench(t, thinOf(90))
	b.settle()
	for _, name := range []string{"a", "b"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: name, VirtualSize: 1 << 30}))
	}
	b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a", "b", "pool"}}))
	b.lvm.DamagePool("vg1", "pool", gone...)
	return b
}

func (b *bench) requestRepair(name string) {
	b.Helper()
	b.requestRecovery(name, nodeName, "vg1", time.Hour)
	r := b.recovery(name)
	r.Spec.Action = v1alpha1.RecoveryRepairThinPool
	b.ok(b.client.Update(b.Context(), r))
}

// until reconciles until the recovery has a phase.
func (b *bench) until(name string, phase v1alpha1.RecoveryPhase) *v1alpha1.LVMRecovery {
	b.Helper()
	for range 200 {
		b.agent.Wake()
		_, _ = b.reconcile()
		if r := b.recovery(name); r.Status.Phase == phase {
			return r
		}
		time.Sleep(5 * time.Millisecond)
	}
	r := b.recovery(name)
	b.Fatalf("LVMRecovery %s is %s: %s, want %s", name, r.Status.Phase, r.Status.Message, phase)
	return nil
}

func (b *bench) volumes() []string {
	b.Helper()
	report, err := b.lvm.Report(b.Context())
	b.ok(err)
	var names []string
	for _, lv := range report.VG("vg1").LVs {
		names = append(names, lv.Name)
	}
	slices.Sort(names)
	return names
}

func TestRepairOfAThinPool(t *testing.T) {
	b := damagedPool(t, "b")
	for range 3 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	if n := b.lvm.Calls()["VGActivate"]; n != 1 {
		t.Errorf("a pool that cannot be activated was tried %d times at once", n)
	}
	entry := b.entry()
	c := meta.FindStatusCondition(entry.Conditions, v1alpha1.ConditionThinPoolHealthy)
	if c == nil || c.Reason != v1alpha1.ReasonThinPoolFailed || !strings.Contains(c.Message, "RepairThinPool") {
		t.Fatalf("got %+v", entry.Conditions)
	}
	b.requestRepair("repair")
	r := b.until("repair", v1alpha1.RecoveryAwaitingApproval)
	p := r.Status.Plan
	if p.Repair != v1alpha1.RepairRebuild || len(p.LostVolumes) != 1 || p.LostVolumes[0].Name != "b" ||
		p.KeptVolumeCount != 1 {
		t.Fatalf("got the plan %+v", p)
	}
	for range 5 {
		_, err := b.reconcile()
		b.ok(err)
	}
	if calls := b.lvm.Calls(); calls["ThinPoolRepair"]+calls["ThinPoolActivate"]+calls["LVRemoveLost"] > 0 ||
		calls["Inspect"] != 1 {
		t.Fatalf("without an approval: %v", calls)
	}
	r.Spec.ApprovedPlan = p.ID
	b.ok(b.client.Update(t.Context(), r))
	b.until("repair", v1alpha1.RecoverySucceeded)
	if got := strings.Join(b.volumes(), " "); got != "a pool pool_meta0" {
		t.Errorf("got the volumes %s", got)
	}
	b.settle()
	if entry := b.entry(); entry.Status != v1alpha1.VGStatusReady {
		t.Errorf("got %+v", entry)
	}
	if n := b.lvm.Calls()["ThinPoolRepair"]; n != 1 {
		t.Errorf("repaired %d times", n)
	}
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"a"}}))
	b.remove()
	b.settle()
	if !b.gone() {
		t.Errorf("the volume group is not removed: %v", b.volumes())
	}
}

// TestRepairIsPlannedAgainIfMoreIsLost: the metadata is read again in the same call that repairs it.
func TestRepairIsPlannedAgainIfMoreIsLost(t *testing.T) {
	b := damagedPool(t)
	b.requestRepair("repair")
	r := b.until("repair", v1alpha1.RecoveryAwaitingApproval)
	b.lvm.DamagePool("vg1", "pool", "a")
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(t.Context(), r))
	for range 50 {
		_, _ = b.reconcile()
		time.Sleep(2 * time.Millisecond)
	}
	now := b.wantPhase("repair", v1alpha1.RecoveryAwaitingApproval, "is not the current one")
	if n := b.lvm.Calls()["ThinPoolRepair"]; n != 0 || len(now.Status.Plan.LostVolumes) != 1 {
		t.Errorf("repaired %d times, got the plan %+v", n, now.Status.Plan)
	}
}

// salvaged returns a bench with a pool that thin_repair would not save, and an approved plan of its repair.
func salvaged(t *testing.T) (*bench, *v1alpha1.LVMRecovery) {
	t.Helper()
	b := damagedPool(t)
	b.lvm.SalvagePool("vg1", "pool", "b")
	b.requestRepair("repair")
	r := b.until("repair", v1alpha1.RecoveryAwaitingApproval)
	if p := r.Status.Plan; p.Repair != v1alpha1.RepairRebuild || len(p.LostVolumes) != 1 || p.KeptVolumeCount != 1 {
		t.Fatalf("got the plan %+v", p)
	}
	if strings.Contains(r.Status.Message, "thin_repair") {
		t.Errorf("thin_repair is not used: %s", r.Status.Message)
	}
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(t.Context(), r))
	return b, r
}

func TestMetadataThatThinRepairWouldNotSave(t *testing.T) {
	b, _ := salvaged(t)
	b.until("repair", v1alpha1.RecoverySucceeded)
	calls := b.lvm.Calls()
	if calls["ThinPoolRepair"] != 0 || calls["ThinPoolRestore"] != 1 || calls["Salvage"] != 1 {
		t.Errorf("got the calls %v", calls)
	}
	if got := strings.Join(b.volumes(), " "); got != "a pool pool_meta0" {
		t.Errorf("got the volumes %s", got)
	}
	b.wantNoFile(b.agent.pools.SalvageFile("vg1"))
}

func (b *bench) wantNoFile(name string) {
	b.Helper()
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		b.Errorf("%s is left: %v", name, err)
	}
}

func TestMetadataThatCannotBeSalvaged(t *testing.T) {
	for name, test := range map[string]struct {
		salvage func(thinmeta.Pool, string) (map[uint64]thinmeta.Device, error)
		err     string
	}{
		"the read failed": {func(thinmeta.Pool, string) (map[uint64]thinmeta.Device, error) {
			return nil, errors.New("input/output error")
		}, "input/output error"},
		"less is found": {func(_ thinmeta.Pool, file string) (map[uint64]thinmeta.Device, error) {
			return nil, os.WriteFile(file, nil, 0o600)
		}, "has changed since it was planned"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := salvaged(t)
			b.agent.pools.SalvageTo = func(_ context.Context, p thinmeta.Pool,
				file string) (map[uint64]thinmeta.Device, error) {
				return test.salvage(p, file)
			}
			for range 20 {
				b.agent.Wake()
				_, _ = b.reconcile()
				time.Sleep(2 * time.Millisecond)
			}
			if got := b.recovery("repair").Status.Message; !strings.Contains(got, test.err) {
				t.Errorf("got the message %q, want %q", got, test.err)
			}
			if n := b.lvm.Calls()["ThinPoolRestore"]; n != 0 {
				t.Errorf("restored %d times", n)
			}
			b.wantNoFile(b.agent.pools.SalvageFile("vg1"))
			b.restart()
			b.until("repair", v1alpha1.RecoverySucceeded)
		})
	}
}

// TestARestoreThatTakesLong still reads its file after its caller stopped waiting. The file goes when the pool works.
func TestARestoreThatTakesLong(t *testing.T) {
	b, _ := salvaged(t)
	b.lvm.Fail("ThinPoolRestore", lvm.ErrRunning)
	for range 20 {
		b.agent.Wake()
		_, _ = b.reconcile()
		time.Sleep(2 * time.Millisecond)
	}
	if _, err := os.Stat(b.agent.pools.SalvageFile("vg1")); err != nil {
		t.Errorf("the file was removed while it is read: %v", err)
	}
	b.lvm.Fail("ThinPoolRestore", nil)
	b.restart()
	b.until("repair", v1alpha1.RecoverySucceeded)
	b.wantNoFile(b.agent.pools.SalvageFile("vg1"))
}

// TestARepairWhoseRecoveryIsDeleted: the agent was killed in the repair, and the LVMRecovery was deleted.
func TestARepairWhoseRecoveryIsDeleted(t *testing.T) {
	b, r := salvaged(t)
	b.lvm.Fail("ThinPoolRestore", lvm.ErrRunning)
	for range 20 {
		b.agent.Wake()
		_, _ = b.reconcile()
		time.Sleep(2 * time.Millisecond)
	}
	file := b.agent.pools.SalvageFile("vg1")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.ok(b.client.Delete(t.Context(), r))
	for range 2 {
		b.agent.Wake()
		_, _ = b.reconcile()
		b.wantNoFile(file)
	}
}

func TestRepairThatCannotReadTheMetadata(t *testing.T) {
	b := damagedPool(t)
	reads := 0
	b.agent.pools.Read = func(context.Context, thinmeta.Pool) (*thinmeta.Metadata, error) {
		reads++
		return nil, errors.New("input/output error")
	}
	b.requestRepair("repair")
	b.until("repair", v1alpha1.RecoveryPreparing)
	for range 20 {
		_, _ = b.reconcile()
		time.Sleep(2 * time.Millisecond)
	}
	b.wantPhase("repair", v1alpha1.RecoveryPreparing, "cannot be read: input/output error")
	if reads != 1 {
		t.Errorf("the metadata was read %d times at once", reads)
	}
	if calls := b.lvm.Calls(); calls["ThinMetadataDeactivate"] != 1 || calls["ThinPoolRepair"] != 0 {
		t.Errorf("got the calls %v", calls)
	}
}

// TestRepairOfAPoolInUse: the agent does not deactivate volumes that Pods use.
func TestRepairOfAPoolInUse(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: "a", VirtualSize: 1 << 30}))
	b.requestRepair("repair")
	b.agent.Wake()
	b.settle()
	b.wantPhase("repair", v1alpha1.RecoveryNotApplicable, "the kernel reports no problem")
	b.lvm.FlagPool("vg1", "pool")
	b.lvm.Open("vg1", "a", true)
	b.agent.Wake()
	b.settle()
	b.wantPhase("repair", v1alpha1.RecoveryPreparing, "volumes are in use")
	if n := b.lvm.Calls()["LVDeactivate"]; n != 0 {
		t.Errorf("deactivated %d times", n)
	}
	b.lvm.Open("vg1", "a", false)
	r := b.until("repair", v1alpha1.RecoveryAwaitingApproval)
	if r.Status.Plan.Repair != v1alpha1.RepairClearCheck {
		t.Errorf("got %+v", r.Status.Plan)
	}
	// Without the request, the pool is activated again.
	b.ok(b.client.Delete(t.Context(), r))
	b.agent.Wake()
	b.settle()
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	if !report.VG("vg1").IsPoolActive("pool") {
		t.Error("the pool stays inactive")
	}
	b.requestRepair("again")
	r = b.until("again", v1alpha1.RecoveryAwaitingApproval)
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(t.Context(), r))
	b.until("again", v1alpha1.RecoverySucceeded)
	if calls := b.lvm.Calls(); calls["ThinPoolRepair"] != 0 {
		t.Errorf("valid metadata was written again: %v", calls)
	}
}

// TestMetadataThatAKilledAgentLeftActive prevents LVM from activating the pool.
func TestMetadataThatAKilledAgentLeftActive(t *testing.T) {
	b := damagedPool(t)
	b.lvm.DamagePool("vg1", "pool")
	b.requestRepair("repair")
	activate := lvm.ThinMetadataActivate{VG: "vg1", Pool: "pool"}
	b.ok(b.lvm.Apply(t.Context(), activate))
	b.restart()
	b.until("repair", v1alpha1.RecoveryAwaitingApproval)
	b.ok(b.client.Delete(t.Context(), b.recovery("repair"), client.GracePeriodSeconds(0)))
	b.ok(b.lvm.Apply(t.Context(), activate))
	b.restart()
	b.agent.Wake()
	_, _ = b.reconcile()
	if n := b.lvm.Calls()["ThinMetadataDeactivate"]; n < 2 {
		t.Errorf("the metadata was closed %d times", n)
	}
}

// TestBlankMetadataIsNotActivated: the kernel would write empty metadata over it, which deletes all volumes.
func TestBlankMetadataIsNotActivated(t *testing.T) {
	b := damagedPool(t)
	b.ok(b.lvm.Apply(t.Context(), lvm.ThinPoolRepair{VG: "vg1", Pool: "pool", Options: nil}))
	b.lvm.BlankPool("vg1", "pool")
	for range 3 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	c := meta.FindStatusCondition(b.entry().Conditions, v1alpha1.ConditionThinPoolHealthy)
	if c == nil || c.Reason != v1alpha1.ReasonThinPoolFailed || !strings.Contains(c.Message, "RepairThinPool") {
		t.Fatalf("got %+v", b.entry().Conditions)
	}
	if calls := b.lvm.Calls(); calls["VGActivate"] != 0 || calls["IsBlank"] != 1 ||
		calls["ThinMetadataDeactivate"] != calls["ThinMetadataActivate"] {
		t.Fatalf("got the calls %v", calls)
	}
	b.requestRepair("repair")
	r := b.until("repair", v1alpha1.RecoveryAwaitingApproval)
	if p := r.Status.Plan; p.Repair != v1alpha1.RepairRebuild || len(p.LostVolumes) != 0 {
		t.Fatalf("got the plan %+v", p)
	}
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(t.Context(), r))
	b.until("repair", v1alpha1.RecoverySucceeded)
	if got := strings.Join(b.volumes(), " "); got != "a b pool pool_meta0 pool_meta1" {
		t.Errorf("got the volumes %s", got)
	}
}

// TestBlankMetadataIsNotActivatedWithoutADevice has a device missing of which the pool has no extent, so that LVM would
// activate the pool.
func TestBlankMetadataIsNotActivatedWithoutADevice(t *testing.T) {
	b := damagedPool(t)
	b.ok(b.lvm.Apply(t.Context(), lvm.ThinPoolRepair{VG: "vg1", Pool: "pool", Options: nil}))
	b.addDisk("/dev/sdx", 99)
	b.ok(b.lvm.Apply(t.Context(), lvm.VGExtend{Name: "vg1", Devices: []string{"/dev/sdx"}}))
	b.lvm.BlankPool("vg1", "pool")
	b.lvm.Detach("/dev/sdx")
	for range 3 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	if calls := b.lvm.Calls(); calls["VGActivate"] != 0 || calls["IsBlank"] != 1 {
		t.Fatalf("got the calls %v", calls)
	}
}

// TestMetadataThatCannotBeReadIsNotActivated: nothing is known about it.
func TestMetadataThatCannotBeReadIsNotActivated(t *testing.T) {
	b := damagedPool(t)
	b.lvm.Fail("IsBlank", errors.New("input/output error"))
	for range 3 {
		b.agent.Wake()
		if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("got %v", err)
		}
	}
	if calls := b.lvm.Calls(); calls["VGActivate"] != 0 ||
		calls["ThinMetadataDeactivate"] != calls["ThinMetadataActivate"] {
		t.Errorf("got the calls %v", calls)
	}
}

// TestALostVolumeThatIsSavedMeanwhile: somebody repaired the pool with other tools after the approval.
func TestALostVolumeThatIsSavedMeanwhile(t *testing.T) {
	b := damagedPool(t, "b")
	b.requestRepair("repair")
	r := b.until("repair", v1alpha1.RecoveryAwaitingApproval)
	b.lvm.DamagePool("vg1", "pool")
	b.ok(b.lvm.Apply(t.Context(), lvm.ThinPoolRepair{VG: "vg1", Pool: "pool", Options: nil}))
	b.ok(b.lvm.Apply(t.Context(), lvm.ThinPoolActivate{VG: "vg1"}))
	b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"b"}}))
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(t.Context(), r))
	for range 20 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	if got := strings.Join(b.volumes(), " "); got != "a b pool pool_meta0" {
		t.Errorf("got the volumes %s, %+v", got, b.recovery("repair").Status)
	}
}
