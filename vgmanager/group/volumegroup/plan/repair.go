package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// PoolInspection is what the agent knows about the metadata of an inactive thin pool.
type PoolInspection struct {
	// Running: the metadata is being read.
	Running bool
	// Metadata is the result, or nil. Err is why there is none.
	Metadata *thinmeta.Metadata
	Err      error
	// IDs are the thin device IDs of the volumes, by the UUID of the volume.
	IDs map[string]uint64
}

// fullPercent is the usage of its metadata at which a pool is full.
const fullPercent = 100

// repairTarget returns the thin pool that a recovery repairs, or why it cannot be repaired.
func repairTarget(w Desired, s NodeState, vg *lvm.VG) (pool *lvm.ThinPool, problem string) {
	if w.Spec.ThinPoolConfig == nil {
		return nil, fmt.Sprintf("device class %s has no thin pool", w.Name)
	}
	if problem := changeProblem(w, s, vg); problem != "" {
		return nil, problem
	}
	name := w.Spec.ThinPoolConfig.Name
	if pool = vg.ThinPool(name); pool == nil {
		return nil, fmt.Sprintf("volume group %s on node %s has no thin pool %s", w.Name, w.Node, name)
	}
	return pool, ""
}

// changeProblem returns why a recovery cannot change a volume group whose devices are all needed, or "".
func changeProblem(w Desired, s NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", w.Name, w.Node)
	if problems := duplicates(w, s); len(problems) > 0 {
		return problems[0].Message
	}
	if vg == nil {
		return where + " does not exist"
	}
	if problem := foreign(w, vg); problem != "" {
		return problem
	}
	switch {
	case vg.MissingPVs > 0:
		return fmt.Sprintf("%s is missing a device: attach it again, or, if it is lost, %s", where, recoveryHint(w))
	case len(vg.Moves()) > 0:
		return where + ": extents are being moved from a device: wait, or cancel its Drain or Remove request"
	}
	for _, pv := range vg.PVs {
		if err := s.Failing[NumberOf(pv)]; err != nil {
			return fmt.Sprintf("%s: device %s (physical volume %s) is failing: %v: replace it first", where, pv.Name,
				pv.UUID, err)
		}
	}
	return ""
}

// works returns true if the kernel serves the pool without restriction.
func works(pool *lvm.ThinPool) bool {
	return pool.Attr.Active() && !pool.CheckNeeded && (pool.Health == "" || pool.Health == outOfData) &&
		!atLeast(pool.MetadataPercent, fullPercent)
}

