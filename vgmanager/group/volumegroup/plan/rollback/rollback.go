// Package rollback decides about the recovery RestoreMetadata: which earlier metadata of a volume group fits, what
// its restore changes, and how a deleted volume group is restored.
package rollback

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
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// rollbackTarget returns the thin pool of a volume group whose metadata may be restored, or nil for a class without
// one. problem is why the metadata cannot be restored.
func rollbackTarget(d state.Desired, s state.NodeState, vg *lvm.VG) (pool *lvm.ThinPool, problem string) {
	if d.Spec.ThinPoolConfig != nil {
		return thinpool.RepairTarget(d, s, vg)
	}
	return nil, recovery.ChangeProblem(d, s, vg)
}

// NeedsEarlierMetadata returns true if the earlier metadata of the volume group must be read for the recovery.
func NeedsEarlierMetadata(d state.Desired, s state.NodeState) bool {
	vg := ownership.GroupOf(d, s)
	if d.Open.Action != v1alpha1.RecoveryRestoreMetadata || vg == nil {
		return false
	}
	pool, problem := rollbackTarget(d, s, vg)
	switch {
	case problem != "":
		return false
	case pool == nil:
		return len(s.Metadata.Rollback.Absent) > 0 || doubt.GroupWentBack(s, vg)
	}
	i := s.Pool.Inspection
	return i != nil && !i.Running && i.Metadata != nil && !i.Metadata.SuperblockLost && thinpool.Mismatch(pool,
		i.Metadata) != ""
}

// FitsRollback returns a function that returns why earlier metadata of the volume group does not fit, or "".
func FitsRollback(d state.Desired, s state.NodeState) func(*textmeta.Metadata) string {
	vg := ownership.GroupOf(d, s)
	pool, problem := rollbackTarget(d, s, vg)
	return func(m *textmeta.Metadata) string {
		switch {
		case problem != "":
			return problem
		case m.VG != d.Name || m.UUID != vg.UUID:
			return "another UUID of the volume group"
		case len(m.MissingPVs) > 0 || !samePVs(vg, m):
			return "other physical volumes"
		case pool == nil && doubt.GroupWentBack(s, vg) && m.Seqno <= vg.Seqno:
			return fmt.Sprintf("change %d, which is not later than the present one", m.Seqno)
		case pool == nil:
			return absentVolumes(s, m)
		}
		return fitsPool(s, pool, m)
	}
}

func samePVs(vg *lvm.VG, m *textmeta.Metadata) bool {
	return len(vg.PVs) == len(m.PVs) && !slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return !m.Has(pv.UUID) })
}

// absentVolumes returns which volumes of the API the metadata does not have either, or "".
func absentVolumes(s state.NodeState, m *textmeta.Metadata) string {
	var absent []string
	for _, name := range s.Metadata.Rollback.Absent {
		if m.Volume(name) == nil {
			absent = append(absent, name)
		}
	}
	if len(absent) == 0 {
		return ""
	}
	return "without the volumes " + state.Joined(absent)
}

// fitsPool returns why the thin pool does not match its metadata with earlier metadata of the volume group, or "". The
// superblock was read through the present metadata, so the earlier one must have data and metadata of the pool at the
// same place. Both can be larger there.
func fitsPool(s state.NodeState, pool *lvm.ThinPool, m *textmeta.Metadata) string {
	earlier := m.Volume(pool.Name)
	if earlier == nil || earlier.UUID != pool.UUID || len(earlier.Segments) != 1 ||
		earlier.Segments[0].Type != "thin-pool" {
		return "without the thin pool"
	}
	known := s.Pool.Inspection.Metadata
	switch segment := earlier.Segments[0]; {
	case segment.TransactionID != known.TransactionID:
		return fmt.Sprintf("transaction ID %d", segment.TransactionID)
	case segment.ChunkSize != uint64(pool.ChunkSize)/512:
		return "another chunk size"
	case segment.Count*extentChunks(s, pool) < known.Chunks:
		return fmt.Sprintf("transaction ID %d, and a smaller thin pool", segment.TransactionID)
	}
	if absent := absentDevices(known, pool.Name, m); absent != "" {
		return absent
	}
	return movedPool(s, pool.Name, m)
}

// extentChunks returns the number of chunks of the pool in an extent of its volume group.
func extentChunks(s state.NodeState, pool *lvm.ThinPool) uint64 {
	for i := range s.Report.VGs {
		if vg := &s.Report.VGs[i]; vg.LV(pool.Name) != nil && vg.LV(pool.Name).UUID == pool.UUID {
			return uint64(vg.ExtentSize / max(pool.ChunkSize, 1))
		}
	}
	return 0
}

