package volumegroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/restore"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// wentBack makes a thick class, and to restore the metadata from before the volumes b and c, which no
// object of the cluster has.
func wentBack(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.settle()
	for _, name := range []string{"a", "b", "c"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: name, Size: 1 << 20}))
		b.mapped("vg1", name)
	}
	b.logicalVolume("a")
	b.agent.Wake()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	return b
}

func (b *bench) wantDoubt(doubtful bool) {
	b.Helper()
	b.agent.Wake()
	b.settle()
	class, _ := b.engine.Class("vg1")
	if c := b.volumesHealthy(); (c.Reason == v1alpha1.ReasonMetadataReplaced) != doubtful ||
		strings.Contains(class.Closed, "was seen before") != doubtful {
		b.Fatalf("want doubt: %t, got %+v and the class %+v", doubtful, c, class)
	}
}

// TestMetadataThatWentBack: nothing of the cluster is missing, and the archive can be lost. The node still knows that
// the metadata is earlier, after a restart and after the loss of its files, until a person decides.
func TestMetadataThatWentBack(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*bench)
		action v1alpha1.RecoveryAction
		end    string
	}{
		"later metadata is restored":  {func(*bench) {}, v1alpha1.RecoveryRestoreMetadata, "a b c"},
		"the present one is accepted": {func(*bench) {}, v1alpha1.RecoveryAcceptMetadata, "a"},
		"after a restart":             {(*bench).restart, v1alpha1.RecoveryRestoreMetadata, "a b c"},
		"the archive is lost":         {func(b *bench) { b.lvm.ForgetArchive("vg1") }, v1alpha1.RecoveryAcceptMetadata, "a"},
		"the whole node is reverted": {func(b *bench) {
			b.ok(b.agent.restores.Sequences.Records.Write("vg1", restore.Sequence{UUID: b.entry().UUID, Seqno: 1}))
			b.restart()
		}, v1alpha1.RecoveryAcceptMetadata, "a"},
		"the files of the agent are lost": {func(b *bench) {
			b.ok(b.agent.restores.Sequences.Forget("vg1"))
			b.restart()
		}, v1alpha1.RecoveryAcceptMetadata, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			b := wentBack(t)
			b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a", "b", "c"}}))
			b.lvm.Rollback("vg1", "", 1)
			test.before(b)
			b.wantDoubt(true)
			writes := b.writes
			b.wantDoubt(true)
			if b.writes != writes {
				t.Errorf("%d writes without a change", b.writes-writes)
			}
			b.requestRecovery("end", nodeName, "vg1", time.Hour)
			r := b.recovery("end")
			r.Spec.Action = test.action
			b.ok(b.client.Update(t.Context(), r))
			b.until("end", v1alpha1.RecoveryAwaitingApproval)
			b.approvePlan("end")
			b.until("end", v1alpha1.RecoverySucceeded)
			b.wantDoubt(false)
			b.restart()
			b.wantDoubt(false)
			if got := strings.Join(b.volumes(), " "); got != test.end {
				t.Errorf("got the volumes %s, want %s", got, test.end)
			}
		})
	}
}

