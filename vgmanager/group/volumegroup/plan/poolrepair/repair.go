// Package poolrepair decides about the recovery RepairThinPool: what the metadata of an inactive pool lacks, and the
// steps of its repair.
package poolrepair

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// NewPlan returns what the repair of the thin pool changes. problem says why there is none. preparing is true if
// the problem ends when the pool is inactive and its metadata was read.
func NewPlan(d state.Desired, s state.NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string, preparing bool) {
	vg := ownership.GroupOf(d, s)
	pool, problem := thinpool.RepairTarget(d, s, vg)
	if problem = cmp.Or(problem, doubt.Replacement(d, s)); problem != "" {
		return nil, problem, false
	}
	name := fmt.Sprintf("thin pool %s/%s on node %s", d.Name, pool.Name, d.Node)
	if thinpool.Works(pool) {
		return nil, name + " is active, and the kernel reports no problem", false
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		Repair: v1alpha1.RepairExtend, ThinPools: recovery.Volumes([]*lvm.LV{&pool.LV}, nil)}
	if thinpool.IsOnlyFull(pool) {
		p.KeptVolumeCount = int32(len(pool.Volumes))
		p.ID = recoveryplan.ID(v1alpha1.RecoveryRepairThinPool, d.Node, d.Name, p)
		return p, "", false
	}
	if waiting := thinpool.Readiness(s, vg, pool); waiting != "" {
		return nil, name + ": " + waiting, true
	}
	m := s.Pool.Inspection.Metadata
	if problem := thinpool.Mismatch(pool, m); problem != "" && !m.SuperblockLost {
		return nil, fmt.Sprintf("%s: %s: one of the two is from an older time, and a repair would discard volumes: %s",
			name, problem, recovery.RollbackHint(d)), false
	}
	p.Repair = v1alpha1.RepairClearCheck
	if !m.Intact {
		p.Repair = v1alpha1.RepairRebuild
	}
	addRepairLoss(p, s, pool, objects)
	if len(p.LostVolumes) > v1alpha1.MaxLostVolumes || len(p.DamagedVolumes) > v1alpha1.MaxLostVolumes {
		return nil, fmt.Sprintf("%s has lost %d volumes, %d are damaged, and a plan can have only %d of each", name,
			len(p.LostVolumes), len(p.DamagedVolumes), v1alpha1.MaxLostVolumes), false
	}
	p.ID = recoveryplan.ID(v1alpha1.RecoveryRepairThinPool, d.Node, d.Name, p)
	return p, "", false
}

// addRepairLoss adds the volumes that are not in the metadata, and those that lose blocks.
func addRepairLoss(p *v1alpha1.RecoveryPlan, s state.NodeState, pool *lvm.ThinPool, objects []v1alpha1.RecoveryVolume) {
	for i := range pool.Volumes {
		lv := &pool.Volumes[i]
		device, found := thinDevice(s, lv)
		volume := recovery.Volumes([]*lvm.LV{lv}, objects)[0]
		if !found {
			p.LostVolumes = append(p.LostVolumes, volume)
			continue
		}
		p.KeptVolumeCount++
		if device.Found < device.Recorded {
			volume.LostBytes = int64(device.Recorded-device.Found) * int64(pool.ChunkSize)
			p.DamagedVolumes = append(p.DamagedVolumes, volume)
		}
	}
	byName := func(a, b v1alpha1.RecoveryVolume) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(p.LostVolumes, byName)
	slices.SortFunc(p.DamagedVolumes, byName)
	p.LostVolumeCount = int32(len(p.LostVolumes))
}

func thinDevice(s state.NodeState, lv *lvm.LV) (thinmeta.Device, bool) {
	id, known := s.Pool.Inspection.IDs[lv.UUID]
	device, found := s.Pool.Inspection.Metadata.Devices[id]
	return device, known && found
}

// Repairs returns true if a recovery of the thin pool is open and the pool needs it. The pool then stays inactive.
func Repairs(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	if d.Open.Action != v1alpha1.RecoveryRepairThinPool || vg == nil {
		return false
	}
	pool, problem := thinpool.RepairTarget(d, s, vg)
	return problem == "" && (!thinpool.Works(pool) || len(lostVolumes(d, pool)) > 0)
}

// lostVolumes returns the volumes of the approved loss that still exist and are inactive. A volume that is active is in
// the metadata of the pool, so it is not lost.
func lostVolumes(d state.Desired, pool *lvm.ThinPool) []*lvm.LV {
	var list []*lvm.LV
	for i := range pool.Volumes {
		if d.Open.Approved != nil && !pool.Volumes[i].Attr.Active() &&
			slices.Contains(d.Open.Approved.Volumes, pool.Volumes[i].UUID) {
			list = append(list, &pool.Volumes[i])
		}
	}
	return list
}