// NewRepairPlan returns what the repair of the thin pool changes. problem says why there is none. preparing is true if
// the problem ends when the pool is inactive and its metadata was read.
func NewRepairPlan(w Desired, s NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string, preparing bool) {
	vg := GroupOf(w, s)
	pool, problem := repairTarget(w, s, vg)
	if problem = cmp.Or(problem, replacementDoubt(w, s)); problem != "" {
		return nil, problem, false
	}
	name := fmt.Sprintf("thin pool %s/%s on node %s", w.Name, pool.Name, w.Node)
	if works(pool) {
		return nil, name + " is active, and the kernel reports no problem", false
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		Repair: v1alpha1.RepairExtend, ThinPools: recoveryVolumes([]*lvm.LV{&pool.LV}, nil)}
	if isOnlyFull(pool) {
		p.KeptVolumeCount = int32(len(pool.Volumes))
		p.ID = v1alpha1.PlanID(v1alpha1.RecoveryRepairThinPool, w.Node, w.Name, p)
		return p, "", false
	}
	if waiting := readiness(s, vg, pool); waiting != "" {
		return nil, name + ": " + waiting, true
	}
	m := s.Inspection.Metadata
	if problem := mismatch(pool, m); problem != "" && !m.SuperblockLost {
		return nil, fmt.Sprintf("%s: %s: one of the two is from an older time, and a repair would discard volumes: %s",
			name, problem, rollbackHint(w)), false
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
	p.ID = v1alpha1.PlanID(v1alpha1.RecoveryRepairThinPool, w.Node, w.Name, p)
	return p, "", false
}

// readiness returns what must happen before the metadata of a pool is known, or "".
func readiness(s NodeState, vg *lvm.VG, pool *lvm.ThinPool) string {
	open := openVolumes(pointers(pool.Volumes))
	switch i := s.Inspection; {
	case len(open) > 0:
		return fmt.Sprintf("volumes are in use, so the metadata cannot be checked: %s: delete the Pods that use them",
			joined(open))
	case vg.IsPoolActive(pool.Name):
		return "it is being deactivated, so that its metadata can be checked"
	case i != nil && i.Err != nil:
		return fmt.Sprintf("its metadata cannot be read: %v", i.Err)
	case i == nil || i.Metadata == nil:
		return "its metadata is being checked"
	}
	return ""
}

func pointers(lvs []lvm.LV) []*lvm.LV {
	var list []*lvm.LV
	for i := range lvs {
		list = append(list, &lvs[i])
	}
	return list
}

func transactionOf(pool *lvm.ThinPool) uint64 {
	if pool.TransactionID == nil {
		return 0
	}
	return *pool.TransactionID
}

// addRepairLoss adds the volumes that are not in the metadata, and those that lose blocks.
func addRepairLoss(p *v1alpha1.RecoveryPlan, s NodeState, pool *lvm.ThinPool, objects []v1alpha1.RecoveryVolume) {
	for i := range pool.Volumes {
		lv := &pool.Volumes[i]
		device, found := thinDevice(s, lv)
		volume := recoveryVolumes([]*lvm.LV{lv}, objects)[0]
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

func thinDevice(s NodeState, lv *lvm.LV) (thinmeta.Device, bool) {
	id, known := s.Inspection.IDs[lv.UUID]
	device, found := s.Inspection.Metadata.Devices[id]
	return device, known && found
}

// repairs returns true if a recovery of the thin pool is open and the pool needs it. The pool then stays inactive.
func repairs(w Desired, s NodeState, vg *lvm.VG) bool {
	if !w.Repairing || vg == nil {
		return false
	}
	pool, problem := repairTarget(w, s, vg)
	return problem == "" && (!works(pool) || len(lostVolumes(w, pool)) > 0)
}

// lostVolumes returns the volumes of the approved loss that still exist and are inactive. A volume that is active is in
// the metadata of the pool, so it is not lost.
func lostVolumes(w Desired, pool *lvm.ThinPool) []*lvm.LV {
	var list []*lvm.LV
	for i := range pool.Volumes {
		if w.Recovery != nil && !pool.Volumes[i].Attr.Active() &&
			slices.Contains(w.Recovery.Volumes, pool.Volumes[i].UUID) {
			list = append(list, &pool.Volumes[i])
		}
	}
	return list
}

// allowsRepair returns true if the approval covers the repair as it would be now.
func allowsRepair(w Desired, s NodeState) bool {
	r := w.Recovery
	if r == nil || r.Action != v1alpha1.RecoveryRepairThinPool {
		return false
	}
	vg := GroupOf(w, s)
	if pool, problem := repairTarget(w, s, vg); problem != "" || !slices.Equal(r.Pools, []string{pool.UUID}) {
		return false
	}
	p, problem, preparing := NewRepairPlan(w, s, nil, r.Created)
	switch {
	case preparing:
		return true // the next step is decided when the metadata was read
	case problem != "":
		return works(vg.ThinPool(w.Spec.ThinPoolConfig.Name))
	}
	// After the metadata was rebuilt, it is valid and has no other loss than the approved one.
	return p.ID == r.PlanID || p.Repair != v1alpha1.RepairRebuild &&
		!slices.ContainsFunc(uuidsOf(p.LostVolumes), func(id string) bool { return !slices.Contains(r.Volumes, id) })
}

// repairAction returns the next change of a repair, or an empty action if it waits.
func repairAction(w Desired, s NodeState, vg *lvm.VG) Action {
	pool, problem := repairTarget(w, s, vg)
	if problem != "" {
		return Action{}
	}
	lost := lostVolumes(w, pool)
	switch i := s.Inspection; {
	case works(pool) && len(lost) == 0:
		return Action{}
	case works(pool):
		return Action{Kind: RemoveLost, Volumes: uuids(lost[:min(len(lost), maxNamesOfCommand)])}
	case isOnlyFull(pool) && !allowsRepair(w, s):
		return Action{}
	case isOnlyFull(pool):
		return metadataExtension(vg, pool)
	case len(openVolumes(pointers(pool.Volumes))) > 0:
		return Action{}
	case vg.IsPoolActive(pool.Name):
		return deactivation(vg, &pool.LV)
	case i != nil && (i.Running || i.Err != nil):
		return Action{}
	case i == nil:
		return Action{Kind: InspectPool}
	case !allowsRepair(w, s):
		return Action{}
	case i.Metadata.Intact:
		return Action{Kind: ActivatePool}
	}
	return Action{Kind: RepairPool}
}

// metadataExtension extends full metadata by a quarter, as far as there is space. LVM extends it while the pool is in
// use.
func metadataExtension(vg *lvm.VG, pool *lvm.ThinPool) Action {
	if vg.ExtentSize == 0 {
		return Action{}
	}
	room := min(vg.FreeOn(""), maxPoolMetadata-pool.MetadataSize) / vg.ExtentSize * vg.ExtentSize
	step := min(max(pool.MetadataSize/4, vg.ExtentSize).RoundUp(vg.ExtentSize), room)
	if step <= 0 {
		return Action{}
	}
	return Action{Kind: ExtendMeta, Size: step}
}

// isOnlyFull returns true if a pool works but for the size of its metadata.
func isOnlyFull(pool *lvm.ThinPool) bool {
	return pool.Attr.Active() && !pool.CheckNeeded && atLeast(pool.MetadataPercent, fullPercent)
}

func uuids(lvs []*lvm.LV) []string {
	var list []string
	for _, lv := range lvs {
		list = append(list, lv.UUID)
	}
	return list
}

// componentLeft returns the deactivation of the metadata volume that a killed inspection left active. LVM does not
// activate the pool meanwhile.
func componentLeft(w Desired, s NodeState, vg *lvm.VG) Action {
	if w.Spec.ThinPoolConfig == nil || s.Inspection != nil && s.Inspection.Running {
		return Action{}
	}
	name := w.Spec.ThinPoolConfig.Name
	if metadata := vg.PoolMetadata(name); metadata == nil || !metadata.Attr.Active() || vg.IsPoolActive(name) {
		return Action{}
	}
	return Action{Kind: CloseMetadata}
}

// keptMetadata returns the volumes with previous metadata that repairs of the pool left. LVM names them POOL_metaN.
func keptMetadata(w Desired, vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		if isKeptMetadata(w, &vg.LVs[i]) {
			names = append(names, vg.LVs[i].Name)
		}
	}
	return names
}

func isKeptMetadata(w Desired, lv *lvm.LV) bool {
	if w.Spec.ThinPoolConfig == nil || lv.SegType != "linear" {
		return false
	}
	number, is := strings.CutPrefix(lv.Name, w.Spec.ThinPoolConfig.Name+"_meta")
	return is && number != "" && strings.Trim(number, "0123456789") == ""
}

// poolFault returns the problem of a thin pool that LVM does not activate.
func poolFault(w Desired, s NodeState, pool *lvm.ThinPool) []Problem {
	if s.PoolFault == nil || pool.Attr.Active() {
		return nil
	}
	hint := repairHint(w)
	if errors.Is(s.PoolFault, lvm.ErrTransaction) {
		hint = rollbackHint(w)
	}
	return []Problem{poolProblem(pool, v1alpha1.ReasonThinPoolFailed, fmt.Sprintf(
		"thin pool %s/%s on node %s cannot be activated: %v: %s", w.Name, pool.Name, w.Node, s.PoolFault, hint))}
}

// repairHint says how to repair a thin pool.
func repairHint(w Desired) string {
	return fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, which checks the "+
		"metadata and lists what can be saved, and changes nothing until it is approved", w.Node, w.Name,
		v1alpha1.RecoveryRepairThinPool)
}

// repairStatus is RecoveryStatus for the repair of a thin pool.
func (o Outcome) repairStatus(w Desired, r *v1alpha1.LVMRecovery, volumes []v1alpha1.RecoveryVolume,
	status v1alpha1.LVMRecoveryStatus, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	vg := GroupOf(w, o.Node)
	allowed := allowsRepair(w, o.Node)
	if allowed {
		pool := vg.ThinPool(w.Spec.ThinPoolConfig.Name)
		if works(pool) && len(lostVolumes(w, pool)) == 0 {
			status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
			status.Message = repaired(w, status.Plan)
			return status
		}
		status.Phase, status.Message = v1alpha1.RecoveryRunning, o.repairProgress(vg, pool)
		if status.StartTime == nil {
			status.StartTime = &now
		}
		return status
	}
	created := now
	if status.Plan != nil {
		created = status.Plan.CreationTime
	}
	status.StartTime = nil
	p, problem, preparing := NewRepairPlan(w, o.Node, volumes, created)
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
		p, _, _ = NewRepairPlan(w, o.Node, volumes, now)
		status.Plan = p
	}
	awaitApproval(&status, r.Spec.ApprovedPlan, repairConsequence(w, o.Node, p))
	return status
}

