// Package thinpool decides about the thin pool of a device class: its creation, its size with and without stripes,
// and its problems.
package thinpool

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// MaxPoolMetadata is the maximum size of a pool's metadata (lvmthin(7): 15.81 GiB), in whole MiB.
const MaxPoolMetadata lvm.Bytes = 16189 << 20

// maxChunk is the maximum chunk size of a thin pool (lvmthin(7)).
const maxChunk lvm.Bytes = 1 << 30

// Action creates the pool, extends it after its volume group was extended and before it is full, and sets its mode
// of discards.
func Action(config *v1alpha1.ThinPoolConfig, s state.NodeState, vg *lvm.VG) state.Action {
	if vg.LV(config.Name) == nil {
		return creation(config, s, vg)
	}
	pool := vg.ThinPool(config.Name)
	if pool == nil || pool.CheckNeeded || pool.Health != "" && pool.Health != OutOfData {
		return state.Action{}
	}
	if step := metadataStep(config, vg, pool); step > 0 {
		return MetadataExtension(vg, pool, step)
	}
	if size := max(GrownSize(config, vg, pool), extendedSize(config, vg, pool)); size > 0 {
		return state.Action{Kind: state.ExtendPool, Change: lvm.LVExtend{VG: vg.Name, Name: pool.Name, Size: size,
			Stripes:    classspec.Stripes(config.Stripes),
			StripeSize: lvm.Bytes(classspec.StripeBytes(config.StripeSize))}}
	}
	if mode := discardsWanted(config); mode != "" && pool.Discards != mode && pool.Discards != lvm.DiscardsIgnore {
		return state.Action{Kind: state.SetDiscards,
			Change: lvm.ThinPoolSetDiscards{VG: vg.Name, Pool: pool.Name, Mode: mode}}
	}
	return state.Action{}
}

// MetadataExtension adds to the metadata of a pool.
func MetadataExtension(vg *lvm.VG, pool *lvm.ThinPool, add lvm.Bytes) state.Action {
	return state.Action{Kind: state.ExtendMeta,
		Change: lvm.ThinPoolMetadataExtend{VG: vg.Name, Pool: pool.Name, Add: add}}
}

// discardsWanted returns LVM's value for the requested mode of discards, or "" if none is requested.
func discardsWanted(config *v1alpha1.ThinPoolConfig) string {
	switch config.Discards {
	case v1alpha1.DiscardsPassDown:
		return lvm.DiscardsPassDown
	case v1alpha1.DiscardsNoPassDown:
		return lvm.DiscardsNoPassDown
	}
	return ""
}

// IgnoresDiscards reports that a pool does not have the requested mode of discards, because it ignores discards: LVM
// does not change that while the pool is active.
func IgnoresDiscards(d state.Desired, pool *lvm.ThinPool) []state.Problem {
	if discardsWanted(d.Spec.ThinPoolConfig) == "" || pool.Discards != lvm.DiscardsIgnore {
		return nil
	}
	return []state.Problem{Problem(pool, v1alpha1.ReasonThinPoolMisconfigured, fmt.Sprintf(
		"thin pool %s/%s on node %s ignores discards, so it does not take blocks back that its volumes discard, and "+
			"LVM does not change this while the pool is active: stop the Pods that use its volumes and run on the "+
			"node: vgchange --activate n %[1]s && lvchange --discards %[4]s %[1]s/%[2]s && vgchange --activate y "+
			"%[1]s; or remove discards from thinPoolConfig", d.Group(), pool.Name, d.Node,
		discardsWanted(d.Spec.ThinPoolConfig)))}
}

// OutOfData is LVM's health value of a pool without free data blocks. Extending the pool fixes it.
const OutOfData = "out_of_data"

// extendedSize returns the size to which autoExtend extends a pool, or 0.
func extendedSize(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if !growsAt(config, pool.DataPercent) || vg.ExtentSize == 0 {
		return 0
	}
	unit := vg.ExtentSize * lvm.Bytes(classspec.Stripes(config.Stripes))
	step := (pool.Size / 100 * lvm.Bytes(config.AutoExtend.StepPercent)).RoundUp(unit)
	room := min(DataRoom(config, vg), MaxPoolSize(pool.ChunkSize)-pool.Size)
	step = min(step, room/unit*unit)
	if step <= 0 {
		return 0
	}
	return pool.Size + step
}

