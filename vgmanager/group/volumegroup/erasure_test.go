package volumegroup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
)

// fakeEraser erases a volume at once, or, as long as it is slow, half of it. Meanwhile it has the volume open.
type fakeEraser struct {
	lvm  *lvmtest.Fake
	slow bool
	err  error
	// stopErr is why an erasure cannot be stopped.
	stopErr error
	running map[string]bool
	// erased and stopped have the keys, in the order of the calls.
	erased, stopped []string
}

func newFakeEraser(l *lvmtest.Fake) *fakeEraser {
	return &fakeEraser{lvm: l, running: map[string]bool{}}
}

// Run begins or ends to erase a volume.
func (f *fakeEraser) run(key string, running bool) {
	f.running[key] = running
	group, name, _ := strings.Cut(key, "/")
	f.lvm.Open(group, name, running)
}

func (f *fakeEraser) Running(key string) bool { return f.running[key] }

func (f *fakeEraser) Erase(ctx context.Context, target erase.Target, record erase.Record) (erase.Progress, error) {
	if f.err != nil {
		return erase.Progress{}, f.err
	}
	if !f.running[target.Key] {
		if err := record(ctx, target.Done); err != nil {
			return erase.Progress{}, err
		}
	}
	f.run(target.Key, f.slow)
	if f.slow {
		return erase.Progress{Done: target.Size / 2, Size: target.Size}, nil
	}
	f.erased = append(f.erased, target.Key)
	return erase.Progress{Done: target.Size, Size: target.Size, Finished: true}, nil
}

func (f *fakeEraser) Stop(_ context.Context, key string) error {
	if !f.running[key] {
		return nil
	}
	if f.stopErr != nil {
		return f.stopErr
	}
	f.run(key, false)
	f.stopped = append(f.stopped, key)
	return nil
}

// erasingOrphans has a slow erasure of the orphan a, whose deletion is approved together with that of b.
func erasingOrphans(t *testing.T) *bench {
	t.Helper()
	b := orphaned(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.requestDeletion("orphans", time.Hour, "a", "b")
	b.approvePlan("orphans")
	b.eraser.slow = true
	b.settle()
	if !b.eraser.running["vg1/a"] || b.eraser.running["vg1/b"] {
		t.Fatalf("these are being erased: %v", b.eraser.running)
	}
	return b
}

func TestOrphansAreErasedBeforeTheirRemoval(t *testing.T) {
	b := erasingOrphans(t)
	for range 2 {
		b.step()
		b.wantPhase("orphans", v1alpha1.RecoveryRunning,
			"in progress: 2 of 2 volumes are left: vg1/a: the logical volume is erased before it is removed: ")
		b.wantVolumes("a", "b", "kept")
	}
	if result := b.settle(); result.RequeueAfter != whileWaiting {
		t.Errorf("the progress is looked at after %s", result.RequeueAfter)
	}
	b.eraser.slow = false
	b.step()
	b.wantPhase("orphans", v1alpha1.RecoverySucceeded, "deleted from volume group vg1")
	b.wantVolumes("kept")
	if got := strings.Join(b.eraser.erased, " "); got != "vg1/a vg1/b" {
		t.Errorf("erased %s", got)
	}
	if len(b.eraser.stopped) > 0 || len(b.agent.orphans.Erasing["vg1"]) > 0 {
		t.Errorf("stopped %v, still erasing %v", b.eraser.stopped, b.agent.orphans.Erasing)
	}
}

// changeSpec changes the LVMVolumeGroup.
func (b *bench) changeSpec(change func(*v1alpha1.LVMVolumeGroupSpec)) {
	b.Helper()
	group := &v1alpha1.LVMVolumeGroup{}
	b.ok(b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "vg1"}, group))
	change(&group.Spec)
	group.Generation++
	b.ok(b.client.Update(b.Context(), group))
}