// repairProgress returns what an approved repair does or waits for.
func (o Outcome) repairProgress(vg *lvm.VG, pool *lvm.ThinPool) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	if isOnlyFull(pool) && o.Plan.Action.Kind != ExtendMeta {
		return "the metadata of the pool is full, and the volume group has no free space, or the metadata has its " +
			"maximum size: add a device to the device class, or delete snapshots"
	}
	if waiting := readiness(o.Node, vg, pool); waiting != "" && o.Plan.Action.Kind == Nothing {
		return waiting
	}
	return "in progress: " + string(o.Plan.Action.Kind)
}

// repairConsequence describes the plan of a repair.
func repairConsequence(w Desired, s NodeState, p *v1alpha1.RecoveryPlan) string {
	if p.Repair == v1alpha1.RepairExtend {
		return fmt.Sprintf("the metadata of thin pool %s/%s is full, and is extended from the free space of the "+
			"volume group; no volume is lost", w.Name, p.ThinPools[0].Name)
	}
	if p.Repair == v1alpha1.RepairClearCheck && p.LostVolumeCount == 0 && len(p.DamagedVolumes) == 0 {
		return fmt.Sprintf("the check of the metadata of thin pool %s/%s found no error: the pool is activated, and "+
			"no volume is lost", w.Name, p.ThinPools[0].Name)
	}
	text := fmt.Sprintf("the metadata of thin pool %s/%s is damaged, and is written again from what can be read; "+
		"volumes lost: %d, volumes kept: %d, of which damaged: %d", w.Name, p.ThinPools[0].Name, p.LostVolumeCount,
		p.KeptVolumeCount, len(p.DamagedVolumes))
	if s.Inspection == nil || s.Inspection.Metadata == nil || s.Inspection.Metadata.Intact {
		return text
	}
	if m := s.Inspection.Metadata; m.Earlier || m.SuperblockLost && !m.Salvaged {
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

func repaired(w Desired, p *v1alpha1.RecoveryPlan) string {
	text := fmt.Sprintf("thin pool %s/%s on node %s is active", w.Name, p.ThinPools[0].Name, w.Node)
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
