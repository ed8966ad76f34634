package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/fsjobs"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// fakeFileSystems has a mounted file system on every device. Trimming one frees data of the pool.
type fakeFileSystems struct {
	mu      sync.Mutex
	usedErr error
	// unmounted are devices without a mounted file system. failed has the error of a trim.
	unmounted []string
	failed    map[string]error
	// hold blocks each trim until it is closed or the context is canceled.
	hold chan struct{}
	// freed is called after each trim.
	freed func()
	// trimmed are the devices in the order of the calls. running and most are the current and the maximum number of
	// calls at a time.
	trimmed       []string
	running, most int
}

func (f *fakeFileSystems) Used(_ context.Context, devices []string) (map[string]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := map[string]int64{}
	for _, d := range devices {
		if !slices.Contains(f.unmounted, d) {
			used[d] = 1 << 20
		}
	}
	return used, f.usedErr
}

func (f *fakeFileSystems) Trim(ctx context.Context, device string) error {
	f.mu.Lock()
	f.trimmed = append(f.trimmed, device)
	f.running++
	f.most = max(f.most, f.running)
	err, hold := f.failed[device], f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil && f.freed != nil {
		f.freed()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	return err
}

func (f *fakeFileSystems) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.trimmed)
}

// fullPool makes a thin class with the volumes a, b and c, whose pool is full. Each trim frees 20% of the pool.
func fullPool(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, thinOf(90))
	b.settle()
	for _, name := range []string{"a", "b", "c"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: name, VirtualSize: 1 << 30}))
		b.ok(b.client.Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + name},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: name},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: name}}}}))
	}
	b.setUsage(100)
	b.files.freed = func() {
		b.lvm.Edit("vg1", "pool", func(lv *lvm.LV) { lv.DataPercent = new(*lv.DataPercent - 20) })
	}
	return b
}

func (b *bench) setUsage(percent float64) {
	b.lvm.Edit("vg1", "pool", func(lv *lvm.LV) { lv.DataPercent = &percent })
}

// number returns the device number of a volume.
func (b *bench) number(volume string) string {
	b.Helper()
	report, err := b.lvm.Report(b.Context())
	b.ok(err)
	lv := report.VG("vg1").LV(volume)
	return fmt.Sprintf("%d:%d", lv.Major, lv.Minor)
}

// approveSpace requests space, and approves the plan.
func (b *bench) approveSpace(name string) *v1alpha1.RecoveryPlan {
	b.Helper()
	b.requestSpace(name)
	r := b.until(name, v1alpha1.RecoveryAwaitingApproval)
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(b.Context(), r))
	return r.Status.Plan
}

func (b *bench) requestSpace(name string) {
	b.Helper()
	b.requestRecovery(name, nodeName, "vg1", time.Hour)
	r := b.recovery(name)
	r.Spec.Action = v1alpha1.RecoveryFreePoolSpace
	b.ok(b.client.Update(b.Context(), r))
}

func TestTrimFreesSpaceAfterApproval(t *testing.T) {
	b := fullPool(t)
	b.requestSpace("space")
	r := b.until("space", v1alpha1.RecoveryAwaitingApproval)
	p := r.Status.Plan
	if len(p.MountedVolumes) != 3 || p.MountedVolumes[0].Claim != "shop/a" || p.MountedVolumeCount != 3 {
		t.Fatalf("got the plan %+v", p)
	}
	for range 5 {
		_, err := b.reconcile()
		b.ok(err)
	}
	if calls := b.files.calls(); len(calls) > 0 {
		t.Fatalf("trimmed %v without an approval", calls)
	}
	r = b.recovery("space")
	r.Spec.ApprovedPlan = p.ID
	b.ok(b.client.Update(t.Context(), r))
	b.until("space", v1alpha1.RecoverySucceeded)
	r = b.wantPhase("space", v1alpha1.RecoverySucceeded, "is 40% full; file systems trimmed: 3")
	pool := float64(p.ThinPools[0].Size)
	if got := float64(*r.Status.FreedBytes); got < pool*0.59 || got > pool*0.61 {
		t.Errorf("freed %.0f of %.0f bytes", got, pool)
	}
	for range 3 {
		b.agent.Wake()
		_, err := b.reconcile()
		b.ok(err)
	}
	if calls := b.files.calls(); len(calls) != 3 || b.files.most != 1 {
		t.Errorf("trimmed %v, %d at a time", calls, b.files.most)
	}
	// A second one is harmless.
	b.approveSpace("again")
	b.until("again", v1alpha1.RecoverySucceeded)
}

func TestTrimGoesOnAfterAFailure(t *testing.T) {
	b := fullPool(t)
	b.files.failed = map[string]error{b.number("b"): errors.New("has not answered since 2026-01-01T00:00:00Z")}
	b.approveSpace("space")
	b.until("space", v1alpha1.RecoverySucceeded)
	b.wantPhase("space", v1alpha1.RecoverySucceeded, "file systems trimmed: 2, freed: ")
	b.wantPhase("space", v1alpha1.RecoverySucceeded,
		"not trimmed: 1: volume b: has not answered since 2026-01-01T00:00:00Z")
}

