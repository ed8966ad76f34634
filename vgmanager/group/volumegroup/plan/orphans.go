package plan

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Owners are the objects of the cluster to which logical volumes belong.
type Owners struct {
	// Of describes an object, by the name of the logical volume. Volumes has all objects.
	Of      map[string]string
	Volumes map[string]VolumeOwner
	// Names has the logical volume, or "" if it is not known, by the name of a LogicalVolume or PersistentVolume.
	Names map[string]string
	// Err is why the objects are not known.
	Err error
}

// NewOrphanPlan returns which logical volumes of w.Orphans are deleted. It returns in problem why one of them cannot
// be.
func NewOrphanPlan(w Desired, s NodeState, created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := GroupOf(w, s)
	if problem := deletionProblem(w, s, vg); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID}
	for _, name := range slices.Sorted(slices.Values(w.Orphans)) {
		lv := vg.LV(name)
		if lv == nil {
			return nil, fmt.Sprintf("volume group %s on node %s has no logical volume %s: create another LVMRecovery "+
				"without it", w.Name, w.Node, name)
		}
		if problem := orphanProblem(w, s, vg, lv); problem != "" {
			return nil, problem
		}
		p.LostVolumes = append(p.LostVolumes, v1alpha1.RecoveryVolume{Name: name, UUID: lv.UUID, Size: int64(lv.Size),
			Claim: claimOf(lv)})
	}
	p.LostVolumeCount = int32(len(p.LostVolumes))
	p.KeptVolumeCount = int32(countKept(vg, p.LostVolumes))
	p.ID = v1alpha1.PlanID(v1alpha1.RecoveryDeleteOrphans, w.Node, w.Name, p)
	return p, ""
}

func countKept(vg *lvm.VG, lost []v1alpha1.RecoveryVolume) int {
	kept := -len(lost)
	for i := range vg.LVs {
		if !vg.LVs[i].Attr.IsThinPool() {
			kept++
		}
	}
	return kept
}

// claimOf returns the claim for which a logical volume was created, according to its tags.
func claimOf(lv *lvm.LV) string { return tagOf(lv, v1alpha1.VolumeClaimTagPrefix) }

// deletionProblem returns why no orphan of the volume group can be deleted or imported, or "".
func deletionProblem(w Desired, s NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", w.Name, w.Node)
	if problems := namesakes(w, s); len(problems) > 0 {
		return problems[0].Message
	}
	switch {
	case vg == nil && len(s.Report.Named(w.Name)) > 0:
		return where + ": there is another volume group with this name: rename it, or detach its devices"
	case vg == nil:
		return where + " does not exist or is missing"
	case foreign(w, vg) != "":
		return foreign(w, vg)
	}
	if problems := brokenGroup(w, s, vg); len(problems) > 0 {
		return problems[0].Message
	}
	if why := doubt(w, s, vg); why != "" {
		return why
	}
	if s.Owners.Err != nil {
		return fmt.Sprintf("%s: whether its volumes belong to objects of the cluster is not known: %v", where,
			s.Owners.Err)
	}
	return ""
}

// orphanProblem returns why a logical volume must not be deleted, or "".
func orphanProblem(w Desired, s NodeState, vg *lvm.VG, lv *lvm.LV) string {
	where := fmt.Sprintf("logical volume %s/%s on node %s", w.Name, lv.Name, w.Node)
	if owner := s.Owners.Of[lv.Name]; owner != "" {
		return fmt.Sprintf("%s belongs to %s, so it is not deleted: if it is not needed, delete its "+
			"PersistentVolumeClaim or VolumeSnapshot", where, owner)
	}
	switch {
	case lv.Attr.IsThinPool():
		return where + " is a thin pool, not a volume"
	case lv.Attr.Open() && !slices.Contains(s.Erasing, lv.Name):
		return where + " is in use: unmount it, or end what uses it (see dmsetup ls --tree and lsof on the node)"
	}
	if lv.PoolName != "" && !vg.IsPoolActive(lv.PoolName) {
		return fmt.Sprintf("%s is in the thin pool %s, which is not active: repair the pool first", where, lv.PoolName)
	}
	if dependents := vg.Dependents(lv); len(dependents) > 0 {
		return fmt.Sprintf("%s is needed by %s, which would be lost: delete what needs it first", where,
			joined(dependents))
	}
	return ""
}

