package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// Copies are the operations on the logical volumes to which the data of another volume is copied. engine.Engine
// implements it.
type Copies interface {
	Device(ctx context.Context, class, name string) (*engine.Device, error)
	// CopyRoom returns an error if the pool of a thin class must not get so many bytes of a copy.
	CopyRoom(ctx context.Context, class string, bytes uint64) error
	EnsureTarget(ctx context.Context, t engine.CopyTarget) error
	Rounds
}

// Rounds record what the logical volume of a target has.
type Rounds interface {
	BeginRound(ctx context.Context, class, name, uid, source string) error
	CopiedInRound(ctx context.Context, class, name, uid string, done int64) error
	CompleteRound(ctx context.Context, class, name, uid, source string, content []string) error
	CompleteCopy(ctx context.Context, class, name, uid string, content []string) error
}

// receiver copies the data of other volumes to those of this node, for restores, clones and moves.
type receiver struct{ *objects }

// copying is a logical volume to which the data of another volume is copied: for the target of a move in several
// rounds, otherwise in one.
type copying struct {
	lv *topolvmv1.LogicalVolume
	// node is the node of the source. It is "" if the source has to be read.
	node string
	// record gets the progress of the round.
	record *view.CopyRecord
}

// base returns the snapshot whose data the target is to have before the round, or "" if all data is copied.
func (c copying) base() string {
	if !identity.IsTarget(c.lv) {
		return ""
	}
	return view.CopyBase(c.lv)
}

// receive brings the logical volume of the target of a move to the source that its spec names, a snapshot or a fenced
// thick volume, and writes the record of this round to an annotation. The source of a thin volume changes with each
// round.
func (r *receiver) receive(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	record := recordOf(lv)
	again, err := r.receiveRound(ctx, copying{lv: lv, record: &record})
	if err != nil {
		record.Error = message(err)
	}
	if failed := r.writeRecord(ctx, lv, record); failed != nil {
		return ctrl.Result{}, errors.Join(failed, err)
	}
	switch {
	case errors.Is(err, engine.ErrNotTarget):
		return r.fail(ctx, lv, err) // It was adopted, or another volume has its name: there is nothing to create.
	case err != nil:
		return r.createFailed(ctx, lv, err)
	}
	r.events.Clear(lv, createFailed.Reason)
	return ctrl.Result{RequeueAfter: again}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.Code = codes.OK
		s.Message = ""
	})
}

// recordOf returns the record of the present round of a target, with what the annotation says about it.
func recordOf(lv *topolvmv1.LogicalVolume) view.CopyRecord {
	record, err := view.Copied(lv)
	if err != nil || record.Source != lv.Spec.Source {
		return view.CopyRecord{Source: lv.Spec.Source}
	}
	record.Error, record.Finished = "", false
	return record
}

// receiveRound continues the round of a target, and adds its progress to the record. It returns after which time to
// continue, 0 if the round is complete.
func (r *receiver) receiveRound(ctx context.Context, c copying) (time.Duration, error) {
	lv := c.lv
	if lv.Spec.Source == "" {
		return 0, status.Errorf(codes.InvalidArgument, "LogicalVolume %s is the target of a move and has no source",
			lv.Name)
	}
	if err := r.Volumes.EnsureTarget(ctx, r.copyTarget(lv)); err != nil {
		return 0, err
	}
	device, err := r.Volumes.Device(ctx, lv.Spec.DeviceClass, identity.Name(lv))
	if errors.Is(err, engine.ErrUnfinished) {
		return 0, r.recreateTarget(ctx, lv, err)
	}
	if err != nil {
		return 0, err
	}
	round, err := lvtag.RoundOf(device.Tags)
	if err != nil {
		return 0, status.Errorf(codes.FailedPrecondition, "logical volume %s/%s: %v", device.VolumeGroup, device.Name,
			err)
	}
	switch planRound(round, lv.Spec.Source, c.base(), device.PoolZeroes) {
	case roundComplete:
		complete(c.record, uint64(device.Size))
		return 0, nil
	case roundRestart:
		return r.restart(ctx, lv, device, round)
	case roundBegin:
		if err := r.Volumes.BeginRound(ctx, lv.Spec.DeviceClass, identity.Name(lv), string(lv.UID),
			lv.Spec.Source); err != nil {
			return 0, err
		}
		round.Source, round.Copied = lv.Spec.Source, 0
	}
	return r.copyRound(ctx, c, device, round)
}

// copyTarget returns the logical volume to which a volume is copied. One that is not the target of a move is new until
// its first use, as if it were created empty.
func (r *receiver) copyTarget(lv *topolvmv1.LogicalVolume) engine.CopyTarget {
	tags := r.newTags(lv)
	if !identity.IsTarget(lv) {
		tags = append(tags, wellknown.NewTag)
	}
	return engine.CopyTarget{Class: lv.Spec.DeviceClass, Name: identity.Name(lv), UID: string(lv.UID),
		OptionClass: lv.Spec.LvcreateOptionClass, Size: lv.Spec.Size.Value(), Tags: tags, Source: lv.Spec.Source}
}

// recreateTarget removes a logical volume that its thin pool does not have. The next call creates another one.
func (r *receiver) recreateTarget(ctx context.Context, lv *topolvmv1.LogicalVolume, cause error) error {
	if err := r.stopCopy(ctx, lv); err != nil {
		return err
	}
	if err := r.Volumes.RemoveTarget(ctx, lv.Spec.DeviceClass, identity.Name(lv), string(lv.UID)); err != nil {
		return errors.Join(cause, err)
	}
	return status.Errorf(codes.Aborted, "%v: it is created again", cause)
}

