// Package recovery has what all recoveries have in common: the phases of an LVMRecovery, the renewal of its plan, and
// how messages refer to a recovery.
package recovery

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Request is an open LVMRecovery, and what its new status depends on besides the node.
type Request struct {
	Recovery *v1alpha1.LVMRecovery
	// Volumes are the volumes of the device class on this node according to the API.
	Volumes []v1alpha1.RecoveryVolume
	// Status is the status until now.
	Status v1alpha1.LVMRecoveryStatus
	Now    metav1.Time
}

// SetRunning sets the phase of a recovery that is being carried out.
func SetRunning(status *v1alpha1.LVMRecoveryStatus, progress string, now metav1.Time) {
	status.Phase, status.Message = v1alpha1.RecoveryRunning, progress
	if status.StartTime == nil {
		status.StartTime = &now
	}
}

// RenewPlan sets the current plan, which is not approved, or why there is none. The plan stays the same, with its
// creation time, as long as it has the same content.
func RenewPlan(status *v1alpha1.LVMRecoveryStatus, approved string, now metav1.Time,
	newPlan func(created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string),
	consequence func(*v1alpha1.RecoveryPlan) string) {
	status.StartTime = nil
	created := now
	if status.Plan != nil {
		created = status.Plan.CreationTime
	}
	p, problem := newPlan(created)
	if problem != "" {
		status.Phase, status.Message, status.Plan = v1alpha1.RecoveryNotApplicable, problem, nil
		return
	}
	if status.Plan == nil || status.Plan.ID != p.ID {
		p, _ = newPlan(now)
		status.Plan = p
	}
	AwaitApproval(status, approved, consequence(p))
}

// AwaitApproval sets the phase of a recovery whose current plan is not approved.
func AwaitApproval(status *v1alpha1.LVMRecoveryStatus, approved, consequence string) {
	id := status.Plan.ID
	status.Phase = v1alpha1.RecoveryAwaitingApproval
	status.Message = fmt.Sprintf("%s; to approve this, set spec.approvedPlan to %s", consequence, id)
	if approved != "" && approved != id {
		status.Message = fmt.Sprintf("the approved plan %s is not the current one: %s", approved, status.Message)
	}
}

// Progress returns what an approved recovery does or waits for.
func Progress(o state.Outcome, vg *lvm.VG) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	if vg == nil {
		return cmp.Or(state.Joined(o.Plan.Messages()), "the volume group is being created again")
	}
	for _, pv := range vg.PVs {
		if note := o.Plan.Notes[pv.UUID]; pv.Missing && note.Message != "" {
			return note.Message
		}
	}
	return "in progress: " + string(o.Plan.Action.Kind)
}

// WithCondition sets the condition Succeeded, and keeps conditions that the operator sets.
func WithCondition(status v1alpha1.LVMRecoveryStatus, generation int64, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	c := metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse,
		Reason: string(cmp.Or(status.Phase, v1alpha1.RecoveryNotApplicable)), ObservedGeneration: generation,
		Message: text.Truncate(status.Message, state.MaxConditionMessage)}
	if status.Phase == v1alpha1.RecoverySucceeded {
		c.Status = metav1.ConditionTrue
	}
	conditions := []metav1.Condition{state.WithTransition(c, status.Conditions, now)}
	for _, other := range status.Conditions {
		if other.Type != c.Type {
			conditions = append(conditions, other)
		}
	}
	status.Conditions = conditions
	return status
}