// metadataStep returns the size to add to the metadata of a pool because of autoExtend or members.metadataSize, or 0.
func metadataStep(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	room := vg.FreeOn("") / vg.ExtentSize * vg.ExtentSize
	step := metadataLacking(config, vg, pool)
	if step > room {
		step = 0 // all or nothing, because the data may require the remaining space
	}
	if growsAt(config, pool.MetadataPercent) {
		own := (pool.MetadataSize / 100 * lvm.Bytes(config.AutoExtend.StepPercent)).RoundUp(vg.ExtentSize)
		step = max(step, own, vg.ExtentSize)
	}
	step = min(step, room, (MaxPoolMetadata-pool.MetadataSize)/vg.ExtentSize*vg.ExtentSize)
	return max(step, 0)
}

// metadataLacking returns how much the metadata of a pool is below the requested size. It returns 0 if no size is
// requested.
func metadataLacking(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	want := min(metadataWanted(config).RoundUp(vg.ExtentSize), MaxPoolMetadata/vg.ExtentSize*vg.ExtentSize)
	return max(want-pool.MetadataSize, 0)
}

// metadataWanted returns the size that the device class requests, or 0 if LVM chooses it.
func metadataWanted(config *v1alpha1.ThinPoolConfig) lvm.Bytes {
	switch {
	case config.MetadataSizeCalculationPolicy != v1alpha1.SizeCalculationStatic:
		return 0
	case config.MetadataSize == nil:
		return lvm.Bytes(classspec.DefaultMetadataSize)
	}
	return lvm.Bytes(config.MetadataSize.Value())
}

func growsAt(config *v1alpha1.ThinPoolConfig, percent *float64) bool {
	return config.AutoExtend != nil && AtLeast(percent, float64(config.AutoExtend.ThresholdPercent))
}

// GrownSize returns the new size of a pool after its volume group was extended, or 0 if the pool has about that size.
// The pool got a share of the free space, which is a little less than the same share of the group because of rounding
// and twice the metadata. Only a difference above 1 % of the group counts, so that a pool is not extended repeatedly
// by single extents.
func GrownSize(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	share := min(vg.Size/100*lvm.Bytes(config.SizePercent)-2*pool.MetadataSize, MaxPoolSize(pool.ChunkSize))
	unit := vg.ExtentSize * lvm.Bytes(classspec.Stripes(config.Stripes))
	growth := min(share-pool.Size, DataRoom(config, vg)) / unit * unit
	if growth <= vg.Size/100 {
		return 0
	}
	return pool.Size + growth
}

// Options returns the options of a new pool in a volume group. Free space on physical volumes without a
// corresponding number of others is not used for striped data.
func Options(config *v1alpha1.ThinPoolConfig, vg *lvm.VG) lvm.LVCreateThinPool {
	options := lvm.LVCreateThinPool{
		VG: vg.Name, Name: config.Name, PercentFree: config.SizePercent,
		ChunkSize:    chunkWanted(config, vg.FreeOn("")/100*lvm.Bytes(config.SizePercent)),
		MetadataSize: metadataWanted(config), Discards: discardsWanted(config),
	}
	if classspec.Stripes(config.Stripes) > 1 {
		options.Size, options.PercentFree = stripedSize(config, vg), 0
		options.Stripes = classspec.Stripes(config.Stripes)
		options.StripeSize = lvm.Bytes(classspec.StripeBytes(config.StripeSize))
	}
	return options
}

// chunkWanted returns the chunk size of a new pool of a size, or 0 if LVM chooses it. The chunk size of a pool cannot
// change, so the default allows the pool to grow to twice its size.
func chunkWanted(config *v1alpha1.ThinPoolConfig, size lvm.Bytes) lvm.Bytes {
	switch {
	case config.ChunkSizeCalculationPolicy == v1alpha1.SizeCalculationHost:
		return 0
	case config.ChunkSize != nil:
		return lvm.Bytes(config.ChunkSize.Value())
	}
	chunk := lvm.Bytes(classspec.DefaultChunkSize)
	for chunk < maxChunk && size > MaxPoolSize(chunk)/2 {
		chunk *= 2
	}
	return chunk
}

// MaxPoolSize returns the maximum size of a pool with a chunk size. LVM requires 64 bytes of metadata for each chunk,
// and rejects a pool that requires more than the maximum metadata size (lib/metadata/thin_manip.c).
func MaxPoolSize(chunk lvm.Bytes) lvm.Bytes {
	if chunk == 0 {
		chunk = lvm.Bytes(classspec.DefaultChunkSize)
	}
	return MaxPoolMetadata / 64 * chunk
}

