package verdict

import (
	"cmp"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// HasEnded returns true if a recovery no longer has an effect.
func HasEnded(recovery *v1alpha1.LVMRecovery) bool {
	return recovery.Status.Phase == v1alpha1.RecoverySucceeded || recovery.Status.CompletionTime != nil
}

// recoveryProblems returns the recoveries that have not ended.
func recoveryProblems(recoveries []v1alpha1.LVMRecovery) []Problem {
	var problems []Problem
	for i := range recoveries {
		r := &recoveries[i]
		if HasEnded(r) {
			continue
		}
		at := Problem{Subject: Recovery, Node: r.Spec.NodeName, DeviceClass: r.Spec.DeviceClassName,
			Object: "LVMRecovery " + r.Namespace + "/" + r.Name}
		created := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionObjectsCreated)
		switch {
		case r.Status.Phase == "":
			at = newProblem(NotPlanned, "The node agent has not made a plan yet.", at)
		case r.Status.Phase == v1alpha1.RecoveryAwaitingApproval:
			at = newProblem(string(r.Status.Phase), r.Status.Message, at)
			at.Action = approval(r)
		case created != nil && created.Reason == v1alpha1.ReasonObjectsBlocked:
			at = newProblem(created.Reason, created.Message, at)
		default:
			at = newProblem(string(r.Status.Phase), r.Status.Message, at)
		}
		problems = append(problems, at)
	}
	return problems
}

// approval returns the command that shows the plan of a recovery and approves it.
func approval(r *v1alpha1.LVMRecovery) string {
	if r.Status.Plan == nil {
		return oneLine(r.Status.Message)
	}
	if command := CommandOf(r); command != "" {
		return fmt.Sprintf("Check the plan (lost volumes: %d). To see and approve it: %s",
			r.Status.Plan.LostVolumeCount, command)
	}
	return fmt.Sprintf("Check status.plan (lost volumes: %d). To approve it: kubectl -n %s patch lvmrecovery %s "+
		`--type merge -p '{"spec":{"approvedPlan":"%s"}}'`, r.Status.Plan.LostVolumeCount, r.Namespace,
		r.Name, r.Status.Plan.ID)
}

// recoveryCommandNames are the commands that carry out the actions.
var recoveryCommandNames = map[v1alpha1.RecoveryAction]string{
	v1alpha1.RecoveryRepairThinPool:    "repair",
	v1alpha1.RecoveryRemoveLostDevices: "forget",
	v1alpha1.RecoveryRestoreLabels:     "restore-labels",
	v1alpha1.RecoveryRestoreMetadata:   "restore-metadata",
	v1alpha1.RecoveryFreePoolSpace:     "trim",
	v1alpha1.RecoveryDeleteOrphans:     "orphans delete",
	v1alpha1.RecoveryImportVolumes:     "import",
	v1alpha1.RecoveryCheckFileSystems:  "check",
	v1alpha1.RecoveryAcceptMetadata:    "accept-metadata",
}

// maxCommandVolumes is the maximum number of volumes in a command that a message names.
const maxCommandVolumes = 5

// CommandOf returns the command that continues a recovery, or "" if it would be too long.
func CommandOf(r *v1alpha1.LVMRecovery) string {
	name := recoveryCommandNames[r.Spec.Action]
	if name == "" || len(r.Spec.Volumes) > maxCommandVolumes {
		return ""
	}
	command := fmt.Sprintf("kubectl lvms %s --node %s --class %s", name, r.Spec.NodeName, r.Spec.DeviceClassName)
	for _, volume := range r.Spec.Volumes {
		command += " --volume " + volume
		for _, c := range r.Spec.Claims {
			if c.Volume == volume {
				command += "=" + c.Namespace + "/" + c.Name
			}
		}
	}
	return command
}

// IsCopying reports whether the data of another volume is being copied to a volume, which the node agent reports with
// this code. Errors of a copy have other codes.
func IsCopying(lv *topolvmv1.LogicalVolume) bool {
	return lv.Spec.Source != "" && lv.Status.VolumeID == "" && lv.Status.Code == codes.Aborted
}

// isErasing reports whether a deleted volume is being erased before its removal, which the node agent reports with this
// code. Errors of a removal that do not end by themselves have other codes.
func isErasing(lv *topolvmv1.LogicalVolume) bool {
	return lv.DeletionTimestamp != nil && lv.Status.Code == codes.Aborted
}

// volumeProblems returns the volumes with a failed request or a problem of the volume, which can have both. Orphans are
// in the status of their node.
func volumeProblems(volumes []topolvmv1.LogicalVolume) []Problem {
	var problems []Problem
	for i := range volumes {
		lv := &volumes[i]
		at := Problem{Subject: Volume, Node: lv.Spec.NodeName, DeviceClass: lv.Spec.DeviceClass,
			Claim: lv.Annotations[wellknown.ClaimAnnotation], Object: "LogicalVolume " + lv.Name}
		if lv.Status.Code != codes.OK && !IsCopying(lv) && !isErasing(lv) {
			problems = append(problems, newProblem(VolumeFailed,
				cmp.Or(lv.Status.Message, lv.Status.Code.String()), at))
		}
		if condition := lv.Annotations[wellknown.ConditionAnnotation]; condition != "" {
			problems = append(problems, newProblem(VolumeAbnormal, condition, at))
		}
	}
	return problems
}
