package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/fence"
	"github.com/lvm-storage/lvm-operator/vgmanager/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
	"github.com/lvm-storage/lvm-operator/vgmanager/peer"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

const (
	// copyWait is how long one reconcile waits for a copy. A small one is complete by then.
	copyWait = 5 * time.Second
	// copyPoll is the delay until the progress of a copy is reported again.
	copyPoll = 5 * time.Second
	// copyStopLimit is how long the removal of a volume waits until it is no longer copied to.
	copyStopLimit = 10 * time.Second
)

// Copier copies volumes in the background. copies.Copier implements it.
type Copier interface {
	Copy(ctx context.Context, source copies.Source, target copies.Target, record copies.Record) (copies.Progress, error)
	Stop(ctx context.Context, key string) error
	// Ended has the objects whose copies have ended since they were reconciled.
	Ended() <-chan ctrlevent.GenericEvent
}

// isElsewhere reports whether a copy cannot be a snapshot of its source, which is on another node or in another device
// class.
func (r *Reconciler) isElsewhere(source, lv *topolvmv1.LogicalVolume) bool {
	return source != nil && (source.Spec.NodeName != r.Node || source.Spec.DeviceClass != lv.Spec.DeviceClass)
}

// isClone returns true for a copy of a thick volume, whose data is copied from the volume itself.
func isClone(lv *topolvmv1.LogicalVolume) bool {
	return lv.Annotations[v1alpha1.CloneVolumeAnnotation] != ""
}

// awaitFence does nothing for a clone whose source is not closed yet. The operator writes to the status what the clone
// waits for, unless that has an error of this agent.
func (r *Reconciler) awaitFence(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	r.events.Clear(lv, createFailed.Reason)
	if lv.Status.Code == codes.OK || lv.Status.Code == codes.Aborted {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) { s.Code, s.Message = codes.OK, "" })
}

// copy creates a logical volume and copies the data of a snapshot to it, or that of a thick volume that is closed. The
// logical volume has CopyingTag until it was compared with the source, and only then it is written to the status.
func (r *Reconciler) copy(ctx context.Context, lv, source *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	switch {
	case isClone(lv) && lv.Annotations[v1alpha1.FenceTimeAnnotation] == "":
		return r.awaitFence(ctx, lv)
	case !isClone(lv) && source.Spec.AccessType != accessTypeOfSnapshot:
		return r.createFailed(ctx, lv, status.Errorf(codes.FailedPrecondition, "source LogicalVolume %s is not a "+
			"snapshot: only a snapshot is copied to another node or device class", source.Name))
	}
	found, err := r.copyTarget(ctx, lv)
	if err != nil {
		return r.createFailed(ctx, lv, err)
	}
	if !lvmd.IsCopying(found.GetTags()) {
		return r.created(ctx, lv, found.GetSizeBytes())
	}
	progress, err := r.copyData(ctx, lv, source)
	if errors.Is(err, volumecopy.ErrDiffers) || errors.Is(err, lvmd.ErrUnfinished) {
		err = r.copyAgain(ctx, lv, err)
	}
	if err != nil {
		return r.createFailed(ctx, lv, codedCopyError(err))
	}
	if !progress.Finished {
		return ctrl.Result{RequeueAfter: copyPoll}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
			s.Code, s.Message = codes.Aborted, fence.Message(source.Name, source.Spec.NodeName, progress.Copied,
				progress.Compared, progress.Size)
		})
	}
	if err := r.checkFence(ctx, lv); err != nil {
		return r.createFailed(ctx, lv, err)
	}
	if err := r.Volumes.CompleteCopy(ctx, lv.Spec.DeviceClass, name(lv), contentOf(progress)); err != nil {
		return r.createFailed(ctx, lv, err)
	}
	log.FromContext(ctx).Info("copied a volume", "deviceClass", lv.Spec.DeviceClass, "lv", name(lv), "source",
		source.Name, "node", source.Spec.NodeName, "size", progress.Size)
	return r.created(ctx, lv, found.GetSizeBytes())
}

