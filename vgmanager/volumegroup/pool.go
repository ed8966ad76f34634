package volumegroup

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// poolAction makes the pool, or lets it follow a volume group that grew.
func poolAction(config *v1alpha1.ThinPoolConfig, vg *lvm.VG) Action {
	if vg.LV(config.Name) == nil {
		return Action{Kind: CreatePool}
	}
	pool := vg.ThinPool(config.Name)
	if pool == nil || pool.Health != "" || pool.CheckNeeded {
		return Action{}
	}
	if size := grownSize(config, vg, pool); size > 0 {
		return Action{Kind: ExtendPool, PoolSize: size}
	}
	return Action{}
}

// grownSize returns the size that a pool should have in a volume group that was extended, or 0 if it has about that.
// The pool was given a share of the free space, which is a little less than that share of the whole: twice the metadata and
// the rounding. Only a difference above a hundredth of the group counts as growth, so that a pool is not extended by single
// extents for ever.
func grownSize(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	share := vg.Size/100*lvm.Bytes(config.SizePercent) - 2*pool.MetadataSize
	growth := min(share-pool.Size, vg.Free)
	if growth <= vg.Size/100 || vg.ExtentSize == 0 {
		return 0
	}
	return pool.Size + growth/vg.ExtentSize*vg.ExtentSize
}

// poolOptions are the options of a new pool.
func poolOptions(w Wanted) lvm.ThinPoolOptions {
	config := w.Spec.ThinPoolConfig
	o := lvm.ThinPoolOptions{VG: w.Name, Name: config.Name, PercentFree: config.SizePercent}
	if config.ChunkSizeCalculationPolicy != v1alpha1.SizeCalculationHost {
		o.ChunkSize = lvm.Bytes(v1alpha1.DefaultChunkSize)
		if config.ChunkSize != nil {
			o.ChunkSize = lvm.Bytes(config.ChunkSize.Value())
		}
	}
	if config.MetadataSizeCalculationPolicy == v1alpha1.SizeCalculationStatic {
		o.MetadataSize = lvm.Bytes(v1alpha1.DefaultMetadataSize)
		if config.MetadataSize != nil {
			o.MetadataSize = lvm.Bytes(config.MetadataSize.Value())
		}
	}
	return o
}

// poolProblems returns what is wrong with the pool of a thin class.
func poolProblems(w Wanted, vg *lvm.VG) []string {
	config := w.Spec.ThinPoolConfig
	if config == nil || vg.LV(config.Name) == nil {
		return nil
	}
	name := fmt.Sprintf("%s/%s on node %s", w.Name, config.Name, w.Node)
	pool := vg.ThinPool(config.Name)
	if pool == nil {
		return []string{fmt.Sprintf("logical volume %s is not a thin pool: remove or rename it", name)}
	}
	var problems []string
	for _, rule := range poolRules {
		if rule.broken(pool) {
			problems = append(problems, fmt.Sprintf("thin pool %s %s", name, fmt.Sprintf(rule.problem, w.Name, pool.Name)))
		}
	}
	return problems
}

// poolRules have the volume group and the pool as arguments of their text.
var poolRules = []struct {
	broken  func(*lvm.ThinPool) bool
	problem string
}{
	{
		func(p *lvm.ThinPool) bool { return p.Health == "out_of_data" || atLeast(p.DataPercent, 100) },
		"is full, so writes to its volumes fail: delete volumes, or add a device to the device class (volume group %[1]s, pool %[2]s)",
	}, {
		func(p *lvm.ThinPool) bool { return atLeast(p.MetadataPercent, 100) },
		"has no space left for metadata: run on the node: lvextend --poolmetadatasize +1g %[1]s/%[2]s",
	}, {
		func(p *lvm.ThinPool) bool { return p.CheckNeeded },
		"is marked for a check: deactivate its volumes and run on the node: lvconvert --repair %[1]s/%[2]s",
	}, {
		func(p *lvm.ThinPool) bool { return p.Health == "metadata_read_only" },
		"has read-only metadata after an error: deactivate its volumes and run on the node: lvconvert --repair %[1]s/%[2]s",
	}, {
		func(p *lvm.ThinPool) bool { return p.Health == "failed" },
		"has failed: see the kernel's log for errors of its disks (volume group %[1]s, pool %[2]s)",
	}, {
		func(p *lvm.ThinPool) bool { return p.Health == "partial" },
		"has a part on a missing disk (volume group %[1]s, pool %[2]s)",
	}, {
		func(p *lvm.ThinPool) bool { return p.Attr.Suspended() },
		"is suspended: run on the node: dmsetup info --columns (volume group %[1]s, pool %[2]s)",
	}, {
		func(p *lvm.ThinPool) bool { return !p.Zeroes },
		"does not zero new blocks, so volumes can show what others wrote: run on the node: lvchange --zero y %[1]s/%[2]s",
	},
}

func atLeast(percent *float64, limit float64) bool { return percent != nil && *percent >= limit }
