package view

import (
	"math"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// freeSpace returns how many bytes the class can provide for new volumes, without subtracting the spare. For a thick
// class with several images (RAID, stripes), or with allocation SingleDevice, it is the maximum size of a single
// volume, after redundancy. It is 0 if the class refuses every new volume, so that the scheduler selects another node.
func (v Class) freeSpace() lvm.Bytes {
	if v.refusal() != "" {
		return 0
	}
	if v.Pool == nil {
		layout, err := lvm.NewLayout(v.Config.CreateOptions())
		if err != nil {
			return 0
		}
		return v.placeNew(layout, 0, AllDisks(v.VG)).Room
	}
	limit := lvm.Bytes(math.Floor(v.Config.ThinPoolConfig.OverprovisionRatio * float64(v.Pool.Size)))
	return max(0, limit-v.Pool.VirtualSize())
}

// Capacity returns the capacity for the scheduler: room minus the spare, in bytes. It is 0 if the thin pool is
// suspended, which snapshots and expansion do not depend on.
func (v Class) Capacity() uint64 {
	if v.suspendedPool() != nil {
		return 0
	}
	return uint64(max(0, v.freeSpace()-lvm.Bytes(v.Config.Spare())))
}
