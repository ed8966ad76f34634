package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// This file has the logical volumes to which the data of another volume is copied. A restore or a clone is one round,
// which copies everything. A move to another node has several: each round brings the target from one snapshot of the
// source to the next one. The target of a move has the name of the volume that is moved, so only its tags say whose it
// is:
//   - lvms.uid= of the target's object and lvms.copying, until CompleteCopy, or until Adopt replaces them by those of
//     the volume;
//   - lvms.copy-of= the source of the round in progress, and lvms.copied= the bytes that it has;
//   - lvms.base= the snapshot whose data it has, or from which the round in progress began.

// The tags of the API, which the engine does not import.
const (
	CopyOfTagPrefix = "lvms.copy-of="
	BaseTagPrefix   = "lvms.base="
	SparseTag       = "lvms.sparse"
	FencedTagPrefix = "lvms.fenced="
	CloneFence      = "clone-"
	uidTags         = "lvms.uid="
)

// ownerTags are the prefixes of the tags that say for which object a logical volume was created.
var ownerTags = []string{uidTags, "lvms.pv=", "lvms.pvc=", "lvms.cluster=", "lvms.spread="}

// ErrNotTarget says that a logical volume is not, or no longer, that of the target of a move.
var ErrNotTarget = errors.New("it is not the logical volume of this target")

// FencedBy returns for what a volume with these tags is fenced, or "": the UID of a VolumeMove, or the one of a clone
// after CloneFence.
func FencedBy(tags []string) string { return tagValue(tags, FencedTagPrefix) }

// FenceText describes for what a volume is fenced.
func FenceText(fence string) string {
	if clone, is := strings.CutPrefix(fence, CloneFence); is {
		return "the clone with the UID " + clone
	}
	return fmt.Sprintf("the VolumeMove with the UID %q", fence)
}

func tagValue(tags []string, prefix string) string {
	for _, tag := range tags {
		if value, is := strings.CutPrefix(tag, prefix); is {
			return value
		}
	}
	return ""
}

// Round is what the tags of a target say about its data.
type Round struct {
	// Source is the LogicalVolume that is being copied, "" if no round is in progress. Copied is up to which byte the
	// round has copied.
	Source string
	Copied int64
	// Base is the snapshot whose data the target has completely if no round is in progress. Otherwise the round copies
	// only the differences to it; without Base, it copies everything.
	Base string
	// Sparse: what was not written reads as zeros. Otherwise all chunks are provided, or have anything.
	Sparse bool
}

// RoundOf returns the Round of a target from its tags.
func RoundOf(tags []string) (Round, error) {
	copied, err := CopiedBytes(tags)
	return Round{Source: tagValue(tags, CopyOfTagPrefix), Base: tagValue(tags, BaseTagPrefix), Copied: copied,
		Sparse: slices.Contains(tags, SparseTag)}, err
}

// CopyTarget describes the logical volume to which a volume is copied.
type CopyTarget struct {
	Class, Name, OptionClass string
	// UID is the UID of its object.
	UID string
	// Size is in bytes. The logical volume can have more.
	Size int64
	// Tags and Source are for a new one: the tags that identify its object, and the source of the first round.
	Tags   []string
	Source string
}

// EnsureTarget creates the logical volume of a target, or extends it. It returns ErrNotTarget (FailedPrecondition) if
// there is another one with its name. The other errors are those of CreateLV and ResizeLV.
func (e *Engine) EnsureTarget(ctx context.Context, t CopyTarget) error {
	if err := checkRequest(t.Name, t.Size); err != nil {
		return err
	}
	leave, err := e.enter(ctx, t.Class)
	if err != nil {
		return err
	}
	defer leave()
	return e.withFreshRetry(ctx, t.Class, func(l classView) error { return e.ensureTargetIn(ctx, l, t) })
}

