package volumeimport

import (
	"cmp"
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Names of external-snapshotter (pkg/utils).
const (
	contentKind = "VolumeSnapshotContent"
	// contentFinalizer keeps a VolumeSnapshotContent until the CSI sidecar of its driver has deleted the snapshot.
	contentFinalizer = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
	// contentIsDeleted is set by the snapshot controller: the VolumeSnapshot is deleted too.
	contentIsDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	// contentIsCreated is set while a sidecar creates the snapshot.
	contentIsCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
)

// legacySnapshotNotDeleted is a Warning event on the VolumeSnapshotContent: its driver is topolvm.cybozu.com and it
// was deleted, but its snapshot is not deleted.
// What to do: see the note; [how to migrate volumes](../how-to/migrate-earlier-topolvm.md#volumesnapshots) explains
// what is required.
var legacySnapshotNotDeleted = event.Warning("EarlierSnapshotNotDeleted", "Delete",
	"the snapshot is not deleted: %s")

// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=get;list;patch

// readContents adds the VolumeSnapshotContents to the state.
func (l *legacyVolumes) readContents(ctx context.Context, s *legacyState) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(snapshotv1.SchemeGroupVersion.WithKind(contentKind + "List"))
	var invalid error
	err := paging.Each(ctx, l.live, list, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			content, err := contentOf(&page.Items[i])
			if err != nil {
				invalid = err
				continue
			}
			if !view.IsDriver(content.Spec.Driver) {
				continue
			}
			s.references[handleOf(content)]++
			if content.Spec.Driver == wellknown.EarlierDriverName && !content.DeletionTimestamp.IsZero() {
				s.contents = append(s.contents, page.Items[i].DeepCopy())
			}
		}
	})
	if meta.IsNoMatchError(err) {
		return nil // The cluster does not have the API.
	}
	if err != nil {
		return fmt.Errorf("list %ss: %w", contentKind, err)
	}
	return invalid
}

func contentOf(object *unstructured.Unstructured) (*snapshotv1.VolumeSnapshotContent, error) {
	content := &snapshotv1.VolumeSnapshotContent{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, content); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", contentKind, object.GetName(), err)
	}
	return content, nil
}

// handleOf returns the volume handle of a snapshot, or "" if it was not created.
func handleOf(content *snapshotv1.VolumeSnapshotContent) string {
	handle := ptr.Deref(content.Spec.Source.SnapshotHandle, "")
	if content.Status != nil {
		handle = cmp.Or(ptr.Deref(content.Status.SnapshotHandle, ""), handle)
	}
	return handle
}

// isContentDue reports whether the CSI sidecar has to act on a deleted VolumeSnapshotContent (external-snapshotter,
// shouldDelete). Otherwise, its VolumeSnapshot still exists.
func isContentDue(content *snapshotv1.VolumeSnapshotContent) bool {
	_, isDeleted := content.Annotations[contentIsDeleted]
	isUnbound := content.Spec.Source.SnapshotHandle != nil && content.Spec.VolumeSnapshotRef.UID == ""
	return content.Spec.Driver == wellknown.EarlierDriverName && !content.DeletionTimestamp.IsZero() &&
		(isDeleted || isUnbound)
}

// deleteSnapshot performs the next step of the deletion of a snapshot. It returns nil if the VolumeSnapshotContent has
// no finalizer of the sidecar left, or must not be deleted.
func (d deletions) deleteSnapshot(ctx context.Context, s *legacyState, object *unstructured.Unstructured) error {
	content, err := contentOf(object)
	if err != nil || !isContentDue(content) {
		return err
	}
	handle := handleOf(content)
	old := snapshotOf(s, handle)
	r := removal{name: wellknown.SnapshotPrefix + string(content.Spec.VolumeSnapshotRef.UID), handle: handle, old: old,
		claim: content.Spec.VolumeSnapshotRef.Namespace + "/" + content.Spec.VolumeSnapshotRef.Name,
		finish: func(ctx context.Context, object client.Object) error {
			return d.removeFinalizer(ctx, object, contentFinalizer)
		}}
	r.read = func(ctx context.Context) (client.Object, error) { return d.readContent(ctx, s, object, handle) }
	if old != nil {
		r.name, r.node = old.Name, old.Spec.NodeName
	} else {
		r.problem = fmt.Sprintf("no LogicalVolume of the API group %s has the volume ID %s, so the node and the "+
			"device class of the snapshot are not known: set the deletion policy of the VolumeSnapshotContent to "+
			"Retain; its logical volume is then listed as an orphan", wellknown.EarlierDriverName, handle)
	}
	if isKept(content) {
		return d.keepSnapshot(ctx, s, r)
	}
	return d.remove(ctx, s, r)
}

// isKept reports whether the snapshot of a deleted VolumeSnapshotContent stays, or was not created.
func isKept(content *snapshotv1.VolumeSnapshotContent) bool {
	return content.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete || handleOf(content) == ""
}

// keepSnapshot removes the finalizer of a VolumeSnapshotContent whose snapshot stays or was not created.
func (d deletions) keepSnapshot(ctx context.Context, s *legacyState, r removal) error {
	if left, err := s.topolvm.runs(ctx); left || err != nil {
		return err
	}
	object, err := r.read(ctx)
	if object == nil || err != nil {
		return err
	}
	return r.finish(ctx, object)
}

// snapshotOf returns the LogicalVolume of the earlier driver with a volume ID, or nil.
func snapshotOf(s *legacyState, handle string) *earlierv1.LogicalVolume {
	for _, old := range s.olds {
		if handle != "" && old.Status.VolumeID == handle {
			return old
		}
	}
	return nil
}

// readContent returns the VolumeSnapshotContent from the API server, or nil if it has changed. It returns an error if
// its snapshot may be in use.
func (d deletions) readContent(ctx context.Context, s *legacyState, listed *unstructured.Unstructured,
	handle string) (client.Object, error) {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(listed.GroupVersionKind())
	if err := d.live.Get(ctx, client.ObjectKeyFromObject(listed), now); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	before, err := contentOf(listed)
	if err != nil {
		return nil, err
	}
	content, err := contentOf(now)
	if err != nil {
		return nil, err
	}
	_, isCreated := content.Annotations[contentIsCreated]
	switch {
	case content.UID != before.UID || !isContentDue(content) || isKept(content) != isKept(before) ||
		handleOf(content) != handle:
		return nil, nil
	case isCreated:
		return nil, blocked("its creation has not ended (annotation %s): if TopoLVM is stopped, remove the annotation",
			contentIsCreated)
	case !isKept(content) && s.references[handle] > 1:
		return nil, blocked("another object has its snapshot handle %s: if the data is not needed, delete one of the "+
			"two after its policy was set to Retain", handle)
	}
	return now, nil
}
