package lvmd

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
)

// CopyingTag and CopiedTagPrefix are those of the API, which the engine does not import.
const (
	CopyingTag      = "lvms.copying"
	CopiedTagPrefix = "lvms.copied="
)

// Device is the active device of a volume, whose data is copied.
type Device struct {
	VolumeGroup, Name string
	// Path is the device file of the volume. Number is its device number, MAJOR:MINOR.
	Path, Number string
	// Size is the size of the volume in bytes.
	Size int64
	Tags []string
	// ReadOnly: nothing changes the data.
	ReadOnly bool
	// ThinPool is the pool of a thin volume, or "". Chunk is the size of its chunks in bytes. PoolZeroes: it sets new
	// chunks to zero. IgnoresDiscards: the volume cannot give chunks back.
	ThinPool        string
	Chunk           int64
	PoolZeroes      bool
	IgnoresDiscards bool
}

// Device returns the device of a volume. It activates the volume if necessary.
//
// The error wraps ErrUnfinished if the pool of a thin volume does not have it, because the command that created it was
// interrupted. Codes: NotFound, Unavailable, Aborted (ErrUnfinished), FailedPrecondition (another device has the name),
// and the codes of codeTable.
func (e *Engine) Device(ctx context.Context, class, name string) (*Device, error) {
	var found *Device
	err := e.upkeep(ctx, class, name, func(l classView) (err error) {
		found, err = e.deviceIn(ctx, l, l.volume(name))
		return err
	})
	return found, err
}

func (e *Engine) deviceIn(ctx context.Context, l classView, lv *lvm.LV) (*Device, error) {
	d := &Device{VolumeGroup: l.vg.Name, Name: lv.Name, Path: lv.Path, Number: deviceOf(lv), Size: int64(lv.Size),
		Tags: slices.Clone(lv.Tags), ReadOnly: lv.Attr.ReadOnly()}
	if l.pool != nil && lv.PoolName == l.pool.Name {
		d.ThinPool, d.Chunk, d.PoolZeroes = l.pool.Name, int64(l.pool.ChunkSize), l.pool.Zeroes
		d.IgnoresDiscards = l.pool.Discards == lvm.DiscardsIgnore
	}
	if e.kernel == nil {
		return d, nil
	}
	missing, err := e.notInPool(ctx, l, lv)
	if err != nil {
		return nil, err
	}
	if missing {
		return nil, &codedError{code: codes.Aborted, err: fmt.Errorf("logical volume %s/%s: %w", l.vg.Name, lv.Name,
			ErrUnfinished)}
	}
	device, err := e.activeDevice(ctx, l, lv)
	var inactive *activationError
	if errors.As(err, &inactive) {
		return nil, statusOf(fmt.Errorf("logical volume %s/%s must be active to be copied: %w", l.vg.Name, lv.Name,
			inactive.error))
	}
	d.Number = device.Number
	return d, err
}

// Inherited returns the tags of a volume that describe its content, and so apply to a copy.
func Inherited(tags []string) []string {
	var list []string
	for _, tag := range tags {
		if isCopied(tag) || strings.HasPrefix(tag, encryptionTags) {
			list = append(list, tag)
		}
	}
	return list
}

// encryptionTags is the prefix of the tag that records how a volume is encrypted.
const encryptionTags = "lvms.encryption="

// IsCopying reports whether a volume with these tags does not have all data of its source yet.
func IsCopying(tags []string) bool { return slices.Contains(tags, CopyingTag) }

// CopiedBytes returns up to which byte the data of a volume was copied, from its tags.
func CopiedBytes(tags []string) (int64, error) {
	var most int64
	for _, tag := range tags {
		text, is := strings.CutPrefix(tag, CopiedTagPrefix)
		if !is {
			continue
		}
		done, err := strconv.ParseInt(text, 10, 64)
		if err != nil || done < 0 {
			return 0, errors.New("its tag " + tag + " is not a number of bytes: remove the tag with lvchange --deltag")
		}
		most = max(most, done)
	}
	return most, nil
}

// Copied records up to which byte the data of a volume was copied. It replaces the earlier record.
func (e *Engine) Copied(ctx context.Context, class, name string, done int64) error {
	return e.changeCopy(ctx, class, name,
		[]string{CopyingTag, TagNew, CopiedTagPrefix + strconv.FormatInt(done, 10)})
}

// CompleteCopy records that a volume has all data of its source. content are the tags of the source that describe it.
func (e *Engine) CompleteCopy(ctx context.Context, class, name string, content []string) error {
	return e.changeCopy(ctx, class, name, content)
}

// changeCopy replaces the tags of a volume that describe its content and how much of it was copied. It returns
// FailedPrecondition if the volume is not being copied: then it may be in use.
func (e *Engine) changeCopy(ctx context.Context, class, name string, wanted []string) error {
	return e.upkeep(ctx, class, name, func(l classView) error {
		tags := l.volume(name).Tags
		if !IsCopying(tags) {
			return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is not being copied", l.vg.Name, name)
		}
		var remove []string
		for _, tag := range tags {
			ours := tag == CopyingTag || strings.HasPrefix(tag, CopiedTagPrefix) || isContentTag(tag)
			if ours && !slices.Contains(wanted, tag) {
				remove = append(remove, tag)
			}
		}
		add := slices.DeleteFunc(slices.Clone(wanted), func(tag string) bool { return slices.Contains(tags, tag) })
		if len(add)+len(remove) == 0 {
			return nil
		}
		return statusOf(e.lvm.LVChangeTags(ctx,
			lvm.LVTagOptions{VG: l.vg.Name, Name: name, Add: add, Remove: remove}))
	})
}
