package lvmd

import (
	"context"
	"math"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// room returns how many bytes of new volumes the class can take now, without the spare: in a thick class with images
// (RAID, stripes) how large a single one can be, after redundancy. It is nothing where every new volume would be
// refused, so that the scheduler looks elsewhere.
func (l located) room() lvm.Bytes {
	if l.refusal() != "" {
		return 0
	}
	if l.pool == nil {
		layout, err := lvm.NewLayout(createOptions(l.class))
		if err != nil {
			return 0
		}
		return createRoom(layout, l.vg)
	}
	limit := lvm.Bytes(math.Floor(l.class.ThinPoolConfig.OverprovisionRatio * float64(l.pool.Size)))
	return max(0, limit-l.pool.VirtualSize())
}

// capacity is what the scheduler is told: the room without the spare.
func (l located) capacity() uint64 {
	return uint64(max(0, l.room()-spare(l.class)))
}

// ClassState is what a device class has to offer. Sizes are bytes.
type ClassState struct {
	Name    string
	Default bool
	// Err is why nothing is known of it: its volume group or its pool is not there.
	Err error
	// Capacity is what new volumes can have: in a thick class with redundancy a single one, in a thin class all of them
	// together.
	Capacity uint64
	// Size and Free are of the volume group, before redundancy.
	Size, Free uint64
	// Thin tells whether the rest is known. The percentages are nil while the pool is not active.
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

// watchResponse is the state of all classes. A class whose volume group cannot be seen has no item: its last known
// size stays, and requests for it say what is wrong.
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

// watchItem has for the size of a thick class that of its volume group, as TopoLVM's metric means it: all bytes of its
// devices, before redundancy. What volumes can have is FreeBytes.
func watchItem(l located) *proto.WatchItem {
	item := &proto.WatchItem{DeviceClass: l.class.Name, FreeBytes: l.capacity(), SizeBytes: uint64(l.vg.Size)}
	if l.pool == nil {
		return item
	}
	// TopoLVM's metrics expect the free space of the volume group here, and the pool's beside it.
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
