package legacypv

import (
	"slices"
	"strings"
	"testing"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// migratable returns a PersistentVolume of the earlier driver on a node that can be migrated, with its objects.
func migratable(name, node string) Facts {
	affinity := relocate.Affinity(node)
	affinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = wellknown.EarlierTopologyNodeKey
	return Facts{
		PV: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}, NodeAffinity: affinity,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: wellknown.EarlierDriverName, VolumeHandle: "id-" + name, FSType: "xfs"}}}},
		Claim: &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}},
		Old: &earlierv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:   earlierv1.LogicalVolumeSpec{NodeName: node},
			Status: earlierv1.LogicalVolumeStatus{VolumeID: "id-" + name}},
		Drivers: []string{"other", wellknown.DriverName},
	}
}

func TestWhyAVolumeIsNotMigrated(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Facts)
		want string // empty: it is migrated
	}{
		"migratable": {edit: func(*Facts) {}},
		"block":      {edit: func(f *Facts) { f.PV.Spec.CSI.FSType = "" }},
		"a deletion of the earlier object has begun": {edit: func(f *Facts) {
			f.Old.DeletionTimestamp = ptr.To(metav1.Now())
		}},
		"being deleted": {func(f *Facts) { f.PV.DeletionTimestamp = ptr.To(metav1.Now()) },
			"PersistentVolume pv is being deleted"},
		"no claim": {func(f *Facts) { f.Claim = nil }, "no claim is bound to PersistentVolume pv"},
		"claim of another volume": {func(f *Facts) { f.Claim.Spec.VolumeName = "x" },
			"no claim is bound to PersistentVolume pv"},
		"claim being deleted": {func(f *Facts) { f.Claim.DeletionTimestamp = ptr.To(metav1.Now()) },
			"claim shop/data is being deleted"},
		"no affinity": {func(f *Facts) { f.PV.Spec.NodeAffinity = nil },
			"no node affinity with the key topology.topolvm.cybozu.com/node"},
		"btrfs": {func(f *Facts) { f.PV.Spec.CSI.FSType = "btrfs" },
			"claim shop/data has a btrfs file system, which is not supported: copy its data"},
		"no object": {func(f *Facts) { f.Old = nil },
			"LogicalVolume pv of the API group topolvm.cybozu.com does not exist"},
		"object of another volume": {func(f *Facts) { f.Old.Status.VolumeID = "x" },
			`is for another volume ("x") than the PersistentVolume of the same name ("id-pv")`},
		"object without a volume": {func(f *Facts) { f.Old.Status.VolumeID = "" }, `another volume ("")`},
		"object on another node": {func(f *Facts) { f.Old.Spec.NodeName = "worker-2" },
			"is on node worker-2, but the PersistentVolume of the same name on node worker-1"},
		"in use": {func(f *Facts) {
			f.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
		}, "Pod shop/db uses claim shop/data: delete the Pod"},
		"TopoLVM runs": {func(f *Facts) { f.Drivers = append(f.Drivers, wellknown.EarlierDriverName) },
			"the kubelet of node worker-1 has the driver topolvm.cybozu.com, so its node service still runs: stop"},
		"not set up": {func(f *Facts) { f.Drivers = nil },
			"the kubelet of node worker-1 does not have the driver topolvm.io: add a device class"},
	} {
		t.Run(name, func(t *testing.T) {
			f := migratable("pv", "worker-1")
			test.edit(&f)
			got := f.MigrationProblem()
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestThePersistentVolumeForThisDriver(t *testing.T) {
	old := migratable("pv", "worker-1").PV
	old.UID, old.Finalizers = "1", []string{relocate.ProtectionFinalizer, "external-provisioner.volume.kubernetes.io/finalizer"}
	old.Annotations = map[string]string{"kept": "yes", wellknown.MigrateAnnotation: "true",
		wellknown.MigrationAnnotation:     "x",
		"pv.kubernetes.io/provisioned-by": wellknown.EarlierDriverName}
	old.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	before := old.DeepCopy()
	pv := ForThisDriver(old, "worker-1")
	expect.Equal(t, "Name", pv.Name, "pv")
	expect.Equal(t, "UID", pv.UID, "")
	expect.Equal(t, "Spec.CSI.Driver", pv.Spec.CSI.Driver, wellknown.DriverName)
	expect.Equal(t, "Spec.CSI.VolumeHandle", pv.Spec.CSI.VolumeHandle, "id-pv")
	expect.Equal(t, "NodeOfVolume(pv)", view.NodeOfVolume(pv), "worker-1")
	expect.Equal(t, "NodeOfEarlierVolume(pv)", view.NodeOfEarlierVolume(pv), "")
	expect.Equal(t, "Contains(pv.Finalizers, relocate.ProtectionFinalizer)",
		slices.Contains(pv.Finalizers, relocate.ProtectionFinalizer), false)
	expect.Equal(t, "Spec.PersistentVolumeReclaimPolicy", pv.Spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete)
	for key, want := range map[string]string{"kept": "yes", "pv.kubernetes.io/provisioned-by": wellknown.DriverName,
		wellknown.MigratedFromAnnotation: wellknown.EarlierDriverName, wellknown.MigrateAnnotation: "",
		wellknown.MigrationAnnotation: ""} {
		if pv.Annotations[key] != want {
			t.Errorf("got %s=%q, want %q", key, pv.Annotations[key], want)
		}
	}
	if old.Spec.CSI.Driver != before.Spec.CSI.Driver || len(old.Annotations) != len(before.Annotations) {
		t.Errorf("the argument was changed: %+v", old)
	}
}

func TestWhyAVolumeIsNotServed(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Facts)
		want string // empty: it is served
	}{
		"served":      {edit: func(*Facts) {}},
		"no affinity": {func(f *Facts) { f.PV.Spec.NodeAffinity = nil }, "pv has no node affinity with the key"},
		"no earlier object": {func(f *Facts) { f.Old = nil },
			"LogicalVolume pv of the API group topolvm.cybozu.com does not exist"},
		"another volume": {func(f *Facts) { f.Old.Status.VolumeID = "x" }, `is for another volume ("x")`},
		"another node":   {func(f *Facts) { f.Old.Spec.NodeName = "worker-2" }, "is on node worker-2"},
		"earlier object being deleted": {func(f *Facts) { f.Old.DeletionTimestamp = ptr.To(metav1.Now()) },
			"is being deleted: migrate the volume"},
		"no driver": {func(f *Facts) { f.Drivers = nil },
			"the kubelet of node worker-1 does not have the driver topolvm.io: add a device class"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := migratable("pv", "worker-1")
			test.edit(&facts)
			got := facts.ServingProblem()
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestALogicalVolumeIsForAPersistentVolume(t *testing.T) {
	pv := migratable("pv", "worker-1").PV
	for name, test := range map[string]struct {
		volume, imported string
		want             bool
	}{
		"found":             {volume: "id-pv", imported: "id-pv", want: true},
		"not found yet":     {imported: "id-pv", want: true},
		"another volume":    {volume: "x", imported: "id-pv"},
		"another import":    {imported: "x"},
		"created by others": {},
	} {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{wellknown.ImportAnnotation: test.imported}},
			Status: topolvmv1.LogicalVolumeStatus{VolumeID: test.volume}}
		if got := IsFor(lv, pv); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
		if IsFor(lv, nil) {
			t.Errorf("%s: it is for a PersistentVolume that does not exist", name)
		}
	}
}

func releasedVolume() *corev1.PersistentVolume {
	pv := migratable("pv", "worker-1").PV
	pv.Annotations = map[string]string{ProvisionedBy: wellknown.EarlierDriverName}
	pv.Finalizers = []string{ProvisionerFinalizer}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Status.Phase = corev1.VolumeReleased
	return pv
}

func TestWhichVolumesMustBeDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*corev1.PersistentVolume)
		want bool
	}{
		"released":          {func(*corev1.PersistentVolume) {}, true},
		"without finalizer": {func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }, true},
		"being deleted": {func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = ptr.To(metav1.Now()) },
			true},
		"deleted": {func(pv *corev1.PersistentVolume) {
			pv.DeletionTimestamp, pv.Finalizers = ptr.To(metav1.Now()), []string{relocate.ProtectionFinalizer}
		}, false},
		"retained": {func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"bound":  {func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound }, false},
		"failed": {func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeFailed }, false},
		"static": {func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, false},
		"of this driver": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = wellknown.DriverName },
			false},
		"of another provisioner": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[ProvisionedBy] = wellknown.DriverName
		}, false},
	} {
		pv := releasedVolume()
		if test.edit(pv); IsReleased(pv) != test.want {
			t.Errorf("%s: got %v", name, !test.want)
		}
	}
}

func TestWhyALogicalVolumeIsNotKnown(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Facts)
		want string // empty: it is known
	}{
		"known":         {func(*Facts) {}, ""},
		"being deleted": {func(f *Facts) { f.Old.DeletionTimestamp = ptr.To(metav1.Now()) }, ""},
		"no object": {func(f *Facts) { f.Old = nil },
			"LogicalVolume pv of the API group topolvm.cybozu.com does not exist, so the device class of logical " +
				"volume id-pv on node worker-1 is not known: set its reclaim policy to Retain"},
		"no affinity": {func(f *Facts) { f.PV.Spec.NodeAffinity = nil },
			"has no node affinity with the key"},
		"another volume": {func(f *Facts) { f.Old.Status.VolumeID = "x" }, `is for another volume ("x")`},
		"another node":   {func(f *Facts) { f.Old.Spec.NodeName = "worker-2" }, "is on node worker-2"},
	} {
		facts := migratable("pv", "worker-1")
		test.edit(&facts)
		got := UnknownVolume(facts.PV, facts.Old)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
