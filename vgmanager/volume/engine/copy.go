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
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
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
	ThinPool string
	Chunk    int64
	// Allocated is how many bytes of a thin volume have blocks in its pool.
	Allocated       int64
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
	if err != nil || d.ThinPool == "" {
		return d, err
	}
	mapped, err := e.kernel.MappedSectors(ctx, l.vg.Name, lv.Name)
	d.Allocated = int64(mapped) * 512
	return d, statusOf(err)
}

// CopyRoom returns an error if the pool of a thin class must not get the data of a copy, so that a copy never fills it:
// ResourceExhausted without room for so many bytes, before a copy begins. For 0 bytes, Aborted if it is too full to
// continue. It returns nil for a thick class, and starts no process if there is a report of the last two minutes.
func (e *Engine) CopyRoom(ctx context.Context, class string, bytes uint64) error {
	l, err := e.locate(ctx, class, func(ctx context.Context) (*lvm.Report, error) {
		return e.lvm.Recent(ctx, conditionAge)
	})
	if err != nil || l.pool == nil {
		return err
	}
	pool, mark := l.vg.Name+"/"+l.pool.Name, highWater(l.class)
	if l.unread != nil || l.fill.data == nil || l.fill.metadata == nil {
		return status.Errorf(codes.Unavailable, "the usage of thin pool %s cannot be read, so nothing is copied to it "+
			"(%v)", pool, l.unread)
	}
	for _, part := range []struct {
		name          string
		percent, mark float64
	}{{"data", *l.fill.data, deviceclass.CopyMark(mark)},
		{"metadata", *l.fill.metadata, deviceclass.CopyMark(metadataMark(l.pool.MetadataSize, mark))}} {
		if part.percent >= part.mark {
			return status.Errorf(codes.Aborted, "the copy waits for space in thin pool %s: its %s is %.1f%% full, and "+
				"copies to it stop at %.0f%%: add a device to the device class, or delete volumes or snapshots", pool,
				part.name, part.percent, part.mark)
		}
	}
	// A pool that is extended automatically can have the free space of its volume group.
	most := deviceclass.PoolUsage{Size: int64(l.pool.Size), MetadataSize: int64(l.pool.MetadataSize),
		Extendable: int64(l.vg.Free), Data: *l.fill.data, Metadata: *l.fill.metadata, Mark: mark}.CopyFree()
	if float64(bytes) > float64(most) {
		return status.Errorf(codes.ResourceExhausted, "the copy needs %d MiB in thin pool %s, which has %d MiB until "+
			"its limit for copies of %.0f%%: add a device to the device class, or delete volumes or snapshots",
			bytes>>20, pool, most>>20, deviceclass.CopyMark(mark))
	}
	return nil
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
