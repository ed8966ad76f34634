// Package poolspace decides about the recovery FreePoolSpace: which file systems are trimmed to free blocks of a thin
// pool.
package poolspace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// spaceTarget returns the thin pool in which a recovery frees blocks, or why it cannot.
func spaceTarget(d state.Desired, s state.NodeState, vg *lvm.VG) (pool *lvm.ThinPool, problem string) {
	pool, problem = thinpool.RepairTarget(d, s, vg)
	switch {
	case problem != "":
		return nil, problem
	case !pool.Attr.Active():
		return nil, fmt.Sprintf("%s is inactive, so none of its volumes is mounted", thinpool.PoolOnNode(d, pool))
	case !thinpool.Works(pool):
		return nil, fmt.Sprintf("%s cannot free blocks, because its metadata cannot be written: %s",
			thinpool.PoolOnNode(d, pool), recovery.RepairHint(d))
	}
	return pool, ""
}

// newPlan returns which file systems are trimmed to free blocks of the thin pool, or why there is no plan.
func newPlan(d state.Desired, s state.NodeState, vg *lvm.VG, pool *lvm.ThinPool,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	if s.FileSystems.Mounted.Err != nil {
		return nil, fmt.Sprintf("%s: its mounted file systems are not known: %v", thinpool.PoolOnNode(d, pool),
			s.FileSystems.Mounted.Err)
	}
	mounted := mountedVolumes(s, pool)
	if len(mounted) == 0 {
		return nil, fmt.Sprintf("%s is %d%% full, and none of its volumes has a mounted file system that could be "+
			"trimmed: %s", thinpool.PoolOnNode(d, pool), state.WholePercent(pool.DataPercent), thinpool.WithoutTrim(d,
			vg, pool))
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		ThinPools:       recovery.Volumes([]*lvm.LV{&pool.LV}, nil),
		KeptVolumeCount: int32(len(pool.Volumes)), ExtensibleBytes: int64(thinpool.Extensible(d.Spec.ThinPoolConfig, vg,
			pool)),
		MountedVolumes: mounted[:min(len(mounted), v1alpha1.MaxLostVolumes)], MountedVolumeCount: int32(len(mounted))}
	p.ThinPools[0].AllocatedBytes = int64(thinpool.Allocated(&pool.LV))
	// The ID does not depend on the mounted volumes: Pods come and go, and no volume is lost.
	p.ID = recoveryplan.ID(v1alpha1.RecoveryFreePoolSpace, d.Node, d.Name, p)
	return p, ""
}

