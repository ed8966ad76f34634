package clitest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
)

// WaitingRecovery is a recovery whose plan awaits its approval.
func WaitingRecovery(namespace string) *v1alpha1.LVMRecovery {
	recovery := &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lost-disk"},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: "worker-2", DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryRemoveLostDevices},
		Status: v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryAwaitingApproval, Message: "approve the plan",
			Plan: &v1alpha1.RecoveryPlan{LostVolumeCount: 2, CreationTime: metav1.NewTime(Now),
				Devices: []v1alpha1.RecoveryDevice{}}},
	}
	recovery.Status.Plan.ID = recoveryplan.ID(recovery.Spec.Action, "worker-2", "vg1", recovery.Status.Plan)
	return recovery
}

// Planned returns a plan for the repair of a thin pool with its ID.
func Planned(plan v1alpha1.RecoveryPlan) v1alpha1.RecoveryPlan {
	plan.CreationTime = metav1.NewTime(Now)
	plan.ID = recoveryplan.ID(v1alpha1.RecoveryRepairThinPool, "worker-1", "vg1", &plan)
	return plan
}

// Awaiting is the status of a recovery whose plan awaits its approval.
func Awaiting(plan v1alpha1.RecoveryPlan) v1alpha1.LVMRecoveryStatus {
	return v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryAwaitingApproval, Plan: &plan}
}

// Plans, and other states of a recovery.
var (
	Harmless = Planned(v1alpha1.RecoveryPlan{Repair: v1alpha1.RepairClearCheck})
	Losing   = Planned(v1alpha1.RecoveryPlan{LostVolumeCount: 1,
		LostVolumes: []v1alpha1.RecoveryVolume{{Name: "a", Claim: "shop/data"}}})
	LosingMore = Planned(v1alpha1.RecoveryPlan{LostVolumeCount: 2})
	Succeeded  = v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoverySucceeded, Message: "the pool was repaired"}
	Rejected   = v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryNotApplicable, Message: "nothing to repair"}
)
