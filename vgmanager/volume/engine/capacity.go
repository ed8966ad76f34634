package engine

import (
	"context"
	"math"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// freeSpace returns how many bytes the class can provide for new volumes, without subtracting the spare. For a thick
// class with several images (RAID, stripes), or with allocation SingleDevice, it is the maximum size of a single
// volume, after redundancy. It is 0 if the class refuses every new volume, so that the scheduler selects another node.
func (l classView) freeSpace() lvm.Bytes {
	if l.refusal() != "" {
		return 0
	}
	if l.pool == nil {
		layout, err := lvm.NewLayout(l.class.CreateOptions())
		if err != nil {
			return 0
		}
		return l.placeNew(layout, 0, allDisks(l.vg)).room
	}
	limit := lvm.Bytes(math.Floor(l.class.ThinPoolConfig.OverprovisionRatio * float64(l.pool.Size)))
	return max(0, limit-l.pool.VirtualSize())
}

// capacity returns the capacity for the scheduler: room minus the spare, in bytes. It is 0 if the thin pool is
// suspended, which snapshots and expansion do not depend on.
func (l classView) capacity() uint64 {
	if l.suspendedPool() != nil {
		return 0
	}
	return uint64(max(0, l.freeSpace()-spare(l.class)))
}

// ClassState is the capacity and usage of a device class. Sizes are in bytes.
type ClassState struct {
	Name    string
	Default bool
	// Err is set if the volume group or the thin pool of the class is not available. The sizes are then unknown.
	Err error
	// Capacity is the space for new volumes. For a thick class with redundancy, stripes or allocation SingleDevice, it
	// is the maximum size of a single volume. For a thin class it is the total of all new volumes.
	Capacity uint64
	// Size and Free are the size and free space of the volume group, before redundancy.
	Size, Free uint64
	// Thin: the following fields are set. The percentages are nil while the pool is not active.
	Thin                         bool
	PoolSize                     uint64
	DataPercent, MetadataPercent *float64
}

// States returns the state of all classes, sorted by name.
func (e *Engine) States(ctx context.Context) ([]ClassState, error) {
	set := e.classes.Load()
	report, err := e.view(ctx)
	if err != nil {
		return nil, err
	}
	states := make([]ClassState, 0, len(set.classes))
	for i := range set.classes {
		class := &set.classes[i]
		state := ClassState{Name: class.Name, Default: class.Default, Thin: isThin(class)}
		l, err := resolve(set, class, report)
		if err != nil {
			state.Err = err
			states = append(states, state)
			continue
		}
		l.now(ctx, e.kernel)
		state.Capacity, state.Size, state.Free = l.capacity(), uint64(l.vg.Size), uint64(l.vg.Free)
		if l.pool != nil {
			state.PoolSize = uint64(l.pool.Size)
			state.DataPercent = l.fill.data
			state.MetadataPercent = l.fill.metadata
		}
		states = append(states, state)
	}
	return states, nil
}

// watchResponse returns the capacity of all classes. It omits a class whose volume group is not available: the client
// keeps the last known values, and requests for the class return the reason.
func watchResponse(ctx context.Context, kernel Kernel, set *classSet, report *lvm.Report) *proto.WatchResponse {
	response := &proto.WatchResponse{}
	for i := range set.classes {
		l, err := resolve(set, &set.classes[i], report)
		if err != nil {
			continue
		}
		l.now(ctx, kernel)
		response.Items = append(response.Items, watchItem(l))
		if l.class.Default {
			response.FreeBytes = l.capacity()
		}
	}
	return response
}

// watchItem returns the capacity of one class. As TopoLVM's metric defines it, SizeBytes of a thick class is the size
// of its volume group before redundancy. FreeBytes is the capacity for volumes.
func watchItem(l classView) *proto.WatchItem {
	item := &proto.WatchItem{DeviceClass: l.class.Name, FreeBytes: l.capacity(), SizeBytes: uint64(l.vg.Size)}
	if l.pool == nil {
		return item
	}
	// For a thin class, TopoLVM's metrics expect the free space of the volume group in FreeBytes.
	item.FreeBytes = uint64(l.vg.Free)
	item.ThinPool = &proto.ThinPoolItem{
		DataPercent:        percent(l.fill.data),
		MetadataPercent:    percent(l.fill.metadata),
		OverprovisionBytes: l.capacity(),
		SizeBytes:          uint64(l.pool.Size),
	}
	return item
}

func percent(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}
