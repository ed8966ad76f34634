package volumegroup

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// maxPoolMetadata is the most that LVM gives to a pool's metadata (lvmthin(7): 15.81 GiB), in whole MiB.
const maxPoolMetadata lvm.Bytes = 16189 << 20

// maxChunk is the largest chunk of a thin pool (lvmthin(7)).
const maxChunk lvm.Bytes = 1 << 30

// poolAction makes the pool, lets it follow a volume group that grew, and lets it grow before it is full.
func poolAction(config *v1alpha1.ThinPoolConfig, vg *lvm.VG) Action {
	if vg.LV(config.Name) == nil {
		return Action{Kind: CreatePool, Size: vg.FreeOn("")}
	}
	pool := vg.ThinPool(config.Name)
	if pool == nil || pool.CheckNeeded || pool.Health != "" && pool.Health != outOfData {
		return Action{}
	}
	if step := metadataStep(config, vg, pool); step > 0 {
		return Action{Kind: ExtendMeta, Size: step}
	}
	if size := max(grownSize(config, vg, pool), extendedSize(config, vg, pool)); size > 0 {
		return Action{Kind: ExtendPool, Size: size}
	}
	return Action{}
}

// outOfData is LVM's word for a pool without space for data. To give it more is the cure.
const outOfData = "out_of_data"

// extendedSize returns the size that autoExtend gives to a pool that is filling, or 0.
func extendedSize(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if !growsAt(config, pool.DataPercent) || vg.ExtentSize == 0 {
		return 0
	}
	step := (pool.Size / 100 * lvm.Bytes(config.AutoExtend.StepPercent)).RoundUp(vg.ExtentSize)
	room := min(vg.FreeOn(""), maxPoolSize(pool.ChunkSize)-pool.Size)
	step = min(step, room/vg.ExtentSize*vg.ExtentSize)
	if step <= 0 {
		return 0
	}
	return pool.Size + step
}

// metadataStep returns what is to be added to the metadata of a pool, or 0: by autoExtend, or because metadataSize asks
// for it.
func metadataStep(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	room := vg.FreeOn("") / vg.ExtentSize * vg.ExtentSize
	step := metadataLacking(config, vg, pool)
	if step > room {
		step = 0 // All or nothing: data may need what is left.
	}
	if growsAt(config, pool.MetadataPercent) {
		own := (pool.MetadataSize / 100 * lvm.Bytes(config.AutoExtend.StepPercent)).RoundUp(vg.ExtentSize)
		step = max(step, own, vg.ExtentSize)
	}
	step = min(step, room, (maxPoolMetadata-pool.MetadataSize)/vg.ExtentSize*vg.ExtentSize)
	return max(step, 0)
}

// metadataLacking is how much less metadata a pool has than the device class asks for; 0 if it leaves that to LVM.
func metadataLacking(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	want := min(metadataWanted(config).RoundUp(vg.ExtentSize), maxPoolMetadata/vg.ExtentSize*vg.ExtentSize)
	return max(want-pool.MetadataSize, 0)
}

// metadataWanted is the size that the device class asks for; 0 if it leaves that to LVM.
func metadataWanted(config *v1alpha1.ThinPoolConfig) lvm.Bytes {
	switch {
	case config.MetadataSizeCalculationPolicy != v1alpha1.SizeCalculationStatic:
		return 0
	case config.MetadataSize == nil:
		return lvm.Bytes(v1alpha1.DefaultMetadataSize)
	}
	return lvm.Bytes(config.MetadataSize.Value())
}

func growsAt(config *v1alpha1.ThinPoolConfig, percent *float64) bool {
	return config.AutoExtend != nil && atLeast(percent, float64(config.AutoExtend.ThresholdPercent))
}

// grownSize returns the size that a pool should have in a volume group that was extended, or 0 if it has about that.
// The pool was given a share of the free space, which is a little less than that share of the whole: twice the metadata
// and the rounding. Only a difference above a hundredth of the group counts as growth, so that a pool is not extended
// by single extents for ever.
func grownSize(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	share := min(vg.Size/100*lvm.Bytes(config.SizePercent)-2*pool.MetadataSize, maxPoolSize(pool.ChunkSize))
	growth := min(share-pool.Size, vg.FreeOn("")) / vg.ExtentSize * vg.ExtentSize
	if growth <= vg.Size/100 {
		return 0
	}
	return pool.Size + growth
}

