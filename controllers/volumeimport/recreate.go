package volumeimport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/legacypv"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// moves completes the moves of volumes that have begun. Its requests are LogicalVolumes with MovedVolumeAnnotation.
// Without it, a claim would stay without its PersistentVolume if the LVMRecovery were deleted in the middle of a move.
type moves struct{ *Controller }

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch

// Reconcile recreates the PersistentVolume of a LogicalVolume on the node of the LogicalVolume.
func (m moves) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	lv := &topolvmv1.LogicalVolume{}
	if err := m.live.Get(ctx, request.NamespacedName, lv); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !isMoving(lv) {
		return reconcile.Result{}, nil
	}
	err := m.recreate(ctx, lv)
	if waiting := waitingError(""); errors.As(err, &waiting) {
		return reconcile.Result{RequeueAfter: whileWaiting}, nil
	}
	return reconcile.Result{}, err
}

// isMoving reports whether the PersistentVolume of a LogicalVolume has to be recreated. Nothing is recreated for a
// LogicalVolume that is being deleted.
func isMoving(object client.Object) bool {
	return object.GetAnnotations()[wellknown.MovedVolumeAnnotation] != "" && object.GetDeletionTimestamp().IsZero()
}

// recreate deletes the PersistentVolume that is for another node or for the earlier driver, creates it again for the
// node of the LogicalVolume and this driver, and then removes the annotation. It does nothing without the annotation.
func (c *Controller) recreate(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if !isMoving(lv) {
		return nil
	}
	pv, err := movedPersistentVolume(lv)
	if err != nil {
		return err
	}
	if err := c.ensureRecreated(ctx, lv, pv); err != nil {
		return err
	}
	if pv.Annotations[wellknown.MigratedFromAnnotation] != "" {
		if err := c.releaseLegacy(ctx, lv); err != nil {
			return err
		}
	}
	before := lv.DeepCopy()
	delete(lv.Annotations, wellknown.MovedVolumeAnnotation)
	delete(lv.Annotations, wellknown.EarlierDriverAnnotation)
	if err := c.client.Patch(ctx, lv, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove annotation %s of LogicalVolume %s: %w", wellknown.MovedVolumeAnnotation, lv.Name, err)
	}
	return nil
}

// ensureRecreated has the PersistentVolume of the annotation exist for this driver, on the node of the LogicalVolume.
func (c *Controller) ensureRecreated(ctx context.Context, lv *topolvmv1.LogicalVolume,
	pv *corev1.PersistentVolume) error {
	present := &corev1.PersistentVolume{}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(pv), present)
	switch {
	case apierrors.IsNotFound(err):
		// It was deleted. Only the operator writes the annotation (ValidatingAdmissionPolicy lvms-logicalvolume-users).
		if err := c.client.Create(ctx, pv); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create PersistentVolume %s again: %w", pv.Name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read PersistentVolume %s: %w", pv.Name, err)
	case legacypv.IsOf(present, lv) && pv.Annotations[wellknown.MigratedFromAnnotation] != "":
		return c.replaceLegacy(ctx, lv, present, pv)
	case !isOf(present, lv):
		return blocked("volume %s: PersistentVolume %s exists for another volume", lv.Status.VolumeID, pv.Name)
	case !isOn(present, lv.Spec.NodeName):
		replacement := keepPolicy(relocate.PersistentVolume(present, lv.Spec.NodeName), pv)
		moved, err := relocate.InPlace(ctx, c.client, present, lv.Spec.NodeName,
			replacement.Spec.PersistentVolumeReclaimPolicy)
		if apierrors.IsConflict(err) {
			return waiting("PersistentVolume %s has just changed", present.Name)
		}
		if err != nil || moved {
			return err
		}
		return c.replace(ctx, lv, present, replacement)
	}
	return nil
}

// movedPersistentVolume returns the PersistentVolume in the annotation. The annotation must be for the same volume and
// node as the LogicalVolume: whoever can write it must not be able to create any other PersistentVolume.
func movedPersistentVolume(lv *topolvmv1.LogicalVolume) (*corev1.PersistentVolume, error) {
	pv := &corev1.PersistentVolume{}
	err := json.Unmarshal([]byte(view.MovedVolume(lv)), pv)
	if err == nil && (pv.Name != lv.Name || !isOf(pv, lv) || !isOn(pv, lv.Spec.NodeName)) {
		err = errors.New("it is for another volume or node")
	}
	if err != nil {
		return nil, blocked(
			"volume %s: annotation %s of LogicalVolume %s is not the PersistentVolume of the volume: %v",
			lv.Status.VolumeID, wellknown.MovedVolumeAnnotation, lv.Name, err)
	}
	return pv, nil
}

