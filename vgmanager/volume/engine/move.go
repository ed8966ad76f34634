package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// This file has the logical volumes to which the data of another volume is copied. A restore or a clone is one round,
// which copies everything. A move to another node has several: each round brings the target from one snapshot of the
// source to the next one. The target of a move has the name of the volume that is moved, so only its tags say whose it
// is:
//   - lvms.uid= of the target's object and lvms.copying, until CompleteCopy, or until Adopt replaces them by those of
//     the volume;
//   - lvms.copy-of= the source of the round in progress, and lvms.copied= the bytes that it has;
//   - lvms.base= the snapshot whose data it has, or from which the round in progress began.

// ErrNotTarget says that a logical volume is not, or no longer, that of the target of a move.
var ErrNotTarget = errors.New("it is not the logical volume of this target")

// requireTarget returns ErrNotTarget unless a logical volume is that of the target with a UID, and not adopted.
func requireTarget(v view.Class, lv *lvm.LV, uid string) error {
	if lvtag.IsCopying(lv.Tags) && slices.Contains(lv.Tags, wellknown.VolumeUIDTagPrefix+uid) {
		return nil
	}
	return fault.Wrap(fault.FailedPrecondition, fmt.Errorf("logical volume %s/%s belongs to the object "+
		"with the UID %s: %w", v.VG.Name, lv.Name, lvtag.Value(lv.Tags, wellknown.VolumeUIDTagPrefix), ErrNotTarget))
}

// findTarget returns the logical volume of the target with a UID: NotFound if there is none with the name, and
// ErrNotTarget if it is another one.
func findTarget(v view.Class, name, uid string) (*lvm.LV, error) {
	lv, err := find(v, name)
	if err != nil {
		return nil, err
	}
	return lv, requireTarget(v, lv, uid)
}

// BeginRound records that the snapshot source is being copied to a target from its beginning on.
func (c *Copies) BeginRound(ctx context.Context, class, name, uid, source string) error {
	return c.changeRound(ctx, class, name, uid, []string{wellknown.CopyOfTagPrefix + source}, func(tag string) bool {
		return strings.HasPrefix(tag, wellknown.CopyOfTagPrefix) || strings.HasPrefix(tag, wellknown.CopiedTagPrefix)
	})
}

// CopiedInRound records up to which byte the round in progress has copied. It replaces the earlier record.
func (c *Copies) CopiedInRound(ctx context.Context, class, name, uid string, done int64) error {
	return c.changeRound(ctx, class, name, uid, []string{wellknown.CopiedTagPrefix + strconv.FormatInt(done, 10)},
		func(tag string) bool { return strings.HasPrefix(tag, wellknown.CopiedTagPrefix) })
}

// CompleteRound records that the target of a move has all data of the snapshot source. content are the tags of the
// source that describe it, which replace those of the round before.
func (c *Copies) CompleteRound(ctx context.Context, class, name, uid, source string, content []string) error {
	tags := append(lvtag.Inherited(content), wellknown.BaseTagPrefix+source)
	return c.changeRound(ctx, class, name, uid, tags, lvtag.IsReplaced)
}

// CompleteCopy records that a target has all data of its only source, and can be used. content are the tags of the
// source that describe it. A tag of the target that says how it is encrypted stays.
func (c *Copies) CompleteCopy(ctx context.Context, class, name, uid string, content []string) error {
	return c.changeRound(ctx, class, name, uid, lvtag.Inherited(content), func(tag string) bool {
		return tag == wellknown.CopyingTag || tag == wellknown.SparseTag || lvtag.IsRound(tag) || lvtag.IsContent(tag)
	})
}

// changeRound gives the logical volume of a target the wanted tags instead of those that replaced selects, in one
// commit.
func (c *Copies) changeRound(ctx context.Context, class, name, uid string, wanted []string,
	replaced func(tag string) bool) error {
	return c.onVolume(ctx, class, name, func(v view.Class, lv *lvm.LV) error {
		if err := requireTarget(v, lv, uid); err != nil {
			return err
		}
		return c.retag(ctx, v, lv, name, wanted, replaced)
	})
}

