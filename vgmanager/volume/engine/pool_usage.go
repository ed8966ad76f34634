package engine

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Kernel reads the current state of volumes from the kernel. devicemapper.Reader implements it without a process.
type Kernel interface {
	ThinPool(ctx context.Context, vg, pool string) (devicemapper.ThinPool, error)
	Volume(ctx context.Context, vg, lv string) (devicemapper.Device, error)
	// Size returns the size of a device in bytes, by MAJOR:MINOR.
	Size(number string) (int64, error)
	// MappedSectors returns how many sectors of an active thin volume have blocks in its pool.
	MappedSectors(ctx context.Context, vg, lv string) (uint64, error)
}

// highWater returns the high-water mark of a class in percent.
func highWater(c *DeviceClass) float64 {
	if c.ThinPoolConfig == nil || c.ThinPoolConfig.HighWaterMarkPercent == 0 {
		return deviceclass.DefaultHighWaterMark
	}
	return float64(c.ThinPoolConfig.HighWaterMarkPercent)
}

// metadataMark returns the high-water mark for the metadata of a pool in percent.
func metadataMark(size lvm.Bytes, mark float64) float64 {
	return deviceclass.MetadataMark(int64(size), mark)
}

// fill is the usage of a pool in percent. The values are nil if they are not known, for example if the pool is not
// active.
type fill struct{ data, metadata *float64 }

// now replaces the pool usage and health of the report with the current state in the kernel, because writes by Pods
// change them after the report. If the kernel does not have the pool or does not respond, the values of the report
// stay.
func (l *classView) now(ctx context.Context, kernel Kernel) {
	if l.pool == nil {
		return
	}
	l.fill = fill{data: l.pool.DataPercent, metadata: l.pool.MetadataPercent}
	if kernel == nil {
		return
	}
	state, err := kernel.ThinPool(ctx, l.vg.Name, l.pool.Name)
	if err != nil {
		l.unread = err
		return
	}
	l.poolSuspended = state.Suspended
	if state.TotalData > 0 && state.TotalMetadata > 0 {
		data := 100 * float64(state.UsedData) / float64(state.TotalData)
		metadata := 100 * float64(state.UsedMetadata) / float64(state.TotalMetadata)
		l.fill = fill{data: &data, metadata: &metadata}
	}
	if state.Mode != devicemapper.ModeReadWrite && l.pool.Health == "" {
		pool := *l.pool
		pool.Health = state.Mode
		l.pool = &pool
	}
	if state.NeedsCheck && !l.pool.CheckNeeded {
		pool := *l.pool
		pool.CheckNeeded = true
		l.pool = &pool
	}
}

// refusal returns the reason why the class refuses new volumes, snapshots and expansion of any size, or "".
func (l classView) refusal() string {
	if l.class.Closed != "" {
		return l.class.Closed
	}
	if l.vg.MissingPVs > 0 {
		return fmt.Sprintf("volume group %s is missing %d of its physical volumes: attach or replace the device",
			l.vg.Name, l.vg.MissingPVs)
	}
	if l.vg.MetadataArea.IsFull() {
		return fmt.Sprintf("LVM's metadata area of volume group %s is nearly full, and what is left is for the "+
			"removal of volumes: delete volumes or snapshots that are not needed", l.vg.Name)
	}
	if l.pool == nil {
		return ""
	}
	name := l.vg.Name + "/" + l.pool.Name
	if l.pool.Health != "" || l.pool.CheckNeeded {
		return fmt.Sprintf("thin pool %s is not healthy: %s", name, poolState(l.pool))
	}
	if err := l.poolActive(); err != nil {
		return err.Error()
	}
	var full []string
	mark := highWater(l.class)
	for _, part := range []struct {
		name    string
		percent *float64
		mark    float64
	}{{"data", l.fill.data, mark}, {"metadata", l.fill.metadata, metadataMark(l.pool.MetadataSize, mark)}} {
		if part.percent != nil && *part.percent >= part.mark {
			full = append(full, fmt.Sprintf("its %s is %.1f%% full, and the limit is %.0f%%", part.name,
				*part.percent, part.mark))
		}
	}
	if len(full) == 0 {
		return ""
	}
	return fmt.Sprintf("thin pool %s: %s: add a device to the device class, or delete volumes or snapshots", name,
		strings.Join(full, ", and "))
}

// poolActive returns an error if a command on a volume would make LVM activate the thin pool. Only the reconciler of
// volume groups activates a pool, because it first reads the metadata, or leaves the pool inactive for a repair. LVM
// creates a pool without metadata, so it can be activated before its first volume.
func (l classView) poolActive() error {
	if l.pool == nil || l.pool.TransactionID == nil || *l.pool.TransactionID == 0 || l.vg.IsPoolActive(l.pool.Name) {
		return nil
	}
	return fmt.Errorf("thin pool %s/%s is not active: the status of its LVMVolumeGroupNodeStatus says why if it stays "+
		"inactive", l.vg.Name, l.pool.Name)
}

// open returns ResourceExhausted if the class refuses new volumes, snapshots and expansion of any size.
func (l classView) open() error {
	if refusal := l.refusal(); refusal != "" {
		return status.Errorf(codes.ResourceExhausted, "device class %s: %s", l.class.Name, refusal)
	}
	return nil
}
