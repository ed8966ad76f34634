package logicalvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

// receive brings the logical volume of the target of a move to the source that its spec names, a snapshot or a fenced
// thick volume, and writes the record of this round to an annotation. The source of a thin volume changes with each
// round.
func (r *Reconciler) receive(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	record := recordOf(lv)
	again, err := r.receiveRound(ctx, lv, &record)
	if err != nil {
		record.Error = message(err)
	}
	if failed := r.writeRecord(ctx, lv, record); failed != nil {
		return ctrl.Result{}, errors.Join(failed, err)
	}
	switch {
	case errors.Is(err, lvmd.ErrNotTarget):
		return r.fail(ctx, lv, err) // It was adopted, or another volume has its name: there is nothing to create.
	case err != nil:
		return r.createFailed(ctx, lv, err)
	}
	r.events.Clear(lv, createFailed.Reason)
	return ctrl.Result{RequeueAfter: again}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.Code, s.Message = codes.OK, ""
	})
}

// recordOf returns the record of the present round of a target, with what the annotation says about it.
func recordOf(lv *topolvmv1.LogicalVolume) v1alpha1.CopyRecord {
	record, err := v1alpha1.ParseCopyRecord(lv.Annotations[v1alpha1.CopiedAnnotation])
	if err != nil || record.Source != lv.Spec.Source {
		return v1alpha1.CopyRecord{Source: lv.Spec.Source}
	}
	record.Error, record.Finished = "", false
	return record
}

// writeRecord writes the record of a round if it has changed.
func (r *Reconciler) writeRecord(ctx context.Context, lv *topolvmv1.LogicalVolume, record v1alpha1.CopyRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode the record of a copy: %w", err)
	}
	if lv.Annotations[v1alpha1.CopiedAnnotation] == string(text) {
		return nil
	}
	before := lv.DeepCopy()
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, v1alpha1.CopiedAnnotation, string(text))
	err = r.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		err = fmt.Errorf("set annotation %s of LogicalVolume %s: %w", v1alpha1.CopiedAnnotation, lv.Name, err)
	}
	return client.IgnoreNotFound(err)
}

// receiveRound continues the round of a target, and adds its progress to the record. It returns after which time to
// continue, 0 if the round is complete.
func (r *Reconciler) receiveRound(ctx context.Context, lv *topolvmv1.LogicalVolume,
	record *v1alpha1.CopyRecord) (time.Duration, error) {
	class, uid := lv.Spec.DeviceClass, string(lv.UID)
	if lv.Spec.Source == "" {
		return 0, status.Errorf(codes.InvalidArgument, "LogicalVolume %s is the target of a move and has no source",
			lv.Name)
	}
	if err := r.Volumes.EnsureTarget(ctx, lvmd.MoveTarget{Class: class, Name: name(lv), UID: uid,
		OptionClass: lv.Spec.LvcreateOptionClass, Size: lv.Spec.Size.Value(), Tags: r.newTags(lv),
		Source: lv.Spec.Source}); err != nil {
		return 0, err
	}
	device, err := r.Volumes.Device(ctx, class, name(lv))
	if err != nil {
		return 0, err
	}
	round, err := lvmd.RoundOf(device.Tags)
	if err != nil {
		return 0, status.Errorf(codes.FailedPrecondition, "logical volume %s/%s: %v", device.VolumeGroup, device.Name,
			err)
	}
	switch planRound(round, lv.Spec.Source, lv.Annotations[v1alpha1.CopyBaseAnnotation], device.PoolZeroes) {
	case roundComplete:
		complete(record, uint64(device.Size))
		return 0, nil
	case roundRestart:
		return r.restart(ctx, lv, device, round)
	case roundBegin:
		if err := r.Volumes.BeginRound(ctx, class, name(lv), uid, lv.Spec.Source); err != nil {
			return 0, err
		}
		round.Source, round.Copied = lv.Spec.Source, 0
	}
	return r.copyRound(ctx, lv, device, round, record)
}

// complete completes the record of a round. size is the size of the target in bytes, if that of the source is unknown.
func complete(record *v1alpha1.CopyRecord, size uint64) {
	if record.SizeBytes == 0 {
		record.SizeBytes = size
	}
	record.CopiedBytes, record.ComparedBytes, record.Finished = record.SizeBytes, record.SizeBytes, true
}

// roundStep is what to do with the logical volume of a target.
type roundStep int

const (
	// roundContinue: copy the data of the round that its tags describe.
	roundContinue roundStep = iota
	// roundBegin: it has the base of the round. Record that the round has begun.
	roundBegin
	// roundComplete: it has all data of the source.
	roundComplete
	// roundRestart: create it again, and copy everything. It has parts of another snapshot, or none that the agent of
	// the source can compare with.
	roundRestart
)

