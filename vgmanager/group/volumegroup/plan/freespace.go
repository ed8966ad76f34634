package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Mounted has the mounted file systems of the volumes of a thin pool.
type Mounted struct {
	// Used is what each file system uses in bytes, by the UUID of its volume. It is 0 if a file system does not
	// respond.
	Used map[string]int64
	// Err is why they are not known.
	Err error
}

// Trim is the progress of trimming the file systems of an approved plan.
type Trim struct {
	Running bool
	// Tried is the number of volumes that were tried. Failed says which of them were not trimmed, and why.
	Tried  int
	Failed []string
	// Before is the used data of the pool at the start.
	Before lvm.Bytes
	// Err is why trimming stopped. The agent tries again later.
	Err error
	// Other is another device class of the node whose file systems are being trimmed, or "". Then the other fields are
	// not set.
	Other string
}

// HasEnded returns true if all volumes were tried.
func (t *Trim) HasEnded() bool { return t != nil && !t.Running && t.Err == nil && t.Other == "" }

// nearlyFullPercent is the usage of its data at which a pool needs more space, as for the alert
// ThinPoolDataUsageAtThresholdCritical.
const nearlyFullPercent = 85

// spaceTarget returns the thin pool in which a recovery frees blocks, or why it cannot.
func spaceTarget(w Desired, s NodeState, vg *lvm.VG) (pool *lvm.ThinPool, problem string) {
	pool, problem = repairTarget(w, s, vg)
	switch {
	case problem != "":
		return nil, problem
	case !pool.Attr.Active():
		return nil, fmt.Sprintf("%s is inactive, so none of its volumes is mounted", poolOnNode(w, pool))
	case !works(pool):
		return nil, fmt.Sprintf("%s cannot free blocks, because its metadata cannot be written: %s",
			poolOnNode(w, pool), repairHint(w))
	}
	return pool, ""
}

func poolOnNode(w Desired, pool *lvm.ThinPool) string {
	return fmt.Sprintf("thin pool %s/%s on node %s", w.Name, pool.Name, w.Node)
}

// newSpacePlan returns which file systems are trimmed to free blocks of the thin pool, or why there is no plan.
func newSpacePlan(w Desired, s NodeState, vg *lvm.VG, pool *lvm.ThinPool,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	if s.Mounted.Err != nil {
		return nil, fmt.Sprintf("%s: its mounted file systems are not known: %v", poolOnNode(w, pool), s.Mounted.Err)
	}
	mounted := mountedVolumes(s, pool)
	if len(mounted) == 0 {
		return nil, fmt.Sprintf("%s is %d%% full, and none of its volumes has a mounted file system that could be "+
			"trimmed: %s", poolOnNode(w, pool), wholePercent(pool.DataPercent), withoutTrim(w, vg, pool))
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		ThinPools:       recoveryVolumes([]*lvm.LV{&pool.LV}, nil),
		KeptVolumeCount: int32(len(pool.Volumes)), ExtensibleBytes: int64(extensible(w.Spec.ThinPoolConfig, vg, pool)),
		MountedVolumes: mounted[:min(len(mounted), v1alpha1.MaxLostVolumes)], MountedVolumeCount: int32(len(mounted))}
	p.ThinPools[0].AllocatedBytes = int64(allocated(&pool.LV))
	// The ID does not depend on the mounted volumes: Pods come and go, and no volume is lost.
	p.ID = v1alpha1.PlanID(v1alpha1.RecoveryFreePoolSpace, w.Node, w.Name, p)
	return p, ""
}

