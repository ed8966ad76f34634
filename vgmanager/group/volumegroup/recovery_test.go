package volumegroup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func (b *bench) requestRecovery(name, node, class string, age time.Duration) {
	b.Helper()
	b.ok(b.client.Create(b.Context(), &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
			CreationTimestamp: metav1.NewTime(time.Now().Add(-age).Truncate(time.Second))},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: node, DeviceClassName: class,
			Action: v1alpha1.RecoveryRemoveLostDevices},
	}))
}

func (b *bench) recovery(name string) *v1alpha1.LVMRecovery {
	b.Helper()
	r := &v1alpha1.LVMRecovery{}
	b.ok(b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: name}, r))
	return r
}

func (b *bench) wantPhase(name string, phase v1alpha1.RecoveryPhase, says string) *v1alpha1.LVMRecovery {
	b.Helper()
	r := b.recovery(name)
	if r.Status.Phase != phase || !strings.Contains(r.Status.Message, says) {
		b.Fatalf("LVMRecovery %s is %s: %s, want %s: %s", name, r.Status.Phase, r.Status.Message, phase, says)
	}
	return r
}

// logicalVolume creates the object of a volume in the API.
func (b *bench) logicalVolume(name string) {
	b.Helper()
	b.ok(b.client.Create(b.Context(), &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + name},
		Spec:   topolvmv1.LogicalVolumeSpec{Name: "pvc-" + name, NodeName: nodeName, DeviceClass: "vg1"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: name}}))
}

// losesADisk makes a thick class with a volume on each of its two disks, and detaches the second disk.
func (b *bench) losesADisk() {
	b.Helper()
	b.settle()
	for name, disk := range map[string]string{"kept": "/dev/sdb", "gone": "/dev/sdc"} {
		b.ok(b.lvm.Apply(b.Context(), lvm.LVCreateThick{VG: "vg1", Name: name, Size: 8 << 20, Devices: []string{disk}}))
		b.logicalVolume(name)
		b.ok(b.client.Create(b.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + name},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: name},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: name}}}}))
	}
	b.lvm.Detach("/dev/sdc")
	b.devices.list = b.devices.list[:1]
	b.agent.Wake()
}

func TestRecoveryRemovesWhatIsLostAndNothingElse(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.losesADisk()
	b.requestRecovery("first", nodeName, "vg1", time.Hour)
	b.requestRecovery("second", nodeName, "vg1", time.Minute)
	b.requestRecovery("elsewhere", "node2", "vg1", time.Hour)
	b.settle()
	r := b.wantPhase("first", v1alpha1.RecoveryAwaitingApproval, "volumes lost: 1, volumes kept: 1")
	b.wantPhase("second", v1alpha1.RecoveryNotApplicable, "waiting for LVMRecovery first")
	b.wantPhase("elsewhere", "", "")
	if lost := r.Status.Plan.LostVolumes; len(lost) != 1 || lost[0].Name != "gone" || lost[0].Claim != "shop/gone" {
		t.Errorf("got the lost volumes %+v", lost)
	}
	if calls := b.lvm.Calls(); calls["LVRemoveUnreadable"]+calls["VGReduceMissing"] > 0 {
		t.Errorf("changes without an approval: %v", calls)
	}
	writes := b.writes
	b.settle()
	if b.writes != writes {
		t.Errorf("%d writes without a change", b.writes-writes)
	}
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(t.Context(), r))
	b.settle()
	b.wantPhase("first", v1alpha1.RecoverySucceeded, "volumes lost: 1")
	b.settle()
	b.wantPhase("second", v1alpha1.RecoveryNotApplicable, "no device is missing")
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	if vg := report.VG("vg1"); len(vg.LVs) != 1 || vg.LVs[0].Name != "kept" || len(vg.PVs) != 1 {
		t.Errorf("got %+v", vg)
	}
	if got := strings.Join(b.drain(), " "); !strings.Contains(got, "RecoveryAwaitsApproval") ||
		!strings.Contains(got, "RecoverySucceeded") {
		t.Errorf("got the events %s", got)
	}
}