// LacksPool returns true if a volume group does not have the thin pool that the last status has.
func LacksPool(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	config := d.Spec.ThinPoolConfig
	return config != nil && vg != nil && vg.LV(config.Name) == nil && s.Before.UUID == vg.UUID &&
		s.Before.ThinPool != nil && s.Before.ThinPool.Name == config.Name
}

// HasLost returns true if the pool that a volume group lacks had volumes of the API, and its loss was not approved.
// A new pool would be created on the extents of their data, for example after an earlier state of the metadata was
// restored manually.
func HasLost(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	approved := d.Open.Allows(v1alpha1.RecoveryRemoveLostDevices)
	return LacksPool(d, s, vg) && len(s.Metadata.Absent) > 0 && !approved
}

// lostPoolProblems reports the missing pool.
func lostPoolProblems(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	if !HasLost(d, s, vg) {
		return nil
	}
	p := Problem(nil, v1alpha1.ReasonThinPoolFailed, fmt.Sprintf(
		"volume group %s on node %s no longer has the thin pool %s with volumes of the device class: %d: its metadata "+
			"may be from an earlier time. No new pool is created. If %s on the node has later metadata, restore it "+
			"(vgcfgrestore --list %s); otherwise delete the claims of these volumes: a new pool is created then",
		d.Name, d.Node, d.Spec.ThinPoolConfig.Name, len(s.Metadata.Absent), lvm.ArchiveDir, d.Name))
	p.Volumes = slices.Sorted(slices.Values(s.Metadata.Absent))
	return []state.Problem{p}
}

// Problem returns a Problem of the condition ThinPoolHealthy. All volumes of the pool are at risk.
func Problem(pool *lvm.ThinPool, reason, message string) state.Problem {
	p := state.Problem{Event: state.EventInconsistentVolumes, Condition: v1alpha1.ConditionThinPoolHealthy,
		Reason: reason, Message: message}
	if pool != nil {
		for i := range pool.Volumes {
			p.Volumes = append(p.Volumes, pool.Volumes[i].Name)
		}
		slices.Sort(p.Volumes)
	}
	return p
}

// Problems returns the problems of the pool of a thin class.
func Problems(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	config := d.Spec.ThinPoolConfig
	if config == nil || vg.LV(config.Name) == nil {
		return lostPoolProblems(d, s, vg)
	}
	name := fmt.Sprintf("%s/%s on node %s", d.Name, config.Name, d.Node)
	pool := vg.ThinPool(config.Name)
	switch {
	case pool == nil && Unfinished(config, s, vg).Kind == state.RemoveUnfinished:
		return nil
	case pool == nil:
		return []state.Problem{Problem(nil, v1alpha1.ReasonThinPoolMisconfigured,
			fmt.Sprintf("logical volume %s is not a thin pool: remove or rename it", name))}
	}
	problems := Broken(d, s, pool, Remedies{Repair: recovery.RepairHint(d), Space: SpaceRemedies(d, vg, pool),
		Metadata: "add a device to the device class if the volume group has no free space, and " +
			recovery.RepairHint(d), Resume: "the node agent resumes it when no LVM command is working on it"})
	problems = append(problems, poolFault(d, s, pool)...)
	problems = append(problems, IgnoresDiscards(d, pool)...)
	return append(problems, CannotGrow(d, vg, pool)...)
}

// Remedies say how to repair a thin pool, how to extend its data and its metadata, and how to resume it.
type Remedies struct{ Repair, Space, Metadata, Resume string }

// Broken returns the problems of poolRules.
func Broken(d state.Desired, s state.NodeState, pool *lvm.ThinPool, r Remedies) []state.Problem {
	var problems []state.Problem
	for _, rule := range poolRules {
		if rule.broken(s, pool) {
			problems = append(problems, Problem(pool, rule.reason,
				fmt.Sprintf("thin pool %s/%s on node %s %s", d.Group(), pool.Name, d.Node,
					fmt.Sprintf(rule.problem, d.Group(), pool.Name, r.Repair, r.Space, r.Metadata, r.Resume))))
		}
	}
	return problems
}