// poolOptions are the options of a new pool in a volume group with that much free space.
func poolOptions(w Wanted, free lvm.Bytes) lvm.ThinPoolOptions {
	config := w.Spec.ThinPoolConfig
	return lvm.ThinPoolOptions{
		VG: w.Name, Name: config.Name, PercentFree: config.SizePercent,
		ChunkSize: chunkWanted(config, free/100*lvm.Bytes(config.SizePercent)), MetadataSize: metadataWanted(config),
	}
}

// chunkWanted is the chunk size of a new pool of a size; 0 leaves it to LVM. A pool keeps its chunk size for ever, so
// the default lets it grow to twice its size.
func chunkWanted(config *v1alpha1.ThinPoolConfig, size lvm.Bytes) lvm.Bytes {
	switch {
	case config.ChunkSizeCalculationPolicy == v1alpha1.SizeCalculationHost:
		return 0
	case config.ChunkSize != nil:
		return lvm.Bytes(config.ChunkSize.Value())
	}
	chunk := lvm.Bytes(v1alpha1.DefaultChunkSize)
	for chunk < maxChunk && size > maxPoolSize(chunk)/2 {
		chunk *= 2
	}
	return chunk
}

// maxPoolSize is the largest pool that a chunk size allows: LVM wants 64 bytes of metadata for each chunk, and refuses
// a pool that would need more than the metadata can have (lib/metadata/thin_manip.c).
func maxPoolSize(chunk lvm.Bytes) lvm.Bytes {
	if chunk == 0 {
		chunk = lvm.Bytes(v1alpha1.DefaultChunkSize)
	}
	return maxPoolMetadata / 64 * chunk
}

// poolProblem is a Problem of the condition ThinPoolHealthy. All volumes of the pool are at risk.
func poolProblem(pool *lvm.ThinPool, reason, message string) Problem {
	p := Problem{Event: EventInconsistentVolumes, Condition: v1alpha1.ConditionThinPoolHealthy, Reason: reason,
		Message: message}
	if pool != nil {
		for i := range pool.Volumes {
			p.Volumes = append(p.Volumes, pool.Volumes[i].Name)
		}
		slices.Sort(p.Volumes)
	}
	return p
}

// poolProblems returns what is wrong with the pool of a thin class.
func poolProblems(w Wanted, s Seen, vg *lvm.VG) []Problem {
	config := w.Spec.ThinPoolConfig
	if config == nil || vg.LV(config.Name) == nil {
		return nil
	}
	name := fmt.Sprintf("%s/%s on node %s", w.Name, config.Name, w.Node)
	pool := vg.ThinPool(config.Name)
	if pool == nil {
		return []Problem{poolProblem(nil, v1alpha1.ReasonThinPoolMisconfigured,
			fmt.Sprintf("logical volume %s is not a thin pool: remove or rename it", name))}
	}
	var problems []Problem
	for _, rule := range poolRules {
		if rule.broken(s, pool) {
			problems = append(problems, poolProblem(pool, rule.reason,
				fmt.Sprintf("thin pool %s %s", name, fmt.Sprintf(rule.problem, w.Name, pool.Name))))
		}
	}
	return append(problems, cannotGrow(w, vg, pool)...)
}