// complete completes the record of a round. size is the size of the target in bytes, if that of the source is unknown.
func complete(record *view.CopyRecord, size uint64) {
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
func planRound(tags lvtag.Round, source, base string, poolZeroes bool) roundStep {
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
func (r *receiver) restart(ctx context.Context, lv *topolvmv1.LogicalVolume, device *engine.Device,
	round lvtag.Round) (time.Duration, error) {
	if err := r.stopCopy(ctx, lv); err != nil {
		return 0, err
	}
	log.FromContext(ctx).Info("copying all data of a volume again", "deviceClass", lv.Spec.DeviceClass, "lv",
		identity.Name(lv), "source", lv.Spec.Source, "cause",
		fmt.Sprintf("the logical volume has the base %q and parts of %q", round.Base, round.Source))
	if device.ThinPool == "" && round.Base == "" {
		return time.Millisecond, r.Volumes.BeginRound(ctx, lv.Spec.DeviceClass, identity.Name(lv), string(lv.UID),
			lv.Spec.Source)
	}
	return time.Millisecond, r.Volumes.RemoveTarget(ctx, lv.Spec.DeviceClass, identity.Name(lv), string(lv.UID))
}

// copyRound copies the data of a round, and waits for a short time.
func (r *receiver) copyRound(ctx context.Context, c copying, device *engine.Device,
	round lvtag.Round) (time.Duration, error) {
	record := c.record
	record.Base = round.Base
	record.CopiedBytes = uint64(round.Copied)
	progress, err := r.copyBlocks(ctx, c, device, round)
	if progress.Size > 0 {
		record.CopiedBytes, record.ComparedBytes = progress.Copied, progress.Compared
		record.SizeBytes, record.SentBytes = progress.Size, progress.Sent
		record.Seconds = progress.Took.Seconds()
	}
	if errors.Is(err, copies.ErrDiffers) {
		_, failed := r.restart(ctx, c.lv, device, round)
		return 0, status.Errorf(codes.Aborted, "%v: all data is copied again (%s)", err, restartOf(failed))
	}
	if err != nil {
		return 0, codedCopyError(err)
	}
	if err := checkFileSystem(c.lv, progress.Content); err != nil {
		return 0, err
	}
	if !progress.Finished {
		return copyPoll, nil
	}
	if err := r.completeRound(ctx, c.lv, progress.Content); err != nil {
		return 0, err
	}
	complete(record, progress.Size)
	log.FromContext(ctx).Info("copied a volume", "deviceClass", c.lv.Spec.DeviceClass, "lv", identity.Name(c.lv),
		"source", c.lv.Spec.Source, "from", round.Base, "size", progress.Size, "took", progress.Took.String())
	return 0, nil
}

// completeRound records that a target has all data of its source. content are the tags of the source.
func (r *receiver) completeRound(ctx context.Context, lv *topolvmv1.LogicalVolume, content []string) error {
	class, uid := lv.Spec.DeviceClass, string(lv.UID)
	if identity.IsTarget(lv) {
		return r.Volumes.CompleteRound(ctx, class, identity.Name(lv), uid, lv.Spec.Source, content)
	}
	if err := r.checkFence(ctx, lv); err != nil {
		return err
	}
	return r.Volumes.CompleteCopy(ctx, class, identity.Name(lv), uid, content)
}

func restartOf(err error) string {
	if err != nil {
		return err.Error()
	}
	return "from the beginning"
}

// copyBlocks begins to copy the data of a round, or continues to.
func (r *receiver) copyBlocks(ctx context.Context, c copying, device *engine.Device,
	round lvtag.Round) (copies.Progress, error) {
	node, err := r.sourceNode(ctx, c)
	if err != nil {
		return copies.Progress{}, err
	}
	from, err := r.SourceOn(ctx, node)
	if err != nil {
		return copies.Progress{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	lv := c.lv
	return r.Copier.Copy(waiting, from, copies.Target{
		Key: copyKey(lv), Name: device.VolumeGroup + "/" + device.Name, Object: lv.Name,
		Device: blockdevice.Identity{Path: device.Path, Number: device.Number, Size: uint64(device.Size)},
		Chunk:  uint64(device.Chunk), Done: uint64(round.Copied), Allocated: uint64(device.Allocated),
		Room: r.roomFor(lv, device),
		Round: copies.Round{Only: !identity.IsTarget(lv), Source: round.Source, Base: round.Base, Sparse: round.Sparse,
			KeepChunks: device.IgnoresDiscards},
	}, func(ctx context.Context, done uint64) error {
		return r.Volumes.CopiedInRound(ctx, lv.Spec.DeviceClass, identity.Name(lv), string(lv.UID), int64(done))
	})
}

// roomFor returns the Room of a copies.Target.
func (r *receiver) roomFor(lv *topolvmv1.LogicalVolume, device *engine.Device) func(context.Context, uint64) error {
	if device.ThinPool == "" {
		return nil
	}
	return func(ctx context.Context, bytes uint64) error {
		return r.Volumes.CopyRoom(ctx, lv.Spec.DeviceClass, bytes)
	}
}

// sourceNode returns the node of the source of a round.
func (r *receiver) sourceNode(ctx context.Context, c copying) (string, error) {
	if c.node != "" {
		return c.node, nil
	}
	source := &topolvmv1.LogicalVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: c.lv.Spec.Source}, source)
	if apierrors.IsNotFound(err) {
		return "", status.Errorf(codes.NotFound, "source %s no longer exists", c.lv.Spec.Source)
	}
	if err != nil {
		return "", fmt.Errorf("read LogicalVolume %s: %w", c.lv.Spec.Source, err)
	}
	return source.Spec.NodeName, nil
}
