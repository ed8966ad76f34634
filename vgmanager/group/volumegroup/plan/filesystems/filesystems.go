// Package filesystems decides about the recovery CheckFileSystems: which file systems can be checked, and which of
// them a repair changes.
package filesystems

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// Open adds the volumes whose file systems an LVMRecovery checks.
func Open(d *state.Desired, r *v1alpha1.LVMRecovery) {
	d.Open.Check = &state.Check{Recovery: fmt.Sprintf("%s %s", r.Name, r.UID), Volumes: r.Spec.Volumes,
		Planned: r.Status.Plan != nil}
}

// repairedFinding is the beginning of the finding for a file system that was repaired. A volume with it is not repaired
// again by the next agent.
const repairedFinding = fsck.NoErrors + " after the repair"

// hasErrors returns true if a volume of a plan must be repaired.
func hasErrors(v v1alpha1.RecoveryVolume) bool { return !strings.HasPrefix(v.Finding, fsck.NoErrors) }

// checkTargets returns the volumes whose file systems a recovery checks, or why they cannot be checked.
func checkTargets(d state.Desired, s state.NodeState, vg *lvm.VG) (targets []*lvm.LV, problem string) {
	if problem := checkGroupProblem(d, s, vg); problem != "" {
		return nil, problem
	}
	for _, name := range slices.Sorted(slices.Values(d.Open.Check.Volumes)) {
		lv := vg.LV(name)
		if lv == nil {
			return nil, fmt.Sprintf("volume group %s on node %s has no logical volume %s: create another LVMRecovery "+
				"without it", d.Name, d.Node, name)
		}
		if problem := checkProblem(d, s, vg, lv); problem != "" {
			return nil, problem
		}
		targets = append(targets, lv)
	}
	return targets, ""
}

// checkGroupProblem returns why no file system of the volume group can be checked, or "".
func checkGroupProblem(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	if d.Deleting {
		return fmt.Sprintf("device class %s is being deleted", d.Name)
	}
	return doubt.DeletionProblem(d, s, vg)
}

// checkProblem returns why the file system of a volume cannot be checked, or "".
func checkProblem(d state.Desired, s state.NodeState, vg *lvm.VG, lv *lvm.LV) string {
	where := fmt.Sprintf("logical volume %s/%s on node %s", d.Name, lv.Name, d.Node)
	switch {
	case lv.Attr.IsThinPool():
		return where + " is a thin pool, which has no file system: create another LVMRecovery without it"
	case lv.Origin != "" && !lv.Attr.IsThinVolume():
		return fmt.Sprintf(
			"%s is a snapshot of %s that is not thin: check the file system of its source instead", where,
			lv.Origin)
	}
	if problem := unwritablePool(d, vg, lv); problem != "" {
		return fmt.Sprintf("%s cannot be checked: %s", where, problem)
	}
	switch {
	case !lv.Attr.Active() || lv.Major == 0:
		return fmt.Sprintf(
			"%s is not active: run on the node: lvchange --activate y --ignoreactivationskip %s/%s", where,
			d.Name, lv.Name)
	case health.IsHeld(s, lv) || lv.Attr.Suspended():
		return where + " is suspended: run on the node: dmsetup resume " + lv.Path
	case lv.Attr.ReadOnly():
		return where + " is read-only, so its file system cannot be repaired"
	}
	return ""
}

// unwritablePool returns why the thin pool of a volume does not allow a repair of its file system, which writes, or "".
func unwritablePool(d state.Desired, vg *lvm.VG, lv *lvm.LV) string {
	if lv.PoolName == "" {
		return ""
	}
	pool := vg.ThinPool(lv.PoolName)
	managed := d.Spec.ThinPoolConfig != nil && d.Spec.ThinPoolConfig.Name == lv.PoolName
	switch {
	case pool == nil || !thinpool.Works(pool):
		text := fmt.Sprintf("thin pool %s is not active or needs a repair", lv.PoolName)
		if managed {
			text += ": " + recovery.RepairHint(d)
		}
		return text
	case pool.Health == thinpool.OutOfData || thinpool.AtLeast(pool.DataPercent, thinpool.FullPercent):
		text := fmt.Sprintf("thin pool %s is full, and a repair writes to the volume", lv.PoolName)
		if managed {
			text += ": " + thinpool.SpaceRemedies(d, vg, pool)
		}
		return text
	}
	return ""
}