// keepPolicy sets the reclaim policy of a replacement to Delete if the stored PersistentVolume has it: deleteKept has
// changed that of the present one. Nothing else is taken from the stored one.
func keepPolicy(replacement, stored *corev1.PersistentVolume) *corev1.PersistentVolume {
	if stored.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		replacement.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	return replacement
}

// replace deletes a PersistentVolume and creates its replacement, which is computed from it. Before the deletion, the
// replacement is written to the annotation, so that only this is created if the operator is killed in between.
func (c *Controller) replace(ctx context.Context, lv *topolvmv1.LogicalVolume,
	present, replacement *corev1.PersistentVolume) error {
	if err := c.store(ctx, lv, replacement); err != nil {
		return err
	}
	if err := c.deleteKept(ctx, present); err != nil {
		return err
	}
	err := c.client.Create(ctx, replacement)
	if apierrors.IsAlreadyExists(err) {
		return waiting("volume %s: PersistentVolume %s is being recreated", lv.Status.VolumeID, replacement.Name)
	}
	if err != nil {
		return fmt.Errorf("create PersistentVolume %s again: %w", replacement.Name, err)
	}
	return nil
}

// store writes a PersistentVolume to the annotation of its LogicalVolume, if the annotation has another one.
func (c *Controller) store(ctx context.Context, lv *topolvmv1.LogicalVolume, pv *corev1.PersistentVolume) error {
	data, err := json.Marshal(pv)
	if err != nil {
		return fmt.Errorf("PersistentVolume %s: %w", pv.Name, err)
	}
	if view.MovedVolume(lv) == string(data) {
		return nil
	}
	before := lv.DeepCopy()
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.MovedVolumeAnnotation, string(data))
	err = c.client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return waiting("LogicalVolume %s has just changed", lv.Name)
	}
	if err != nil {
		return fmt.Errorf("set annotation %s of LogicalVolume %s: %w", wellknown.MovedVolumeAnnotation, lv.Name, err)
	}
	return nil
}

// isOf reports whether a PersistentVolume is for the volume of a LogicalVolume.
func isOf(pv *corev1.PersistentVolume, lv *topolvmv1.LogicalVolume) bool {
	source := pv.Spec.CSI
	return source != nil && source.Driver == wellknown.DriverName && source.VolumeHandle == lv.Status.VolumeID
}

// deleteKept deletes a PersistentVolume but not its volume: with the reclaim policy Retain, nothing deletes it. The
// finalizers are removed, because they keep a bound PersistentVolume.
func (c *Controller) deleteKept(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		before := pv.DeepCopy()
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		if err := c.client.Patch(ctx, pv, client.MergeFromWithOptions(before,
			client.MergeFromWithOptimisticLock{})); err != nil {
			if apierrors.IsConflict(err) {
				return waiting("PersistentVolume %s has just changed", pv.Name)
			}
			return fmt.Errorf("set the reclaim policy of PersistentVolume %s to Retain: %w", pv.Name, err)
		}
	}
	if pv.DeletionTimestamp.IsZero() {
		// The version is that from which the replacement was computed.
		err := c.client.Delete(ctx, pv, client.Preconditions{UID: &pv.UID, ResourceVersion: &pv.ResourceVersion})
		if apierrors.IsConflict(err) {
			return waiting("PersistentVolume %s has just changed", pv.Name)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete PersistentVolume %s: %w", pv.Name, err)
		}
	}
	now := &corev1.PersistentVolume{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(pv), now); err != nil || now.UID != pv.UID {
		return client.IgnoreNotFound(err)
	}
	before := now.DeepCopy()
	now.Finalizers = nil
	err := c.client.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizers of PersistentVolume %s: %w", pv.Name, err)
	}
	return nil
}

func (m moves) setupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("volumerecreate").
		Watches(&topolvmv1.LogicalVolume{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(isMoving))).
		Complete(adapt.Reconciler(m))
}
