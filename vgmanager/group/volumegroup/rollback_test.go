package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// rolledBackGroup makes a thin class with the volumes a, b and c, and then restores the metadata from before b.
func rolledBackGroup(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, thinOf(90))
	b.settle()
	for _, name := range []string{"a", "b", "c"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: name, VirtualSize: 1 << 30}))
	}
	b.agent.Wake()
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a", "b", "c"}}))
	b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"pool"}}))
	b.lvm.Rollback("vg1", "pool", 1)
	return b
}

func (b *bench) requestRestore(name string) {
	b.Helper()
	b.requestRecovery(name, nodeName, "vg1", time.Hour)
	r := b.recovery(name)
	r.Spec.Action = v1alpha1.RecoveryRestoreMetadata
	b.ok(b.client.Update(b.Context(), r))
}

func TestRolledBackMetadataIsRestored(t *testing.T) {
	b := rolledBackGroup(t)
	for range 2 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	c := meta.FindStatusCondition(b.entry().Conditions, v1alpha1.ConditionThinPoolHealthy)
	if c == nil || c.Reason != v1alpha1.ReasonThinPoolFailed || !strings.Contains(c.Message, "action: RestoreMetadata") {
		t.Fatalf("got %+v", b.entry().Conditions)
	}
	b.logicalVolume("a")
	b.logicalVolume("nowhere")
	b.requestRestore("restore")
	r := b.until("restore", v1alpha1.RecoveryAwaitingApproval)
	p := r.Status.Plan
	expect.Equal(t, "ReplacesMetadata", p.ReplacesMetadata, true)
	expect.Equal(t, "KeptVolumeCount", p.KeptVolumeCount, 3)
	expect.Equal(t, "len(p.DamagedVolumes)", len(p.DamagedVolumes), 0)
	if len(p.LostVolumes) != 1 {
		t.Fatalf("got the plan %+v: %s", p, r.Status.Message)
	}
	expect.Equal(t, "LostVolumes[0].Name", p.LostVolumes[0].Name, "nowhere")
	expect.Contains(t, "Status.Message", r.Status.Message, "which return: 2 (b, c)")
	expect.Equal(t, "len(p.Devices)", len(p.Devices), 2)
	expect.Equal(t, "HasPrefix(p.MetadataSource, lvm.ArchiveDir)", strings.HasPrefix(p.MetadataSource, lvm.ArchiveDir),
		true)
	for range 5 {
		b.agent.Wake()
		_, err := b.reconcile()
		b.ok(err)
	}
	if calls := b.lvm.Calls(); calls["MetadataRestore"]+calls["ThinPoolActivate"] > 0 || calls["Inspect"] != 1 {
		t.Fatalf("without an approval: %v", calls)
	}
	if again := b.recovery("restore"); again.Status.Plan.ID != p.ID {
		t.Fatalf("the plan has changed: %+v", again.Status.Plan)
	}
	b.restart()
	b.approvePlan("restore")
	b.until("restore", v1alpha1.RecoverySucceeded)
	b.settle()
	if e := b.entry(); e.Status != v1alpha1.VGStatusReady {
		t.Errorf("got %+v", e)
	}
	if got := strings.Join(b.volumes(), " "); got != "a b c pool" {
		t.Errorf("got the volumes %s", got)
	}
	if n := b.lvm.Calls()["MetadataRestore"]; n != 1 {
		t.Errorf("restored %d times", n)
	}
	if text, err := os.ReadFile(filepath.Join(b.dir, "replaced-vg1.vg")); err != nil ||
		strings.Contains(string(text), "\nc {") {
		t.Errorf("the replaced metadata was not kept: %v: %s", err, text)
	}
	b.requestRestore("again")
	b.agent.Wake()
	b.settle()
	b.wantPhase("again", v1alpha1.RecoveryNotApplicable, "reports no problem")
}

// TestRepairNamesTheRestoreOfMetadata: a repair of the pool would discard volumes.
func TestRepairNamesTheRestoreOfMetadata(t *testing.T) {
	b := rolledBackGroup(t)
	b.requestRepair("repair")
	r := b.until("repair", v1alpha1.RecoveryNotApplicable)
	for _, want := range []string{"has the transaction ID 4", "has 2", "action: RestoreMetadata"} {
		if !strings.Contains(r.Status.Message, want) {
			t.Errorf("the message %q should have %q", r.Status.Message, want)
		}
	}
}

func TestMetadataThatIsNotRestored(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(*bench)
		phase v1alpha1.RecoveryPhase
		text  string
	}{
		"no earlier metadata": {func(b *bench) { b.lvm.ForgetArchive("vg1") }, v1alpha1.RecoveryNotApplicable,
			"its metadata has the transaction ID 4, and that of the volume group has 2, and no metadata"},
		"the archive cannot be read": {func(b *bench) { b.lvm.Fail("FindMetadata", errors.New("input/output error")) },
			v1alpha1.RecoveryPreparing, "cannot be used: FindMetadata vg1: input/output error"},
		"the present metadata cannot be read": {func(b *bench) { b.lvm.Fail("ReadMetadata", errors.New("i/o")) },
			v1alpha1.RecoveryPreparing, "cannot be used: ReadMetadata"},
		"a disk is away": {func(b *bench) { b.lvm.Detach("/dev/sdc") }, v1alpha1.RecoveryNotApplicable,
			"is missing a device"},
		"the metadata of the pool cannot be read": {func(b *bench) {
			b.agent.pools.Read = func(context.Context, thinmeta.Pool) (*thinmeta.Metadata, error) {
				return nil, errors.New("input/output error")
			}
		}, v1alpha1.RecoveryPreparing, "cannot be read: input/output error"},
		"the superblock is lost": {func(b *bench) { b.lvm.BlankPool("vg1", "pool") }, v1alpha1.RecoveryNotApplicable,
			"the superblock of its metadata cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			b := rolledBackGroup(t)
			test.do(b)
			b.requestRestore("restore")
			for range 30 {
				b.agent.Wake()
				_, _ = b.reconcile()
				time.Sleep(2 * time.Millisecond)
			}
			b.wantPhase("restore", test.phase, test.text)
			if n := b.lvm.Calls()["MetadataRestore"]; n != 0 {
				t.Errorf("restored %d times", n)
			}
		})
	}
}

