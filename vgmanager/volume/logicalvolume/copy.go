package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
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
func (r *receiver) isElsewhere(source, lv *topolvmv1.LogicalVolume) bool {
	return source != nil && (source.Spec.NodeName != r.Node || source.Spec.DeviceClass != lv.Spec.DeviceClass)
}

// isClone returns true for a copy of a thick volume, whose data is copied from the volume itself.
func isClone(lv *topolvmv1.LogicalVolume) bool { return view.CloneVolume(lv) != "" }

// awaitFence does nothing for a clone whose source is not closed yet. The operator writes to the status what the clone
// waits for, unless that has an error of this agent.
func (r *receiver) awaitFence(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	r.events.Clear(lv, createFailed.Reason)
	if lv.Status.Code == codes.OK || lv.Status.Code == codes.Aborted {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) { s.Code, s.Message = codes.OK, "" })
}

// copy creates a logical volume and copies the data of a snapshot to it, or that of a thick volume that is closed, in
// one round. The logical volume has CopyingTag until it was compared with the source, and only then it is written to
// the status.
func (r *receiver) copy(ctx context.Context, lv, source *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	switch {
	case isClone(lv) && fence.Name(lv) == "":
		return r.awaitFence(ctx, lv)
	case !isClone(lv) && source.Spec.AccessType != accessTypeOfSnapshot:
		return r.createFailed(ctx, lv, status.Errorf(codes.FailedPrecondition, "source LogicalVolume %s is not a "+
			"snapshot: only a snapshot is copied to another node or device class", source.Name))
	}
	found, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, identity.Name(lv))
	switch {
	case err == nil && !lvtag.IsCopying(found.Tags):
		return r.created(ctx, lv, int64(found.Size))
	case err != nil && status.Code(err) != codes.NotFound:
		return r.createFailed(ctx, lv, err)
	}
	record := view.CopyRecord{Source: source.Name}
	again, err := r.receiveRound(ctx, copying{lv: lv, node: source.Spec.NodeName, record: &record})
	if err != nil {
		return r.createFailed(ctx, lv, err)
	}
	if !record.Finished {
		return ctrl.Result{RequeueAfter: again}, r.copyProgressed(ctx, lv, record, source.Spec.NodeName)
	}
	if found, err = r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, identity.Name(lv)); err != nil {
		return r.createFailed(ctx, lv, err)
	}
	return r.created(ctx, lv, int64(found.Size))
}

// copyProgressed writes how far a copy is, if that has changed: for the operator to the annotation that the target of a
// move has too, and for people to the status.
func (r *receiver) copyProgressed(ctx context.Context, lv *topolvmv1.LogicalVolume, record view.CopyRecord,
	node string) error {
	message := progressMessage(record, node)
	if lv.Status.Code == codes.Aborted && lv.Status.Message == message && view.HasCopied(lv) {
		return nil
	}
	if err := r.writeRecord(ctx, lv, record); err != nil {
		return err
	}
	return r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.Code = codes.Aborted
		s.Message = message
	})
}

// progressMessage says how far a copy from its source on a node is. Before the size is known, it is 0.
func progressMessage(r view.CopyRecord, node string) string {
	if r.SizeBytes == 0 {
		return fmt.Sprintf("the data of %s is copied from node %s: it waits for other copies, or for the source",
			r.Source, node)
	}
	done, what := r.CopiedBytes, "copied"
	if r.ComparedBytes > 0 || r.CopiedBytes == r.SizeBytes {
		done, what = r.ComparedBytes, "copied, and compared"
	}
	return fmt.Sprintf("the data of %s is %s from node %s: %d of %d MiB (%d %%)", r.Source, what, node, done>>20,
		r.SizeBytes>>20, done*100/r.SizeBytes)
}

// checkFence returns FailedPrecondition if the source of a clone no longer has the fence under which the clone is
// copied, or is being deleted: then it could have been written to before all of it was copied and compared. The agent
// of the source withdraws FencedAnnotation before it opens the volume.
func (r *receiver) checkFence(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if !isClone(lv) {
		return nil
	}
	source := &topolvmv1.LogicalVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: lv.Spec.Source}, source)
	if client.IgnoreNotFound(err) != nil {
		return status.Errorf(codes.Unavailable, "read source LogicalVolume %s: %v", lv.Spec.Source, err)
	}
	if err != nil || !source.DeletionTimestamp.IsZero() ||
		!fence.IsConfirmed(source, fence.OfClone(lv.UID)) || fence.Name(source) != fence.Name(lv) {
		return status.Errorf(codes.FailedPrecondition, "source LogicalVolume %s could be changed since the copy to "+
			"node %s began, so the copy is discarded, and begins again", lv.Spec.Source, lv.Spec.NodeName)
	}
	return nil
}

// copyKey identifies a copy for the Copier.
func copyKey(lv *topolvmv1.LogicalVolume) string {
	return lv.Spec.DeviceClass + "/" + identity.Name(lv)
}

// codedCopyError returns an error with the code for the CSI controller: a refusal if another attempt has the same
// result.
func codedCopyError(err error) error {
	switch {
	case errors.Is(err, copies.ErrGone):
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
