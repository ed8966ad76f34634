package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// erasePoll is the delay until the progress of an erasure is reported again.
const erasePoll = 10 * time.Second

// remove erases the logical volume if its device class asks for that, removes it, and then removes the finalizer. If
// the logical volume does not exist, it was never created, or an earlier process removed it and ended before it removed
// the finalizer.
func (r *Reconciler) remove(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(lv, v1alpha1.LogicalVolumeFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.stopCopy(ctx, lv); err != nil {
		return r.fail(ctx, lv, err)
	}
	if service.IsPendingInGroup(lv) {
		r.grouping.Lock()
		defer r.grouping.Unlock()
	}
	if identity.IsTarget(lv) {
		return r.removeTarget(ctx, lv)
	}
	if done, err := r.retireBeforeRemoval(ctx, lv); done || err != nil {
		return ctrl.Result{}, err
	}
	progress, err := r.eraseAndRemove(ctx, lv)
	if err != nil && status.Code(err) != codes.NotFound && !r.neverMade(ctx, lv) {
		r.events.Emit(lv, removeFailed, r.Node, message(err))
		_, failed := r.fail(ctx, lv, err)
		return ctrl.Result{}, errors.Join(failed, fmt.Errorf("logical volume %s: %w", identity.Name(lv), err))
	}
	if progress != "" {
		return ctrl.Result{RequeueAfter: erasePoll}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
			s.Code, s.Message = codes.Aborted, progress
		})
	}
	return ctrl.Result{}, r.release(ctx, lv)
}

// eraseAndRemove removes the logical volume. While it is being erased, it returns a text about the progress instead.
// Each time, it checks again that nothing needs the data.
func (r *Reconciler) eraseAndRemove(ctx context.Context, lv *topolvmv1.LogicalVolume) (progress string, err error) {
	if err := r.mayRemove(ctx, lv); err != nil {
		if stopping := r.Eraser.Stop(ctx, engine.EraseKey(lv.Spec.DeviceClass, identity.Name(lv))); stopping != nil {
			return "", status.Errorf(codes.Unavailable, "%s; %v", message(err), stopping)
		}
		return "", err
	}
	progress, err = r.Volumes.EraseVolume(ctx, r.Eraser, lv.Spec.DeviceClass, identity.Name(lv))
	if err != nil || progress != "" {
		return progress, err
	}
	return "", r.Volumes.RemoveLV(ctx, lv.Spec.DeviceClass, identity.Name(lv))
}

// mayRemove returns an error if something needs the data of the logical volume, or if that is unknown.
func (r *Reconciler) mayRemove(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := r.removable(ctx, lv); err != nil {
		return err
	}
	if err := r.takenBack(ctx, lv); err != nil {
		return err
	}
	return r.unbound(ctx, lv)
}

// erasedBytes returns how much of a logical volume is erased, from its tags, or "" if its removal did not begin.
func erasedBytes(tags []string) string {
	for _, tag := range tags {
		if erased, ok := strings.CutPrefix(tag, v1alpha1.ErasedTagPrefix); ok {
			return erased
		}
	}
	return ""
}

// release removes the finalizer of an object that has no logical volume.
func (r *Reconciler) release(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := r.Removed(identity.Name(lv)); err != nil {
		return fmt.Errorf("logical volume %s was removed: %w", identity.Name(lv), err)
	}
	return r.removeFinalizer(ctx, lv)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	r.events.Clear(lv, createFailed.Reason, expandFailed.Reason, removeFailed.Reason)
	before := lv.DeepCopy()
	controllerutil.RemoveFinalizer(lv, v1alpha1.LogicalVolumeFinalizer)
	err := r.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

// neverMade returns true if there is nothing to remove although the device class is not available, because the node
// never had it: no volume was reported in the status, and no volume exists.
func (r *Reconciler) neverMade(ctx context.Context, lv *topolvmv1.LogicalVolume) bool {
	if lv.Status.VolumeID != "" || !service.IsRefusal(lv.Status.Code) {
		return false
	}
	exists, err := r.Volumes.Exists(ctx, identity.Name(lv))
	return err == nil && !exists
}

// removable returns an error if the logical volume belongs to another object. A status that was edited or restored
// from a backup can have the name of that volume.
func (r *Reconciler) removable(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if identity.Name(lv) == string(lv.UID) {
		return nil
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID != lv.UID && other.Spec.NodeName == r.Node &&
			(string(other.UID) == identity.Name(lv) || other.Status.VolumeID == identity.Name(lv)) {
			return status.Errorf(codes.FailedPrecondition,
				"status.volumeID is %s, which is the logical volume of LogicalVolume %s, so it is not removed: "+
					"correct status.volumeID", identity.Name(lv), other.Name)
		}
	}
	return nil
}
