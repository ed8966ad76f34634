package doubt

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// GroupWentBack returns true if a later change of the volume group was seen.
func GroupWentBack(s state.NodeState, vg *lvm.VG) bool {
	return vg != nil && vg.Seqno > 0 && vg.Seqno < s.Metadata.Seen.Seqno
}

// WentBack returns true if a later change of the volume group of the device class was seen.
func WentBack(d state.Desired, s state.NodeState) bool {
	return GroupWentBack(s, ownership.GroupOf(d, s))
}

// seenDoubt is the part of doubt that follows from the changes that were seen.
func seenDoubt(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	switch seen := s.Metadata.Seen; {
	case vg == nil:
		return ""
	case seen.Err != nil:
		return fmt.Sprintf("whether the metadata of volume group %s on node %s was replaced with that of an earlier "+
			"time is not known: %v: check its volumes, and %s", d.Name, d.Node, seen.Err, recovery.AcceptHint(d))
	case GroupWentBack(s, vg):
		text := fmt.Sprintf("the metadata of volume group %s on node %s was replaced with that of an earlier time: it "+
			"is change %d of the volume group, and change %d was seen before; space that it calls free can have "+
			"data, and a volume can have the data of another one: ", d.Name, d.Node, vg.Seqno, seen.Seqno)
		if d.Spec.ThinPoolConfig == nil {
			text += fmt.Sprintf("to search later metadata, %s; ", recovery.RollbackHint(d))
		}
		return text + "to use the present metadata, " + recovery.AcceptHint(d)
	}
	return ""
}

// OtherwiseAccept adds to why metadata is not restored how to use the present one, if it went back.
func OtherwiseAccept(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	if !GroupWentBack(s, vg) {
		return ""
	}
	return "; to use the present metadata, " + recovery.AcceptHint(d)
}

// SeenProblems reports that the metadata of the volume group is from an earlier time than one that was seen.
func SeenProblems(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	why := seenDoubt(d, s, vg)
	if why == "" {
		return nil
	}
	return []state.Problem{{Event: state.EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
		Reason: v1alpha1.ReasonMetadataReplaced, Message: why, Unknown: s.Metadata.Seen.Err != nil}}
}

// NewAcceptPlan returns what it means to accept the present metadata, or why there is nothing to accept. The ID is one
// of this change of the volume group only.
func NewAcceptPlan(d state.Desired, s state.NodeState, created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := ownership.GroupOf(d, s)
	if problem := recovery.ChangeProblem(d, s, vg); problem != "" {
		return nil, problem
	}
	if seenDoubt(d, s, vg) == "" {
		return nil, fmt.Sprintf("the metadata of volume group %s on node %s is not from an earlier time than one that "+
			"was seen before: it is change %d", d.Name, d.Node, vg.Seqno)
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		KeptVolumeCount: int32(len(vg.LVs)),
		MetadataSource:  fmt.Sprintf("the devices, change %d of the volume group", vg.Seqno)}
	p.ID = recoveryplan.ID(v1alpha1.RecoveryAcceptMetadata, d.Node, d.Name, p)
	return p, ""
}

// AcceptAction returns the change that an approved plan allows.
func AcceptAction(d state.Desired, s state.NodeState) state.Action {
	if !accepts(d) {
		return state.Action{}
	}
	if p, problem := NewAcceptPlan(d, s, d.Open.Approved.Created); problem == "" && p.ID == d.Open.Approved.PlanID {
		return state.Action{Kind: state.AcceptMetadata}
	}
	return state.Action{}
}

// accepts returns true if an approved recovery accepts the present metadata.
func accepts(d state.Desired) bool {
	return d.Open.Allows(v1alpha1.RecoveryAcceptMetadata)
}

// AcceptStatus is RecoveryStatus for AcceptMetadata.
func AcceptStatus(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	switch {
	case accepts(d) && vg != nil && vg.UUID == status.Plan.VolumeGroupUUID && seenDoubt(d, o.Node, vg) == "":
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &r.Now
		status.Message = fmt.Sprintf("the metadata of volume group %s on node %s is used as it is, change %d", d.Name,
			d.Node, vg.Seqno)
	case AcceptAction(d, o.Node).Kind != state.Nothing:
		recovery.SetRunning(&status, recovery.Progress(o, vg), r.Now)
	default:
		recovery.RenewPlan(&status, r.Recovery.Spec.ApprovedPlan, r.Now,
			func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
				return NewAcceptPlan(d, o.Node, created)
			}, acceptConsequence)
	}
	return status
}

// acceptConsequence describes the plan.
func acceptConsequence(p *v1alpha1.RecoveryPlan) string {
	return fmt.Sprintf("the metadata on %s, is used as it is; volumes of it: %d; what only later metadata has is "+
		"lost, because its space is used for new volumes", p.MetadataSource, p.KeptVolumeCount)
}