// TestOtherActionsRunDuringAnErasure: the device class changes meanwhile.
func TestOtherActionsRunDuringAnErasure(t *testing.T) {
	b := erasingOrphans(t)
	b.changeSpec(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.EraseOnDelete = v1alpha1.EraseDiscard })
	b.step()
	if class, _ := b.engine.Class("vg1"); class.EraseOnDelete != string(v1alpha1.EraseDiscard) {
		t.Errorf("the class is %+v", class)
	}
	b.wantVolumes("a", "b", "kept")
	// A volume that is not to be erased is removed at once.
	b.changeSpec(func(spec *v1alpha1.LVMVolumeGroupSpec) { spec.EraseOnDelete = v1alpha1.EraseNone })
	b.step()
	b.wantVolumes("kept")
	if got := strings.Join(b.eraser.stopped, " "); got != "vg1/a" {
		t.Errorf("stopped %s", got)
	}
}

func TestAnErasureEndsWithItsReason(t *testing.T) {
	for name, end := range map[string]func(*bench){
		"the recovery is deleted":   func(b *bench) { b.ok(b.client.Delete(b.Context(), b.recovery("orphans"))) },
		"an object has the volume":  func(b *bench) { b.logicalVolume("a") },
		"an object has another one": func(b *bench) { b.logicalVolume("b") },
		"LVM cannot be read":        func(b *bench) { b.lvm.Fail("Report", errors.New("input/output error")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := erasingOrphans(t)
			end(b)
			b.eraser.stopErr = errors.New("a write has not ended")
			b.agent.Wake()
			if _, err := b.reconcile(); err == nil {
				t.Error("the agent does not report that the erasure goes on")
			}
			b.eraser.stopErr = nil
			b.agent.Wake()
			_, _ = b.reconcile()
			if got := strings.Join(b.eraser.stopped, " "); got != "vg1/a" {
				t.Errorf("stopped %q", got)
			}
			b.lvm.Fail("Report", nil)
			b.agent.Wake()
			_, _ = b.reconcile()
			b.wantVolumes("a", "b", "kept")
		})
	}
}

func TestAnOrphanThatCannotBeErasedIsNotRemoved(t *testing.T) {
	b := orphaned(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.requestDeletion("orphans", time.Hour, "a")
	b.approvePlan("orphans")
	b.eraser.err = errors.New("bytes 0 to 4095 of /dev/vg1/a: input/output error")
	for range 2 {
		b.agent.Wake()
		if _, err := b.reconcile(); err == nil {
			t.Error("the failure is not reported")
		}
	}
	r := b.wantPhase("orphans", v1alpha1.RecoveryRunning, "set eraseOnDelete: None in device class vg1")
	if strings.Contains(r.Status.Message, "rpc error") {
		t.Errorf("the message is for programs: %s", r.Status.Message)
	}
	b.wantVolumes("a", "b", "kept")
	b.eraser.err = nil
	b.step()
	b.wantVolumes("b", "kept")
}

// TestAClassIsSetUpBeforeItsOrphansAreErased: only the class says whether volumes are erased.
func TestAClassIsSetUpBeforeItsOrphansAreErased(t *testing.T) {
	b := orphaned(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.requestDeletion("orphans", time.Hour, "a")
	b.approvePlan("orphans")
	b.ok(b.engine.Withdraw("vg1"))
	b.step()
	b.step()
	b.wantPhase("orphans", v1alpha1.RecoverySucceeded, "deleted")
	if got := strings.Join(b.eraser.erased, " "); got != "vg1/a" {
		t.Errorf("erased %s", got)
	}
}

func TestADeletedVolumeIsErasedBeforeItsRemoval(t *testing.T) {
	b := deletedBench(t, "1h", time.Now().Add(-2*time.Hour))
	b.eraser.slow = true
	b.step()
	b.wantVolumes("a", "b", "kept")
	if !b.eraser.running["vg1/a"] {
		t.Fatal("it is not being erased")
	}
	b.step()
	b.wantVolumes("a", "b", "kept")
	b.eraser.slow = false
	b.step()
	b.wantVolumes("b", "kept")
	if said := strings.Join(b.drain(), "\n"); strings.Count(said, "DeletedVolumeRemoved") != 1 {
		t.Errorf("got the events %s", said)
	}
}
