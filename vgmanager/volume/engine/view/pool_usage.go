package view

import (
	"context"
	"fmt"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// highWater returns the high-water mark of a class in percent.
func highWater(c *deviceclass.Class) float64 {
	if c.ThinPoolConfig == nil || c.ThinPoolConfig.HighWaterMarkPercent == 0 {
		return deviceclass.DefaultHighWaterMark
	}
	return float64(c.ThinPoolConfig.HighWaterMarkPercent)
}

// metadataMark returns the high-water mark for the metadata of a pool in percent.
func metadataMark(size lvm.Bytes, mark float64) float64 {
	return deviceclass.MetadataMark(int64(size), mark)
}

// Fill is the usage of a pool in percent. The values are nil if they are not known, for example if the pool is not
// active.
type Fill struct{ Data, Metadata *float64 }

// ReadPool replaces the pool usage and health of the report with the current state in the kernel, because writes by
// Pods change them after the report. If the kernel does not have the pool or does not respond, the values of the report
// stay.
func (v *Class) ReadPool(ctx context.Context, kernel Pools) {
	if v.Pool == nil {
		return
	}
	v.Fill = Fill{Data: v.Pool.DataPercent, Metadata: v.Pool.MetadataPercent}
	if kernel == nil {
		return
	}
	state, err := kernel.ThinPool(ctx, v.VG.Name, v.Pool.Name)
	if err != nil {
		v.Unread = err
		return
	}
	v.PoolSuspended = state.Suspended
	if state.TotalData > 0 && state.TotalMetadata > 0 {
		data := 100 * float64(state.UsedData) / float64(state.TotalData)
		metadata := 100 * float64(state.UsedMetadata) / float64(state.TotalMetadata)
		v.Fill = Fill{Data: &data, Metadata: &metadata}
	}
	if state.Mode != devicemapper.ModeReadWrite && v.Pool.Health == "" {
		pool := *v.Pool
		pool.Health = state.Mode
		v.Pool = &pool
	}
	if state.NeedsCheck && !v.Pool.CheckNeeded {
		pool := *v.Pool
		pool.CheckNeeded = true
		v.Pool = &pool
	}
}

// refusal returns the reason why the class refuses new volumes, snapshots and expansion of any size, or "".
func (v Class) refusal() string {
	if v.Config.Closed != "" {
		return v.Config.Closed
	}
	if v.VG.MissingPVs > 0 {
		return fmt.Sprintf("volume group %s is missing %d of its physical volumes: attach or replace the device",
			v.VG.Name, v.VG.MissingPVs)
	}
	if v.VG.MetadataArea.IsFull() {
		return fmt.Sprintf("LVM's metadata area of volume group %s is nearly full, and what is left is for the "+
			"removal of volumes: delete volumes or snapshots that are not needed", v.VG.Name)
	}
	if v.Pool == nil {
		return ""
	}
	name := v.VG.Name + "/" + v.Pool.Name
	if isAbnormal(v.Pool) {
		return fmt.Sprintf("thin pool %s is not healthy: %s", name, poolState(v.Pool))
	}
	if err := v.PoolActive(); err != nil {
		return err.Error()
	}
	var full []string
	mark := highWater(v.Config)
	for _, part := range []struct {
		name    string
		percent *float64
		mark    float64
	}{{"data", v.Fill.Data, mark}, {"metadata", v.Fill.Metadata, metadataMark(v.Pool.MetadataSize, mark)}} {
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

// PoolActive returns an error if a command on a volume would make LVM activate the thin pool. Only the reconciler of
// volume groups activates a pool, because it first reads the metadata, or leaves the pool inactive for a repair. LVM
// creates a pool without metadata, so it can be activated before its first volume.
func (v Class) PoolActive() error {
	if v.Pool == nil || v.Pool.TransactionID == nil || *v.Pool.TransactionID == 0 || v.VG.IsPoolActive(v.Pool.Name) {
		return nil
	}
	return fmt.Errorf("thin pool %s/%s is not active: the status of its LVMVolumeGroupNodeStatus says why if it stays "+
		"inactive", v.VG.Name, v.Pool.Name)
}

// Open returns ResourceExhausted if the class refuses new volumes, snapshots and expansion of any size.
func (v Class) Open() error {
	if refusal := v.refusal(); refusal != "" {
		return fault.New(fault.ResourceExhausted, "device class %s: %s", v.Config.Name, refusal)
	}
	return nil
}