// allowsRepair returns true if the approval covers the repair as it would be now.
func allowsRepair(d state.Desired, s state.NodeState) bool {
	r := d.Open.Approved
	if r == nil || r.Action != v1alpha1.RecoveryRepairThinPool {
		return false
	}
	vg := ownership.GroupOf(d, s)
	if pool, problem := thinpool.RepairTarget(d, s, vg); problem != "" || !slices.Equal(r.Pools, []string{pool.UUID}) {
		return false
	}
	p, problem, preparing := NewPlan(d, s, nil, r.Created)
	switch {
	case preparing:
		return true // the next step is decided when the metadata was read
	case problem != "":
		return thinpool.Works(vg.ThinPool(d.Spec.ThinPoolConfig.Name))
	}
	// After the metadata was rebuilt, it is valid and has no other loss than the approved one.
	return p.ID == r.PlanID || p.Repair != v1alpha1.RepairRebuild &&
		!slices.ContainsFunc(state.UUIDsOf(p.LostVolumes), func(id string) bool {
			return !slices.Contains(r.Volumes,
				id)
		})
}

// Action returns the next change of a repair, or an empty action if it waits.
func Action(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	pool, problem := thinpool.RepairTarget(d, s, vg)
	if problem != "" {
		return state.Action{}
	}
	switch i := s.Pool.Inspection; {
	case thinpool.Works(pool):
		return lostRemoval(d, pool)
	case thinpool.IsOnlyFull(pool) && !allowsRepair(d, s):
		return state.Action{}
	case thinpool.IsOnlyFull(pool):
		return metadataExtension(vg, pool)
	case len(state.OpenVolumes(state.Pointers(pool.Volumes))) > 0:
		return state.Action{}
	case vg.IsPoolActive(pool.Name):
		return recovery.Deactivation(vg, &pool.LV)
	case i != nil && (i.Running || i.Err != nil):
		return state.Action{}
	case i == nil:
		return state.Action{Kind: state.InspectPool}
	case !allowsRepair(d, s):
		return state.Action{}
	case i.Metadata.Intact:
		return state.Action{Kind: state.ActivatePool, Change: lvm.ThinPoolActivate{VG: d.Name}}
	}
	return state.Action{Kind: state.RepairPool}
}

// lostRemoval removes the volumes that a pool that works again has lost.
func lostRemoval(d state.Desired, pool *lvm.ThinPool) state.Action {
	lost := lostVolumes(d, pool)
	if len(lost) == 0 {
		return state.Action{}
	}
	return state.Action{Kind: state.RemoveLost, Change: lvm.LVRemoveLost{VG: d.Name, Pool: pool.Name,
		UUIDs: state.UUIDs(lost[:min(len(lost), state.MaxNamesOfCommand)])}}
}

// metadataExtension extends full metadata by a quarter, as far as there is space. LVM extends it while the pool is in
// use.
func metadataExtension(vg *lvm.VG, pool *lvm.ThinPool) state.Action {
	if vg.ExtentSize == 0 {
		return state.Action{}
	}
	room := min(vg.FreeOn(""), thinpool.MaxPoolMetadata-pool.MetadataSize) / vg.ExtentSize * vg.ExtentSize
	step := min(max(pool.MetadataSize/4, vg.ExtentSize).RoundUp(vg.ExtentSize), room)
	if step <= 0 {
		return state.Action{}
	}
	return thinpool.MetadataExtension(vg, pool, step)
}

// ComponentLeft returns the deactivation of the metadata volume that a killed inspection left active, or of the data
// volume that a killed activation or deactivation of the pool left. LVM does not activate the pool meanwhile.
func ComponentLeft(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	if d.Spec.ThinPoolConfig == nil || s.Pool.Inspection != nil && s.Pool.Inspection.Running {
		return state.Action{}
	}
	name := d.Spec.ThinPoolConfig.Name
	if vg.IsPoolActive(name) {
		return state.Action{}
	}
	if metadata := vg.PoolMetadata(name); metadata != nil && metadata.Attr.HasDevice() {
		return state.Action{Kind: state.CloseMetadata, Change: lvm.ThinMetadataDeactivate{VG: vg.Name, Pool: name}}
	}
	if data := vg.PoolData(name); data != nil && data.Attr.HasDevice() {
		return state.Action{Kind: state.CloseData, Change: lvm.LVDeactivate{VG: vg.Name, Names: []string{data.Name}}}
	}
	return state.Action{}
}

// KeptMetadata returns the volumes with previous metadata that repairs of the pool left. LVM names them POOL_metaN.
func KeptMetadata(d state.Desired, vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		if IsKeptMetadata(d, &vg.LVs[i]) {
			names = append(names, vg.LVs[i].Name)
		}
	}
	return names
}

// IsKeptMetadata returns true for a volume with previous metadata of the pool.
func IsKeptMetadata(d state.Desired, lv *lvm.LV) bool {
	if d.Spec.ThinPoolConfig == nil || lv.SegType != "linear" {
		return false
	}
	number, is := strings.CutPrefix(lv.Name, d.Spec.ThinPoolConfig.Name+"_meta")
	return is && number != "" && strings.Trim(number, "0123456789") == ""
}