// TestNoLaterMetadata: the restore names the action that is left.
func TestNoLaterMetadata(t *testing.T) {
	b := wentBack(t)
	b.ok(b.lvm.Apply(t.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a", "b", "c"}}))
	b.lvm.Rollback("vg1", "", 1)
	b.lvm.ForgetArchive("vg1")
	b.requestRestore("restore")
	b.agent.Wake()
	b.settle()
	b.wantPhase("restore", v1alpha1.RecoveryNotApplicable, "action: AcceptMetadata")
}

// TestTheRecordOfChanges: a record that cannot be read is doubtful, and one that cannot be written is kept in memory.
func TestTheRecordOfChanges(t *testing.T) {
	b := wentBack(t)
	file := filepath.Join(b.dir, "seqno-vg1.json")
	b.ok(os.WriteFile(file, []byte("{"), 0o600))
	b.restart()
	b.agent.Wake()
	b.settle()
	if c := b.volumesHealthy(); c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonMetadataReplaced {
		t.Errorf("got %+v", c)
	}
	b.requestRecovery("accept", nodeName, "vg1", time.Hour)
	r := b.recovery("accept")
	r.Spec.Action = v1alpha1.RecoveryAcceptMetadata
	b.ok(b.client.Update(t.Context(), r))
	b.until("accept", v1alpha1.RecoveryAwaitingApproval)
	b.approvePlan("accept")
	b.until("accept", v1alpha1.RecoverySucceeded)
	b.wantDoubt(false)
	q := restore.NewSequences(filepath.Join(b.dir, "missing", "directory"))
	vg := &lvm.VG{UUID: "u", Seqno: 9}
	if seen := q.Of(t.Context(), "vg1", vg, v1alpha1.VGStatus{}); seen.Err != nil || seen.Seqno != 9 {
		t.Errorf("got %+v", seen)
	}
	vg.Seqno = 8
	if seen := q.Of(t.Context(), "vg1", vg, v1alpha1.VGStatus{}); seen.Seqno != 9 {
		t.Errorf("a second call: got %+v", seen)
	}
	if err := q.Accept("vg1", vg, v1alpha1.VGStatus{}); err == nil || q.Of(t.Context(), "vg1", vg, v1alpha1.VGStatus{}).Seqno != 9 {
		t.Errorf("accepted without a record: %v", err)
	}
	if other := q.Of(t.Context(), "vg1", &lvm.VG{UUID: "v", Seqno: 2}, v1alpha1.VGStatus{}); other.Seqno != 2 {
		t.Errorf("another volume group: got %+v", other)
	}
}

// TestTheStatusIsNotWrittenForEachChange: the file has the exact number.
func TestTheStatusIsNotWrittenForEachChange(t *testing.T) {
	status := func(uuid string, seqno int64, reason string) v1alpha1.VGStatus {
		return v1alpha1.VGStatus{UUID: uuid, Seqno: seqno, Reason: reason}
	}
	for name, test := range map[string]struct {
		before, after v1alpha1.VGStatus
		want          int64
	}{
		"a small step":         {status("u", 10, ""), status("u", 12, ""), 10},
		"with another change":  {status("u", 10, ""), status("u", 12, "full"), 12},
		"a large step":         {status("u", 10, ""), status("u", 110, ""), 110},
		"accepted":             {status("u", 10, ""), status("u", 7, ""), 7},
		"another volume group": {status("u", 10, ""), status("v", 12, ""), 12},
		"the same":             {status("u", 10, ""), status("u", 10, ""), 10},
	} {
		if got := withoutSmallSteps(test.before, test.after); got.Seqno != test.want {
			t.Errorf("%s: got %d, want %d", name, got.Seqno, test.want)
		}
	}
}

// TestAnApprovalWhileNoAgentRanIsGivenAgain: the lost disk can have returned and gone again meanwhile.
func TestAnApprovalWhileNoAgentRanIsGivenAgain(t *testing.T) {
	for name, begin := range map[string]bool{"nothing was removed yet": false, "a volume was removed": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
			b.losesADisk()
			b.requestRecovery("lost", nodeName, "vg1", time.Hour)
			b.settle()
			r := b.wantPhase("lost", v1alpha1.RecoveryAwaitingApproval, "")
			if begin {
				b.lvm.Fail("VGReduceMissing", errors.New("killed"))
				b.approvePlan("lost")
				for range 5 {
					b.agent.Wake()
					_, _ = b.reconcile()
				}
				b.wantVolumes("kept")
				b.lvm.Fail("VGReduceMissing", nil)
				b.restart()
			} else {
				b.agent = nil
				r.Spec.ApprovedPlan = r.Status.Plan.ID
				b.ok(b.client.Update(t.Context(), r))
				b.restart()
				b.agent.now = func() time.Time { return time.Now().Add(time.Hour) }
				b.agent.Wake()
				b.settle()
				again := b.wantPhase("lost", v1alpha1.RecoveryAwaitingApproval, "is not the current one")
				b.wantVolumes("gone", "kept")
				if again.Status.Plan.ID == r.Status.Plan.ID {
					t.Error("the plan is the same")
				}
				b.approvePlan("lost")
			}
			b.agent.Wake()
			b.settle()
			b.wantPhase("lost", v1alpha1.RecoverySucceeded, "volumes lost: 1")
		})
	}
}