// absentDevices returns which volume of the earlier metadata the pool does not have, or "". Damaged metadata of a pool
// may lack volumes.
func absentDevices(known *thinmeta.Metadata, pool string, m *textmeta.Metadata) string {
	for _, lv := range m.Volumes {
		for _, segment := range lv.Segments {
			if _, has := known.Devices[segment.DeviceID]; known.Intact && segment.ThinPool == pool && !has {
				return fmt.Sprintf("transaction ID %d, but with volume %s, which the thin pool does not have",
					known.TransactionID, lv.Name)
			}
		}
	}
	return ""
}

// movedPool returns whether data and metadata of the pool are elsewhere in the earlier metadata, or "".
func movedPool(s state.NodeState, name string, m *textmeta.Metadata) string {
	present := s.Metadata.Rollback.Present
	c, err := CompareExtents(present, m)
	if err != nil {
		return err.Error()
	}
	now := present.Volume(name)
	if now == nil {
		return "the present metadata does not have the thin pool"
	}
	for _, part := range parts(present, now)[1:] {
		if c.same[part.UUID] != physicalExtents(part) {
			return fmt.Sprintf("transaction ID %d, but the extents of %s were moved",
				s.Pool.Inspection.Metadata.TransactionID, part.Name)
		}
	}
	for _, part := range parts(m, m.Volume(name)) {
		if c.taken[part.UUID] > 0 {
			return fmt.Sprintf("transaction ID %d, but volume %s has extents of %s now",
				s.Pool.Inspection.Metadata.TransactionID, c.by[part.UUID], part.Name)
		}
	}
	return ""
}

// NewPlan returns what the restore of earlier metadata of a volume group that exists changes. problem says why
// there is no plan. preparing is true if the problem ends when the volumes are inactive and the metadata was read.
func NewPlan(d state.Desired, s state.NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string, preparing bool) {
	vg := ownership.GroupOf(d, s)
	pool, problem := rollbackTarget(d, s, vg)
	if problem != "" {
		return nil, problem, false
	}
	if problem, preparing = rollbackProblem(d, s, vg, pool); problem != "" {
		return nil, problem, preparing
	}
	r := s.Metadata.Rollback
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	switch {
	case r.Err != nil:
		return nil, fmt.Sprintf("%s: its earlier metadata cannot be used: %v", where, r.Err), true
	case r.Present == nil:
		return nil, where + ": its earlier metadata is being read", true
	case !isCurrent(vg, r.Present):
		return nil, where + ": its metadata is being changed", true
	case r.Earlier == nil:
		return nil, noEarlierMetadata(d, s, pool), false
	}
	c, err := CompareExtents(r.Present, r.Earlier)
	if err != nil {
		return nil, fmt.Sprintf("%s: %v", where, err), false
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		MetadataSource: r.Earlier.Digest, ReplacesMetadata: true}
	if pool != nil {
		p.ThinPools = recovery.Volumes([]*lvm.LV{&pool.LV}, nil)
	}
	for _, pv := range vg.PVs {
		p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: pv.UUID, Name: pv.Name,
			DeviceID: state.BeforeOf(s, pv.UUID).DeviceID})
	}
	AddLoss(p, vg, r, c)
	if len(p.LostVolumes) > v1alpha1.MaxLostVolumes || len(p.DamagedVolumes) > v1alpha1.MaxLostVolumes {
		return nil, fmt.Sprintf("%s would lose %d volumes, %d would be damaged, and a plan can have only %d of each",
			where, len(p.LostVolumes), len(p.DamagedVolumes), v1alpha1.MaxLostVolumes), false
	}
	// The source can move from LVM's backup to its archive meanwhile, and stays the same metadata.
	p.ID = recoveryplan.ID(v1alpha1.RecoveryRestoreMetadata, d.Node, d.Name, p)
	p.MetadataSource = recovery.Describe(r.Earlier)
	addNowhere(p, r, objects)
	return p, "", false
}

