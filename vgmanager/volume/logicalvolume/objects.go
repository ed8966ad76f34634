package logicalvolume

import (
	"context"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// objects reads LogicalVolumes, and writes to them what was done.
type objects struct {
	Options
	events *event.Emitter
}

// ours returns true if this agent manages the object.
func (o *objects) ours(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	if !ok || lv.Spec.NodeName != o.Node {
		return false
	}
	return !view.IsPendingDeletion(lv) || view.GroupPending(lv) != ""
}

// mark adds the finalizer and the label to an object that does not have them, before a volume is created, so that no
// volume is left behind. It returns true if it patched the object, which then is as the API server has it.
func (o *objects) mark(ctx context.Context, lv *topolvmv1.LogicalVolume) (bool, error) {
	before := lv.DeepCopy()
	controllerutil.AddFinalizer(lv, wellknown.LogicalVolumeFinalizer)
	if lv.Labels[wellknown.CreatedByLabel] == "" {
		if lv.Labels == nil {
			lv.Labels = map[string]string{}
		}
		lv.Labels[wellknown.CreatedByLabel] = wellknown.CreatedByController
	}
	if len(before.Finalizers) == len(lv.Finalizers) && len(before.Labels) == len(lv.Labels) {
		return false, nil
	}
	return true, o.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// ownTags returns the tags that identify an object as the owner of a logical volume.
func (o *objects) ownTags(lv *topolvmv1.LogicalVolume) []string {
	return identity.Tags(lv, o.Cluster, view.Claim(lv))
}

// newTags returns the tags of a new logical volume that describe its object.
func (o *objects) newTags(lv *topolvmv1.LogicalVolume) []string {
	tags := append(o.ownTags(lv), identity.EncryptionTags(lv)...)
	return append(tags, identity.SpreadTags(lv)...)
}

func (o *objects) createFailed(ctx context.Context, lv *topolvmv1.LogicalVolume, err error) (ctrl.Result, error) {
	o.events.Emit(lv, createFailed, o.Node, message(err))
	return o.fail(ctx, lv, err)
}

// created writes that the logical volume exists, with its size in bytes. A copy has no progress any longer.
func (o *objects) created(ctx context.Context, lv *topolvmv1.LogicalVolume, size int64) (ctrl.Result, error) {
	if err := o.removeRecord(ctx, lv); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, o.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.VolumeID = identity.Name(lv)
		s.CurrentSize = resource.NewQuantity(size, resource.BinarySI)
		s.Code = codes.OK
		s.Message = ""
	})
}

// disown ensures that no volume is reported in the status of the object, now or later: a write of an earlier process
// may still be on its way to the API server. disown changes the object, so that this write fails with a conflict.
func (o *objects) disown(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	before := lv.DeepCopy()
	lv.Status.Code = codes.Aborted
	lv.Status.Message = fmt.Sprintf("%v: the logical volume is recreated (%s)", engine.ErrUnfinished,
		time.Now().UTC().Format(time.RFC3339Nano))
	return o.Client.Status().Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// fail writes an error to the status for the client that waits for the result.
func (o *objects) fail(ctx context.Context, lv *topolvmv1.LogicalVolume, cause error) (ctrl.Result, error) {
	code := status.Code(cause)
	err := o.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) { s.Code, s.Message = code, message(cause) })
	if err != nil {
		return ctrl.Result{}, err
	}
	if service.IsRefusal(code) {
		log.FromContext(ctx).Info("refused a request for a logical volume", "code", code.String(), "cause",
			message(cause))
		return ctrl.Result{RequeueAfter: retryRefused}, nil
	}
	return ctrl.Result{}, cause
}

