package thinpool

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// This file plans thin pools whose data is striped over several devices (thinPoolConfig.stripes). LVM allocates each
// stripe on a separate device, so only the space that this number of devices have in common can be used.

// DataRoom returns how many bytes can be added to the data of a pool.
func DataRoom(config *v1alpha1.ThinPoolConfig, vg *lvm.VG) lvm.Bytes {
	stripes := classspec.Stripes(config.Stripes)
	if stripes <= 1 {
		return vg.FreeOn("")
	}
	return lvm.Bytes(lvm.InSets(vg.FreeDisks(), stripes)*int64(stripes)) * vg.ExtentSize
}

// stripedSize returns the size of the data of a new striped pool, or 0 if too few devices have free space. Like
// sizePercent of a pool without stripes, the share includes the metadata and its spare. LVM may allocate both on any
// device, so each device keeps space for them.
func stripedSize(config *v1alpha1.ThinPoolConfig, vg *lvm.VG) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	stripes := lvm.Bytes(classspec.Stripes(config.Stripes))
	share := vg.FreeOn("") / 100 * lvm.Bytes(config.SizePercent)
	metadata := metadataOfNewPool(config, share).RoundUp(vg.ExtentSize)
	unit := vg.ExtentSize * stripes
	return max(0, min(share-2*metadata, DataRoom(config, vg)-2*metadata*stripes)/unit*unit)
}

// The size of the metadata that LVM chooses: 64 bytes for each chunk of data, at least 2 MiB (lvmthin(7)).
const (
	bytesPerChunk   = 64
	minPoolMetadata = 2 << 20
)

// metadataOfNewPool returns the size of the metadata of a new pool with data of a size.
func metadataOfNewPool(config *v1alpha1.ThinPoolConfig, data lvm.Bytes) lvm.Bytes {
	if wanted := metadataWanted(config); wanted > 0 {
		return wanted
	}
	chunk := chunkWanted(config, data)
	if chunk == 0 {
		chunk = minChunk // LVM may choose a larger one, which needs less metadata
	}
	return min(max(data/chunk*bytesPerChunk, minPoolMetadata), MaxPoolMetadata)
}

// minChunk is the minimum chunk size of a thin pool (lvmthin(7)).
const minChunk lvm.Bytes = 64 << 10

// StripesProblems reports why a thin pool with striped data cannot be created in its volume group.
func StripesProblems(d state.Desired, vg *lvm.VG) []state.Problem {
	config := d.Spec.ThinPoolConfig
	if config == nil || classspec.Stripes(config.Stripes) <= 1 {
		return nil
	}
	if vg.LV(config.Name) != nil || stripedSize(config, vg) > 0 {
		return nil
	}
	return []state.Problem{{Event: state.EventNoAvailableDevices, Message: fmt.Sprintf(
		"thin pool %s/%s on node %s is not created, because its data is striped over %d devices, and too few devices "+
			"have free space: add devices to the device class, or recreate the device class with fewer stripes",
		d.Name, config.Name, d.Node, classspec.Stripes(config.Stripes))}}
}

// noSpace says that a pool cannot be extended.
func noSpace(d state.Desired, vg *lvm.VG) string {
	if stripes := classspec.Stripes(d.Spec.ThinPoolConfig.Stripes); stripes > 1 && vg.FreeOn("") > 0 {
		return fmt.Sprintf("fewer than %d devices of volume group %s, over which its data is striped, have free space",
			stripes, d.Name)
	}
	return fmt.Sprintf("volume group %s has no free space", d.Name)
}