func (e *Engine) ensureTargetIn(ctx context.Context, l classView, t CopyTarget) error {
	present, err := e.present(ctx, l, t.Name)
	if err != nil {
		return err
	}
	if present != nil {
		if err := l.requireTarget(present, t.UID); err != nil {
			return err
		}
		_, err := e.resizeIn(ctx, l, &proto.ResizeLVRequest{Name: t.Name, DeviceClass: t.Class, SizeBytes: t.Size})
		return err
	}
	options, err := l.options(t.OptionClass)
	if err != nil {
		return err
	}
	tags := append(slices.Clone(t.Tags), CopyingTag, CopyOfTagPrefix+t.Source)
	if l.zeroed() {
		tags = append(tags, SparseTag)
	}
	_, err = e.createNew(ctx, l, &proto.CreateLVRequest{Name: t.Name, DeviceClass: t.Class, Tags: tags},
		lvm.Bytes(t.Size).RoundUp(l.vg.ExtentSize), options)
	return err
}

// requireTarget returns ErrNotTarget unless a logical volume is that of the target with a UID, and not adopted.
func (l classView) requireTarget(lv *lvm.LV, uid string) error {
	if IsCopying(lv.Tags) && slices.Contains(lv.Tags, uidTags+uid) {
		return nil
	}
	return &codedError{code: codes.FailedPrecondition, err: fmt.Errorf("logical volume %s/%s belongs to the object "+
		"with the UID %s: %w", l.vg.Name, lv.Name, tagValue(lv.Tags, uidTags), ErrNotTarget)}
}

// BeginRound records that the snapshot source is being copied to a target from its beginning on.
func (e *Engine) BeginRound(ctx context.Context, class, name, uid, source string) error {
	return e.changeRound(ctx, class, name, uid, []string{CopyOfTagPrefix + source}, func(tag string) bool {
		return strings.HasPrefix(tag, CopyOfTagPrefix) || strings.HasPrefix(tag, CopiedTagPrefix)
	})
}

// CopiedInRound records up to which byte the round in progress has copied. It replaces the earlier record.
func (e *Engine) CopiedInRound(ctx context.Context, class, name, uid string, done int64) error {
	return e.changeRound(ctx, class, name, uid, []string{CopiedTagPrefix + strconv.FormatInt(done, 10)},
		func(tag string) bool { return strings.HasPrefix(tag, CopiedTagPrefix) })
}

// CompleteRound records that the target of a move has all data of the snapshot source. content are the tags of the
// source that describe it, which replace those of the round before.
func (e *Engine) CompleteRound(ctx context.Context, class, name, uid, source string, content []string) error {
	return e.changeRound(ctx, class, name, uid, append(Inherited(content), BaseTagPrefix+source), isReplaced)
}

// CompleteCopy records that a target has all data of its only source, and can be used. content are the tags of the
// source that describe it. A tag of the target that says how it is encrypted stays.
func (e *Engine) CompleteCopy(ctx context.Context, class, name, uid string, content []string) error {
	return e.changeRound(ctx, class, name, uid, Inherited(content), func(tag string) bool {
		return tag == CopyingTag || tag == SparseTag || isRoundTag(tag) || isContentTag(tag)
	})
}

// isReplaced reports whether a tag describes the data of the target of a move, which a complete round replaces.
func isReplaced(tag string) bool {
	return isRoundTag(tag) || isContentTag(tag) || strings.HasPrefix(tag, encryptionTags)
}

func isRoundTag(tag string) bool {
	return strings.HasPrefix(tag, CopyOfTagPrefix) || strings.HasPrefix(tag, CopiedTagPrefix) ||
		strings.HasPrefix(tag, BaseTagPrefix)
}

// changeRound gives the logical volume of a target the wanted tags instead of those that replaced selects, in one
// commit.
func (e *Engine) changeRound(ctx context.Context, class, name, uid string, wanted []string,
	replaced func(tag string) bool) error {
	return e.upkeep(ctx, class, name, func(l classView) error {
		lv := l.volume(name)
		if err := l.requireTarget(lv, uid); err != nil {
			return err
		}
		return e.retag(ctx, l, lv, name, wanted, replaced)
	})
}

