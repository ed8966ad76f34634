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
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// fakeChecker has an ext4 file system on each volume. Those in broken have errors until they are repaired.
type fakeChecker struct {
	mu        sync.Mutex
	mounted   map[string][]string
	mountsErr error
	// replayed has the volume whose replay an earlier agent has not ended. replayErr is the error of its unmount.
	replayed  string
	replayErr error
	kinds     map[string]error // of Identify
	failed    map[string]error // of Check and Repair
	broken    []string
	// hold blocks each call until it is closed or, for a check, the context is canceled.
	hold  chan struct{}
	calls []string
}

func (f *fakeChecker) MountPoints(volumes []fsck.Volume) (map[string][]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string][]string{}
	for _, v := range volumes {
		if points := f.mounted[v.Name]; len(points) > 0 {
			found[v.Name] = points
		}
	}
	return found, f.mountsErr
}

func (f *fakeChecker) Identify(_ context.Context, v fsck.Volume) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return "ext4", f.kinds[v.Name]
}

func (f *fakeChecker) begin(ctx context.Context, call string, v fsck.Volume) error {
	f.mu.Lock()
	f.calls = append(f.calls, call+" "+v.Name)
	err, hold := f.failed[v.Name], f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

func (f *fakeChecker) Check(ctx context.Context, v fsck.Volume, _ string) (fsck.Result, error) {
	if err := f.begin(ctx, "check", v); err != nil {
		return fsck.Result{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.broken, v.Name) {
		return fsck.Result{Errors: true, Finding: "errors: bad " + v.Name}, nil
	}
	return fsck.Result{Finding: fsck.NoErrors}, nil
}

func (f *fakeChecker) Repair(ctx context.Context, v fsck.Volume, _ string) (fsck.Result, error) {
	if err := f.begin(context.WithoutCancel(ctx), "repair", v); err != nil {
		return fsck.Result{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = slices.DeleteFunc(f.broken, func(name string) bool { return name == v.Name })
	return fsck.Result{Finding: fsck.NoErrors, Moved: 2}, nil
}

func (f *fakeChecker) EndReplay(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replayErr == nil {
		delete(f.mounted, f.replayed)
		f.failed[f.replayed] = nil
	}
	return f.replayErr
}

func (f *fakeChecker) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeChecker) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c == call {
			n++
		}
	}
	return n
}

// brokenVolumes makes a thin class with the volumes a, b and c. a and b have errors.
func brokenVolumes(t *testing.T) *bench {
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
	b.checker.broken = []string{"a", "b"}
	b.checker.mounted, b.checker.kinds, b.checker.failed = map[string][]string{}, map[string]error{}, map[string]error{}
	b.restart()
	b.agent.pause = func(time.Duration) {}
	return b
}

func (b *bench) requestCheck(name string, volumes ...string) {
	b.Helper()
	b.requestRecovery(name, nodeName, "vg1", time.Hour)
	r := b.recovery(name)
	r.Spec.Action, r.Spec.Volumes = v1alpha1.RecoveryCheckFileSystems, volumes
	b.ok(b.client.Update(b.Context(), r))
}

// approveCheck requests a check of a, b and c, and approves its plan.
func (b *bench) approveCheck() *v1alpha1.LVMRecovery {
	b.Helper()
	b.requestCheck("check", "a", "b", "c")
	r := b.until("check", v1alpha1.RecoveryAwaitingApproval)
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(b.Context(), r))
	return r
}

func TestFileSystemsAreRepairedAfterApproval(t *testing.T) {
	b := brokenVolumes(t)
	b.requestCheck("check", "c", "b", "a")
	r := b.until("check", v1alpha1.RecoveryAwaitingApproval)
	v := r.Status.Plan.CheckedVolumes
	if len(v) != 3 || v[0].Claim != "shop/a" || v[0].Finding != "errors: bad a" || v[2].Finding != "no errors" {
		t.Fatalf("got the plan %+v", v)
	}
	for range 5 {
		b.agent.Wake()
		_, err := b.reconcile()
		b.ok(err)
	}
	if b.checker.count("check a") != 1 || b.checker.count("repair a") != 0 {
		t.Fatalf("without an approval: %v", b.checker.calls)
	}
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(t.Context(), r))
	b.until("check", v1alpha1.RecoverySucceeded)
	b.wantPhase("check", v1alpha1.RecoverySucceeded, "repaired on node "+nodeName+": 2: volume a (claim shop/a): files "+
		"and directories moved to lost+found: 2, volume b (claim shop/b)")
	if b.checker.count("repair a") != 1 || b.checker.count("repair b") != 1 || b.checker.count("repair c") != 0 {
		t.Errorf("got %v", b.checker.calls)
	}
	// The same again finds no errors, and ends: it does not check again when a Pod was started and stopped.
	b.requestCheck("again", "a", "b", "c")
	b.until("again", v1alpha1.RecoveryNotApplicable)
	r = b.wantPhase("again", v1alpha1.RecoveryNotApplicable, "no errors were found in 3 file systems")
	checks := b.checker.count("check a")
	b.restart()
	for range 3 {
		b.agent.Wake()
		b.settle()
	}
	if r.Status.CompletionTime == nil || b.checker.count("check a") != checks {
		t.Errorf("checked again: %v", b.checker.calls)
	}
	// It does not delay a later one.
	b.requestCheck("later", "a")
	b.until("later", v1alpha1.RecoveryNotApplicable)
	b.wantPhase("later", v1alpha1.RecoveryNotApplicable, "no errors were found in the file system")
}

