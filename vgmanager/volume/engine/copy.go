package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// Copies are the logical volumes whose data is copied, and those to which it is copied: for a restore, a clone or a
// move.
type Copies struct{ *node }

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
// interrupted. Reasons: NotFound, Unavailable, Aborted (ErrUnfinished), FailedPrecondition (another device has the
// name), and those of fault.Of.
func (c *Copies) Device(ctx context.Context, class, name string) (*Device, error) {
	var found *Device
	err := c.onVolume(ctx, class, name, func(v view.Class, lv *lvm.LV) (err error) {
		found, err = c.deviceIn(ctx, v, lv)
		return err
	})
	return found, err
}

func (c *Copies) deviceIn(ctx context.Context, v view.Class, lv *lvm.LV) (*Device, error) {
	d := &Device{VolumeGroup: v.VG.Name, Name: lv.Name, Path: lv.Path, Number: deviceOf(lv), Size: int64(lv.Size),
		Tags: slices.Clone(lv.Tags), ReadOnly: lv.Attr.ReadOnly()}
	if v.Pool != nil && lv.PoolName == v.Pool.Name {
		d.ThinPool = v.Pool.Name
		d.Chunk = int64(v.Pool.ChunkSize)
		d.PoolZeroes = v.Pool.Zeroes
		d.IgnoresDiscards = v.Pool.Discards == lvm.DiscardsIgnore
	}
	if c.kernel == nil {
		return d, nil
	}
	missing, err := c.notInPool(ctx, v, lv)
	if err != nil {
		return nil, err
	}
	if missing {
		return nil, fault.Wrap(fault.Aborted, fmt.Errorf("logical volume %s/%s: %w", v.VG.Name, lv.Name,
			ErrUnfinished))
	}
	device, err := c.activeDevice(ctx, v, lv)
	var inactive *activationError
	if errors.As(err, &inactive) {
		return nil, fault.Of(fmt.Errorf("logical volume %s/%s must be active to be copied: %w", v.VG.Name, lv.Name,
			inactive.error))
	}
	d.Number = device.Number
	if err != nil || d.ThinPool == "" {
		return d, err
	}
	mapped, err := c.kernel.MappedSectors(ctx, v.VG.Name, lv.Name)
	d.Allocated = int64(mapped) * 512
	return d, fault.Of(err)
}

// CopyRoom returns an error if the pool of a thin class must not get the data of a copy (view.Class.AdmitCopy). It
// starts no process if there is a report of the last two minutes.
func (c *Copies) CopyRoom(ctx context.Context, class string, bytes uint64) error {
	v, err := c.locate(ctx, class, c.recent)
	if err != nil {
		return err
	}
	return v.AdmitCopy(bytes)
}
