// Package orphans decides about logical volumes that no object of the cluster has: the recovery DeleteOrphans, and
// the removal of volumes whose LogicalVolumes were deleted while their node did not exist.
package orphans

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Open adds the logical volumes that an LVMRecovery deletes.
func Open(d *state.Desired, r *v1alpha1.LVMRecovery) { d.Open.Orphans = r.Spec.Volumes }

// NewPlan returns which of the orphans that the open recovery names are deleted. It returns in problem why one of them
// cannot be.
func NewPlan(d state.Desired, s state.NodeState, created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := ownership.GroupOf(d, s)
	if problem := doubt.DeletionProblem(d, s, vg); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID}
	for _, name := range slices.Sorted(slices.Values(d.Open.Orphans)) {
		lv := vg.LV(name)
		if lv == nil {
			return nil, fmt.Sprintf("volume group %s on node %s has no logical volume %s: create another LVMRecovery "+
				"without it", d.Name, d.Node, name)
		}
		if problem := orphanProblem(d, s, vg, lv); problem != "" {
			return nil, problem
		}
		p.LostVolumes = append(p.LostVolumes, v1alpha1.RecoveryVolume{Name: name, UUID: lv.UUID, Size: int64(lv.Size),
			Claim: recovery.ClaimOf(lv)})
	}
	p.LostVolumeCount = int32(len(p.LostVolumes))
	p.KeptVolumeCount = int32(recovery.CountKept(vg, p.LostVolumes))
	p.ID = recoveryplan.ID(v1alpha1.RecoveryDeleteOrphans, d.Node, d.Name, p)
	return p, ""
}

// orphanProblem returns why a logical volume must not be deleted, or "".
func orphanProblem(d state.Desired, s state.NodeState, vg *lvm.VG, lv *lvm.LV) string {
	where := fmt.Sprintf("logical volume %s/%s on node %s", d.Name, lv.Name, d.Node)
	if owner := s.Owners.Of[lv.Name]; owner != "" {
		return fmt.Sprintf("%s belongs to %s, so it is not deleted: if it is not needed, delete its "+
			"PersistentVolumeClaim or VolumeSnapshot", where, owner)
	}
	switch {
	case lv.Attr.IsThinPool():
		return where + " is a thin pool, not a volume"
	case lv.Attr.Open() && !slices.Contains(s.Orphans.Erasing, lv.Name):
		return where + " is in use: unmount it, or end what uses it (see dmsetup ls --tree and lsof on the node)"
	}
	if lv.PoolName != "" && !vg.IsPoolActive(lv.PoolName) {
		return fmt.Sprintf("%s is in the thin pool %s, which is not active: repair the pool first", where, lv.PoolName)
	}
	if dependents := vg.Dependents(lv); len(dependents) > 0 {
		return fmt.Sprintf("%s is needed by %s, which would be lost: delete what needs it first", where,
			state.Joined(dependents))
	}
	return ""
}

// orphansLeft returns the volumes of an approved plan that still exist.
func orphansLeft(d state.Desired, vg *lvm.VG) []*lvm.LV {
	var left []*lvm.LV
	if !d.Open.Allows(v1alpha1.RecoveryDeleteOrphans) {
		return left
	}
	for i := range vg.LVs {
		if slices.Contains(d.Open.Approved.Volumes, vg.LVs[i].UUID) {
			left = append(left, &vg.LVs[i])
		}
	}
	return left
}

func haveOwner(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	return slices.ContainsFunc(orphansLeft(d, vg), func(lv *lvm.LV) bool { return s.Owners.Of[lv.Name] != "" })
}

// Problem returns why an approved recovery must not delete the volumes that are left, or "".
func Problem(d state.Desired, s state.NodeState) string {
	vg := ownership.GroupOf(d, s)
	if problem := doubt.DeletionProblem(d, s, vg); problem != "" {
		return problem
	}
	for _, lv := range orphansLeft(d, vg) {
		if problem := orphanProblem(d, s, vg, lv); problem != "" {
			return problem
		}
	}
	return ""
}

// Action deletes orphans that an approved plan lists.
func Action(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	left := orphansLeft(d, vg)
	if len(left) == 0 || s.Orphans.Waits != "" || Problem(d, s) != "" {
		return state.Action{}
	}
	uuids := state.UUIDs(left[:min(len(left), state.MaxNamesOfCommand)])
	return state.Action{Kind: state.RemoveOrphans, Target: state.Volumes(uuids)}
}

// Removing returns the names of the logical volumes whose removal is approved and possible, or due: of an approved
// recovery, and of deleted LogicalVolumes.
func Removing(d state.Desired, s state.NodeState) []string {
	names := slices.Clone(s.Orphans.Expired)
	vg := ownership.GroupOf(d, s)
	if vg == nil || Problem(d, s) != "" {
		return names
	}
	for _, lv := range orphansLeft(d, vg) {
		names = append(names, lv.Name)
	}
	return names
}

// Status is RecoveryStatus for the deletion of orphans. If one of the volumes has an owner again, the approval is
// no longer valid. Other problems delay the deletion.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	if d.Open.Approved == nil || vg == nil || vg.UUID != status.Plan.VolumeGroupUUID || haveOwner(d, o.Node, vg) {
		recovery.RenewPlan(&status, r.Recovery.Spec.ApprovedPlan, r.Now,
			func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
				return NewPlan(d, o.Node, created)
			}, orphanConsequence)
		return status
	}
	if left := len(orphansLeft(d, vg)); left > 0 {
		recovery.SetRunning(&status, orphanProgress(o, d, left), r.Now)
		return status
	}
	status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &r.Now
	status.Message = fmt.Sprintf("logical volumes deleted from volume group %s on node %s: %d", d.Name, d.Node,
		status.Plan.LostVolumeCount)
	return status
}

// orphanProgress returns what an approved deletion does or waits for.
func orphanProgress(o state.Outcome, d state.Desired, left int) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	if problem := Problem(d, o.Node); problem != "" {
		return "waiting: " + problem
	}
	all := len(d.Open.Approved.Volumes)
	if waits := o.Node.Orphans.Waits; waits != "" {
		return fmt.Sprintf("in progress: %d of %d volumes are left: %s", left, all, waits)
	}
	return fmt.Sprintf("in progress: %s: %d of %d volumes are left", state.RemoveOrphans, left, all)
}

// orphanConsequence describes the plan of a deletion of orphans.
func orphanConsequence(p *v1alpha1.RecoveryPlan) string {
	return fmt.Sprintf("logical volumes that are deleted with their data: %d, volumes kept: %d", p.LostVolumeCount,
		p.KeptVolumeCount)
}