func TestTheCheckWaitsForPods(t *testing.T) {
	b := brokenVolumes(t)
	b.checker.mounted["b"] = []string{"/var/lib/kubelet/pods/1/mount"}
	b.requestCheck("check", "a", "b")
	b.until("check", v1alpha1.RecoveryPreparing)
	b.wantPhase("check", v1alpha1.RecoveryPreparing, "volume b: delete the Pods that use the claim")
	b.checker.set(func() { delete(b.checker.mounted, "b") })
	opened := &openedLVM{Fake: b.lvm, reports: map[string]int{"a": 1000}}
	b.agent.LVM = opened
	b.agent.checks.LVM = opened
	b.agent.Wake()
	b.settle()
	b.wantPhase("check", v1alpha1.RecoveryPreparing, "volume a: delete the Pods that use the claim")
	b.checker.set(func() { b.checker.mountsErr = errors.New("permission denied") })
	b.agent.Wake()
	b.settle()
	b.wantPhase("check", v1alpha1.RecoveryPreparing, "permission denied")
	if len(b.checker.calls) != 0 {
		t.Errorf("got %v", b.checker.calls)
	}
	b.checker.set(func() { b.checker.mountsErr = nil })
	opened.set("a", 3) // udev has it open for a moment
	first := b.until("check", v1alpha1.RecoveryAwaitingApproval).Status.Plan
	// A Pod starts before the approval: what was found is no longer valid.
	b.checker.set(func() { b.checker.mounted["a"] = []string{"/pods/1"} })
	b.until("check", v1alpha1.RecoveryPreparing)
	b.checker.set(func() { delete(b.checker.mounted, "a") })
	b.until("check", v1alpha1.RecoveryAwaitingApproval)
	if b.checker.count("check a") != 2 {
		t.Errorf("got %v", b.checker.calls)
	}
	if first.ID == "" {
		t.Error("the plan has no ID")
	}
}

// openedLVM is LVM on a node where something has volumes open, each for some reports.
type openedLVM struct {
	*lvmtest.Fake
	mu      sync.Mutex
	reports map[string]int
}

func (o *openedLVM) set(name string, reports int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reports[name] = reports
}

func (o *openedLVM) Report(ctx context.Context) (*lvm.Report, error) {
	report, err := o.Fake.Report(ctx)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, left := range o.reports {
		if lv := report.VG("vg1").LV(name); left > 0 {
			lv.Attr = lv.Attr[:5] + "o" + lv.Attr[6:]
			o.reports[name]--
		}
	}
	return report, nil
}

func (o *openedLVM) Recent(ctx context.Context, _ time.Duration) (*lvm.Report, error) {
	return o.Report(ctx)
}

func TestTheNextAgentKeepsThePlan(t *testing.T) {
	b := brokenVolumes(t)
	b.requestCheck("check", "a", "b", "c")
	id := b.until("check", v1alpha1.RecoveryAwaitingApproval).Status.Plan.ID
	b.restart()
	for range 3 {
		b.agent.Wake()
		b.settle()
	}
	r := b.wantPhase("check", v1alpha1.RecoveryAwaitingApproval, id)
	if r.Status.Plan.ID != id || b.checker.count("check a") != 1 {
		t.Errorf("got %+v, %v", r.Status.Plan, b.checker.calls)
	}
}

func TestARepairGoesOnAfterAFailure(t *testing.T) {
	b := brokenVolumes(t)
	b.approveCheck()
	b.checker.set(func() { b.checker.failed["a"] = fmt.Errorf("%w: it is mounted at /pods/1", fsck.ErrInUse) })
	b.until("check", v1alpha1.RecoverySucceeded)
	b.wantPhase("check", v1alpha1.RecoverySucceeded, "not repaired: 1: volume a (claim shop/a): the volume is in use: it "+
		"is mounted at /pods/1")
	b.wantPhase("check", v1alpha1.RecoverySucceeded, "repaired on node "+nodeName+": 1: volume b")
}