// rollbackProblem returns why the metadata does not have to be restored, or what must happen before that is known.
func rollbackProblem(d state.Desired, s state.NodeState, vg *lvm.VG, pool *lvm.ThinPool) (problem string,
	preparing bool) {
	if pool == nil {
		if len(s.Metadata.Rollback.Absent) == 0 && !doubt.GroupWentBack(s, vg) {
			return fmt.Sprintf("volume group %s on node %s exists, and has all volumes of the device class", d.Name,
				d.Node), false
		}
		return "", false
	}
	name := fmt.Sprintf("thin pool %s/%s on node %s", d.Name, pool.Name, d.Node)
	if thinpool.Works(pool) {
		return name + " is active, and the kernel reports no problem, so its volume group exists and its metadata is " +
			"not restored; if it was replaced while the pool was active, drain and restart the node first" +
			doubt.OtherwiseAccept(d, s, vg), false
	}
	if open := state.OpenVolumes(state.Pointers(vg.LVs)); len(open) > 0 {
		return fmt.Sprintf("volume group %s on node %s: volumes are in use: %s: delete the Pods that use them", d.Name,
			d.Node, state.Joined(open)), true
	}
	if waiting := thinpool.Readiness(s, vg, pool); waiting != "" {
		return name + ": " + waiting, true
	}
	switch m := s.Pool.Inspection.Metadata; {
	case m.SuperblockLost:
		return name + ": the superblock of its metadata cannot be read, so the matching metadata of the volume group " +
			"is not known: " + recovery.RepairHint(d), false
	case thinpool.Mismatch(pool, m) == "":
		return fmt.Sprintf("%s: its metadata and that of the volume group both have the transaction ID %d: if the "+
			"pool cannot be activated, %s", name, m.TransactionID, recovery.RepairHint(d)) + doubt.OtherwiseAccept(d, s,
			vg), false
	}
	return "", false
}

// noEarlierMetadata describes that LVM has no metadata that fits.
func noEarlierMetadata(d state.Desired, s state.NodeState, pool *lvm.ThinPool) string {
	found := "there are no files of it"
	if len(s.Metadata.Rollback.Rejected) > 0 {
		found = "found: " + strings.Join(state.Shorten(s.Metadata.Rollback.Rejected), "; ")
	}
	files := fmt.Sprintf("in %s and %s of the node", lvm.BackupDir, lvm.ArchiveDir)
	if pool == nil && len(s.Metadata.Rollback.Absent) == 0 {
		return fmt.Sprintf("volume group %s on node %s: no later metadata %s fits (%s): to use the present metadata, "+
			"%s", d.Name, d.Node, files, found, recovery.AcceptHint(d))
	}
	if pool == nil {
		return fmt.Sprintf("volume group %s on node %s does not have the volumes %s of the device class, and no "+
			"metadata %s has all of them (%s): delete the claims of volumes that cannot be restored", d.Name, d.Node,
			state.Joined(s.Metadata.Rollback.Absent), files, found)
	}
	return fmt.Sprintf("thin pool %s/%s on node %s: %s, and no metadata %s fits (%s): nothing is changed; restore "+
		"such metadata from a backup of the node to %s, or restore the data of the volumes from a backup", d.Name,
		pool.Name, d.Node, thinpool.Mismatch(pool, s.Pool.Inspection.Metadata), files, found, lvm.ArchiveDir)
}

// isCurrent returns true if metadata has the volumes that LVM reports.
func isCurrent(vg *lvm.VG, m *textmeta.Metadata) bool {
	visible := 0
	for i := range m.Volumes {
		if lv := &m.Volumes[i]; lv.Visible {
			visible++
			if now := vg.LV(lv.Name); now == nil || now.UUID != lv.UUID {
				return false
			}
		}
	}
	return m.UUID == vg.UUID && visible == len(vg.LVs)
}

// AddLoss adds the volumes that the earlier metadata does not have, and those that it damages.
func AddLoss(p *v1alpha1.RecoveryPlan, vg *lvm.VG, r state.Rollback, c mapping) {
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if at := slices.IndexFunc(r.Earlier.Volumes, func(e textmeta.LV) bool { return e.UUID == lv.UUID }); at < 0 {
			p.LostVolumes = append(p.LostVolumes, recovery.Volumes([]*lvm.LV{lv}, nil)...)
		}
	}
	for i := range r.Earlier.Volumes {
		lv := &r.Earlier.Volumes[i]
		if !lv.Visible || slices.Contains(r.Earlier.ThinPools, lv.Name) {
			continue
		}
		p.KeptVolumeCount++
		if finding, lost := damageOf(r, c, lv); finding != "" {
			p.DamagedVolumes = append(p.DamagedVolumes, v1alpha1.RecoveryVolume{Name: lv.Name, UUID: lv.UUID,
				Size: int64(lv.Extents()) * int64(vg.ExtentSize), LostBytes: int64(lost) * int64(vg.ExtentSize),
				Finding: finding})
		}
	}
	byName := func(a, b v1alpha1.RecoveryVolume) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(p.LostVolumes, byName)
	slices.SortFunc(p.DamagedVolumes, byName)
	p.LostVolumeCount = int32(len(p.LostVolumes))
}