// orphansLeft returns the volumes of an approved plan that still exist.
func orphansLeft(w Desired, vg *lvm.VG) []*lvm.LV {
	var left []*lvm.LV
	if w.Recovery == nil || w.Recovery.Action != v1alpha1.RecoveryDeleteOrphans {
		return left
	}
	for i := range vg.LVs {
		if slices.Contains(w.Recovery.Volumes, vg.LVs[i].UUID) {
			left = append(left, &vg.LVs[i])
		}
	}
	return left
}

func haveOwner(w Desired, s NodeState, vg *lvm.VG) bool {
	return slices.ContainsFunc(orphansLeft(w, vg), func(lv *lvm.LV) bool { return s.Owners.Of[lv.Name] != "" })
}

// OrphanProblem returns why an approved recovery must not delete the volumes that are left, or "".
func OrphanProblem(w Desired, s NodeState) string {
	vg := GroupOf(w, s)
	if problem := deletionProblem(w, s, vg); problem != "" {
		return problem
	}
	for _, lv := range orphansLeft(w, vg) {
		if problem := orphanProblem(w, s, vg, lv); problem != "" {
			return problem
		}
	}
	return ""
}

// orphanAction deletes orphans that an approved plan lists.
func orphanAction(w Desired, s NodeState, vg *lvm.VG) Action {
	left := orphansLeft(w, vg)
	if len(left) == 0 || s.ErasingWaits != "" || OrphanProblem(w, s) != "" {
		return Action{}
	}
	a := Action{Kind: RemoveOrphans}
	for _, lv := range left[:min(len(left), maxNamesOfCommand)] {
		a.Volumes = append(a.Volumes, lv.UUID)
	}
	return a
}

// Removing returns the names of the logical volumes whose removal is approved and possible, or due: of an approved
// recovery, and of deleted LogicalVolumes.
func Removing(w Desired, s NodeState) []string {
	names := slices.Clone(s.Expired)
	vg := GroupOf(w, s)
	if vg == nil || OrphanProblem(w, s) != "" {
		return names
	}
	for _, lv := range orphansLeft(w, vg) {
		names = append(names, lv.Name)
	}
	return names
}

// orphanStatus is RecoveryStatus for the deletion of orphans. If one of the volumes has an owner again, the approval is
// no longer valid. Other problems delay the deletion.
func (o Outcome) orphanStatus(w Desired, r *v1alpha1.LVMRecovery, status v1alpha1.LVMRecoveryStatus,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	vg := GroupOf(w, o.Node)
	if w.Recovery == nil || vg == nil || vg.UUID != status.Plan.VolumeGroupUUID || haveOwner(w, o.Node, vg) {
		renewPlan(&status, r.Spec.ApprovedPlan, now, func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
			return NewOrphanPlan(w, o.Node, created)
		}, orphanConsequence)
		return status
	}
	if left := len(orphansLeft(w, vg)); left > 0 {
		setRunning(&status, o.orphanProgress(w, left), now)
		return status
	}
	status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
	status.Message = fmt.Sprintf("logical volumes deleted from volume group %s on node %s: %d", w.Name, w.Node,
		status.Plan.LostVolumeCount)
	return status
}

// orphanProgress returns what an approved deletion does or waits for.
func (o Outcome) orphanProgress(w Desired, left int) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	if problem := OrphanProblem(w, o.Node); problem != "" {
		return "waiting: " + problem
	}
	if o.Node.ErasingWaits != "" {
		return fmt.Sprintf("in progress: %d of %d volumes are left: %s", left, len(w.Recovery.Volumes),
			o.Node.ErasingWaits)
	}
	return fmt.Sprintf("in progress: %s: %d of %d volumes are left", RemoveOrphans, left, len(w.Recovery.Volumes))
}

// orphanConsequence describes the plan of a deletion of orphans.
func orphanConsequence(p *v1alpha1.RecoveryPlan) string {
	return fmt.Sprintf("logical volumes that are deleted with their data: %d, volumes kept: %d", p.LostVolumeCount,
		p.KeptVolumeCount)
}