// checkFence returns FailedPrecondition if the source of a clone no longer has the fence under which the clone is
// copied, or is being deleted: then it could have been written to before all of it was copied and compared. The agent
// of the source withdraws FencedAnnotation before it opens the volume.
func (r *Reconciler) checkFence(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if !isClone(lv) {
		return nil
	}
	source := &topolvmv1.LogicalVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: lv.Spec.Source}, source)
	if client.IgnoreNotFound(err) != nil {
		return status.Errorf(codes.Unavailable, "read source LogicalVolume %s: %v", lv.Spec.Source, err)
	}
	fence, a := v1alpha1.CloneFence(lv.UID), source.Annotations
	if err != nil || !source.DeletionTimestamp.IsZero() || a[v1alpha1.FenceAnnotation] != fence ||
		a[v1alpha1.FencedAnnotation] != fence ||
		a[v1alpha1.FenceTimeAnnotation] != lv.Annotations[v1alpha1.FenceTimeAnnotation] {
		return status.Errorf(codes.FailedPrecondition, "source LogicalVolume %s could be changed since the copy to "+
			"node %s began, so the copy is discarded, and begins again", lv.Spec.Source, lv.Spec.NodeName)
	}
	return nil
}

// copyTarget returns the logical volume of a copy. It creates it if it does not exist.
func (r *Reconciler) copyTarget(ctx context.Context, lv *topolvmv1.LogicalVolume) (*proto.LogicalVolume, error) {
	found, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, name(lv))
	if status.Code(err) != codes.NotFound {
		return found, err
	}
	tags := append(r.newTags(lv), v1alpha1.NewTag, v1alpha1.CopyingTag)
	created, err := r.Volumes.CreateLV(ctx, &proto.CreateLVRequest{Name: name(lv), DeviceClass: lv.Spec.DeviceClass,
		LvcreateOptionClass: lv.Spec.LvcreateOptionClass, SizeBytes: lv.Spec.Size.Value(), Tags: tags})
	if err != nil {
		return nil, err
	}
	return &proto.LogicalVolume{Name: name(lv), SizeBytes: created.GetVolume().GetSizeBytes(), Tags: tags}, nil
}

// copyData begins to copy the data, or continues to, and waits for a short time.
func (r *Reconciler) copyData(ctx context.Context, lv, source *topolvmv1.LogicalVolume) (copies.Progress, error) {
	class := lv.Spec.DeviceClass
	device, err := r.Volumes.Device(ctx, class, name(lv))
	if err != nil {
		return copies.Progress{}, err
	}
	done, err := lvmd.CopiedBytes(device.Tags)
	if err != nil {
		return copies.Progress{}, fmt.Errorf("logical volume %s/%s: %w", device.VolumeGroup, device.Name, err)
	}
	from, err := r.SourceOn(ctx, source.Spec.NodeName)
	if err != nil {
		return copies.Progress{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	return r.Copier.Copy(waiting, from, copies.Target{
		Key: copyKey(lv), Name: device.VolumeGroup + "/" + device.Name, Object: lv.Name,
		Device: volumecopy.Identity{Path: device.Path, Number: device.Number, Size: uint64(device.Size)},
		Chunk:  uint64(device.Chunk), PoolZeroes: device.PoolZeroes, Done: uint64(done),
	}, func(ctx context.Context, done uint64) error {
		return r.Volumes.Copied(ctx, class, name(lv), int64(done))
	})
}

// copyAgain removes a logical volume that differs from its source, or that its pool does not have, so that the next
// attempt creates another one.
func (r *Reconciler) copyAgain(ctx context.Context, lv *topolvmv1.LogicalVolume, cause error) error {
	if err := r.disown(ctx, lv); err != nil {
		return err
	}
	if err := r.Volumes.Discard(ctx, lv.Spec.DeviceClass, name(lv)); err != nil {
		return errors.Join(cause, err)
	}
	return status.Errorf(codes.Aborted, "%v: the copy is made again", cause)
}

// stopCopy ends the copy of a volume that is removed.
func (r *Reconciler) stopCopy(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	waiting, cancel := context.WithTimeout(ctx, copyStopLimit)
	defer cancel()
	if err := r.Copier.Stop(waiting, copyKey(lv)); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// copyKey identifies a copy for the Copier.
func copyKey(lv *topolvmv1.LogicalVolume) string { return lv.Spec.DeviceClass + "/" + name(lv) }

// contentOf returns the tags that describe the content of a source. It ignores other ones: the source does not say
// what the target is.
func contentOf(p copies.Progress) []string { return lvmd.Inherited(p.Content) }

// codedCopyError returns an error with the code for the CSI controller: a refusal if another attempt has the same
// result.
func codedCopyError(err error) error {
	switch {
	case errors.Is(err, peer.ErrGone):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, copies.ErrUnsuitable):
		return status.Error(codes.OutOfRange, err.Error())
	case errors.Is(err, unix.ENOSPC):
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	if _, coded := status.FromError(err); coded {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}