// addNowhere adds the volumes of the API that neither metadata has. They are lost already.
func addNowhere(p *v1alpha1.RecoveryPlan, r state.Rollback, objects []v1alpha1.RecoveryVolume) {
	for _, o := range objects {
		if o.Name != "" && r.Earlier.Volume(o.Name) == nil && r.Present.Volume(o.Name) == nil {
			p.LostVolumes = append(p.LostVolumes, o)
		}
	}
	p.LostVolumeCount = int32(len(p.LostVolumes))
	p.LostVolumes = p.LostVolumes[:min(len(p.LostVolumes), v1alpha1.MaxLostVolumes)]
}

// damageOf returns what the restore of earlier metadata does to a volume that it has, and how many extents it loses, or
// "".
func damageOf(r state.Rollback, c mapping, lv *textmeta.LV) (finding string, extents uint64) {
	for _, part := range parts(r.Earlier, lv) {
		if taken := c.taken[part.UUID]; taken > 0 {
			finding, extents = "volume "+c.by[part.UUID]+" has extents of it now", extents+taken
		}
	}
	now := r.Present.Volume(lv.Name)
	if now == nil || now.UUID != lv.UUID {
		return finding, extents
	}
	for _, part := range parts(r.Present, now) {
		if other := physicalExtents(part) - c.same[part.UUID]; other > 0 {
			finding, extents = "it has other extents now, whose data is not kept", max(extents, other)
		}
	}
	thin, before := thinSegment(now), thinSegment(lv)
	switch {
	case thin.ThinPool != before.ThinPool || thin.DeviceID != before.DeviceID:
		return "it has another device in the thin pool now, whose data is not kept", now.Extents()
	case now.Extents() > lv.Extents():
		return "it is larger now, and its end is not kept", max(extents, now.Extents()-lv.Extents())
	}
	return finding, extents
}

// thinSegment returns the segment of a thin volume, or an empty one.
func thinSegment(lv *textmeta.LV) textmeta.Segment {
	if len(lv.Segments) == 1 && lv.Segments[0].Type == "thin" {
		return lv.Segments[0]
	}
	return textmeta.Segment{}
}

// Returning returns the names of the volumes that the present metadata does not have.
func Returning(r state.Rollback) []string {
	var names []string
	for _, lv := range r.Earlier.Volumes {
		now := r.Present.Volume(lv.Name)
		if lv.Visible && (now == nil || now.UUID != lv.UUID) {
			names = append(names, lv.Name)
		}
	}
	return names
}

// allowsRollback returns true if the approval is for the metadata that would be restored now, or the metadata was
// restored.
func allowsRollback(d state.Desired, s state.NodeState) bool {
	r := d.Open.Approved
	if r == nil || r.Action != v1alpha1.RecoveryRestoreMetadata || !r.Replaces {
		return false
	}
	_, problem, preparing := NewPlan(d, s, nil, r.Created)
	return preparing || problem == "" && isPlanned(d, s) || problem != "" && isRestored(d, s)
}

// isPlanned returns true if the current plan is the approved one.
func isPlanned(d state.Desired, s state.NodeState) bool {
	p, problem, _ := NewPlan(d, s, nil, d.Open.Approved.Created)
	return problem == "" && p.ID == d.Open.Approved.PlanID
}

// isRestored returns true if the metadata of the volume group fits its thin pool, or has all volumes of the device
// class.
func isRestored(d state.Desired, s state.NodeState) bool {
	vg := ownership.GroupOf(d, s)
	pool, problem := rollbackTarget(d, s, vg)
	switch i := s.Pool.Inspection; {
	case problem != "":
		return false
	case pool == nil:
		return len(s.Metadata.Rollback.Absent) == 0 && !doubt.GroupWentBack(s, vg)
	case thinpool.Works(pool):
		return true
	default:
		return i != nil && i.Metadata != nil && !i.Metadata.SuperblockLost && thinpool.Mismatch(pool, i.Metadata) == ""
	}
}

// RollsBack returns true if an open recovery restores the metadata of a volume group that exists. Its volumes then stay
// inactive, and nothing else changes the group.
func RollsBack(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	if d.Open.Action != v1alpha1.RecoveryRestoreMetadata || vg == nil {
		return false
	}
	pool, problem := rollbackTarget(d, s, vg)
	switch {
	case problem != "":
		return false
	case pool == nil:
		return !isRestored(d, s) && allowsRollback(d, s)
	}
	return !thinpool.Works(pool) && (!isRestored(d, s) || allowsRollback(d, s) && s.Pool.Inspection.Metadata.Intact)
}

