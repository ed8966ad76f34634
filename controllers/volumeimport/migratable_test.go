package volumeimport

import (
	"slices"
	"strings"
	"testing"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// migratable returns a PersistentVolume of the earlier driver on a node that can be migrated, with its objects.
func migratable(name, node string) migrationFacts {
	affinity := relocate.Affinity(node)
	affinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = v1alpha1.EarlierTopologyNodeKey
	return migrationFacts{
		pv: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}, NodeAffinity: affinity,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: v1alpha1.EarlierDriverName, VolumeHandle: "id-" + name, FSType: "xfs"}}}},
		claim: &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}},
		old: &earlierv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:   earlierv1.LogicalVolumeSpec{NodeName: node},
			Status: earlierv1.LogicalVolumeStatus{VolumeID: "id-" + name}},
		drivers: []string{"other", v1alpha1.DriverName},
	}
}

func TestWhyAVolumeIsNotMigrated(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*migrationFacts)
		want string // empty: it is migrated
	}{
		"migratable": {edit: func(*migrationFacts) {}},
		"block":      {edit: func(f *migrationFacts) { f.pv.Spec.CSI.FSType = "" }},
		"a deletion of the earlier object has begun": {edit: func(f *migrationFacts) {
			f.old.DeletionTimestamp = ptr.To(metav1.Now())
		}},
		"being deleted": {func(f *migrationFacts) { f.pv.DeletionTimestamp = ptr.To(metav1.Now()) },
			"PersistentVolume pv is being deleted"},
		"no claim": {func(f *migrationFacts) { f.claim = nil }, "no claim is bound to PersistentVolume pv"},
		"claim of another volume": {func(f *migrationFacts) { f.claim.Spec.VolumeName = "x" },
			"no claim is bound to PersistentVolume pv"},
		"claim being deleted": {func(f *migrationFacts) { f.claim.DeletionTimestamp = ptr.To(metav1.Now()) },
			"claim shop/data is being deleted"},
		"no affinity": {func(f *migrationFacts) { f.pv.Spec.NodeAffinity = nil },
			"no node affinity with the key topology.topolvm.cybozu.com/node"},
		"btrfs": {func(f *migrationFacts) { f.pv.Spec.CSI.FSType = "btrfs" },
			"claim shop/data has a btrfs file system, which is not supported: copy its data"},
		"no object": {func(f *migrationFacts) { f.old = nil },
			"LogicalVolume pv of the API group topolvm.cybozu.com does not exist"},
		"object of another volume": {func(f *migrationFacts) { f.old.Status.VolumeID = "x" },
			`is for another volume ("x") than the PersistentVolume of the same name ("id-pv")`},
		"object without a volume": {func(f *migrationFacts) { f.old.Status.VolumeID = "" }, `another volume ("")`},
		"object on another node": {func(f *migrationFacts) { f.old.Spec.NodeName = "worker-2" },
			"is on node worker-2, but the PersistentVolume of the same name on node worker-1"},
		"in use": {func(f *migrationFacts) {
			f.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
		}, "Pod shop/db uses claim shop/data: delete the Pod"},
		"TopoLVM runs": {func(f *migrationFacts) { f.drivers = append(f.drivers, v1alpha1.EarlierDriverName) },
			"the kubelet of node worker-1 has the driver topolvm.cybozu.com, so its node service still runs: stop"},
		"not set up": {func(f *migrationFacts) { f.drivers = nil },
			"the kubelet of node worker-1 does not have the driver topolvm.io: add a device class"},
	} {
		t.Run(name, func(t *testing.T) {
			f := migratable("pv", "worker-1")
			test.edit(&f)
			got := migrationProblem(f)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestThePersistentVolumeForThisDriver(t *testing.T) {
	old := migratable("pv", "worker-1").pv
	old.UID, old.Finalizers = "1", []string{relocate.ProtectionFinalizer, "external-provisioner.volume.kubernetes.io/finalizer"}
	old.Annotations = map[string]string{"kept": "yes", v1alpha1.MigrateAnnotation: "true",
		v1alpha1.MigrationAnnotation:      "x",
		"pv.kubernetes.io/provisioned-by": v1alpha1.EarlierDriverName}
	old.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	before := old.DeepCopy()
	pv := forThisDriver(old, "worker-1")
	expect.Equal(t, "Name", pv.Name, "pv")
	expect.Equal(t, "UID", pv.UID, "")
	expect.Equal(t, "Spec.CSI.Driver", pv.Spec.CSI.Driver, v1alpha1.DriverName)
	expect.Equal(t, "Spec.CSI.VolumeHandle", pv.Spec.CSI.VolumeHandle, "id-pv")
	expect.Equal(t, `isOn(pv, "worker-1")`, isOn(pv, "worker-1"), true)
	expect.Equal(t, "NodeOfEarlierVolume(pv)", v1alpha1.NodeOfEarlierVolume(pv), "")
	expect.Equal(t, "Contains(pv.Finalizers, relocate.ProtectionFinalizer)",
		slices.Contains(pv.Finalizers, relocate.ProtectionFinalizer), false)
	expect.Equal(t, "Spec.PersistentVolumeReclaimPolicy", pv.Spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete)
	for key, want := range map[string]string{"kept": "yes", "pv.kubernetes.io/provisioned-by": v1alpha1.DriverName,
		v1alpha1.MigratedFromAnnotation: v1alpha1.EarlierDriverName, v1alpha1.MigrateAnnotation: "",
		v1alpha1.MigrationAnnotation: ""} {
		if pv.Annotations[key] != want {
			t.Errorf("got %s=%q, want %q", key, pv.Annotations[key], want)
		}
	}
	if old.Spec.CSI.Driver != before.Spec.CSI.Driver || len(old.Annotations) != len(before.Annotations) {
		t.Errorf("the argument was changed: %+v", old)
	}
}