func TestRecoveryWithoutClaimsHasNoPlan(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.losesADisk()
	b.requestRecovery("first", nodeName, "vg1", time.Hour)
	b.agent.objects.Live = interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no answer")
		}})
	if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
	if entry := b.entry(); entry.Status != v1alpha1.VGStatusDegraded {
		t.Errorf("the status of the volume group was not written: %+v", entry)
	}
	if r := b.recovery("first"); r.Status.Plan != nil {
		t.Errorf("got the plan %+v", r.Status.Plan)
	}
}

func TestRecoveryOfAnUnknownDeviceClass(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.settle()
	b.requestRecovery("typo", nodeName, "vg2", time.Hour)
	requests := b.agent.recoveries.concerned(t.Context(), b.recovery("typo"))
	if len(requests) != 1 {
		t.Fatalf("got %v", requests)
	}
	_, err := b.agent.Reconcile(t.Context(), requests[0])
	b.ok(err)
	b.wantPhase("typo", v1alpha1.RecoveryNotApplicable, "device class vg2 does not exist")
	b.requestRecovery("elsewhere", "node2", "vg1", time.Hour)
	if requests := b.agent.recoveries.concerned(t.Context(), b.recovery("elsewhere")); len(requests) != 0 {
		t.Errorf("got %v", requests)
	}
}

// TestAnApprovalFromABackupOfEtcdIsGivenAgain restores an LVMRecovery that was approved and not complete at the time of
// the backup. It has ended since, or was deleted.
func TestAnApprovalFromABackupOfEtcdIsGivenAgain(t *testing.T) {
	for name, ends := range map[string]func(*bench, *v1alpha1.LVMRecovery){
		"it had succeeded": func(b *bench, r *v1alpha1.LVMRecovery) {
			b.ok(b.client.Update(b.Context(), r))
			b.until("repair", v1alpha1.RecoverySucceeded)
			b.ok(b.lvm.Apply(b.Context(), lvm.LVDeactivate{VG: "vg1", Names: []string{"a", "pool"}}))
			b.lvm.DamagePool("vg1", "pool", "a")
		},
		"it was deleted": func(b *bench, r *v1alpha1.LVMRecovery) {
			b.ok(b.client.Delete(b.Context(), r))
			b.agent.Wake()
			_, _ = b.reconcile()
		},
		"the node was installed again": func(b *bench, _ *v1alpha1.LVMRecovery) {
			b.ok(b.agent.recoveries.plans.forget("vg1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := damagedPool(t, "b")
			b.ok(b.client.Create(b.Context(), &v1alpha1.LVMRecovery{
				ObjectMeta: metav1.ObjectMeta{Name: "repair", Namespace: namespace, UID: "uid-repair"},
				Spec: v1alpha1.LVMRecoverySpec{NodeName: nodeName, DeviceClassName: "vg1",
					Action: v1alpha1.RecoveryRepairThinPool}}))
			r := b.until("repair", v1alpha1.RecoveryAwaitingApproval)
			r.Spec.ApprovedPlan = r.Status.Plan.ID
			backup := r.DeepCopy()
			backup.ResourceVersion = ""
			ends(b, r)

			repairs := b.lvm.Calls()["ThinPoolRepair"]
			_ = b.client.Delete(b.Context(), r)
			b.ok(b.client.Create(b.Context(), backup))
			b.restart()
			b.agent.now = func() time.Time { return time.Now().Add(time.Hour) }
			var current *v1alpha1.LVMRecovery
			for range 20 {
				b.agent.Wake()
				_, _ = b.reconcile()
				current = b.recovery("repair")
			}
			if s := current.Status; s.Phase != v1alpha1.RecoveryAwaitingApproval ||
				s.Plan.ID == backup.Status.Plan.ID || !strings.Contains(s.Message, "is not the current one") {
				t.Fatalf("got %+v", s)
			}
			if again := b.lvm.Calls()["ThinPoolRepair"] - repairs; again != 0 {
				t.Errorf("the pool was repaired %d times", again)
			}
			current.Spec.ApprovedPlan = current.Status.Plan.ID
			b.ok(b.client.Update(b.Context(), current))
			b.until("repair", v1alpha1.RecoverySucceeded)
		})
	}
}