func TestTrimOfAVolumeThatWasDeleted(t *testing.T) {
	b := fullPool(t)
	b.approveSpace("space")
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"c"}}))
	b.until("space", v1alpha1.RecoverySucceeded)
	b.wantPhase("space", v1alpha1.RecoverySucceeded, "is not active or no longer exists")
	if calls := b.files.calls(); len(calls) != 2 {
		t.Errorf("trimmed %v", calls)
	}
}

func TestTrimWithoutTheMounts(t *testing.T) {
	b := fullPool(t)
	b.files.usedErr = errors.New("permission denied")
	b.requestSpace("space")
	b.until("space", v1alpha1.RecoveryNotApplicable)
	b.wantPhase("space", v1alpha1.RecoveryNotApplicable, "permission denied")
	b.files.usedErr = nil
	b.until("space", v1alpha1.RecoveryAwaitingApproval)
}

func TestTrimWhileLVMCannotBeRead(t *testing.T) {
	b := fullPool(t)
	now := time.Now()
	b.agent.now = func() time.Time { return now }
	b.approveSpace("space")
	b.files.hold = make(chan struct{})
	_, err := b.reconcile()
	b.ok(err)
	b.waitForCalls(1)
	b.lvm.Fail("Report", errors.New("lvs: timeout"))
	close(b.files.hold)
	b.waitForEnd()
	b.lvm.Fail("Report", nil)
	for range 3 {
		_, err := b.reconcile()
		b.ok(err)
	}
	b.wantPhase("space", v1alpha1.RecoveryRunning, "lvs: timeout")
	if calls := b.files.calls(); len(calls) != 1 {
		t.Errorf("trimmed %v", calls)
	}
	now = now.Add(2 * fsjobs.MinRetry)
	b.until("space", v1alpha1.RecoverySucceeded)
	if calls := b.files.calls(); len(calls) != 4 {
		t.Errorf("trimmed %v", calls)
	}
}

// waitForCalls waits until trims were called n times.
func (b *bench) waitForCalls(n int) {
	b.Helper()
	b.wait(fmt.Sprintf("trim %d", n), func() bool { return len(b.files.calls()) >= n })
}

func (b *bench) waitForEnd() {
	b.Helper()
	b.wait("the end of the trims", func() bool { return !b.agent.trims.Runs.IsRunning("vg1") })
}

func (b *bench) wait(what string, done func() bool) {
	b.Helper()
	for range 1000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.Fatalf("%s does not come", what)
}

func TestTrimIsContinuedByTheNextAgent(t *testing.T) {
	b := fullPool(t)
	b.approveSpace("space")
	b.files.hold = make(chan struct{})
	_, err := b.reconcile()
	b.ok(err)
	b.waitForCalls(1)
	b.wantPhase("space", v1alpha1.RecoveryRunning, "in progress")
	killed := b.agent
	killed.trims.Runs.Of("vg1", "killed", time.Now(), func(p state.Trim) state.Trim { return p })
	b.waitForEnd()
	b.files.mu.Lock()
	b.files.hold = nil
	b.files.mu.Unlock()
	b.restart()
	b.until("space", v1alpha1.RecoverySucceeded)
	r := b.wantPhase("space", v1alpha1.RecoverySucceeded, "file systems trimmed: 3")
	if calls := b.files.calls(); len(calls) != 4 {
		t.Errorf("trimmed %v", calls)
	}
	if r.Status.FreedBytes == nil || *r.Status.FreedBytes == 0 {
		t.Errorf("got %+v", r.Status)
	}
}

func TestTrimEndsWithItsRecovery(t *testing.T) {
	b := fullPool(t)
	b.approveSpace("space")
	b.files.hold = make(chan struct{})
	_, err := b.reconcile()
	b.ok(err)
	b.waitForCalls(1)
	b.ok(b.client.Delete(t.Context(), b.recovery("space")))
	_, err = b.reconcile()
	b.ok(err)
	b.waitForEnd()
	if calls := b.files.calls(); len(calls) != 1 {
		t.Errorf("trimmed %v after the LVMRecovery was deleted", calls)
	}
}

// TestTrimWaitsForAnotherDeviceClass: a node trims one file system at a time.
func TestTrimWaitsForAnotherDeviceClass(t *testing.T) {
	b := fullPool(t)
	end := make(chan struct{})
	b.agent.trims.Runs.Start(t.Context(), "vg2", &fsjobs.Run[state.Trim]{}, time.Now, func() {}, func(context.Context) error {
		<-end
		return nil
	})
	b.approveSpace("space")
	b.until("space", v1alpha1.RecoveryRunning)
	b.wantPhase("space", v1alpha1.RecoveryRunning, "device class vg2")
	if calls := b.files.calls(); len(calls) > 0 {
		t.Errorf("trimmed %v", calls)
	}
	close(end)
	b.wait("the end of the other run", func() bool { return !b.agent.trims.Runs.IsRunning("vg2") })
	b.until("space", v1alpha1.RecoverySucceeded)
}