// retag gives a logical volume the wanted tags instead of those that replaced selects. It does nothing if it has them.
func (e *Engine) retag(ctx context.Context, l classView, lv *lvm.LV, name string, wanted []string,
	replaced func(tag string) bool) error {
	o := lvm.LVChangeTags{VG: l.vg.Name, Name: name}
	for _, tag := range lv.Tags {
		if replaced(tag) && !slices.Contains(wanted, tag) {
			o.Remove = append(o.Remove, tag)
		}
	}
	for _, tag := range wanted {
		if !slices.Contains(lv.Tags, tag) {
			o.Add = append(o.Add, tag)
		}
	}
	if len(o.Add)+len(o.Remove) == 0 {
		return nil
	}
	return statusOf(e.lvm.Apply(ctx, o))
}

// isOwnerTag reports whether a tag says for which object a logical volume was created.
func isOwnerTag(tag string) bool {
	return slices.ContainsFunc(ownerTags, func(prefix string) bool { return strings.HasPrefix(tag, prefix) })
}

// exclusively runs step with a new report while no volume is created, extended or removed. Like RemoveLV, it returns
// FailedPrecondition if the class is not known, because the volume may exist.
func (e *Engine) exclusively(ctx context.Context, class, name string, step func(l classView) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	leave, err := e.enter(ctx, class)
	if err != nil {
		return err
	}
	defer leave()
	if _, known := e.classes.Load().find(class); !known {
		return status.Errorf(codes.FailedPrecondition, "device class %q is not set up on this node, so it is unknown "+
			"whether logical volume %s exists", class, name)
	}
	return e.attempt(ctx, class, e.lvm.Report, step)
}

// FencedDevice returns the device of a volume that has a fence (FencedBy), so that nothing writes to it. It reads the
// tags again. It returns FailedPrecondition if the volume does not have this fence, and the errors of Device.
func (e *Engine) FencedDevice(ctx context.Context, class, name, fence string) (*Device, error) {
	var found *Device
	err := e.exclusively(ctx, class, name, func(l classView) (err error) {
		lv := l.volume(name)
		if lv == nil {
			return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
		}
		if fenced := FencedBy(lv.Tags); fenced != fence || fence == "" || IsCopying(lv.Tags) {
			return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is not fenced for %s, so it can "+
				"change while it is copied (fenced for: %q)", l.vg.Name, name, FenceText(fence), fenced)
		}
		found, err = e.deviceIn(ctx, l, lv)
		return err
	})
	return found, err
}

// Adopt makes the logical volume of the target with a UID that of the volume that was moved. tags are those of the
// volume's object. It returns the size in bytes. If that was done before, it only returns the size. It returns
// FailedPrecondition if the target does not have all data of a snapshot, or its removal has begun. The target can be a
// logical volume that was retired with this UID: it gets the name of the volume. Each of these two commits can be the
// last one of a killed agent.
func (e *Engine) Adopt(ctx context.Context, class, name, target string, tags []string) (size int64, err error) {
	err = e.exclusively(ctx, class, name, func(l classView) error {
		lv := l.volume(name)
		if lv == nil {
			lv = l.volume(target)
		}
		if lv == nil {
			return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
		}
		size = int64(lv.Size)
		own := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, uidTags) })
		if own >= 0 && slices.Contains(lv.Tags, tags[own]) && !IsCopying(lv.Tags) {
			return nil
		}
		if !slices.Contains(lv.Tags, uidTags+target) {
			return l.requireTarget(lv, target)
		}
		if problem := unusable(lv.Tags); problem != "" {
			return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is not used: %s", l.vg.Name, lv.Name,
				problem)
		}
		if lv.Name != name {
			if err := e.lvm.Apply(ctx, lvm.LVRename{VG: l.vg.Name, Name: lv.Name, To: name}); err != nil {
				return statusOf(err)
			}
		}
		err := e.retag(ctx, l, lv, name, tags, func(tag string) bool {
			return isOwnerTag(tag) || isRoundTag(tag) || tag == CopyingTag || tag == SparseTag
		})
		if err == nil {
			log.FromContext(ctx).Info("adopted the logical volume of a moved volume", "deviceClass", class, "lv", name)
		}
		return err
	})
	return size, err
}

