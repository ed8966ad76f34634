package volumegroup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

func (b *bench) requestImport(name string, volumes ...string) {
	b.Helper()
	b.requestRecovery(name, nodeName, "vg1", time.Hour)
	r := b.recovery(name)
	r.Spec.Action, r.Spec.Volumes = v1alpha1.RecoveryImportVolumes, volumes
	b.ok(b.client.Update(b.Context(), r))
	b.agent.Wake()
	b.settle()
}

// reportObjects writes the condition that the operator writes.
func (b *bench) reportObjects(name string, status metav1.ConditionStatus, message string) {
	b.Helper()
	r := b.recovery(name)
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionObjectsCreated,
		Status: status, Reason: "Test", Message: message, ObservedGeneration: r.Generation})
	b.ok(b.client.Status().Update(b.Context(), r))
	b.agent.Wake()
	b.settle()
}

func persistentVolume(name, handle, node, claim string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: handle}}}}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: wellknown.TopologyNodeKey, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
	return pv
}

func TestVolumesAreImportedWithApproval(t *testing.T) {
	b := orphaned(t, thinOf(50))
	b.ok(b.client.Create(t.Context(), &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-b"},
		Spec:   topolvmv1.LogicalVolumeSpec{Name: "pvc-b", NodeName: "other", DeviceClass: "vg1"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: "b"}}))
	b.ok(b.client.Create(t.Context(), persistentVolume("pvc-b", "b", "other", "b")))
	b.requestImport("import")
	r := b.wantPhase("import", v1alpha1.RecoveryAwaitingApproval,
		"PersistentVolume and a PersistentVolumeClaim: 1, volumes whose objects are moved to this node: 1")
	p := r.Status.Plan
	if !recoveryplan.IsGenuine(r) {
		b.Errorf("the operator would refuse the plan %+v", p)
	}
	if len(p.ImportedVolumes) != 2 {
		t.Fatalf("got the plan %+v", p)
	}
	expect.Equal(t, "ImportedVolumes[0].Claim", p.ImportedVolumes[0].Claim, "shop/a")
	expect.Equal(t, "ImportedVolumes[0].FromNode", p.ImportedVolumes[0].FromNode, "")
	expect.Equal(t, "ImportedVolumes[1].FromNode", p.ImportedVolumes[1].FromNode, "other")
	expect.Equal(t, "ImportedVolumes[1].PersistentVolume", p.ImportedVolumes[1].PersistentVolume, "pvc-b")
	b.approvePlan("import")
	b.settle()
	b.wantPhase("import", v1alpha1.RecoveryRunning, "the operator creates the objects")
	b.reportObjects("import", metav1.ConditionFalse, "create namespace shop")
	r = b.wantPhase("import", v1alpha1.RecoveryRunning, "create namespace shop")
	if len(r.Status.Conditions) != 2 {
		t.Fatalf("got the conditions %+v", r.Status.Conditions)
	}
	// The operator says that it is done, but the API server does not have the objects.
	b.reportObjects("import", metav1.ConditionTrue, "2 of 2")
	b.wantPhase("import", v1alpha1.RecoveryRunning, "does not have its objects yet")
	b.logicalVolume("a")
	lv := &topolvmv1.LogicalVolume{}
	b.ok(b.client.Get(t.Context(), client.ObjectKey{Name: "pvc-b"}, lv))
	lv.Spec.NodeName = nodeName
	b.ok(b.client.Update(t.Context(), lv))
	b.ok(b.client.Delete(t.Context(), persistentVolume("pvc-b", "b", "other", "b")))
	b.ok(b.client.Create(t.Context(), persistentVolume("pvc-b", "b", nodeName, "b")))
	b.restart()
	b.agent.Wake()
	b.settle()
	b.wantPhase("import", v1alpha1.RecoverySucceeded, "volumes imported from volume group vg1")
	b.wantVolumes("a", "b", "kept")
	b.requestImport("again")
	b.wantPhase("again", v1alpha1.RecoveryNotApplicable, "all logical volumes have their objects")
}

// TestAnImportIsNotPlannedIfObjectsAreNotKnown: the volumes could belong to any object.
func TestAnImportIsNotPlannedIfObjectsAreNotKnown(t *testing.T) {
	b := orphaned(t, thinOf(50))
	b.agent.objects.Live = interceptor.NewClient(b.watching(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, is := list.(*corev1.PersistentVolumeList); is {
				return errors.New("etcd has no leader")
			}
			return c.List(ctx, list, o...)
		}})
	b.requestImport("import")
	b.wantPhase("import", v1alpha1.RecoveryNotApplicable, "etcd has no leader")
}

// TestAnApprovedImportOfAnotherGroupIsPlannedAgain: between approval and import, another group took the place.
func TestAnApprovedImportOfAnotherGroupIsPlannedAgain(t *testing.T) {
	b := orphaned(t, thinOf(50))
	b.requestImport("import", "a")
	b.approvePlan("import")
	r := b.recovery("import")
	r.Status.Plan.VolumeGroupUUID, r.Status.Plan.ID = "another", "old"
	b.ok(b.client.Status().Update(t.Context(), r))
	r.Spec.ApprovedPlan = "old"
	b.ok(b.client.Update(t.Context(), r))
	b.agent.Wake()
	b.settle()
	r = b.wantPhase("import", v1alpha1.RecoveryAwaitingApproval, "is not the current one")
	if strings.Contains(r.Status.Message, "in progress") || r.Status.Plan.VolumeGroupUUID == "another" {
		t.Errorf("got the status %+v", r.Status)
	}
}

// TestAnImportSaysWhenVolumesWereMounted: only of ext4 file systems that can be read.
func TestAnImportSaysWhenVolumesWereMounted(t *testing.T) {
	b := orphaned(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	last := time.Date(2026, 3, 2, 8, 15, 30, 0, time.UTC)
	b.devices.mounts = map[string]time.Time{}
	for name, signature := range map[string]string{"a": "ext4", "b": "xfs"} {
		lv := report.VG("vg1").LV(name)
		path := "/dev/vg1/" + name
		b.devices.mounts[path] = last
		b.devices.list = append(b.devices.list, device.Device{Name: path, KernelName: path, Type: "lvm",
			Number: device.NewNumber(lv.Major, lv.Minor), Size: 1 << 20, Signature: signature, AppearedKnown: true,
			Appeared: time.Hour})
	}
	b.requestImport("import")
	volumes := b.wantPhase("import", v1alpha1.RecoveryAwaitingApproval, "").Status.Plan.ImportedVolumes
	if len(volumes) != 2 {
		t.Fatalf("got the volumes %+v", volumes)
	}
	if volumes[0].LastMountTime == nil {
		t.Fatalf("got the volumes %+v", volumes)
	}
	expect.Equal(t, "volumes[0].LastMountTime.Time.Equal(last)", volumes[0].LastMountTime.Time.Equal(last), true)
	expect.Equal(t, "volumes[0].FSType", volumes[0].FSType, "ext4")
	if volumes[1].LastMountTime != nil {
		t.Errorf("got the volumes %+v", volumes)
	}
	b.devices.mountErr = errors.New("input/output error")
	b.ok(b.client.Delete(t.Context(), b.recovery("import")))
	b.requestImport("again")
	volumes = b.wantPhase("again", v1alpha1.RecoveryAwaitingApproval, "").Status.Plan.ImportedVolumes
	if len(volumes) != 2 || volumes[0].LastMountTime != nil {
		t.Errorf("got the volumes %+v", volumes)
	}
}
