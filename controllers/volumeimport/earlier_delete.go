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
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

const (
	// provisionedBy has the driver whose provisioner created a PersistentVolume, and deletes its volume.
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	// provisionerFinalizer keeps a PersistentVolume until its volume is deleted (HonorPVReclaimPolicy, KEP-2644).
	provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// earlierVolumeNotDeleted is a Warning event on the PersistentVolume: its driver is topolvm.cybozu.com, its claim was
// deleted and its reclaim policy is Delete, but its logical volume is not deleted.
// What to do: see the note; [how to migrate
// volumes](../how-to/migrate-earlier-topolvm.md#volumes-whose-claim-was-deleted) explains what is required.
var earlierVolumeNotDeleted = event.Warning("EarlierVolumeNotDeleted", "Delete", "the volume is not deleted: %s")

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

// isReleased reports whether the provisioner of the earlier driver would delete a PersistentVolume and its volume
// (sig-storage-lib-external-provisioner, shouldDelete).
func isReleased(pv *corev1.PersistentVolume) bool {
	isDeleted := !pv.DeletionTimestamp.IsZero() && !slices.Contains(pv.Finalizers, provisionerFinalizer)
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == v1alpha1.EarlierDriverName && !isDeleted &&
		pv.Annotations[provisionedBy] == v1alpha1.EarlierDriverName && pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// deleteVolume performs the next step of the deletion of a released volume. It returns nil if the PersistentVolume is
// deleted, or must not be.
func (e *earlierVolumes) deleteVolume(ctx context.Context, s *earlierState, pv *corev1.PersistentVolume) error {
	old := s.olds[pv.Name]
	r := removal{name: pv.Name, handle: pv.Spec.CSI.VolumeHandle, node: v1alpha1.NodeOfEarlierVolume(pv),
		claim: claimOf(pv), old: old, problem: unknownVolume(pv, old), finish: e.deleteReleased}
	r.read = func(ctx context.Context) (client.Object, error) {
		now := &corev1.PersistentVolume{}
		if err := e.live.Get(ctx, client.ObjectKeyFromObject(pv), now); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		if now.UID != pv.UID || !isReleased(now) || now.Spec.CSI.VolumeHandle != r.handle {
			return nil, nil
		}
		return now, e.checkUnused(ctx, s, now)
	}
	return e.remove(ctx, s, r)
}

// unknownVolume returns why the logical volume of a PersistentVolume is not known, or "".
func unknownVolume(pv *corev1.PersistentVolume, old *earlierv1.LogicalVolume) string {
	const otherwise = ": set its reclaim policy to Retain and delete the PersistentVolume; its logical volume is " +
		"then listed as an orphan"
	node := v1alpha1.NodeOfEarlierVolume(pv)
	switch {
	case node == "":
		return withoutNode(pv) + otherwise
	case old == nil:
		return fmt.Sprintf("LogicalVolume %s of the API group %s does not exist, so the device class of logical "+
			"volume %s on node %s is not known%s", pv.Name, v1alpha1.EarlierDriverName, pv.Spec.CSI.VolumeHandle, node,
			otherwise)
	}
	if problem := earlierProblem(migrationFacts{pv: pv, old: old}); problem != "" {
		return problem + otherwise
	}
	return ""
}

// checkUnused returns an error if something may use a released volume.
func (e *earlierVolumes) checkUnused(ctx context.Context, s *earlierState, pv *corev1.PersistentVolume) error {
	if s.references[pv.Spec.CSI.VolumeHandle] > 1 {
		return blocked("another PersistentVolume or VolumeSnapshotContent has its volume handle %s: if the data is "+
			"not needed, delete one of the two after its policy was set to Retain", pv.Spec.CSI.VolumeHandle)
	}
	pod, err := e.podWith(ctx, pv)
	if err != nil {
		return err
	}
	if pod != nil {
		return blocked("Pod %s/%s on node %s uses claim %s: delete the Pod", pod.Namespace, pod.Name,
			pod.Spec.NodeName, claimOf(pv))
	}
	return e.checkDetached(ctx, pv)
}

// podWith returns a Pod that may use a released volume, or nil. A Pod that is newer than another claim of the same name
// uses the volume of that claim.
func (e *earlierVolumes) podWith(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.Pod, error) {
	reference := pv.Spec.ClaimRef
	if reference == nil {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := e.live.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, claim)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read claim %s: %w", claimOf(pv), err)
	}
	isOther := err == nil && claim.UID != reference.UID && claim.Spec.VolumeName != pv.Name
	if err == nil && !isOther {
		return nil, blocked("claim %s exists, although the PersistentVolume is released: delete the claim if the data "+
			"is not needed", claimOf(pv))
	}
	pods, err := (&job{Controller: e.Controller}).podsIn(ctx, reference.Namespace)
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
func (e *earlierVolumes) checkDetached(ctx context.Context, pv *corev1.PersistentVolume) error {
	var found error
	err := paging.Until(ctx, e.live, &storagev1.VolumeAttachmentList{},
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
func (e *earlierVolumes) remove(ctx context.Context, s *earlierState, r removal) error {
	lv, err := e.logicalVolume(ctx, r.name)
	if err != nil {
		return err
	}
	if lv != nil && r.node == "" {
		r.node = lv.Spec.NodeName
	}
	if left, err := e.isLeftToTopoLVM(ctx, s.topolvm, r.node); left || err != nil {
		return err
	}
	object, err := r.read(ctx)
	if object == nil || err != nil {
		return err
	}
	switch {
	case lv == nil && object.GetAnnotations()[v1alpha1.EarlierRemovalAnnotation] == r.handle:
		return e.finish(ctx, object, r)
	case lv != nil && lv.Status.VolumeID == r.handle && lv.Spec.NodeName == r.node:
		return e.removeFound(ctx, object, lv, r)
	case r.problem != "":
		return blockedError(r.problem)
	}
	if err := e.checkAgent(ctx, r); err != nil {
		return err
	}
	j := &job{Controller: e.Controller, node: r.node, class: r.old.Spec.DeviceClass}
	err = j.logicalVolume(ctx, v1alpha1.RecoveryVolume{Name: r.handle, PersistentVolume: r.name, Claim: r.claim,
		Size: r.old.Spec.Size.Value()})
	if err != nil {
		return err
	}
	return waiting("LogicalVolume %s has just changed", r.name)
}

// logicalVolume returns a LogicalVolume of this driver, or nil.
func (e *earlierVolumes) logicalVolume(ctx context.Context, name string) (*topolvmv1.LogicalVolume, error) {
	lv := &topolvmv1.LogicalVolume{}
	err := e.live.Get(ctx, client.ObjectKey{Name: name}, lv)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read LogicalVolume %s: %w", name, err)
	}
	return lv, nil
}

// isLeftToTopoLVM reports whether TopoLVM still runs, on a node or its controller. "" is an unknown node.
func (e *earlierVolumes) isLeftToTopoLVM(ctx context.Context, topolvm *topolvmController,
	node string) (bool, error) {
	if left, err := topolvm.runs(ctx); left || err != nil || node == "" {
		return left, err
	}
	drivers, err := e.driversOf(ctx, node)
	if err != nil || !slices.Contains(drivers, v1alpha1.EarlierDriverName) {
		return false, err
	}
	e.tellThatItRuns(ctx, node)
	return true, nil
}

// checkAgent returns an error if no node agent can find the logical volume.
func (e *earlierVolumes) checkAgent(ctx context.Context, r removal) error {
	drivers, err := e.driversOf(ctx, r.node)
	if err != nil || slices.Contains(drivers, v1alpha1.DriverName) {
		return err
	}
	return blockedError(withoutAgent(r.node, r.handle))
}

// removeFound deletes the LogicalVolume of this driver, and with it the logical volume. The removal is recorded first:
// without the LogicalVolume, this shows that there is nothing left to remove.
func (e *earlierVolumes) removeFound(ctx context.Context, object client.Object, lv *topolvmv1.LogicalVolume,
	r removal) error {
	switch {
	case !lv.DeletionTimestamp.IsZero() && lv.Status.Code != codes.OK && lv.Status.Code != codes.Aborted:
		return blocked("node %s cannot remove logical volume %s: %s", r.node, r.handle, lv.Status.Message)
	case !lv.DeletionTimestamp.IsZero():
		// The code is Aborted while the node agent erases the logical volume.
		return waiting("node %s has not removed logical volume %s yet", r.node, r.handle)
	case isMoving(lv):
		return waiting("LogicalVolume %s is being moved or migrated", lv.Name)
	case lv.Annotations[v1alpha1.EarlierStagedAnnotation] != "":
		return waiting("node %s has not unmounted volume %s yet", r.node, r.handle)
	}
	if err := e.recordRemoval(ctx, object, r.handle); err != nil {
		return err
	}
	// A node agent that stages the volume changes the object first.
	err := e.client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if apierrors.IsConflict(err) {
		return waiting("LogicalVolume %s has just changed", lv.Name)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete LogicalVolume %s: %w", lv.Name, err)
	}
	return waiting("node %s has not removed logical volume %s yet", r.node, r.handle)
}

// recordRemoval sets EarlierRemovalAnnotation, if the object has not changed since it was read: its policy may have.
func (e *earlierVolumes) recordRemoval(ctx context.Context, object client.Object, handle string) error {
	if object.GetAnnotations()[v1alpha1.EarlierRemovalAnnotation] == handle {
		return nil
	}
	return e.change(ctx, object, func() {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.EarlierRemovalAnnotation] = handle
		object.SetAnnotations(annotations)
	})
}

// change changes an object, unless somebody else has changed or deleted it.
func (e *earlierVolumes) change(ctx context.Context, object client.Object, edit func()) error {
	before, is := object.DeepCopyObject().(client.Object)
	if !is {
		return fmt.Errorf("DeepCopyObject of %T returns another type", object)
	}
	edit()
	err := e.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return waiting("%s has just changed", before.GetName())
	}
	if err != nil {
		return fmt.Errorf("patch %s: %w", before.GetName(), err)
	}
	return nil
}

// finish deletes the LogicalVolume of the earlier driver, and then the object.
func (e *earlierVolumes) finish(ctx context.Context, object client.Object, r removal) error {
	if r.old != nil {
		removed := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
		removed.Spec.NodeName, removed.Status.VolumeID = r.old.Spec.NodeName, r.handle
		if err := e.releaseEarlier(ctx, removed); err != nil {
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
func (e *earlierVolumes) deleteReleased(ctx context.Context, object client.Object) error {
	if err := e.removeFinalizer(ctx, object, provisionerFinalizer); err != nil ||
		!object.GetDeletionTimestamp().IsZero() {
		return err
	}
	uid := object.GetUID()
	if err := e.client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete PersistentVolume %s: %w", object.GetName(), err)
	}
	return nil
}

// removeFinalizer removes a finalizer of an object, if it has it.
func (e *earlierVolumes) removeFinalizer(ctx context.Context, object client.Object, finalizer string) error {
	if !slices.Contains(object.GetFinalizers(), finalizer) {
		return nil
	}
	return e.change(ctx, object, func() {
		object.SetFinalizers(slices.DeleteFunc(slices.Clone(object.GetFinalizers()),
			func(f string) bool { return f == finalizer }))
	})
}
