package volumegroup

import (
	"errors"
	"strings"
	"testing"
	"time"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// orphaned makes a class with the volumes a, b and kept. Only kept has an object.
func orphaned(t *testing.T, spec v1alpha1.LVMVolumeGroupSpec) *bench {
	t.Helper()
	b := newBench(t, spec)
	b.settle()
	for _, name := range []string{"a", "b", "kept"} {
		tags := []string{wellknown.VolumeClaimTagPrefix + "shop/" + name}
		if pool := spec.ThinPoolConfig; pool != nil {
			b.ok(b.lvm.Apply(t.Context(),
				lvm.LVCreateThin{VG: "vg1", Pool: pool.Name, Name: name, VirtualSize: 1 << 20, Tags: tags}))
		} else {
			b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: name, Size: 1 << 20, Tags: tags}))
		}
	}
	b.logicalVolume("kept")
	b.agent.Wake()
	b.settle()
	return b
}

func (b *bench) requestDeletion(name string, age time.Duration, volumes ...string) {
	b.Helper()
	b.requestRecovery(name, nodeName, "vg1", age)
	r := b.recovery(name)
	r.Spec.Action, r.Spec.Volumes = v1alpha1.RecoveryDeleteOrphans, volumes
	b.ok(b.client.Update(b.Context(), r))
	b.agent.Wake()
	b.settle()
}

func (b *bench) approvePlan(name string) {
	b.Helper()
	r := b.wantPhase(name, v1alpha1.RecoveryAwaitingApproval, "to approve this")
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(b.Context(), r))
	b.agent.Wake()
}

func (b *bench) wantVolumes(names ...string) {
	b.Helper()
	report, err := b.lvm.Report(b.Context())
	b.ok(err)
	var got []string
	for _, lv := range report.VG("vg1").LVs {
		if !lv.Attr.IsThinPool() {
			got = append(got, lv.Name)
		}
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		b.Errorf("the volumes are %v, want %v", got, names)
	}
}

func TestOrphansAreDeletedByNameWithApproval(t *testing.T) {
	for name, spec := range map[string]v1alpha1.LVMVolumeGroupSpec{"thick": {Default: true}, "thin": thinOf(50)} {
		t.Run(name, func(t *testing.T) {
			b := orphaned(t, spec)
			b.requestDeletion("orphans", time.Hour, "b", "a")
			r := b.wantPhase("orphans", v1alpha1.RecoveryAwaitingApproval,
				"logical volumes that are deleted with their data: 2, volumes kept: 1")
			p := r.Status.Plan
			expect.Equal(t, "LostVolumeCount", p.LostVolumeCount, 2)
			expect.Equal(t, "LostVolumes[0].Name", p.LostVolumes[0].Name, "a")
			expect.Equal(t, "LostVolumes[0].Claim", p.LostVolumes[0].Claim, "shop/a")
			if p.LostVolumes[0].Size != 4<<20 && p.LostVolumes[0].Size != 1<<20 {
				t.Fatalf("got the plan %+v", p)
			}
			r.Spec.ApprovedPlan = "wrong"
			b.ok(b.client.Update(t.Context(), r))
			b.agent.Wake()
			b.settle()
			b.wantVolumes("a", "b", "kept")
			b.approvePlan("orphans")
			b.restart()
			b.settle()
			b.wantPhase("orphans", v1alpha1.RecoverySucceeded, "deleted from volume group vg1")
			b.wantVolumes("kept")
			if n := b.lvm.Calls()["LVRemoveByUUID"]; n != 1 {
				t.Errorf("removed with %d commands", n)
			}
			// The same again has nothing to delete.
			b.requestDeletion("again", time.Minute, "a")
			b.wantPhase("again", v1alpha1.RecoveryNotApplicable, "has no logical volume a")
		})
	}
}

