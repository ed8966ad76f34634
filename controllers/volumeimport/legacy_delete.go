package volumeimport

import (
	"context"
	"fmt"
	"slices"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/legacypv"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// legacyVolumeNotDeleted is a Warning event on the PersistentVolume: its driver is topolvm.cybozu.com, its claim was
// deleted and its reclaim policy is Delete, but its logical volume is not deleted.
// What to do: see the note; [how to migrate
// volumes](../how-to/migrate-earlier-topolvm.md#volumes-whose-claim-was-deleted) explains what is required.
var legacyVolumeNotDeleted = event.Warning("EarlierVolumeNotDeleted", "Delete", "the volume is not deleted: %s")

// deletions deletes released volumes and deleted snapshots of the earlier driver. It deletes a logical volume only
// through the LogicalVolume of this driver.
type deletions struct{ *Controller }

// removal is what must be known to delete the logical volume of an object of the earlier driver.
type removal struct {
	// name is that of the LogicalVolumes in both API groups. handle is their volume ID.
	name, handle, node, claim string
	// old is the LogicalVolume of the earlier driver, or nil.
	old *earlierv1.LogicalVolume
	// problem is why the LogicalVolume of this driver cannot be created if it does not exist, or "".
	problem string
	// read reads the object from the API server. It returns nil if its volume must not be deleted.
	read func(context.Context) (client.Object, error)
	// finish is called when the logical volume is removed.
	finish func(context.Context, client.Object) error
}

// deleteVolume performs the next step of the deletion of a released volume. It returns nil if the PersistentVolume is
// deleted, or must not be.
func (d deletions) deleteVolume(ctx context.Context, s *legacyState, pv *corev1.PersistentVolume) error {
	old := s.olds[pv.Name]
	r := removal{name: pv.Name, handle: pv.Spec.CSI.VolumeHandle, node: view.NodeOfEarlierVolume(pv),
		claim: legacypv.ClaimOf(pv), old: old, problem: legacypv.UnknownVolume(pv, old), finish: d.deleteReleased}
	r.read = func(ctx context.Context) (client.Object, error) {
		now := &corev1.PersistentVolume{}
		if err := d.live.Get(ctx, client.ObjectKeyFromObject(pv), now); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		if now.UID != pv.UID || !legacypv.IsReleased(now) || now.Spec.CSI.VolumeHandle != r.handle {
			return nil, nil
		}
		return now, d.checkUnused(ctx, s, now)
	}
	return d.remove(ctx, s, r)
}

// checkUnused returns an error if something may use a released volume.
func (d deletions) checkUnused(ctx context.Context, s *legacyState, pv *corev1.PersistentVolume) error {
	if s.references[pv.Spec.CSI.VolumeHandle] > 1 {
		return blocked("another PersistentVolume or VolumeSnapshotContent has its volume handle %s: if the data is "+
			"not needed, delete one of the two after its policy was set to Retain", pv.Spec.CSI.VolumeHandle)
	}
	pod, err := d.podWith(ctx, pv)
	if err != nil {
		return err
	}
	if pod != nil {
		return blocked("Pod %s/%s on node %s uses claim %s: delete the Pod", pod.Namespace, pod.Name,
			pod.Spec.NodeName, legacypv.ClaimOf(pv))
	}
	return d.checkDetached(ctx, pv)
}

// podWith returns a Pod that may use a released volume, or nil. A Pod that is newer than another claim of the same name
// uses the volume of that claim.
func (d deletions) podWith(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.Pod, error) {
	reference := pv.Spec.ClaimRef
	if reference == nil {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := d.live.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, claim)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read claim %s: %w", legacypv.ClaimOf(pv), err)
	}
	isOther := err == nil && claim.UID != reference.UID && claim.Spec.VolumeName != pv.Name
	if err == nil && !isOther {
		return nil, blocked("claim %s exists, although the PersistentVolume is released: delete the claim if the data "+
			"is not needed", legacypv.ClaimOf(pv))
	}
	pods, err := (&job{Controller: d.Controller}).podsIn(ctx, reference.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		pod := &pods[i]
		isNewer := isOther && !pod.CreationTimestamp.Before(&claim.CreationTimestamp)
		if relocate.Runs(pod) && relocate.Uses(pod, reference.Name) && !isNewer {
			return pod, nil
		}
	}
	return nil, nil
}

// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list

// checkDetached returns an error if a VolumeAttachment is for a PersistentVolume. The driver attaches nothing, but
// without its CSIDriver, Kubernetes creates such objects for Pods that use a volume.
func (d deletions) checkDetached(ctx context.Context, pv *corev1.PersistentVolume) error {
	var found error
	err := paging.Until(ctx, d.live, &storagev1.VolumeAttachmentList{},
		func(list *storagev1.VolumeAttachmentList) bool {
			for i := range list.Items {
				a := &list.Items[i]
				if volume := a.Spec.Source.PersistentVolumeName; volume != nil && *volume == pv.Name {
					found = blocked("VolumeAttachment %s of node %s is for the PersistentVolume: Kubernetes deletes "+
						"it when no Pod uses the volume there", a.Name, a.Spec.NodeName)
				}
			}
			return found != nil
		})
	if err != nil {
		return fmt.Errorf("list VolumeAttachments: %w", err)
	}
	return found
}

// remove performs the next step of a removal: it creates the LogicalVolume of this driver for the existing logical
// volume, unless it exists, and deletes this object, so that the node agent removes the logical volume. When the object
// no longer exists, it deletes the LogicalVolume of the earlier driver and finishes.
func (d deletions) remove(ctx context.Context, s *legacyState, r removal) error {
	lv, err := d.logicalVolume(ctx, r.name)
	if err != nil {
		return err
	}
	if lv != nil && r.node == "" {
		r.node = lv.Spec.NodeName
	}
	if left, err := s.topolvm.isLeft(ctx, r.node); left || err != nil {
		return err
	}
	object, err := r.read(ctx)
	if object == nil || err != nil {
		return err
	}
	switch {
	case lv == nil && object.GetAnnotations()[wellknown.EarlierRemovalAnnotation] == r.handle:
		return d.finish(ctx, object, r)
	case lv != nil && lv.Status.VolumeID == r.handle && lv.Spec.NodeName == r.node:
		return d.removeFound(ctx, object, lv, r)
	case r.problem != "":
		return blockedError(r.problem)
	}
	return d.create(ctx, r)
}

// create creates the LogicalVolume of this driver for the existing logical volume.
func (d deletions) create(ctx context.Context, r removal) error {
	if err := d.checkAgent(ctx, r); err != nil {
		return err
	}
	j := &job{Controller: d.Controller, node: r.node, class: r.old.Spec.DeviceClass}
	err := j.logicalVolume(ctx, v1alpha1.RecoveryVolume{Name: r.handle, PersistentVolume: r.name, Claim: r.claim,
		Size: r.old.Spec.Size.Value()})
	if err != nil {
		return err
	}
	return waiting("LogicalVolume %s has just changed", r.name)
}

// logicalVolume returns a LogicalVolume of this driver, or nil.
func (d deletions) logicalVolume(ctx context.Context, name string) (*topolvmv1.LogicalVolume, error) {
	lv := &topolvmv1.LogicalVolume{}
	err := d.live.Get(ctx, client.ObjectKey{Name: name}, lv)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read LogicalVolume %s: %w", name, err)
	}
	return lv, nil
}

// checkAgent returns an error if no node agent can find the logical volume.
func (d deletions) checkAgent(ctx context.Context, r removal) error {
	drivers, err := d.driversOf(ctx, r.node)
	if err != nil || slices.Contains(drivers, wellknown.DriverName) {
		return err
	}
	return blockedError(legacypv.WithoutAgent(r.node, r.handle))
}