// planRound decides what to do, from the tags of a target, the snapshots that its spec names, and whether its thin pool
// sets new chunks to zero.
func planRound(tags lvmd.Round, source, base string, poolZeroes bool) roundStep {
	switch {
	case tags.Source == "" && tags.Base == source:
		return roundComplete
	case tags.Sparse && !poolZeroes:
		return roundRestart // A chunk that gets its first data now has anything in the rest.
	case tags.Source == source && (tags.Base == "" || tags.Base == base):
		return roundContinue
	case tags.Source == "" && tags.Base != "" && tags.Base == base:
		return roundBegin
	}
	return roundRestart
}

// restart removes the logical volume of a target. The next call creates another one. A thick one is kept, and all of it
// is written again: a removed one would leave its data on the disks.
func (r *Reconciler) restart(ctx context.Context, lv *topolvmv1.LogicalVolume, device *lvmd.Device,
	round lvmd.Round) (time.Duration, error) {
	if err := r.stopCopy(ctx, lv); err != nil {
		return 0, err
	}
	log.FromContext(ctx).Info("copying all data of a volume again", "deviceClass", lv.Spec.DeviceClass, "lv", name(lv),
		"source", lv.Spec.Source, "cause", fmt.Sprintf("the logical volume has the base %q and parts of %q", round.Base,
			round.Source))
	if device.ThinPool == "" && round.Base == "" {
		return time.Millisecond, r.Volumes.BeginRound(ctx, lv.Spec.DeviceClass, name(lv), string(lv.UID),
			lv.Spec.Source)
	}
	return time.Millisecond, r.Volumes.RemoveTarget(ctx, lv.Spec.DeviceClass, name(lv), string(lv.UID))
}

// copyRound copies the data of a round, and waits for a short time.
func (r *Reconciler) copyRound(ctx context.Context, lv *topolvmv1.LogicalVolume, device *lvmd.Device, round lvmd.Round,
	record *v1alpha1.CopyRecord) (time.Duration, error) {
	record.Base = round.Base
	record.CopiedBytes = uint64(round.Copied)
	progress, err := r.copyBlocks(ctx, lv, device, round)
	if progress.Size > 0 {
		record.CopiedBytes, record.ComparedBytes = progress.Copied, progress.Compared
		record.SizeBytes, record.SentBytes = progress.Size, progress.Sent
		record.Seconds = progress.Took.Seconds()
	}
	if errors.Is(err, volumecopy.ErrDiffers) {
		_, failed := r.restart(ctx, lv, device, round)
		return 0, status.Errorf(codes.Aborted, "%v: all data is copied again (%s)", err, restartOf(failed))
	}
	if err != nil {
		return 0, codedCopyError(err)
	}
	if !progress.Finished {
		return copyPoll, nil
	}
	if err := r.Volumes.CompleteRound(ctx, lv.Spec.DeviceClass, name(lv), string(lv.UID), lv.Spec.Source,
		progress.Content); err != nil {
		return 0, err
	}
	complete(record, progress.Size)
	log.FromContext(ctx).Info("copied a round of a move", "deviceClass", lv.Spec.DeviceClass, "lv", name(lv), "source",
		lv.Spec.Source, "from", round.Base, "size", progress.Sent, "took", progress.Took.String())
	return 0, nil
}

func restartOf(err error) string {
	if err != nil {
		return err.Error()
	}
	return "from the beginning"
}

// copyBlocks begins to copy the data of a round, or continues to.
func (r *Reconciler) copyBlocks(ctx context.Context, lv *topolvmv1.LogicalVolume, device *lvmd.Device,
	round lvmd.Round) (copies.Progress, error) {
	source := &topolvmv1.LogicalVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: lv.Spec.Source}, source)
	if apierrors.IsNotFound(err) {
		return copies.Progress{}, status.Errorf(codes.NotFound, "source %s no longer exists", lv.Spec.Source)
	}
	if err != nil {
		return copies.Progress{}, fmt.Errorf("read LogicalVolume %s: %w", lv.Spec.Source, err)
	}
	from, err := r.SourceOn(ctx, source.Spec.NodeName)
	if err != nil {
		return copies.Progress{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	class, uid := lv.Spec.DeviceClass, string(lv.UID)
	return r.Copier.Copy(waiting, from, copies.Target{
		Key: copyKey(lv), Name: device.VolumeGroup + "/" + device.Name, Object: lv.Name,
		Device: volumecopy.Identity{Path: device.Path, Number: device.Number, Size: uint64(device.Size)},
		Chunk:  uint64(device.Chunk), PoolZeroes: device.PoolZeroes, Done: uint64(round.Copied),
		Round: &copies.Round{Source: round.Source, Base: round.Base, Sparse: round.Sparse,
			KeepChunks: device.IgnoresDiscards},
	}, func(ctx context.Context, done uint64) error {
		return r.Volumes.CopiedInRound(ctx, class, name(lv), uid, int64(done))
	})
}