// TestARestoreOfMetadataThatIsInUse: the agent does not deactivate a volume that a Pod uses.
func TestARestoreOfMetadataThatIsInUse(t *testing.T) {
	b := rolledBackGroup(t)
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: "t", Size: 1}))
	b.lvm.Open("vg1", "t", true)
	b.requestRestore("restore")
	for range 5 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	b.wantPhase("restore", v1alpha1.RecoveryPreparing, "volumes are in use: t")
	b.lvm.Open("vg1", "t", false)
	r := b.until("restore", v1alpha1.RecoveryAwaitingApproval)
	if p := r.Status.Plan; len(p.LostVolumes) != 1 || p.LostVolumes[0].Name != "t" || p.LostVolumes[0].UUID == "" {
		t.Fatalf("got the plan %+v", p)
	}
	b.approvePlan("restore")
	b.lvm.Open("vg1", "t", true)
	for range 20 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	b.wantPhase("restore", v1alpha1.RecoveryRunning, "volumes are in use: t")
	if n := b.lvm.Calls()["MetadataRestore"]; n != 0 {
		t.Errorf("restored %d times", n)
	}
	b.lvm.Open("vg1", "t", false)
	b.until("restore", v1alpha1.RecoverySucceeded)
	if got := strings.Join(b.volumes(), " "); got != "a b c pool" {
		t.Errorf("got the volumes %s", got)
	}
}

// TestAFailedRestoreOfMetadataIsRepeated: the command fails, and nothing else is changed meanwhile.
func TestAFailedRestoreOfMetadataIsRepeated(t *testing.T) {
	b := rolledBackGroup(t)
	b.requestRestore("restore")
	b.until("restore", v1alpha1.RecoveryAwaitingApproval)
	b.lvm.Fail("MetadataRestore", errors.New("input/output error"))
	b.approvePlan("restore")
	// The check of the pool before the restore takes an unknown time.
	for end := time.Now().Add(time.Minute); b.lvm.Calls()["MetadataRestore"] == 0 && time.Now().Before(end); {
		b.agent.Wake()
		_, _ = b.reconcile()
		time.Sleep(2 * time.Millisecond)
	}
	for range 30 {
		b.agent.Wake()
		_, _ = b.reconcile()
	}
	b.wantPhase("restore", v1alpha1.RecoveryRunning, "input/output error")
	if calls := b.lvm.Calls(); calls["MetadataRestore"] != 1 || calls["ThinPoolActivate"] != 0 {
		t.Errorf("got the calls %v", calls)
	}
	b.lvm.Fail("MetadataRestore", nil)
	b.restart()
	b.until("restore", v1alpha1.RecoverySucceeded)
}

// TestTheArchiveIsReadAgain: what was approved no longer exists when it would be restored.
func TestTheArchiveIsReadAgain(t *testing.T) {
	b := rolledBackGroup(t)
	b.requestRestore("restore")
	b.until("restore", v1alpha1.RecoveryAwaitingApproval)
	b.approvePlan("restore")
	inspect := b.agent.pools.Read
	b.agent.pools.Read = func(ctx context.Context, p thinmeta.Pool) (*thinmeta.Metadata, error) {
		b.lvm.ForgetArchive("vg1")
		return inspect(ctx, p)
	}
	for range 30 {
		b.agent.Wake()
		_, _ = b.reconcile()
		time.Sleep(2 * time.Millisecond)
	}
	if n := b.lvm.Calls()["MetadataRestore"]; n != 0 {
		t.Errorf("restored %d times: %s", n, fmt.Sprint(b.recovery("restore").Status))
	}
}

// TestThickVolumesThatTheGroupLacksReturn: without a thin pool, the volumes of the API say which metadata is missing.
func TestThickVolumesThatTheGroupLacksReturn(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.settle()
	for _, name := range []string{"a", "b", "last"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: name, Size: 1 << 20}))
		b.mapped("vg1", name)
	}
	b.logicalVolume("a")
	b.logicalVolume("b")
	b.requestRestore("none")
	b.agent.Wake()
	b.settle()
	b.wantPhase("none", v1alpha1.RecoveryNotApplicable, "has all volumes")
	b.ok(b.client.Delete(t.Context(), b.recovery("none")))
	b.lvm.Lose("vg1", "b")
	b.requestRestore("restore")
	r := b.until("restore", v1alpha1.RecoveryAwaitingApproval)
	if p := r.Status.Plan; !p.ReplacesMetadata || p.KeptVolumeCount != 2 || len(p.LostVolumes) != 1 ||
		p.LostVolumes[0].Name != "last" {
		t.Fatalf("got the plan %+v: %s", p, r.Status.Message)
	}
	if n := b.lvm.Calls()["LVDeactivate"]; n != 0 {
		t.Errorf("deactivated %d times without an approval", n)
	}
	b.approvePlan("restore")
	b.until("restore", v1alpha1.RecoverySucceeded)
	b.settle()
	if got := strings.Join(b.volumes(), " "); got != "a b" {
		t.Errorf("got the volumes %s", got)
	}
}
