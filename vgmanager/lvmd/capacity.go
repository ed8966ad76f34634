package lvmd

import (
	"context"
	"math"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// room returns how many bytes of new volumes the class can take now, without the spare: in a thick class with images (RAID,
// stripes) how large a single one can be, after redundancy. It is nothing where every new volume would be refused, so that the
// scheduler looks elsewhere.
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

// watchItem has for the size of a thick class that of its volume group, as TopoLVM's metric means it: all bytes of its devices,
// before redundancy. What volumes can have is FreeBytes.
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
