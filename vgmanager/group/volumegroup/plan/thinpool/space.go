package thinpool

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// NearlyFullPercent is the usage of its data at which a pool needs more space, as for the alert
// ThinPoolDataUsageAtThresholdCritical.
const NearlyFullPercent = 85

// PoolOnNode names a thin pool and its node, for messages.
func PoolOnNode(d state.Desired, pool *lvm.ThinPool) string {
	return fmt.Sprintf("thin pool %s/%s on node %s", d.Name, pool.Name, d.Node)
}

// Reclaimable returns an estimate of what trimming a volume frees, in bytes. It is 0 if the file system does not
// respond.
func Reclaimable(v v1alpha1.RecoveryVolume) int64 {
	if v.UsedBytes == 0 {
		return 0
	}
	return max(0, v.AllocatedBytes-v.UsedBytes)
}

// Allocated returns how much data of its pool a thin volume uses, or the used data of a pool.
func Allocated(lv *lvm.LV) lvm.Bytes {
	if lv.DataPercent == nil {
		return 0
	}
	return lvm.Bytes(float64(lv.Size) / 100 * *lv.DataPercent)
}

// Extensible returns by how much a pool can be extended from the free space of its volume group.
func Extensible(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	unit := vg.ExtentSize * lvm.Bytes(classspec.Stripes(config.Stripes))
	return max(0, min(DataRoom(config, vg), MaxPoolSize(pool.ChunkSize)-pool.Size)/unit*unit)
}

// SpaceRemedies says what to do if a pool is full, in the order in which to do it.
func SpaceRemedies(d state.Desired, vg *lvm.VG, pool *lvm.ThinPool) string {
	remedies := moreSpace(d, vg, pool)
	remedies = append(remedies, fmt.Sprintf("to free the blocks of deleted files, create an LVMRecovery {nodeName: "+
		"%s, deviceClassName: %s, action: %s}, which trims mounted file systems and changes nothing until it is "+
		"approved", d.Node, d.Name, v1alpha1.RecoveryFreePoolSpace))
	return numbered(remedies) + "; then delete snapshots and volumes that are not needed"
}

// WithoutTrim is SpaceRemedies if no file system can be trimmed, or all were.
func WithoutTrim(d state.Desired, vg *lvm.VG, pool *lvm.ThinPool) string {
	return numbered(append(moreSpace(d, vg, pool), "delete snapshots and volumes that are not needed"))
}

// moreSpace returns the ways to extend a pool that are possible.
func moreSpace(d state.Desired, vg *lvm.VG, pool *lvm.ThinPool) []string {
	if pool.Size+vg.ExtentSize > MaxPoolSize(pool.ChunkSize) {
		return nil // a device does not help either
	}
	var remedies []string
	if size := Extensible(d.Spec.ThinPoolConfig, vg, pool); size > 0 && d.Spec.ThinPoolConfig.AutoExtend != nil {
		remedies = append(remedies, fmt.Sprintf("wait until autoExtend extends the pool: volume group %s has %s of "+
			"free space", d.Name, Readable(size)))
	} else if size > 0 {
		remedies = append(remedies, fmt.Sprintf("extend the pool by up to %s from the free space of volume group %s: "+
			"set thinPoolConfig.autoExtend of the device class", Readable(size), d.Name))
	}
	if stripes := classspec.Stripes(d.Spec.ThinPoolConfig.Stripes); stripes > 1 {
		return append(remedies, fmt.Sprintf("add %d devices of equal size to the device class, over which the data of "+
			"the pool is striped", stripes))
	}
	return append(remedies, "add a device to the device class")
}

// numbered joins steps as "(1) do this; (2) do that". A single step has no number.
func numbered(steps []string) string {
	if len(steps) == 1 {
		return steps[0]
	}
	var list []string
	for i, step := range steps {
		list = append(list, fmt.Sprintf("(%d) %s", i+1, step))
	}
	return strings.Join(list, "; ")
}

// Readable rounds a size down to whole GiB from 10 GiB on, and else to whole MiB.
func Readable(b lvm.Bytes) *resource.Quantity {
	unit := lvm.Bytes(1 << 20)
	if b >= 10<<30 {
		unit = 1 << 30
	}
	return state.Quantity(b / unit * unit)
}
