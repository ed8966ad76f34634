package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// remover removes the logical volumes of objects that are deleted.
type remover struct {
	*objects
	mover mover
	// grouping is held while a pending snapshot of a group is created or removed.
	grouping sync.Mutex
}

// erasePoll is the delay until the progress of an erasure is reported again.
const erasePoll = 10 * time.Second

// remove erases the logical volume if its device class asks for that, removes it, and then removes the finalizer. If
// the logical volume does not exist, it was never created, or an earlier process removed it and ended before it removed
// the finalizer.
func (r *remover) remove(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(lv, wellknown.LogicalVolumeFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.stopCopy(ctx, lv); err != nil {
		return r.fail(ctx, lv, err)
	}
	if view.GroupPending(lv) != "" {
		r.grouping.Lock()
		defer r.grouping.Unlock()
	}
	if identity.IsTarget(lv) {
		return r.removeTarget(ctx, lv)
	}
	if done, err := r.mover.retireBeforeRemoval(ctx, lv); done || err != nil {
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
			s.Code = codes.Aborted
			s.Message = progress
		})
	}
	return ctrl.Result{}, r.release(ctx, lv)
}

// eraseAndRemove removes the logical volume. While it is being erased, it returns a text about the progress instead.
// Each time, it checks again that nothing needs the data.
func (r *remover) eraseAndRemove(ctx context.Context, lv *topolvmv1.LogicalVolume) (progress string, err error) {
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
func (r *remover) mayRemove(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
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
		if erased, ok := strings.CutPrefix(tag, wellknown.ErasedTagPrefix); ok {
			return erased
		}
	}
	return ""
}

// removable returns an error if the logical volume belongs to another object. A status that was edited or restored
// from a backup can have the name of that volume.
func (r *remover) removable(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
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

// takenBack returns an error if a logical volume was retired and is to be that of the volume again, or if that is
// unknown. The volume that has adopted it gave it its own name, and a volume that no longer exists needs none.
func (r *remover) takenBack(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if !view.IsRetired(lv) || view.MoveBack(lv) == "" || view.MoveBack(lv) == r.Node {
		return nil
	}
	_, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, identity.Name(lv))
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	volume, _, _ := view.Retired(lv)
	err = r.noOther(ctx, "the volume of the retired logical volume "+identity.Name(lv),
		func(other *topolvmv1.LogicalVolume) error {
			if other.UID == lv.UID || identity.Name(other) != volume {
				return nil
			}
			return status.Errorf(codes.Unavailable, "volume %s is moved back to this node: its logical volume %s is "+
				"not removed", other.Name, identity.Name(lv))
		})
	if err != nil {
		return err
	}
	moved := lv.DeepCopy()
	moved.Status.VolumeID = volume
	return r.unboundInList(ctx, moved)
}

// removeTarget removes the logical volume of a target, unless it was adopted, and then the finalizer.
func (r *remover) removeTarget(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	progress, err := r.eraseTarget(ctx, lv)
	gone := status.Code(err) == codes.NotFound || errors.Is(err, engine.ErrNotTarget)
	if err != nil && !gone && !r.neverMade(ctx, lv) {
		r.events.Emit(lv, removeFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	if progress != "" {
		return ctrl.Result{RequeueAfter: erasePoll}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
			s.Code = codes.Aborted
			s.Message = progress
		})
	}
	// The records of the node about the logical volume's name are those of the volume.
	return ctrl.Result{}, r.removeFinalizer(ctx, lv)
}

// eraseTarget erases and removes the logical volume of a target. Each step checks again that it is still the target's.
func (r *remover) eraseTarget(ctx context.Context, lv *topolvmv1.LogicalVolume) (progress string, err error) {
	class, uid := lv.Spec.DeviceClass, string(lv.UID)
	if err := r.unadopted(ctx, lv); err != nil {
		return "", err
	}
	if err := r.Volumes.AbandonTarget(ctx, class, identity.Name(lv), uid); err != nil {
		return "", err
	}
	progress, err = r.Volumes.EraseVolume(ctx, r.Eraser, class, identity.Name(lv))
	if err != nil || progress != "" {
		return progress, err
	}
	return "", r.Volumes.RemoveTarget(ctx, class, identity.Name(lv), uid)
}

// unadopted returns an error if the volume was moved to this node, and so to the logical volume of the target.
func (r *remover) unadopted(ctx context.Context, target *topolvmv1.LogicalVolume) error {
	what := "one that was moved to logical volume " + identity.Name(target)
	return r.noOther(ctx, what, func(lv *topolvmv1.LogicalVolume) error {
		owns := lv.Status.VolumeID == identity.Name(target) && lv.Spec.NodeName == r.Node && view.Adopts(lv) != ""
		if !owns && view.Adopts(lv) != string(target.UID) {
			return nil
		}
		return status.Errorf(codes.Unavailable, "LogicalVolume %s was moved to logical volume %s and has not adopted "+
			"it yet, so it is not removed", lv.Name, identity.Name(target))
	})
}