// write patches the status. It returns a conflict if the object has changed since it was read, so that the status
// never describes an outdated spec.
func (o *objects) write(ctx context.Context, lv *topolvmv1.LogicalVolume,
	change func(*topolvmv1.LogicalVolumeStatus)) error {
	before := lv.DeepCopy()
	change(&lv.Status)
	if sameStatus(before.Status, lv.Status) {
		return nil
	}
	err := o.Client.Status().Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

func sameStatus(a, b topolvmv1.LogicalVolumeStatus) bool {
	sizes := a.CurrentSize == nil && b.CurrentSize == nil ||
		a.CurrentSize != nil && b.CurrentSize != nil && a.CurrentSize.Cmp(*b.CurrentSize) == 0
	return a.VolumeID == b.VolumeID && a.Code == b.Code && a.Message == b.Message && sizes
}

// maxMessage is the maximum length of a message in the status, because LVM can print long messages.
const maxMessage = 2048

func message(err error) string {
	text := status.Convert(err).Message()
	return text[:min(len(text), maxMessage)]
}

// writeRecord writes the record of a round if it has changed.
func (o *objects) writeRecord(ctx context.Context, lv *topolvmv1.LogicalVolume, record view.CopyRecord) error {
	before := lv.DeepCopy()
	if err := view.SetCopied(lv, record); err != nil {
		return err
	}
	return o.patchRecord(ctx, lv, before)
}

// removeRecord removes the record of a copy that is complete.
func (o *objects) removeRecord(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	before := lv.DeepCopy()
	delete(lv.Annotations, wellknown.CopiedAnnotation)
	return o.patchRecord(ctx, lv, before)
}

func (o *objects) patchRecord(ctx context.Context, lv, before *topolvmv1.LogicalVolume) error {
	if lv.Annotations[wellknown.CopiedAnnotation] == before.Annotations[wellknown.CopiedAnnotation] {
		return nil
	}
	err := o.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		err = fmt.Errorf("set annotation %s of LogicalVolume %s: %w", wellknown.CopiedAnnotation, lv.Name, err)
	}
	return client.IgnoreNotFound(err)
}

// release removes the finalizer of an object that has no logical volume.
func (o *objects) release(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := o.Removed(identity.Name(lv)); err != nil {
		return fmt.Errorf("logical volume %s was removed: %w", identity.Name(lv), err)
	}
	return o.removeFinalizer(ctx, lv)
}

func (o *objects) removeFinalizer(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	o.events.Clear(lv, createFailed.Reason, expandFailed.Reason, removeFailed.Reason)
	before := lv.DeepCopy()
	controllerutil.RemoveFinalizer(lv, wellknown.LogicalVolumeFinalizer)
	err := o.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

// neverMade returns true if there is nothing to remove although the device class is not available, because the node
// never had it: no volume was reported in the status, and no volume exists.
func (o *objects) neverMade(ctx context.Context, lv *topolvmv1.LogicalVolume) bool {
	if lv.Status.VolumeID != "" || !service.IsRefusal(lv.Status.Code) {
		return false
	}
	exists, err := o.Volumes.Exists(ctx, identity.Name(lv))
	return err == nil && !exists
}

// stopCopy ends the copy of a volume that is removed.
func (o *objects) stopCopy(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	waiting, cancel := context.WithTimeout(ctx, copyStopLimit)
	defer cancel()
	if err := o.Copier.Stop(waiting, copyKey(lv)); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// noOther returns the first error that check returns for a LogicalVolume, or an error if they cannot be listed. what is
// what is searched for.
func (o *objects) noOther(ctx context.Context, what string, check func(*topolvmv1.LogicalVolume) error) error {
	var problem error
	err := paging.Until(ctx, o.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) bool {
		for i := range list.Items {
			if problem = check(&list.Items[i]); problem != nil {
				return true
			}
		}
		return false
	})
	if err != nil {
		return status.Errorf(codes.Unavailable, "list LogicalVolumes, to find %s: %v", what, err)
	}
	return problem
}

// unboundInList checks for a bound PersistentVolume whose name differs from that of the LogicalVolume.
func (o *objects) unboundInList(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	var used error
	err := paging.Until(ctx, o.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) bool {
		for i := range list.Items {
			if volume := &list.Items[i]; refersTo(volume, lv) && used == nil {
				used = inUse(volume)
			}
		}
		return used != nil
	})
	if err != nil {
		return status.Errorf(codes.Unavailable,
			"list PersistentVolumes, one of which may use logical volume %s: %v", identity.Name(lv), err)
	}
	return used
}