// volumesInUse says which of the volumes are in use and what to do, or returns "".
func volumesInUse(d state.Desired, s state.NodeState, targets []*lvm.LV) string {
	if s.FileSystems.Users.Err != nil {
		return fmt.Sprintf("volume group %s on node %s: what uses the volumes is not known: %v", d.Name, d.Node,
			s.FileSystems.Users.Err)
	}
	var used, stuck []string
	for _, lv := range targets {
		points := s.FileSystems.Users.MountPoints[lv.UUID]
		name := volumeWithClaim(lv.Name, recovery.ClaimOf(lv))
		switch {
		case len(points) > 0 && !slices.ContainsFunc(points, func(p string) bool { return !isStaging(p) }):
			stuck = append(stuck, fmt.Sprintf("%s (%s)", name, points[0]))
		case len(points) > 0 || s.FileSystems.Users.Open[lv.UUID]:
			used = append(used, name)
		}
	}
	var list []string
	if len(used) > 0 {
		list = append(list, fmt.Sprintf("in use on node %s: %s: delete the Pods that use the claim, for example by "+
			"scaling their Deployment or StatefulSet to 0", d.Node, state.Joined(used)))
	}
	if len(stuck) > 0 {
		list = append(list, fmt.Sprintf(
			"still mounted on node %s although no Pod uses it: %s: the kubelet unmounts it; "+
				"if it does not, see its log on the node", d.Node, state.Joined(stuck)))
	}
	return strings.Join(list, "; ")
}

// IsCheckBlocked returns true if the volumes whose file systems a recovery checks are in use or cannot be checked. The
// results of an earlier check are then no longer valid.
func IsCheckBlocked(d state.Desired, s state.NodeState) bool {
	targets, problem := checkTargets(d, s, ownership.GroupOf(d, s))
	return problem != "" || volumesInUse(d, s, targets) != ""
}

// isStaging returns true for the mount point at which the kubelet has a volume staged. Pods have others, and block
// volumes too.
func isStaging(point string) bool {
	return strings.Contains(point, "/plugins/kubernetes.io/csi/") && strings.HasSuffix(point, "/globalmount")
}

// volumeWithClaim names a volume and its claim.
func volumeWithClaim(name, claim string) string {
	if claim == "" {
		return "volume " + name
	}
	return fmt.Sprintf("volume %s (claim %s)", name, claim)
}

// repairsFileSystems returns true if a plan for the file systems of the volume group is approved.
func repairsFileSystems(d state.Desired, vg *lvm.VG) bool {
	return d.Open.Check != nil && d.Open.Allows(v1alpha1.RecoveryCheckFileSystems) && vg != nil
}

// Action starts to check the file systems of volumes that are not in use, or to repair those of an approved plan,
// in the background.
func Action(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	if d.Open.Check == nil || s.FileSystems.Run != nil || checkGroupProblem(d, s, vg) != "" {
		return state.Action{}
	}
	if repairsFileSystems(d, vg) {
		var damaged state.Volumes
		for _, v := range d.Open.Approved.Checked {
			if hasErrors(v) {
				damaged = append(damaged, v.UUID)
			}
		}
		return state.Action{Kind: state.RepairVolumes, Target: damaged}
	}
	targets, problem := checkTargets(d, s, vg)
	if d.Open.Check.Planned || problem != "" || volumesInUse(d, s, targets) != "" {
		return state.Action{}
	}
	return state.Action{Kind: state.CheckVolumes, Target: state.Volumes(state.UUIDs(targets))}
}

