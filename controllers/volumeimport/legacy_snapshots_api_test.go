package volumeimport

import (
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// snapshotWorld has a snapshot of the earlier driver whose VolumeSnapshot was deleted.
type snapshotWorld struct {
	*deletedWorld
	content *snapshotv1.VolumeSnapshotContent
	old     *earlierv1.LogicalVolume
}

func newSnapshotWorld(t *testing.T, name string, edit func(*snapshotv1.VolumeSnapshotContent)) *snapshotWorld {
	t.Helper()
	w := &snapshotWorld{deletedWorld: &deletedWorld{servedWorld: newServedWorld(t, name)}}
	w.pass()
	uid := "0c0ffee0-" + name
	w.old = &earlierv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "snapshot-" + uid,
		Finalizers: []string{wellknown.EarlierVolumeFinalizer}},
		Spec: earlierv1.LogicalVolumeSpec{Name: "snapshot-" + uid, NodeName: w.node(), DeviceClass: "ssd",
			Size: resource.MustParse("1Gi"), Source: w.pv.Name, AccessType: "ro"}}
	w.create(w.old)
	w.old.Status.VolumeID = "id-snapshot-" + name
	w.must(w.api.Status().Update(t.Context(), w.old))
	w.content = &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-" + name,
		Finalizers: []string{contentFinalizer}, Annotations: map[string]string{contentIsDeleted: "yes"}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: wellknown.EarlierDriverName,
			DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			Source:         snapshotv1.VolumeSnapshotContentSource{VolumeHandle: ptr.To(w.pv.Spec.CSI.VolumeHandle)},
			VolumeSnapshotRef: corev1.ObjectReference{Kind: "VolumeSnapshot", Namespace: name, Name: "snap",
				UID: types.UID(uid)}},
		Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: ptr.To(w.old.Status.VolumeID)}}
	if edit != nil {
		edit(w.content)
	}
	status := w.content.Status
	w.create(w.content)
	w.content.Status = status
	w.must(w.api.Status().Update(t.Context(), w.content))
	w.must(w.api.Delete(t.Context(), w.content))
	w.check = func(lv *topolvmv1.LogicalVolume) {
		now := &snapshotv1.VolumeSnapshotContent{}
		w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(w.content), now))
		if lv.Status.VolumeID != w.old.Status.VolumeID || now.DeletionTimestamp.IsZero() ||
			now.Annotations[wellknown.EarlierRemovalAnnotation] != lv.Status.VolumeID {
			w.Errorf("the logical volume of %+v is removed for %+v", lv, now.ObjectMeta)
		}
	}
	w.spy.Writes()
	return w
}

// TestADeletedSnapshotIsDeleted: its volume stays.
func TestADeletedSnapshotIsDeleted(t *testing.T) { snapshotIsDeleted(t, &kill.Points{}) }

// snapshotIsDeleted ends the operator at a point, and starts it again.
func snapshotIsDeleted(t *testing.T, p *kill.Points) {
	t.Helper()
	w := newSnapshotWorld(t, unique("snapshot"), nil)
	w.guard(p)
	for range 4 {
		_, _ = w.runner.pass(t.Context())
		w.nodeActs()
	}
	p.Restart()
	w.restart()
	if sent := w.passes(5); sent != "" {
		t.Errorf("got the events %s", sent)
	}
	w.wantDeleted(w.content, w.old.Name, w.old.Status.VolumeID)
	w.wantServed()
	w.spy.Writes()
	w.passes(1)
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("once more: %v", writes)
	}
}

// TestADeletedSnapshotIsKept: its logical volume stays, and an event says what an administrator can do.
func TestADeletedSnapshotIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		content func(*snapshotv1.VolumeSnapshotContent)
		edit    func(*snapshotWorld)
		// released is true if only the VolumeSnapshotContent is deleted.
		released bool
		says     string // part of the event; empty for none
	}{
		"retain": {content: func(c *snapshotv1.VolumeSnapshotContent) {
			c.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
		}, released: true},
		"nohandle": {content: func(c *snapshotv1.VolumeSnapshotContent) { c.Status.SnapshotHandle = nil },
			released: true},
		"bound": {content: func(c *snapshotv1.VolumeSnapshotContent) { c.Annotations = nil }},
		"creating": {content: func(c *snapshotv1.VolumeSnapshotContent) { c.Annotations[contentIsCreated] = "yes" },
			says: "its creation has not ended"},
		"twice": {edit: func(w *snapshotWorld) {
			other := w.content.DeepCopy()
			other.ObjectMeta = metav1.ObjectMeta{Name: "kept-other"}
			other.Spec.Source = snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: w.content.Status.SnapshotHandle}
			w.create(other)
		}, says: "another object has its snapshot handle id-snapshot-keeps-twice"},
		"unknown": {edit: func(w *snapshotWorld) {
			w.old.Finalizers = nil
			w.must(w.api.Update(w.Context(), w.old))
			w.must(w.api.Delete(w.Context(), w.old))
		}, says: "no LogicalVolume of the API group topolvm.cybozu.com has the volume ID id-snapshot-keeps-unknown"},
		"topolvm": {edit: func(w *snapshotWorld) { w.drivers(wellknown.DriverName, wellknown.EarlierDriverName) }},
		"controller": {content: func(c *snapshotv1.VolumeSnapshotContent) {
			c.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
		}, edit: func(w *snapshotWorld) { w.topolvmControllerPod() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSnapshotWorld(t, "keeps-"+name, test.content)
			if test.edit != nil {
				test.edit(w)
			}
			if got := w.passes(3); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
				t.Errorf("got the events %q, want %q", got, test.says)
			}
			lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: w.old.Name}}
			if w.exists(lv) || len(w.removed) > 0 || w.exists(w.content) == test.released {
				t.Errorf("removed %q; got %+v and %+v", w.removed, lv.ObjectMeta, w.content.ObjectMeta)
			}
			w.spy.Writes()
			if got := w.passes(1); got != "" || len(w.spy.Writes()) > 0 {
				t.Errorf("once more, got the events %s", got)
			}
		})
	}
}

// TestAPreProvisionedSnapshotIsDeleted: its VolumeSnapshotContent was not bound to a VolumeSnapshot.
func TestAPreProvisionedSnapshotIsDeleted(t *testing.T) {
	w := newSnapshotWorld(t, "snapshot-static", func(c *snapshotv1.VolumeSnapshotContent) {
		c.Annotations, c.Spec.VolumeSnapshotRef.UID = nil, ""
		c.Spec.Source = snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: c.Status.SnapshotHandle}
	})
	w.passes(4)
	w.wantDeleted(w.content, w.old.Name, w.old.Status.VolumeID)
}

// TestAFailedReadDeletesNoSnapshot: nothing is written, whatever cannot be read.
func TestAFailedReadDeletesNoSnapshot(t *testing.T) {
	w := newSnapshotWorld(t, "snapshot-unread", nil)
	w.passes(1)
	w.failEachRead(4)
	if !w.exists(w.content) || !slices.Contains(w.content.Finalizers, contentFinalizer) {
		t.Errorf("got %+v", w.content.ObjectMeta)
	}
}