func TestVolumesThatAreNotDeletedAsOrphans(t *testing.T) {
	for name, test := range map[string]struct {
		volumes []string
		do      func(*bench)
		text    string
	}{
		"an object of this node": {volumes: []string{"a", "kept"},
			text: "kept on node " + nodeName + " belongs to LogicalVolume pvc-kept"},
		"an object of another node": {volumes: []string{"a"}, do: func(b *bench) {
			b.ok(b.client.Create(b.Context(), &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"},
				Spec:   topolvmv1.LogicalVolumeSpec{Name: "elsewhere", NodeName: "other", DeviceClass: "vg1"},
				Status: topolvmv1.LogicalVolumeStatus{VolumeID: "a"}}))
		}, text: "belongs to LogicalVolume elsewhere of node other"},
		"an object without a status": {volumes: []string{"a"}, do: func(b *bench) {
			b.ok(b.client.Create(b.Context(), &topolvmv1.LogicalVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "new", UID: types.UID("a")},
				Spec:       topolvmv1.LogicalVolumeSpec{Name: "new", NodeName: nodeName, DeviceClass: "vg1"}}))
		}, text: "belongs to LogicalVolume new"},
		"a PersistentVolume": {volumes: []string{"a"}, do: func(b *bench) {
			b.ok(b.client.Create(b.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a"},
				Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "a"}}}}))
		}, text: "belongs to PersistentVolume pv-a"},
		"a PersistentVolume of the earlier driver": {volumes: []string{"a"}, do: func(b *bench) {
			b.ok(b.client.Create(b.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a"},
				Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.EarlierDriverName, VolumeHandle: "a"}}}}))
		}, text: "belongs to PersistentVolume pv-a of the driver topolvm.cybozu.com"},
		"a snapshot of the earlier driver": {volumes: []string{"a"}, do: func(b *bench) {
			b.ok(b.client.Create(b.Context(), &earlierv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "snapshot-a"},
				Spec:   earlierv1.LogicalVolumeSpec{Name: "snapshot-a", NodeName: nodeName, DeviceClass: "vg1"},
				Status: earlierv1.LogicalVolumeStatus{VolumeID: "a"}}))
		}, text: "belongs to LogicalVolume snapshot-a of the API group topolvm.cybozu.com"},
		"in use":      {volumes: []string{"a"}, do: func(b *bench) { b.lvm.Open("vg1", "a", true) }, text: "is in use"},
		"a thin pool": {volumes: []string{"pool"}, text: "is a thin pool, not a volume"},
		"a disk is away": {volumes: []string{"a"}, do: func(b *bench) { b.lvm.Detach("/dev/sdc") },
			text: "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := orphaned(t, thinOf(50))
			if test.do != nil {
				test.do(b)
			}
			b.requestDeletion("orphans", time.Hour, test.volumes...)
			b.wantPhase("orphans", v1alpha1.RecoveryNotApplicable, test.text)
			if n := b.lvm.Calls()["LVRemoveByUUID"]; n != 0 {
				t.Errorf("removed with %d commands", n)
			}
		})
	}
}

// TestAnOrphanThatGetsAnOwnerIsNotDeleted: the object is created after the approval.
func TestAnOrphanThatGetsAnOwnerIsNotDeleted(t *testing.T) {
	b := orphaned(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.requestDeletion("orphans", time.Hour, "a", "b")
	b.approvePlan("orphans")
	b.logicalVolume("b")
	b.settle()
	b.wantPhase("orphans", v1alpha1.RecoveryNotApplicable, "belongs to LogicalVolume pvc-b")
	b.wantVolumes("a", "b", "kept")
}

// TestAFailedDeletionOfOrphansIsRepeated: the command fails, and then the volume is in use.
func TestAFailedDeletionOfOrphansIsRepeated(t *testing.T) {
	b := orphaned(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.requestDeletion("orphans", time.Hour, "a")
	b.approvePlan("orphans")
	b.lvm.Fail("LVRemoveByUUID", errors.New("input/output error"))
	for range 3 {
		_, _ = b.reconcile()
	}
	b.wantPhase("orphans", v1alpha1.RecoveryRunning, "input/output error")
	b.lvm.Fail("LVRemoveByUUID", nil)
	b.lvm.Open("vg1", "a", true)
	b.agent.Wake()
	b.settle()
	b.wantPhase("orphans", v1alpha1.RecoveryRunning, "waiting: logical volume vg1/a")
	b.lvm.Open("vg1", "a", false)
	b.agent.Wake()
	b.settle()
	b.wantPhase("orphans", v1alpha1.RecoverySucceeded, "deleted")
	b.wantVolumes("b", "kept")
}