// Status is RecoveryStatus for the check of file systems. If one of the volumes is used before the plan is
// approved, the plan is no longer valid.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	if repairsFileSystems(d, vg) {
		return repairedStatus(o, d, vg, status, r.Now)
	}
	status.StartTime = nil
	targets, problem := checkTargets(d, o.Node, vg)
	if problem != "" {
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, problem, nil
		return status
	}
	if waiting := checkProgress(o, d, targets, status.Plan); waiting != "" {
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryPreparing, waiting, nil
		return status
	}
	if status.Plan == nil || !slices.Equal(state.UUIDsOf(status.Plan.CheckedVolumes), state.UUIDs(targets)) {
		return checkedStatus(o, d, vg, targets, r.Recovery.Spec.ApprovedPlan, status, r.Now)
	}
	recovery.AwaitApproval(&status, r.Recovery.Spec.ApprovedPlan, checkConsequence(status.Plan))
	return status
}

// checkProgress returns what a check does or waits for, or "" if all volumes were checked. The volumes are open while
// they are checked.
func checkProgress(o state.Outcome, d state.Desired, targets []*lvm.LV, planned *v1alpha1.RecoveryPlan) string {
	run := o.Node.FileSystems.Run
	if run != nil && run.Running && !run.Repairing {
		return progress(run, len(targets))
	}
	if waiting := volumesInUse(d, o.Node, targets); waiting != "" {
		return waiting
	}
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case planned != nil && run == nil:
		return ""
	case run == nil:
		return "in progress: " + string(state.CheckVolumes)
	case run.Other != "":
		return waits(run)
	case run.Err != nil:
		return fmt.Sprintf("the file systems on node %s could not be checked, and the agent tries again: %v", d.Node,
			run.Err)
	}
	return ""
}

// waits says for which other run this one waits.
func waits(r *state.FileSystemRun) string {
	return fmt.Sprintf(
		"waiting: file systems of device class %s are being checked or repaired, and a node does this for "+
			"one file system at a time", r.Other)
}

func progress(r *state.FileSystemRun, total int) string {
	kind := state.CheckVolumes
	if r.Repairing {
		kind = state.RepairVolumes
	}
	text := fmt.Sprintf("in progress: %s: %d of %d volumes", kind, len(r.Results), total)
	if r.Current != "" {
		text += fmt.Sprintf(
			"; %s of volume %s has been running since %s, and Pods that use the volume wait for its end",
			r.Program, r.Current, r.Since)
	}
	return text
}

// checkedStatus is the status after a check.
func checkedStatus(o state.Outcome, d state.Desired, vg *lvm.VG, targets []*lvm.LV, approved string,
	status v1alpha1.LVMRecoveryStatus, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	p, problem := newPlan(d, o.Node, vg, targets, now)
	switch {
	case problem != "":
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, problem, nil
	case !slices.ContainsFunc(p.CheckedVolumes, hasErrors):
		// The LVMRecovery has ended. Otherwise, the file systems would be checked again when their Pods are restarted.
		status.Phase, status.Plan, status.CompletionTime = v1alpha1.RecoveryNotApplicable, nil, &now
		status.Message = withoutErrors(d, p)
	default:
		status.Plan = p
		recovery.AwaitApproval(&status, approved, checkConsequence(p))
	}
	return status
}

// withoutErrors is the message for file systems without errors.
func withoutErrors(d state.Desired, p *v1alpha1.RecoveryPlan) string {
	text := fmt.Sprintf("no errors were found in %d file systems on node %s: the Pods can be started again",
		len(p.CheckedVolumes), d.Node)
	if len(p.CheckedVolumes) == 1 {
		text = fmt.Sprintf("no errors were found in the file system on node %s: the Pods can be started again", d.Node)
	}
	var logs []string
	for _, v := range p.CheckedVolumes {
		if rest, is := strings.CutPrefix(v.Finding, fsck.NoErrors+"; "); is {
			logs = append(logs, fmt.Sprintf("volume %s: %s", v.Name, rest))
		}
	}
	if len(logs) > 0 {
		text += "; " + state.Joined(logs)
	}
	return text
}