// mountedVolumes returns the volumes of a pool with a mounted file system, those with the most bytes that may be freed
// first.
func mountedVolumes(s NodeState, pool *lvm.ThinPool) []v1alpha1.RecoveryVolume {
	var list []v1alpha1.RecoveryVolume
	for i := range pool.Volumes {
		lv := &pool.Volumes[i]
		used, is := s.Mounted.Used[lv.UUID]
		if !is {
			continue
		}
		volume := recoveryVolumes([]*lvm.LV{lv}, nil)[0]
		volume.AllocatedBytes = int64(allocated(lv))
		volume.UsedBytes = used
		list = append(list, volume)
	}
	slices.SortFunc(list, func(a, b v1alpha1.RecoveryVolume) int {
		if c := cmp.Compare(reclaimable(b), reclaimable(a)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// reclaimable returns an estimate of what trimming a volume frees, in bytes. It is 0 if the file system does not
// respond.
func reclaimable(v v1alpha1.RecoveryVolume) int64 {
	if v.UsedBytes == 0 {
		return 0
	}
	return max(0, v.AllocatedBytes-v.UsedBytes)
}

// allocated returns how much data of its pool a thin volume uses, or the used data of a pool.
func allocated(lv *lvm.LV) lvm.Bytes {
	if lv.DataPercent == nil {
		return 0
	}
	return lvm.Bytes(float64(lv.Size) / 100 * *lv.DataPercent)
}

// extensible returns by how much a pool can be extended from the free space of its volume group.
func extensible(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) lvm.Bytes {
	if vg.ExtentSize == 0 {
		return 0
	}
	unit := vg.ExtentSize * lvm.Bytes(config.DataStripes())
	return max(0, min(dataRoom(config, vg), MaxPoolSize(pool.ChunkSize)-pool.Size)/unit*unit)
}

// spaceRemedies says what to do if a pool is full, in the order in which to do it.
func spaceRemedies(w Desired, vg *lvm.VG, pool *lvm.ThinPool) string {
	remedies := moreSpace(w, vg, pool)
	remedies = append(remedies, fmt.Sprintf("to free the blocks of deleted files, create an LVMRecovery {nodeName: "+
		"%s, deviceClassName: %s, action: %s}, which trims mounted file systems and changes nothing until it is "+
		"approved", w.Node, w.Name, v1alpha1.RecoveryFreePoolSpace))
	return numbered(remedies) + "; then delete snapshots and volumes that are not needed"
}

// withoutTrim is spaceRemedies if no file system can be trimmed, or all were.
func withoutTrim(w Desired, vg *lvm.VG, pool *lvm.ThinPool) string {
	return numbered(append(moreSpace(w, vg, pool), "delete snapshots and volumes that are not needed"))
}

// moreSpace returns the ways to extend a pool that are possible.
func moreSpace(w Desired, vg *lvm.VG, pool *lvm.ThinPool) []string {
	if pool.Size+vg.ExtentSize > MaxPoolSize(pool.ChunkSize) {
		return nil // a device does not help either
	}
	var remedies []string
	if size := extensible(w.Spec.ThinPoolConfig, vg, pool); size > 0 && w.Spec.ThinPoolConfig.AutoExtend != nil {
		remedies = append(remedies, fmt.Sprintf("wait until autoExtend extends the pool: volume group %s has %s of "+
			"free space", w.Name, readable(size)))
	} else if size > 0 {
		remedies = append(remedies, fmt.Sprintf("extend the pool by up to %s from the free space of volume group %s: "+
			"set thinPoolConfig.autoExtend of the device class", readable(size), w.Name))
	}
	if stripes := w.Spec.ThinPoolConfig.DataStripes(); stripes > 1 {
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

// readable rounds a size down to whole GiB from 10 GiB on, and else to whole MiB.
func readable(b lvm.Bytes) *resource.Quantity {
	unit := lvm.Bytes(1 << 20)
	if b >= 10<<30 {
		unit = 1 << 30
	}
	return quantity(b / unit * unit)
}

// allowsTrim returns true if the approved plan is for this thin pool.
func allowsTrim(w Desired, pool *lvm.ThinPool) bool {
	r := w.Recovery
	return r != nil && r.Action == v1alpha1.RecoveryFreePoolSpace && slices.Equal(r.Pools, []string{pool.UUID})
}

// trimAction starts to trim the file systems of an approved plan, one after the other in the background.
func trimAction(w Desired, s NodeState, vg *lvm.VG) Action {
	if !w.FreeingSpace || s.Trim != nil {
		return Action{}
	}
	pool, problem := spaceTarget(w, s, vg)
	if problem != "" || !allowsTrim(w, pool) {
		return Action{}
	}
	return Action{Kind: TrimVolumes, Volumes: w.Recovery.Trim, Size: allocated(&pool.LV)}
}

// spaceStatus is RecoveryStatus for the recovery that frees blocks of a thin pool.
func (o Outcome) spaceStatus(w Desired, r *v1alpha1.LVMRecovery, status v1alpha1.LVMRecoveryStatus,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	vg := GroupOf(w, o.Node)
	pool, problem := spaceTarget(w, o.Node, vg)
	if problem == "" && allowsTrim(w, pool) {
		return o.trimStatus(w, vg, pool, status, now)
	}
	status.StartTime = nil
	if problem == "" && !isPlanFor(status.Plan, pool) {
		status.Plan, problem = newSpacePlan(w, o.Node, vg, pool, now)
	}
	if problem != "" {
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, problem, nil
		return status
	}
	awaitApproval(&status, r.Spec.ApprovedPlan, spaceConsequence(w, pool, status.Plan))
	return status
}

// isPlanFor returns true if a plan is for a thin pool. Such a plan stays until it is approved.
func isPlanFor(p *v1alpha1.RecoveryPlan, pool *lvm.ThinPool) bool {
	return p != nil && slices.Equal(uuidsOf(p.ThinPools), []string{pool.UUID})
}

// spaceConsequence describes a plan that frees blocks.
func spaceConsequence(w Desired, pool *lvm.ThinPool, p *v1alpha1.RecoveryPlan) string {
	var estimate int64
	for _, v := range p.MountedVolumes {
		estimate += reclaimable(v)
	}
	text := fmt.Sprintf("%s is %d%% full: mounted file systems that are trimmed: %d, which frees up to about %s; no "+
		"volume is lost", poolOnNode(w, pool), wholePercent(pool.DataPercent), len(p.MountedVolumes),
		readable(lvm.Bytes(estimate)))
	if others := int(p.KeptVolumeCount) - len(p.MountedVolumes); others > 0 {
		text += fmt.Sprintf("; volumes that are not trimmed, because they are block volumes, are not mounted, or the "+
			"plan has its maximum size: %d", others)
	}
	if p.ExtensibleBytes > 0 {
		text += fmt.Sprintf("; the pool can also be extended by up to %s from the free space of volume group %s",
			readable(lvm.Bytes(p.ExtensibleBytes)), w.Name)
	}
	return text
}

// trimStatus is the status of an approved recovery that frees blocks.
func (o Outcome) trimStatus(w Desired, vg *lvm.VG, pool *lvm.ThinPool, status v1alpha1.LVMRecoveryStatus,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	t := o.Node.Trim
	if status.StartTime == nil {
		status.StartTime = &now
		status.Plan.ThinPools[0].AllocatedBytes = int64(allocated(&pool.LV))
		if t != nil && t.Other == "" {
			status.Plan.ThinPools[0].AllocatedBytes = int64(t.Before)
		}
	}
	if !t.HasEnded() {
		status.Phase, status.Message = v1alpha1.RecoveryRunning, o.trimProgress(w)
		return status
	}
	status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
	status.FreedBytes = new(max(0, status.Plan.ThinPools[0].AllocatedBytes-int64(allocated(&pool.LV))))
	status.Message = trimmed(w, vg, pool, t, *status.FreedBytes)
	return status
}

// trimProgress returns what an approved recovery that frees blocks does or waits for.
func (o Outcome) trimProgress(w Desired) string {
	t := o.Node.Trim
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case t == nil:
		return "in progress: " + string(TrimVolumes)
	case t.Other != "":
		return fmt.Sprintf("waiting: the file systems of device class %s are being trimmed, and a node trims one file "+
			"system at a time", t.Other)
	case t.Err != nil:
		return fmt.Sprintf("node %s could not be observed, and the agent tries again: %v", w.Node, t.Err)
	}
	return fmt.Sprintf("in progress: %s: %d of %d file systems", TrimVolumes, t.Tried, len(w.Recovery.Trim))
}

// trimmed describes the result, and what to do if the pool is still full.
func trimmed(w Desired, vg *lvm.VG, pool *lvm.ThinPool, t *Trim, freed int64) string {
	text := fmt.Sprintf("%s is %d%% full; file systems trimmed: %d, freed: %s", poolOnNode(w, pool),
		wholePercent(pool.DataPercent), t.Tried-len(t.Failed), readable(lvm.Bytes(freed)))
	if len(t.Failed) > 0 {
		text += fmt.Sprintf("; not trimmed: %d: %s", len(t.Failed), joined(t.Failed))
	}
	if atLeast(pool.DataPercent, nearlyFullPercent) {
		text += "; the pool needs more space, because blocks that a snapshot has too are not freed: " +
			withoutTrim(w, vg, pool)
	}
	return text
}