// Action returns the next change of a restore of metadata, or an empty action if it waits.
func Action(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	pool, _ := rollbackTarget(d, s, vg)
	if len(state.OpenVolumes(state.Pointers(vg.LVs))) > 0 {
		return state.Action{}
	}
	if pool != nil && vg.IsPoolActive(pool.Name) {
		return recovery.Deactivation(vg, &pool.LV)
	}
	if active := activeVolumes(vg); len(active) > 0 {
		return state.Action{Kind: state.DeactivatePool,
			Change: lvm.LVDeactivate{VG: d.Name, Names: active[:min(len(active), state.MaxNamesOfCommand)]}}
	}
	i := s.Pool.Inspection
	switch {
	case pool != nil && i == nil:
		return state.Action{Kind: state.InspectPool}
	case pool != nil && (i.Running || i.Err != nil), !allowsRollback(d, s):
		return state.Action{}
	case pool != nil && isRestored(d, s):
		return state.Action{Kind: state.ActivatePool, Change: lvm.ThinPoolActivate{VG: d.Name}}
	case isPlanned(d, s):
		return state.Action{Kind: state.RestoreEarlier}
	}
	return state.Action{}
}

func activeVolumes(vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		if vg.LVs[i].Attr.Active() {
			names = append(names, vg.LVs[i].Name)
		}
	}
	return names
}

// rollbackStatus is RecoveryStatus for the restore of metadata of a volume group that exists.
func rollbackStatus(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	if allowsRollback(d, o.Node) {
		if isRestored(d, o.Node) && !RollsBack(d, o.Node, vg) {
			status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &r.Now
			status.Message = rolledBack(d, o.Node, status.Plan)
			return status
		}
		recovery.SetRunning(&status, rollbackProgress(o, d, vg), r.Now)
		return status
	}
	d.Open.Approved = nil
	created := r.Now
	if status.Plan != nil {
		created = status.Plan.CreationTime
	}
	p, problem, preparing := NewPlan(d, o.Node, r.Volumes, created)
	if preparing {
		status.StartTime = nil
		status.Phase, status.Message = v1alpha1.RecoveryPreparing, problem
		if o.Err != nil {
			status.Message += ": " + o.Err.Error()
		}
		return status
	}
	recovery.RenewPlan(&status, r.Recovery.Spec.ApprovedPlan, r.Now, func(created metav1.Time) (*v1alpha1.RecoveryPlan,
		string) {
		p, problem, _ = NewPlan(d, o.Node, r.Volumes, created)
		return p, problem
	}, func(p *v1alpha1.RecoveryPlan) string { return rollbackConsequence(o.Node, p) })
	return status
}

// rollbackProgress returns what an approved restore of metadata does or waits for.
func rollbackProgress(o state.Outcome, d state.Desired, vg *lvm.VG) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	if open := state.OpenVolumes(state.Pointers(vg.LVs)); len(open) > 0 {
		return fmt.Sprintf("volumes are in use: %s: delete the Pods that use them", state.Joined(open))
	}
	if o.Plan.Action.Kind != state.Nothing {
		return "in progress: " + string(o.Plan.Action.Kind)
	}
	_, problem, _ := NewPlan(d, o.Node, nil, metav1.Time{})
	return cmp.Or(problem, "waiting")
}

// rollbackConsequence describes the plan of a restore of metadata.
func rollbackConsequence(s state.NodeState, p *v1alpha1.RecoveryPlan) string {
	back := Returning(s.Metadata.Rollback)
	text := fmt.Sprintf("the metadata of the volume group is replaced with the metadata in %s; volumes of it: %d, of "+
		"which return: %d", p.MetadataSource, p.KeptVolumeCount, len(back))
	if len(back) > 0 {
		text += " (" + state.Joined(back) + ")"
	}
	return text + fmt.Sprintf("; volumes lost: %d, damaged: %d", p.LostVolumeCount, len(p.DamagedVolumes))
}

func rolledBack(d state.Desired, s state.NodeState, p *v1alpha1.RecoveryPlan) string {
	text := fmt.Sprintf("the metadata of volume group %s on node %s was restored", d.Name, d.Node)
	if i := s.Pool.Inspection; i != nil && i.Metadata != nil && !i.Metadata.Intact {
		text += "; the metadata of its thin pool is damaged: " + recovery.RepairHint(d)
	}
	if len(p.DamagedVolumes) > 0 {
		text += fmt.Sprintf("; damaged volumes: %d: restore them from a backup", len(p.DamagedVolumes))
	}
	if p.LostVolumeCount > 0 {
		text += fmt.Sprintf("; volumes lost: %d", p.LostVolumeCount)
	}
	return text
}