// unusable returns why the logical volume of a target cannot become that of the volume, or "". One that was retired has
// all data.
func unusable(tags []string) string {
	round, err := RoundOf(tags)
	switch {
	case err != nil:
		return err.Error()
	case tagValue(tags, ErasedTagPrefix) != "":
		return "its removal has begun"
	case round.Source != "":
		return "it does not have all data of snapshot " + round.Source + " yet"
	case round.Base == "" && IsCopying(tags):
		return "it has the data of no snapshot"
	}
	return ""
}

// AbandonTarget records that the logical volume of a target is removed, if its class erases volumes: from then on,
// Adopt refuses it. It returns NotFound or ErrNotTarget if there is nothing to remove.
func (e *Engine) AbandonTarget(ctx context.Context, class, name, uid string) error {
	return e.exclusively(ctx, class, name, func(l classView) error {
		lv := l.volume(name)
		if lv == nil {
			return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
		}
		if err := l.requireTarget(lv, uid); err != nil {
			return err
		}
		if l.class.Erase() == deviceclass.EraseNone || tagValue(lv.Tags, ErasedTagPrefix) != "" {
			return nil
		}
		return e.retag(ctx, l, lv, name, []string{ErasedTagPrefix + "0"}, func(string) bool { return false })
	})
}

// RemoveTarget removes the logical volume of a target. It returns NotFound if it does not exist, and ErrNotTarget if
// there is another one with its name, for example because it was adopted.
func (e *Engine) RemoveTarget(ctx context.Context, class, name, uid string) error {
	return e.exclusively(ctx, class, name, func(l classView) error {
		lv := l.volume(name)
		if lv == nil {
			return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
		}
		if err := l.requireTarget(lv, uid); err != nil {
			return err
		}
		return e.removeFrom(ctx, l, []string{name})
	})
}

// Retirement describes the logical volume that a volume had before it was moved to another node.
type Retirement struct {
	// Name is that of the volume, and NewName the one that it gets.
	Class, Name, NewName string
	// Move is the UID of the VolumeMove for which the volume is fenced. It is "" for a volume without a fence, whose
	// node was lost.
	Move string
	// Tags are those of its new object.
	Tags []string
}

// Retire renames the logical volume that a volume had before it was moved, and gives it the tags of another object. It
// returns its size in bytes. It can be repeated: each of its two commands can be the last one of a killed agent. It
// returns NotFound if there is no such logical volume, and FailedPrecondition if it is not fenced for the move.
func (e *Engine) Retire(ctx context.Context, r Retirement) (size int64, err error) {
	if err := checkName(r.NewName); err != nil {
		return 0, err
	}
	err = e.exclusively(ctx, r.Class, r.Name, func(l classView) error {
		lv := l.volume(r.NewName)
		renamed := lv != nil
		if !renamed {
			lv = l.volume(r.Name)
		}
		if lv == nil {
			return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, r.Name)
		}
		size = int64(lv.Size)
		done := slices.Contains(lv.Tags, uidTags+r.NewName)
		if move := FencedBy(lv.Tags); move != r.Move && !(renamed && done) {
			return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is not fenced for the VolumeMove "+
				"with the UID %q, so it stays as it is (fenced for: %q)", l.vg.Name, lv.Name, r.Move, move)
		}
		if !renamed {
			if err := e.lvm.Apply(ctx, lvm.LVRename{VG: l.vg.Name, Name: r.Name, To: r.NewName}); err != nil {
				return statusOf(err)
			}
			log.FromContext(ctx).Info("renamed the earlier logical volume of a moved volume", "deviceClass", r.Class,
				"lv", r.Name, "to", r.NewName)
		}
		return e.retag(ctx, l, lv, r.NewName, r.Tags, func(tag string) bool {
			return isOwnerTag(tag) || strings.HasPrefix(tag, FencedTagPrefix)
		})
	})
	return size, err
}
