package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// Erasure is a volume that must be erased before it is removed.
type Erasure struct {
	VolumeGroup, Name string
	// Path is the device file of the volume. Number is its device number, MAJOR:MINOR.
	Path, Number string
	// Size is the size of the volume in bytes. Done is how much of it is erased, from its beginning. Begun is false if
	// nothing was erased yet.
	Size, Done int64
	Begun      bool
	// Discard: the blocks are discarded. Otherwise they are overwritten with zeros.
	Discard bool
}

// Erasure returns what must be erased before a volume is removed. It returns nil if the volume can be removed as it is:
// its class does not erase volumes, or nobody has used it, or it is a pending snapshot of a group, which may have no
// data and cannot be activated. It activates the volume if necessary.
//
// It returns the errors of RemoveLV, and FailedPrecondition if the volume is in use, or if the device file does not
// belong to it. running says that the caller is erasing the volume, and therefore uses it.
func (r *Remover) Erasure(ctx context.Context, class, name string, running bool) (*Erasure, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var found *Erasure
	err := r.withFreshRetry(ctx, class, func(v view.Class) (err error) {
		found, err = r.erasureIn(ctx, v, name, running)
		return err
	})
	return found, err
}

func (r *Remover) erasureIn(ctx context.Context, v view.Class, name string, running bool) (*Erasure, error) {
	if err := removable(v, name); err != nil {
		return nil, err
	}
	lv := v.VG.LV(name)
	method := v.Config.Erase()
	unused := slices.Contains(lv.Tags, wellknown.NewTag) && !lvtag.IsCopying(lv.Tags)
	if method == deviceclass.EraseNone || unused || isPending(lv) || isThickSnapshot(lv) || v.IsLost(name) {
		return nil, nil
	}
	if lv.IsCached() {
		// What is written can be in the cache only, which is removed with the volume.
		return nil, fault.New(fault.FailedPrecondition, "logical volume %[1]s/%[2]s has a cache (%[3]s) and "+
			"cannot be erased before its removal: detach the cache on the node: lvconvert --splitcache %[1]s/%[2]s; "+
			"the logical volume of the cache stays and has data of the volume: erase and remove it too", v.VG.Name,
			name, lv.SegType)
	}
	found := &Erasure{VolumeGroup: v.VG.Name, Name: name, Path: lv.Path, Size: int64(lv.Size),
		Discard: method == deviceclass.EraseDiscard}
	if err := found.parse(lv.Tags); err != nil {
		return nil, fault.New(fault.FailedPrecondition, "logical volume %s/%s: %v", v.VG.Name, name, err)
	}
	if found.Done >= found.Size {
		return nil, nil
	}
	number, err := r.deviceToErase(ctx, v, lv, running)
	if err != nil {
		return nil, err
	}
	found.Number = number
	return found, nil
}

// isThickSnapshot returns true for a snapshot that is not thin. Zeros that are written to it use its space for changed
// blocks, and do not overwrite those of its origin.
func isThickSnapshot(lv *lvm.LV) bool { return lv.Origin != "" && !lv.Attr.IsThinVolume() }

// parse reads how much is erased from the tags of the volume.
func (e *Erasure) parse(tags []string) error {
	for _, tag := range tags {
		text, ok := strings.CutPrefix(tag, wellknown.ErasedTagPrefix)
		if !ok {
			continue
		}
		done, err := strconv.ParseInt(text, 10, 64)
		if err != nil || done < 0 {
			return errors.New("its tag " + tag + " is not a number of bytes: remove the tag with lvchange --deltag")
		}
		e.Begun = true
		e.Done = max(e.Done, done)
	}
	return nil
}

// deviceToErase returns the device number of a volume, from the kernel. It returns an error if another program uses the
// volume.
func (r *Remover) deviceToErase(ctx context.Context, v view.Class, lv *lvm.LV, running bool) (string, error) {
	if r.kernel == nil {
		return deviceOf(lv), nil
	}
	device, err := r.activeDevice(ctx, v, lv)
	var inactive *activationError
	if errors.As(err, &inactive) {
		return "", fault.Of(fmt.Errorf("logical volume %s/%s must be active to be erased before its removal: %w. To "+
			"remove it without that, set eraseOnDelete: None in device class %s", v.VG.Name, lv.Name, inactive.error,
			v.Config.Name))
	}
	if err != nil {
		return "", err
	}
	if device.Open > 0 && !running {
		return "", fault.New(fault.FailedPrecondition, "logical volume %s/%s is in use: %s", v.VG.Name, lv.Name,
			r.usersOf(ctx, device.Number))
	}
	return device.Number, nil
}

// Erased records that a volume is erased up to a number of bytes. It replaces the earlier record.
func (r *Remover) Erased(ctx context.Context, class, name string, done int64) error {
	return r.onVolume(ctx, class, name, func(v view.Class, lv *lvm.LV) error {
		tag := wellknown.ErasedTagPrefix + strconv.FormatInt(done, 10)
		var old []string
		for _, present := range lv.Tags {
			if strings.HasPrefix(present, wellknown.ErasedTagPrefix) && present != tag {
				old = append(old, present)
			}
		}
		return fault.Of(r.lvm.Apply(ctx, lvm.LVChangeTags{VG: v.VG.Name, Name: name, Add: []string{tag},
			Remove: old}))
	})
}