// CannotGrow reports that autoExtend is due but the group does not have enough free space.
func CannotGrow(d state.Desired, vg *lvm.VG, pool *lvm.ThinPool) []state.Problem {
	config := d.Spec.ThinPoolConfig
	var problems []state.Problem
	if growsAt(config, pool.DataPercent) && pool.Size+vg.ExtentSize > MaxPoolSize(pool.ChunkSize) {
		problems = append(problems, Problem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"thin pool %s/%s on node %s is %d%% full and has the maximum size that its chunk size of %d KiB allows: "+
				"delete volumes, or add a device class for further devices",
			d.Name, pool.Name, d.Node, state.WholePercent(pool.DataPercent), pool.ChunkSize>>10)))
	} else if growsAt(config, pool.DataPercent) && extendedSize(config, vg, pool) == 0 {
		problems = append(problems, Problem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"thin pool %s/%s on node %s is %d%% full, and %s for autoExtend: %s",
			d.Name, pool.Name, d.Node, state.WholePercent(pool.DataPercent), noSpace(d, vg), SpaceRemedies(d, vg,
				pool))))
	}
	if lacking := metadataLacking(config, vg, pool); lacking > 0 && metadataStep(config, vg, pool) == 0 {
		problems = append(problems, Problem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"the metadata of thin pool %s/%s on node %s has %s, metadataSize requires %s more, and volume "+
				"group %s has no free space: add a device to the device class, or delete volumes",
			d.Name, pool.Name, d.Node, state.Quantity(pool.MetadataSize), state.Quantity(lacking), d.Name)))
	}
	if growsAt(config, pool.MetadataPercent) && metadataStep(config, vg, pool) == 0 {
		problems = append(problems, Problem(pool, v1alpha1.ReasonThinPoolCannotGrow, fmt.Sprintf(
			"the metadata of thin pool %s/%s on node %s is %d%% full and cannot be extended: volume group %s has no "+
				"free space, or the metadata has its maximum size: add a device to the device class, or delete "+
				"volumes and snapshots",
			d.Name, pool.Name, d.Node, state.WholePercent(pool.MetadataPercent), d.Name)))
	}
	return problems
}

// poolRules are sorted by severity. The arguments of their text are the volume group, the pool and the Remedies.
var poolRules = []struct {
	broken          func(state.NodeState, *lvm.ThinPool) bool
	reason, problem string
}{
	{
		func(_ state.NodeState, p *lvm.ThinPool) bool { return p.Health == "failed" },
		v1alpha1.ReasonThinPoolFailed,
		"has failed: see the kernel's log for errors of its disks; when the disks work, %[3]s",
	}, {
		func(_ state.NodeState, p *lvm.ThinPool) bool { return p.Health == "partial" },
		v1alpha1.ReasonThinPoolFailed,
		"has extents on a missing disk (volume group %[1]s, pool %[2]s)",
	}, {
		func(_ state.NodeState, p *lvm.ThinPool) bool { return p.CheckNeeded },
		v1alpha1.ReasonThinPoolNeedsCheck,
		"needs a check of its metadata: %[3]s",
	}, {
		func(_ state.NodeState, p *lvm.ThinPool) bool { return AtLeast(p.MetadataPercent, FullPercent) },
		v1alpha1.ReasonThinPoolOutOfMetadata,
		"has no space left for metadata: %[5]s",
	}, {
		func(_ state.NodeState, p *lvm.ThinPool) bool { return p.Health == "metadata_read_only" },
		v1alpha1.ReasonThinPoolReadOnly,
		"has read-only metadata after an error: %[3]s",
	}, {
		func(_ state.NodeState, p *lvm.ThinPool) bool {
			return p.Health == OutOfData || AtLeast(p.DataPercent, 100)
		},
		v1alpha1.ReasonThinPoolOutOfData,
		"is full, so writes to its volumes fail: %[4]s",
	}, {
		func(s state.NodeState, p *lvm.ThinPool) bool {
			return p.Major != 0 && s.Health.Held[device.NewNumber(p.Major, p.Minor)]
		},
		v1alpha1.ReasonThinPoolFailed,
		"is suspended, so the I/O of its volumes blocks; %[6]s (volume group %[1]s, pool %[2]s)",
	}, {
		func(_ state.NodeState, p *lvm.ThinPool) bool { return !p.Zeroes },
		v1alpha1.ReasonThinPoolMisconfigured,
		"does not zero new blocks, so volumes can expose data of other volumes: run on the node: lvchange " +
			"--zero y %[1]s/%[2]s",
	},
}

// AtLeast returns true if a usage is known and not below a limit.
func AtLeast(percent *float64, limit float64) bool { return percent != nil && *percent >= limit }