// TestAReplayOfAKilledAgentIsEnded before the volume counts as one that is in use.
func TestAReplayOfAKilledAgentIsEnded(t *testing.T) {
	b := brokenVolumes(t)
	now := time.Now()
	b.agent.now = func() time.Time { return now }
	b.approveCheck()
	b.checker.set(func() {
		b.checker.replayed, b.checker.replayErr = "a", errors.New("umount: target is busy")
		b.checker.failed["a"] = fmt.Errorf("%w: it is mounted at /tmp/lvms-replay", fsck.ErrInUse)
	})
	b.until("check", v1alpha1.RecoveryRunning)
	b.waitForChecks()
	b.agent.Wake()
	_, err := b.reconcile()
	b.ok(err)
	b.wantPhase("check", v1alpha1.RecoveryRunning, "target is busy")
	b.checker.set(func() { b.checker.replayErr = nil })
	now = now.Add(2 * fsjobs.MinRetry)
	b.until("check", v1alpha1.RecoverySucceeded)
	b.wantPhase("check", v1alpha1.RecoverySucceeded, "repaired on node "+nodeName+": 2")
}

func TestARepairOfAVolumeThatWasDeleted(t *testing.T) {
	b := brokenVolumes(t)
	b.approveCheck()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"a"}}))
	b.until("check", v1alpha1.RecoverySucceeded)
	b.wantPhase("check", v1alpha1.RecoverySucceeded, "is not active or no longer exists")
}

func TestALockedVolumeIsRepairedLater(t *testing.T) {
	b := brokenVolumes(t)
	now := time.Now()
	b.agent.now = func() time.Time { return now }
	b.approveCheck()
	b.checker.set(func() { b.checker.failed["a"] = fmt.Errorf("staging: %w", fsck.ErrLocked) })
	b.until("check", v1alpha1.RecoveryRunning)
	b.waitForChecks()
	b.agent.Wake()
	_, err := b.reconcile()
	b.ok(err)
	r := b.wantPhase("check", v1alpha1.RecoveryRunning, "tries again: staging")
	if f := r.Status.Plan.CheckedVolumes[1].Finding; f != "no errors after the repair, files and directories moved to "+
		"lost+found: 2" {
		t.Errorf("b has the finding %q", f)
	}
	b.checker.set(func() { delete(b.checker.failed, "a") })
	now = now.Add(2 * fsjobs.MinRetry)
	b.until("check", v1alpha1.RecoverySucceeded)
	if b.checker.count("repair b") != 1 || b.checker.count("repair a") != 2 {
		t.Errorf("got %v", b.checker.calls)
	}
}

func TestACheckThatFailsIsRepeatedLater(t *testing.T) {
	for name, test := range map[string]struct {
		fail, heal func(*bench)
		says       string
	}{
		"the program": {func(b *bench) { b.checker.failed["b"] = errors.New("e2fsck canceled") },
			func(b *bench) { delete(b.checker.failed, "b") }, "volume b: e2fsck canceled"},
		"the device": {func(b *bench) { b.checker.kinds["b"] = errors.New("read at 0: input/output error") },
			func(b *bench) { delete(b.checker.kinds, "b") }, "input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			b := brokenVolumes(t)
			now := time.Now()
			b.agent.now = func() time.Time { return now }
			b.checker.set(func() { test.fail(b) })
			b.requestCheck("check", "a", "b")
			b.until("check", v1alpha1.RecoveryPreparing)
			b.waitForChecks()
			calls := len(b.checker.calls)
			for range 3 {
				b.agent.Wake()
				_, err := b.reconcile()
				b.ok(err)
			}
			b.wantPhase("check", v1alpha1.RecoveryPreparing, test.says)
			if len(b.checker.calls) != calls {
				t.Errorf("repeated at once: %v", b.checker.calls)
			}
			b.checker.set(func() { test.heal(b) })
			now = now.Add(2 * fsjobs.MinRetry)
			b.until("check", v1alpha1.RecoveryAwaitingApproval)
		})
	}
}