// Status is RecoveryStatus for the repair of a thin pool.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	allowed := allowsRepair(d, o.Node)
	if allowed {
		pool := vg.ThinPool(d.Spec.ThinPoolConfig.Name)
		if thinpool.Works(pool) && len(lostVolumes(d, pool)) == 0 {
			status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &r.Now
			status.Message = repaired(d, status.Plan)
			return status
		}
		status.Phase, status.Message = v1alpha1.RecoveryRunning, repairProgress(o, vg, pool)
		if status.StartTime == nil {
			status.StartTime = &r.Now
		}
		return status
	}
	created := r.Now
	if status.Plan != nil {
		created = status.Plan.CreationTime
	}
	status.StartTime = nil
	p, problem, preparing := NewPlan(d, o.Node, r.Volumes, created)
	switch {
	case preparing:
		status.Phase, status.Message = v1alpha1.RecoveryPreparing, problem
		if o.Err != nil {
			status.Message += ": " + o.Err.Error()
		}
		return status
	case problem != "":
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, problem, nil
		return status
	}
	if status.Plan == nil || status.Plan.ID != p.ID {
		p, _, _ = NewPlan(d, o.Node, r.Volumes, r.Now)
		status.Plan = p
	}
	recovery.AwaitApproval(&status, r.Recovery.Spec.ApprovedPlan, consequence(d, o.Node, p))
	return status
}

// repairProgress returns what an approved repair does or waits for.
func repairProgress(o state.Outcome, vg *lvm.VG, pool *lvm.ThinPool) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	if thinpool.IsOnlyFull(pool) && o.Plan.Action.Kind != state.ExtendMeta {
		return "the metadata of the pool is full, and the volume group has no free space, or the metadata has its " +
			"maximum size: add a device to the device class, or delete snapshots"
	}
	if waiting := thinpool.Readiness(o.Node, vg, pool); waiting != "" && o.Plan.Action.Kind == state.Nothing {
		return waiting
	}
	return "in progress: " + string(o.Plan.Action.Kind)
}

// consequence describes the plan of a repair.
func consequence(d state.Desired, s state.NodeState, p *v1alpha1.RecoveryPlan) string {
	if p.Repair == v1alpha1.RepairExtend {
		return fmt.Sprintf("the metadata of thin pool %s/%s is full, and is extended from the free space of the "+
			"volume group; no volume is lost", d.Name, p.ThinPools[0].Name)
	}
	if p.Repair == v1alpha1.RepairClearCheck && p.LostVolumeCount == 0 && len(p.DamagedVolumes) == 0 {
		return fmt.Sprintf("the check of the metadata of thin pool %s/%s found no error: the pool is activated, and "+
			"no volume is lost", d.Name, p.ThinPools[0].Name)
	}
	text := fmt.Sprintf("the metadata of thin pool %s/%s is damaged, and is written again from what can be read; "+
		"volumes lost: %d, volumes kept: %d, of which damaged: %d", d.Name, p.ThinPools[0].Name, p.LostVolumeCount,
		p.KeptVolumeCount, len(p.DamagedVolumes))
	if s.Pool.Inspection == nil || s.Pool.Inspection.Metadata == nil || s.Pool.Inspection.Metadata.Intact {
		return text
	}
	if m := s.Pool.Inspection.Metadata; m.Earlier || m.SuperblockLost && !m.Salvaged {
		text += "; the volumes may be from an earlier state of the metadata, so each of them can have earlier " +
			"contents, or contents of other volumes: check its data before you use it, and keep a copy of the " +
			"metadata before you approve"
	} else if p.LostVolumeCount > 0 && m.RepairError != "" {
		text += fmt.Sprintf("; thin_repair of the node fails (%s), and another version may save more: keep a copy of "+
			"the metadata before you approve", m.RepairError)
	} else if p.LostVolumeCount > 0 && !m.Salvaged {
		text += "; a newer version of thin_repair may save more: keep a copy of the metadata before you approve"
	}
	return text
}

func repaired(d state.Desired, p *v1alpha1.RecoveryPlan) string {
	text := fmt.Sprintf("thin pool %s/%s on node %s is active", d.Name, p.ThinPools[0].Name, d.Node)
	if p.Repair == v1alpha1.RepairRebuild {
		text += fmt.Sprintf("; its previous metadata is in a volume %s_metaN", p.ThinPools[0].Name)
	}
	if len(p.DamagedVolumes) > 0 {
		text += fmt.Sprintf("; volumes that lost blocks: %d: check their file systems, or restore them from a backup",
			len(p.DamagedVolumes))
	}
	if p.LostVolumeCount > 0 {
		text += fmt.Sprintf("; volumes lost: %d: delete their PersistentVolumeClaims, and restore the data from a "+
			"backup", p.LostVolumeCount)
	}
	return text
}