// FencedDevice returns the device of a volume that has a fence (lvtag.FencedBy), so that nothing writes to it. It reads
// the tags again. It returns FailedPrecondition if the volume does not have this fence, and the errors of Device.
func (c *Copies) FencedDevice(ctx context.Context, class, name, fence string) (*Device, error) {
	var found *Device
	err := c.exclusively(ctx, class, name, func(v view.Class) (err error) {
		lv, err := find(v, name)
		if err != nil {
			return err
		}
		if fenced := lvtag.FencedBy(lv.Tags); fenced != fence || fence == "" || lvtag.IsCopying(lv.Tags) {
			return fault.New(fault.FailedPrecondition, "logical volume %s/%s is not fenced for %s, so it can "+
				"change while it is copied (fenced for: %q)", v.VG.Name, name, lvtag.FenceText(fence), fenced)
		}
		found, err = c.deviceIn(ctx, v, lv)
		return err
	})
	return found, err
}

// Adopt makes the logical volume of the target with a UID that of the volume that was moved. tags are those of the
// volume's object. It returns the size in bytes. If that was done before, it only returns the size. It returns
// FailedPrecondition if the target does not have all data of a snapshot, or its removal has begun. The target can be a
// logical volume that was retired with this UID: it gets the name of the volume. Each of these two commits can be the
// last one of a killed agent.
func (c *Copies) Adopt(ctx context.Context, class, name, target string, tags []string) (size int64, err error) {
	err = c.exclusively(ctx, class, name, func(v view.Class) error {
		lv := v.Volume(name)
		if lv == nil {
			lv = v.Volume(target)
		}
		if lv == nil {
			return fault.New(fault.NotFound, "logical volume %s/%s not found", v.VG.Name, name)
		}
		size = int64(lv.Size)
		isOwn := func(tag string) bool { return strings.HasPrefix(tag, wellknown.VolumeUIDTagPrefix) }
		own := slices.IndexFunc(tags, isOwn)
		if own >= 0 && slices.Contains(lv.Tags, tags[own]) && !lvtag.IsCopying(lv.Tags) {
			return nil
		}
		if !slices.Contains(lv.Tags, wellknown.VolumeUIDTagPrefix+target) {
			return requireTarget(v, lv, target)
		}
		if problem := unusable(lv.Tags); problem != "" {
			return fault.New(fault.FailedPrecondition, "logical volume %s/%s is not used: %s", v.VG.Name, lv.Name,
				problem)
		}
		if lv.Name != name {
			if err := c.lvm.Apply(ctx, lvm.LVRename{VG: v.VG.Name, Name: lv.Name, To: name}); err != nil {
				return fault.Of(err)
			}
		}
		err := c.retag(ctx, v, lv, name, tags, func(tag string) bool {
			return lvtag.IsOwner(tag) || lvtag.IsRound(tag) || tag == wellknown.CopyingTag || tag == wellknown.SparseTag
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
	round, err := lvtag.RoundOf(tags)
	switch {
	case err != nil:
		return err.Error()
	case lvtag.Value(tags, wellknown.ErasedTagPrefix) != "":
		return "its removal has begun"
	case round.Source != "":
		return "it does not have all data of snapshot " + round.Source + " yet"
	case round.Base == "" && lvtag.IsCopying(tags):
		return "it has the data of no snapshot"
	}
	return ""
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
func (c *Copies) Retire(ctx context.Context, r Retirement) (size int64, err error) {
	if err := checkName(r.NewName); err != nil {
		return 0, err
	}
	err = c.exclusively(ctx, r.Class, r.Name, func(v view.Class) error {
		lv := v.Volume(r.NewName)
		renamed := lv != nil
		if !renamed {
			lv = v.Volume(r.Name)
		}
		if lv == nil {
			return fault.New(fault.NotFound, "logical volume %s/%s not found", v.VG.Name, r.Name)
		}
		size = int64(lv.Size)
		done := slices.Contains(lv.Tags, wellknown.VolumeUIDTagPrefix+r.NewName)
		if move := lvtag.FencedBy(lv.Tags); move != r.Move && !(renamed && done) {
			return fault.New(fault.FailedPrecondition, "logical volume %s/%s is not fenced for the VolumeMove "+
				"with the UID %q, so it stays as it is (fenced for: %q)", v.VG.Name, lv.Name, r.Move, move)
		}
		if !renamed {
			if err := c.lvm.Apply(ctx, lvm.LVRename{VG: v.VG.Name, Name: r.Name, To: r.NewName}); err != nil {
				return fault.Of(err)
			}
			log.FromContext(ctx).Info("renamed the earlier logical volume of a moved volume", "deviceClass", r.Class,
				"lv", r.Name, "to", r.NewName)
		}
		return c.retag(ctx, v, lv, r.NewName, r.Tags, func(tag string) bool {
			return lvtag.IsOwner(tag) || strings.HasPrefix(tag, wellknown.FencedTagPrefix)
		})
	})
	return size, err
}