// newPlan returns what a check has found. It returns why a file system cannot be checked in problem.
func newPlan(d state.Desired, s state.NodeState, vg *lvm.VG, targets []*lvm.LV,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		CheckedVolumes: recovery.Volumes(targets, nil)}
	for i := range p.CheckedVolumes {
		v := &p.CheckedVolumes[i]
		result := s.FileSystems.Run.Results[v.UUID]
		if result.Problem != "" {
			return nil, fmt.Sprintf("logical volume %s/%s on node %s: %s", d.Name, v.Name, d.Node, result.Problem)
		}
		v.Claim, v.FSType, v.Finding = recovery.ClaimOf(targets[i]), result.Kind, result.Finding
	}
	p.KeptVolumeCount = int32(recovery.CountKept(vg, nil))
	p.ID = recoveryplan.ID(v1alpha1.RecoveryCheckFileSystems, d.Node, d.Name, p)
	return p, ""
}

// checkConsequence describes a plan that repairs file systems.
func checkConsequence(p *v1alpha1.RecoveryPlan) string {
	var broken []string
	for _, v := range p.CheckedVolumes {
		if hasErrors(v) {
			broken = append(broken, volumeWithClaim(v.Name, v.Claim))
		}
	}
	text := fmt.Sprintf("file systems with errors: %d: %s: they are repaired, and files can be lost or moved to "+
		"lost+found", len(broken), state.Joined(broken))
	if well := len(p.CheckedVolumes) - len(broken); well > 0 {
		text += fmt.Sprintf("; file systems without errors: %d", well)
	}
	return text
}

// repairedStatus is the status of an approved recovery that repairs file systems. The findings of its plan record the
// volumes that were repaired.
func repairedStatus(o state.Outcome, d state.Desired, vg *lvm.VG, status v1alpha1.LVMRecoveryStatus,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	run := o.Node.FileSystems.Run
	var failed []string
	total := 0
	for i := range status.Plan.CheckedVolumes {
		v := &status.Plan.CheckedVolumes[i]
		if !hasErrors(*v) {
			continue
		}
		total++
		if run == nil || !run.Repairing {
			continue
		}
		result, done := run.Results[v.UUID]
		switch {
		case done && result.Problem != "":
			failed = append(failed, fmt.Sprintf("%s: %s", volumeWithClaim(v.Name, v.Claim), result.Problem))
		case done && result.Errors:
			failed = append(failed, fmt.Sprintf("%s: errors remain after the repair: %s",
				volumeWithClaim(v.Name, v.Claim), strings.TrimPrefix(result.Finding, "errors: ")))
		case done:
			v.Finding = repairedFinding + movedFiles(result.Moved)
		}
	}
	if run.HasEnded() && run.Repairing {
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
		status.Message = repairedFileSystems(d, status.Plan, failed)
		return status
	}
	recovery.SetRunning(&status, fileSystemProgress(o, d, vg, total), now)
	return status
}

func movedFiles(count int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprintf(", files and directories moved to lost+found: %d", count)
}

// fileSystemProgress returns what an approved repair does or waits for.
func fileSystemProgress(o state.Outcome, d state.Desired, vg *lvm.VG, total int) string {
	run := o.Node.FileSystems.Run
	problem := checkGroupProblem(d, o.Node, vg)
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case run != nil && run.Running && run.Repairing:
		return progress(run, total)
	case problem != "":
		return "waiting: " + problem
	case run != nil && run.Other != "":
		return waits(run)
	case run != nil && run.Err != nil:
		return fmt.Sprintf("the file systems on node %s were not all repaired, and the agent tries again: %v", d.Node,
			run.Err)
	}
	return "in progress: " + string(state.RepairVolumes)
}

// repairedFileSystems describes the result for each volume.
func repairedFileSystems(d state.Desired, p *v1alpha1.RecoveryPlan, failed []string) string {
	var done []string
	for _, v := range p.CheckedVolumes {
		if rest, is := strings.CutPrefix(v.Finding, repairedFinding); is {
			done = append(done, volumeWithClaim(v.Name, v.Claim)+strings.Replace(rest, ", ", ": ", 1))
		}
	}
	result := fmt.Sprintf("file systems repaired on node %s: %d", d.Node, len(done))
	if len(done) > 0 {
		result += ": " + state.Joined(done) + "; start the Pods again, and check the data of the application"
	}
	if len(failed) > 0 {
		result += fmt.Sprintf("; not repaired: %d: %s", len(failed), state.Joined(failed))
	}
	return text.Truncate(result, state.MaxConditionMessage)
}