// removeFound deletes the LogicalVolume of this driver, and with it the logical volume. The removal is recorded first:
// without the LogicalVolume, this shows that there is nothing left to remove.
func (d deletions) removeFound(ctx context.Context, object client.Object, lv *topolvmv1.LogicalVolume,
	r removal) error {
	switch {
	case !lv.DeletionTimestamp.IsZero() && lv.Status.Code != codes.OK && lv.Status.Code != codes.Aborted:
		return blocked("node %s cannot remove logical volume %s: %s", r.node, r.handle, lv.Status.Message)
	case !lv.DeletionTimestamp.IsZero():
		// The code is Aborted while the node agent erases the logical volume.
		return waiting("node %s has not removed logical volume %s yet", r.node, r.handle)
	case isMoving(lv):
		return waiting("LogicalVolume %s is being moved or migrated", lv.Name)
	case view.EarlierStaged(lv) != "":
		return waiting("node %s has not unmounted volume %s yet", r.node, r.handle)
	}
	if err := d.recordRemoval(ctx, object, r.handle); err != nil {
		return err
	}
	// A node agent that stages the volume changes the object first.
	err := d.client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if apierrors.IsConflict(err) {
		return waiting("LogicalVolume %s has just changed", lv.Name)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete LogicalVolume %s: %w", lv.Name, err)
	}
	return waiting("node %s has not removed logical volume %s yet", r.node, r.handle)
}

// recordRemoval sets EarlierRemovalAnnotation, if the object has not changed since it was read: its policy may have.
func (d deletions) recordRemoval(ctx context.Context, object client.Object, handle string) error {
	if object.GetAnnotations()[wellknown.EarlierRemovalAnnotation] == handle {
		return nil
	}
	return d.change(ctx, object, func() {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[wellknown.EarlierRemovalAnnotation] = handle
		object.SetAnnotations(annotations)
	})
}

// change changes an object, unless somebody else has changed or deleted it.
func (d deletions) change(ctx context.Context, object client.Object, edit func()) error {
	before, is := object.DeepCopyObject().(client.Object)
	if !is {
		return fmt.Errorf("DeepCopyObject of %T returns another type", object)
	}
	edit()
	err := d.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return waiting("%s has just changed", before.GetName())
	}
	if err != nil {
		return fmt.Errorf("patch %s: %w", before.GetName(), err)
	}
	return nil
}

// finish deletes the LogicalVolume of the earlier driver, and then the object.
func (d deletions) finish(ctx context.Context, object client.Object, r removal) error {
	if r.old != nil {
		removed := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
		removed.Spec.NodeName, removed.Status.VolumeID = r.old.Spec.NodeName, r.handle
		if err := d.releaseLegacy(ctx, removed); err != nil {
			return err
		}
	}
	if err := r.finish(ctx, object); err != nil {
		return err
	}
	log.FromContext(ctx).Info("deleted a volume or snapshot of an earlier TopoLVM", "lv", r.handle, "node", r.node,
		"claim", r.claim)
	return nil
}

// deleteReleased deletes a PersistentVolume whose volume is deleted.
func (d deletions) deleteReleased(ctx context.Context, object client.Object) error {
	if err := d.removeFinalizer(ctx, object, legacypv.ProvisionerFinalizer); err != nil ||
		!object.GetDeletionTimestamp().IsZero() {
		return err
	}
	uid := object.GetUID()
	if err := d.client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete PersistentVolume %s: %w", object.GetName(), err)
	}
	return nil
}

// removeFinalizer removes a finalizer of an object, if it has it.
func (d deletions) removeFinalizer(ctx context.Context, object client.Object, finalizer string) error {
	if !slices.Contains(object.GetFinalizers(), finalizer) {
		return nil
	}
	return d.change(ctx, object, func() {
		object.SetFinalizers(slices.DeleteFunc(slices.Clone(object.GetFinalizers()),
			func(f string) bool { return f == finalizer }))
	})
}