// mountedVolumes returns the volumes of a pool with a mounted file system, those with the most bytes that may be freed
// first.
func mountedVolumes(s state.NodeState, pool *lvm.ThinPool) []v1alpha1.RecoveryVolume {
	var list []v1alpha1.RecoveryVolume
	for i := range pool.Volumes {
		lv := &pool.Volumes[i]
		used, is := s.FileSystems.Mounted.Used[lv.UUID]
		if !is {
			continue
		}
		volume := recovery.Volumes([]*lvm.LV{lv}, nil)[0]
		volume.AllocatedBytes = int64(thinpool.Allocated(lv))
		volume.UsedBytes = used
		list = append(list, volume)
	}
	slices.SortFunc(list, func(a, b v1alpha1.RecoveryVolume) int {
		if c := cmp.Compare(thinpool.Reclaimable(b), thinpool.Reclaimable(a)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// allowsTrim returns true if the approved plan is for this thin pool.
func allowsTrim(d state.Desired, pool *lvm.ThinPool) bool {
	r := d.Open.Approved
	return r != nil && r.Action == v1alpha1.RecoveryFreePoolSpace && slices.Equal(r.Pools, []string{pool.UUID})
}

// Action starts to trim the file systems of an approved plan, one after the other in the background.
func Action(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	if d.Open.Action != v1alpha1.RecoveryFreePoolSpace || s.FileSystems.Trim != nil {
		return state.Action{}
	}
	pool, problem := spaceTarget(d, s, vg)
	if problem != "" || !allowsTrim(d, pool) {
		return state.Action{}
	}
	return state.Action{Kind: state.TrimVolumes, Target: state.Volumes(d.Open.Approved.Trim)}
}

// Status is RecoveryStatus for the recovery that frees blocks of a thin pool.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	pool, problem := spaceTarget(d, o.Node, vg)
	if problem == "" && allowsTrim(d, pool) {
		return trimStatus(o, d, vg, pool, status, r.Now)
	}
	status.StartTime = nil
	if problem == "" && !isPlanFor(status.Plan, pool) {
		status.Plan, problem = newPlan(d, o.Node, vg, pool, r.Now)
	}
	if problem != "" {
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, problem, nil
		return status
	}
	recovery.AwaitApproval(&status, r.Recovery.Spec.ApprovedPlan, spaceConsequence(d, pool, status.Plan))
	return status
}

// isPlanFor returns true if a plan is for a thin pool. Such a plan stays until it is approved.
func isPlanFor(p *v1alpha1.RecoveryPlan, pool *lvm.ThinPool) bool {
	return p != nil && slices.Equal(state.UUIDsOf(p.ThinPools), []string{pool.UUID})
}

// spaceConsequence describes a plan that frees blocks.
func spaceConsequence(d state.Desired, pool *lvm.ThinPool, p *v1alpha1.RecoveryPlan) string {
	var estimate int64
	for _, v := range p.MountedVolumes {
		estimate += thinpool.Reclaimable(v)
	}
	text := fmt.Sprintf("%s is %d%% full: mounted file systems that are trimmed: %d, which frees up to about %s; no "+
		"volume is lost", thinpool.PoolOnNode(d, pool), state.WholePercent(pool.DataPercent), len(p.MountedVolumes),
		thinpool.Readable(lvm.Bytes(estimate)))
	if others := int(p.KeptVolumeCount) - len(p.MountedVolumes); others > 0 {
		text += fmt.Sprintf("; volumes that are not trimmed, because they are block volumes, are not mounted, or the "+
			"plan has its maximum size: %d", others)
	}
	if p.ExtensibleBytes > 0 {
		text += fmt.Sprintf("; the pool can also be extended by up to %s from the free space of volume group %s",
			thinpool.Readable(lvm.Bytes(p.ExtensibleBytes)), d.Name)
	}
	return text
}

// trimStatus is the status of an approved recovery that frees blocks.
func trimStatus(o state.Outcome, d state.Desired, vg *lvm.VG, pool *lvm.ThinPool, status v1alpha1.LVMRecoveryStatus,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	t := o.Node.FileSystems.Trim
	if status.StartTime == nil {
		status.StartTime = &now
		status.Plan.ThinPools[0].AllocatedBytes = int64(thinpool.Allocated(&pool.LV))
		if t != nil && t.Other == "" {
			status.Plan.ThinPools[0].AllocatedBytes = int64(t.Before)
		}
	}
	if !t.HasEnded() {
		status.Phase, status.Message = v1alpha1.RecoveryRunning, trimProgress(o, d)
		return status
	}
	status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
	status.FreedBytes = new(max(0, status.Plan.ThinPools[0].AllocatedBytes-int64(thinpool.Allocated(&pool.LV))))
	status.Message = trimmed(d, vg, pool, t, *status.FreedBytes)
	return status
}

// trimProgress returns what an approved recovery that frees blocks does or waits for.
func trimProgress(o state.Outcome, d state.Desired) string {
	t := o.Node.FileSystems.Trim
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case t == nil:
		return "in progress: " + string(state.TrimVolumes)
	case t.Other != "":
		return fmt.Sprintf("waiting: the file systems of device class %s are being trimmed, and a node trims one file "+
			"system at a time", t.Other)
	case t.Err != nil:
		return fmt.Sprintf("node %s could not be observed, and the agent tries again: %v", d.Node, t.Err)
	}
	return fmt.Sprintf("in progress: %s: %d of %d file systems", state.TrimVolumes, t.Tried, len(d.Open.Approved.Trim))
}

// trimmed describes the result, and what to do if the pool is still full.
func trimmed(d state.Desired, vg *lvm.VG, pool *lvm.ThinPool, t *state.Trim, freed int64) string {
	text := fmt.Sprintf("%s is %d%% full; file systems trimmed: %d, freed: %s", thinpool.PoolOnNode(d, pool),
		state.WholePercent(pool.DataPercent), t.Tried-len(t.Failed), thinpool.Readable(lvm.Bytes(freed)))
	if len(t.Failed) > 0 {
		text += fmt.Sprintf("; not trimmed: %d: %s", len(t.Failed), state.Joined(t.Failed))
	}
	if thinpool.AtLeast(pool.DataPercent, thinpool.NearlyFullPercent) {
		text += "; the pool needs more space, because blocks that a snapshot has too are not freed: " +
			thinpool.WithoutTrim(d, vg, pool)
	}
	return text
}