// TestLVMCannotBeReadDuringARepair: a failed read is neither "unused" nor "deleted".
func TestLVMCannotBeReadDuringARepair(t *testing.T) {
	b := brokenVolumes(t)
	now := time.Now()
	b.agent.now = func() time.Time { return now }
	b.approveCheck()
	b.checker.hold = make(chan struct{})
	b.until("check", v1alpha1.RecoveryRunning)
	b.wait("the repair of a", func() bool { return b.checker.count("repair a") == 1 })
	b.lvm.Fail("Report", errors.New("lvs: timeout"))
	close(b.checker.hold)
	b.waitForChecks()
	b.lvm.Fail("Report", nil)
	b.agent.Wake()
	_, err := b.reconcile()
	b.ok(err)
	b.wantPhase("check", v1alpha1.RecoveryRunning, "lvs: timeout")
	if b.checker.count("repair b") != 0 {
		t.Errorf("got %v", b.checker.calls)
	}
	now = now.Add(2 * fsjobs.MinRetry)
	b.until("check", v1alpha1.RecoverySucceeded)
	if b.checker.count("repair a") != 1 || b.checker.count("repair b") != 1 {
		t.Errorf("got %v", b.checker.calls)
	}
}

func TestVolumesWithoutAFileSystemAreNotChecked(t *testing.T) {
	b := brokenVolumes(t)
	b.checker.kinds["b"] = fmt.Errorf("/dev/vg1/b contains btrfs: %w", fsck.ErrUnsupported)
	b.requestCheck("check", "a", "b")
	b.until("check", v1alpha1.RecoveryNotApplicable)
	b.wantPhase("check", v1alpha1.RecoveryNotApplicable, "vg1/b on node "+nodeName+": /dev/vg1/b contains btrfs")
	if len(b.checker.calls) != 0 {
		t.Errorf("got %v", b.checker.calls)
	}
}

func TestADeviceWithReadErrorsIsNotRepaired(t *testing.T) {
	b := brokenVolumes(t)
	b.checker.failed["b"] = fmt.Errorf("e2fsck -f -n /dev/vg1/b: %w", fsck.ErrUnreadable)
	b.requestCheck("check", "a", "b")
	b.until("check", v1alpha1.RecoveryNotApplicable)
	b.wantPhase("check", v1alpha1.RecoveryNotApplicable, "lvms rescue")
}

// TestACheckEndsWithItsRecovery, and a repair after the current volume.
func TestACheckEndsWithItsRecovery(t *testing.T) {
	b := brokenVolumes(t)
	b.checker.hold = make(chan struct{})
	b.requestCheck("first", "a", "b")
	b.until("first", v1alpha1.RecoveryPreparing)
	b.wait("the check of a", func() bool { return b.checker.count("check a") == 1 })
	b.ok(b.client.Delete(t.Context(), b.recovery("first")))
	b.agent.Wake()
	_, err := b.reconcile()
	b.ok(err)
	b.waitForChecks()
	b.checker.set(func() { b.checker.hold = nil })
	b.approveCheck()
	b.checker.set(func() { b.checker.hold = make(chan struct{}) })
	b.until("check", v1alpha1.RecoveryRunning)
	b.wait("the repair of a", func() bool { return b.checker.count("repair a") == 1 })
	b.ok(b.client.Delete(t.Context(), b.recovery("check")))
	b.agent.Wake()
	_, err = b.reconcile()
	b.ok(err)
	b.requestCheck("other", "c")
	b.until("other", v1alpha1.RecoveryPreparing)
	b.wantPhase("other", v1alpha1.RecoveryPreparing, "waiting: file systems of device class vg1")
	close(b.checker.hold)
	b.waitForChecks()
	if b.checker.count("repair b") != 0 || slices.Contains(b.checker.broken, "a") {
		t.Errorf("got %v, broken %v", b.checker.calls, b.checker.broken)
	}
}

// TestACheckWaitsForAnotherDeviceClass: a node checks one file system at a time.
func TestACheckWaitsForAnotherDeviceClass(t *testing.T) {
	b := brokenVolumes(t)
	end := make(chan struct{})
	b.agent.checks.Runs.Start(t.Context(), "vg2", &fsjobs.Run[state.FileSystemRun]{}, time.Now, func() {}, func(context.Context) error {
		<-end
		return nil
	})
	b.requestCheck("check", "a")
	b.until("check", v1alpha1.RecoveryPreparing)
	b.wantPhase("check", v1alpha1.RecoveryPreparing, "device class vg2")
	if len(b.checker.calls) != 0 {
		t.Errorf("got %v", b.checker.calls)
	}
	close(end)
	b.wait("the end of the other run", func() bool { return !b.agent.checks.Runs.IsRunning("vg2") })
	b.until("check", v1alpha1.RecoveryAwaitingApproval)
}

func (b *bench) waitForChecks() {
	b.Helper()
	b.wait("the end of the check", func() bool { return !b.agent.checks.Runs.IsRunning("vg1") })
}
