package volumeimport

import (
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

func releasedVolume() *corev1.PersistentVolume {
	pv := migratable("pv", "worker-1").pv
	pv.Annotations = map[string]string{provisionedBy: v1alpha1.EarlierDriverName}
	pv.Finalizers = []string{provisionerFinalizer}
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
		"of this driver": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = v1alpha1.DriverName },
			false},
		"of another provisioner": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[provisionedBy] = v1alpha1.DriverName
		}, false},
	} {
		pv := releasedVolume()
		if test.edit(pv); isReleased(pv) != test.want {
			t.Errorf("%s: got %v", name, !test.want)
		}
	}
}

func TestWhyALogicalVolumeIsNotKnown(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*migrationFacts)
		want string // empty: it is known
	}{
		"known":         {func(*migrationFacts) {}, ""},
		"being deleted": {func(f *migrationFacts) { f.old.DeletionTimestamp = ptr.To(metav1.Now()) }, ""},
		"no object": {func(f *migrationFacts) { f.old = nil },
			"LogicalVolume pv of the API group topolvm.cybozu.com does not exist, so the device class of logical " +
				"volume id-pv on node worker-1 is not known: set its reclaim policy to Retain"},
		"no affinity": {func(f *migrationFacts) { f.pv.Spec.NodeAffinity = nil },
			"has no node affinity with the key"},
		"another volume": {func(f *migrationFacts) { f.old.Status.VolumeID = "x" }, `is for another volume ("x")`},
		"another node":   {func(f *migrationFacts) { f.old.Spec.NodeName = "worker-2" }, "is on node worker-2"},
	} {
		facts := migratable("pv", "worker-1")
		test.edit(&facts)
		got := unknownVolume(facts.pv, facts.old)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestWhichSnapshotsMustBeDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		edit      func(*snapshotv1.VolumeSnapshotContent)
		due, kept bool
	}{
		"deleted":       {func(*snapshotv1.VolumeSnapshotContent) {}, true, false},
		"not deleted":   {func(c *snapshotv1.VolumeSnapshotContent) { c.DeletionTimestamp = nil }, false, false},
		"still bound":   {func(c *snapshotv1.VolumeSnapshotContent) { c.Annotations = nil }, false, false},
		"other driver":  {func(c *snapshotv1.VolumeSnapshotContent) { c.Spec.Driver = "x" }, false, false},
		"without state": {func(c *snapshotv1.VolumeSnapshotContent) { c.Status = nil }, true, true},
		"retained": {func(c *snapshotv1.VolumeSnapshotContent) {
			c.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
		}, true, true},
		"pre-provisioned, never bound": {func(c *snapshotv1.VolumeSnapshotContent) {
			c.Annotations, c.Status, c.Spec.VolumeSnapshotRef.UID = nil, nil, ""
			c.Spec.Source.SnapshotHandle = ptr.To("s")
		}, true, false},
		"pre-provisioned, bound": {func(c *snapshotv1.VolumeSnapshotContent) {
			c.Annotations, c.Status = nil, nil
			c.Spec.Source.SnapshotHandle = ptr.To("s")
		}, false, false},
	} {
		content := &snapshotv1.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: "c", DeletionTimestamp: ptr.To(metav1.Now()),
				Annotations: map[string]string{contentIsDeleted: "yes"}},
			Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: v1alpha1.EarlierDriverName,
				DeletionPolicy:    snapshotv1.VolumeSnapshotContentDelete,
				VolumeSnapshotRef: corev1.ObjectReference{UID: types.UID("u")}},
			Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: ptr.To("s")}}
		test.edit(content)
		if due, kept := isContentDue(content), isKept(content); due != test.due || kept != test.kept {
			t.Errorf("%s: got due %v, kept %v", name, due, kept)
		}
	}
}
