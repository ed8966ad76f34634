package view

import (
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// AdmitCopy returns an error if the pool of a thin class must not get the data of a copy, so that a copy never fills
// it: ResourceExhausted without room for so many bytes, before a copy begins. For 0 bytes, Aborted if it is too full to
// continue. It returns nil for a thick class.
func (v Class) AdmitCopy(bytes uint64) error {
	if v.Pool == nil {
		return nil
	}
	pool := v.VG.Name + "/" + v.Pool.Name
	mark := highWater(v.Config)
	if v.Unread != nil || v.Fill.Data == nil || v.Fill.Metadata == nil {
		return fault.New(fault.Unavailable, "the usage of thin pool %s cannot be read, so nothing is copied to it "+
			"(%v)", pool, v.Unread)
	}
	for _, part := range []struct {
		name          string
		percent, mark float64
	}{{"data", *v.Fill.Data, deviceclass.CopyMark(mark)},
		{"metadata", *v.Fill.Metadata, deviceclass.CopyMark(metadataMark(v.Pool.MetadataSize, mark))}} {
		if part.percent >= part.mark {
			return fault.New(fault.Aborted, "the copy waits for space in thin pool %s: its %s is %.1f%% full, and "+
				"copies to it stop at %.0f%%: add a device to the device class, or delete volumes or snapshots", pool,
				part.name, part.percent, part.mark)
		}
	}
	// A pool that is extended automatically can have the free space of its volume group.
	most := deviceclass.PoolUsage{Size: int64(v.Pool.Size), MetadataSize: int64(v.Pool.MetadataSize),
		Extendable: int64(v.VG.Free), Data: *v.Fill.Data, Metadata: *v.Fill.Metadata, Mark: mark}.CopyFree()
	if float64(bytes) > float64(most) {
		return fault.New(fault.ResourceExhausted, "the copy needs %d MiB in thin pool %s, which has %d MiB until "+
			"its limit for copies of %.0f%%: add a device to the device class, or delete volumes or snapshots",
			bytes>>20, pool, most>>20, deviceclass.CopyMark(mark))
	}
	return nil
}
