package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// ErasedTagPrefix is ErasedTagPrefix of the API, which the engine does not import.
const ErasedTagPrefix = "lvms.erased="

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
func (e *Engine) Erasure(ctx context.Context, class, name string, running bool) (*Erasure, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var found *Erasure
	err := e.withFreshRetry(ctx, class, func(l classView) (err error) {
		found, err = e.erasureIn(ctx, l, name, running)
		return err
	})
	return found, err
}

func (e *Engine) erasureIn(ctx context.Context, l classView, name string, running bool) (*Erasure, error) {
	if err := l.removable(name); err != nil {
		return nil, err
	}
	lv := l.vg.LV(name)
	method := l.class.Erase()
	unused := slices.Contains(lv.Tags, TagNew) && !IsCopying(lv.Tags)
	if method == deviceclass.EraseNone || unused || isPending(lv) || isThickSnapshot(lv) || l.isLost(name) {
		return nil, nil
	}
	if lv.IsCached() {
		// What is written can be in the cache only, which is removed with the volume.
		return nil, status.Errorf(codes.FailedPrecondition, "logical volume %[1]s/%[2]s has a cache (%[3]s) and "+
			"cannot be erased before its removal: detach the cache on the node: lvconvert --splitcache %[1]s/%[2]s; "+
			"the logical volume of the cache stays and has data of the volume: erase and remove it too", l.vg.Name,
			name, lv.SegType)
	}
	found := &Erasure{VolumeGroup: l.vg.Name, Name: name, Path: lv.Path, Size: int64(lv.Size),
		Discard: method == deviceclass.EraseDiscard}
	if err := found.parse(lv.Tags); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "logical volume %s/%s: %v", l.vg.Name, name, err)
	}
	if found.Done >= found.Size {
		return nil, nil
	}
	number, err := e.deviceToErase(ctx, l, lv, running)
	if err != nil {
		return nil, err
	}
	found.Number = number
	return found, nil
}

// isThickSnapshot returns true for a snapshot that is not thin. Zeros that are written to it use its space for changed
// blocks, and do not overwrite those of its origin.
func isThickSnapshot(lv *lvm.LV) bool { return lv.Origin != "" && !lv.Attr.IsThinVolume() }

// isLost returns true if all devices with data of a volume are missing. Then there is nothing to erase.
func (l classView) isLost(name string) bool {
	lost := false
	for _, pv := range l.vg.PVs {
		if !slices.Contains(l.vg.VolumesOn(pv.UUID), name) {
			continue
		}
		if !pv.Missing {
			return false
		}
		lost = true
	}
	return lost
}

// parse reads how much is erased from the tags of the volume.
func (e *Erasure) parse(tags []string) error {
	for _, tag := range tags {
		text, ok := strings.CutPrefix(tag, ErasedTagPrefix)
		if !ok {
			continue
		}
		done, err := strconv.ParseInt(text, 10, 64)
		if err != nil || done < 0 {
			return errors.New("its tag " + tag + " is not a number of bytes: remove the tag with lvchange --deltag")
		}
		e.Begun, e.Done = true, max(e.Done, done)
	}
	return nil
}

// deviceToErase returns the device number of a volume, from the kernel. It returns an error if another program uses the
// volume.
func (e *Engine) deviceToErase(ctx context.Context, l classView, lv *lvm.LV, running bool) (string, error) {
	if e.kernel == nil {
		return deviceOf(lv), nil
	}
	device, err := e.activeDevice(ctx, l, lv)
	var inactive *activationError
	if errors.As(err, &inactive) {
		return "", statusOf(fmt.Errorf("logical volume %s/%s must be active to be erased before its removal: %w. To "+
			"remove it without that, set eraseOnDelete: None in device class %s", l.vg.Name, lv.Name, inactive.error,
			l.class.Name))
	}
	if err != nil {
		return "", err
	}
	if device.Open > 0 && !running {
		return "", status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is in use: %s", l.vg.Name, lv.Name,
			e.usersOf(ctx, device.Number))
	}
	return device.Number, nil
}

// activationError is the error of LVM when it could not activate a volume.
type activationError struct{ error }

// activeDevice returns the device of a volume, from the kernel. It activates the volume if necessary. It returns an
// activationError if LVM cannot do that.
func (e *Engine) activeDevice(ctx context.Context, l classView, lv *lvm.LV) (devicemapper.Device, error) {
	device, err := e.kernel.Volume(ctx, l.vg.Name, lv.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		if err := e.lvm.Apply(ctx, lvm.LVActivate{VG: l.vg.Name, Name: lv.Name}); err != nil {
			return device, &activationError{error: err}
		}
		device, err = e.kernel.Volume(ctx, l.vg.Name, lv.Name)
	}
	if err != nil {
		return device, status.Errorf(codes.Unavailable, "%v", err)
	}
	if want := "LVM-" + strings.ReplaceAll(l.vg.UUID+lv.UUID, "-", ""); device.UUID != want {
		return device, status.Errorf(codes.FailedPrecondition, "the device of logical volume %s/%s has the UUID %s, "+
			"not %s: another volume group with this name is active", l.vg.Name, lv.Name, device.UUID, want)
	}
	return device, nil
}

// Erased records that a volume is erased up to a number of bytes. It replaces the earlier record.
func (e *Engine) Erased(ctx context.Context, class, name string, done int64) error {
	return e.upkeep(ctx, class, name, func(l classView) error {
		tag := ErasedTagPrefix + strconv.FormatInt(done, 10)
		var old []string
		for _, present := range l.vg.LV(name).Tags {
			if strings.HasPrefix(present, ErasedTagPrefix) && present != tag {
				old = append(old, present)
			}
		}
		return statusOf(e.lvm.Apply(ctx, lvm.LVChangeTags{VG: l.vg.Name, Name: name, Add: []string{tag},
			Remove: old}))
	})
}