// cannotGrow tells that autoExtend is due and has nothing to give.
func cannotGrow(w Wanted, vg *lvm.VG, pool *lvm.ThinPool) []Problem {
	config := w.Spec.ThinPoolConfig
	var problems []Problem
	if growsAt(config, pool.DataPercent) && pool.Size+vg.ExtentSize > maxPoolSize(pool.ChunkSize) {
		problems = append(problems, poolProblem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"thin pool %s/%s on node %s is %d %% full and has the largest size that its chunk size of %d KiB allows: "+
				"delete volumes, or add a device class for further devices",
			w.Name, pool.Name, w.Node, wholePercent(pool.DataPercent), pool.ChunkSize>>10)))
	} else if growsAt(config, pool.DataPercent) && extendedSize(config, vg, pool) == 0 {
		problems = append(problems, poolProblem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"thin pool %s/%s on node %s is %d %% full, and volume group %s has no space left for autoExtend: add a "+
				"device to the device class, or delete volumes",
			w.Name, pool.Name, w.Node, wholePercent(pool.DataPercent), w.Name)))
	}
	if lacking := metadataLacking(config, vg, pool); lacking > 0 && metadataStep(config, vg, pool) == 0 {
		problems = append(problems, poolProblem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"the metadata of thin pool %s/%s on node %s has %d bytes, metadataSize asks for %d more, and volume "+
				"group %s has no space left: add a device to the device class, or delete volumes",
			w.Name, pool.Name, w.Node, pool.MetadataSize, lacking, w.Name)))
	}
	if growsAt(config, pool.MetadataPercent) && metadataStep(config, vg, pool) == 0 {
		problems = append(problems, poolProblem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"the metadata of thin pool %s/%s on node %s is %d %% full and cannot grow: volume group %s has no space "+
				"left, or the metadata has its greatest size: add a device to the device class, or delete volumes "+
				"and snapshots",
			w.Name, pool.Name, w.Node, wholePercent(pool.MetadataPercent), w.Name)))
	}
	return problems
}

// clearCheck lets LVM's thin_check take the mark away from metadata that it finds sound (thin_check(8)); not every
// distribution's lvm.conf does.
const clearCheck = `global/thin_check_options=["-q","--clear-needs-check-flag"]`

// checkPool is what to do about metadata that the kernel could not write.
const checkPool = "stop the Pods that use its volumes and run on the node: vgchange --activate n %[1]s, then " +
	"vgchange --activate y --config '" +
	clearCheck + "' %[1]s, which checks the metadata; if that fails: lvconvert --repair %[1]s/%[2]s"

// poolRules are in the order of gravity. They have the volume group and the pool as arguments of their text.
var poolRules = []struct {
	broken          func(Seen, *lvm.ThinPool) bool
	reason, problem string
}{
	{
		func(_ Seen, p *lvm.ThinPool) bool { return p.Health == "failed" },
		v1alpha1.ReasonThinPoolFailed,
		"has failed: see the kernel's log for errors of its disks (volume group %[1]s, pool %[2]s)",
	}, {
		func(_ Seen, p *lvm.ThinPool) bool { return p.Health == "partial" },
		v1alpha1.ReasonThinPoolFailed,
		"has a part on a missing disk (volume group %[1]s, pool %[2]s)",
	}, {
		func(_ Seen, p *lvm.ThinPool) bool { return p.CheckNeeded },
		v1alpha1.ReasonThinPoolNeedsCheck,
		"is marked for a check: " + checkPool,
	}, {
		func(_ Seen, p *lvm.ThinPool) bool { return atLeast(p.MetadataPercent, 100) },
		v1alpha1.ReasonThinPoolOutOfMetadata,
		"has no space left for metadata: run on the node: lvextend --poolmetadatasize +1g %[1]s/%[2]s",
	}, {
		func(_ Seen, p *lvm.ThinPool) bool { return p.Health == "metadata_read_only" },
		v1alpha1.ReasonThinPoolReadOnly,
		"has read-only metadata after an error: " + checkPool,
	}, {
		func(_ Seen, p *lvm.ThinPool) bool { return p.Health == outOfData || atLeast(p.DataPercent, 100) },
		v1alpha1.ReasonThinPoolOutOfData,
		"is full, so writes to its volumes fail: delete volumes, or add a device to the device class (volume group " +
			"%[1]s, pool %[2]s)",
	}, {
		func(s Seen, p *lvm.ThinPool) bool { return p.Major != 0 && s.Held[device.NewNumber(p.Major, p.Minor)] },
		v1alpha1.ReasonThinPoolFailed,
		"is suspended: run on the node: dmsetup info --columns (volume group %[1]s, pool %[2]s)",
	}, {
		func(_ Seen, p *lvm.ThinPool) bool { return !p.Zeroes },
		v1alpha1.ReasonThinPoolMisconfigured,
		"does not zero new blocks, so volumes can show what others wrote: run on the node: lvchange " +
			"--zero y %[1]s/%[2]s",
	},
}

func atLeast(percent *float64, limit float64) bool { return percent != nil && *percent >= limit }
