package volumeimport

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

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
			Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: wellknown.EarlierDriverName,
				DeletionPolicy:    snapshotv1.VolumeSnapshotContentDelete,
				VolumeSnapshotRef: corev1.ObjectReference{UID: types.UID("u")}},
			Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: ptr.To("s")}}
		test.edit(content)
		if due, kept := isContentDue(content), isKept(content); due != test.due || kept != test.kept {
			t.Errorf("%s: got due %v, kept %v", name, due, kept)
		}
	}
}
