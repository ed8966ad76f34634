package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Seen is the highest change of a volume group's metadata that was seen on a node. LVM counts the changes and never
// goes back (seqno in lib/metadata/metadata.c), so a lower one is proof that earlier metadata was restored, even if
// LVM's archive has no file of the later one and no object of the cluster is missing its volume. The restore itself is
// a change, so metadata of one change before is not noticed.
type Seen struct {
	// Seqno is 0 if no change was seen before.
	Seqno uint64
	// Err is why it is not known.
	Err error
}

// wentBack returns true if a later change of the volume group was seen.
func wentBack(s NodeState, vg *lvm.VG) bool {
	return vg != nil && vg.Seqno > 0 && vg.Seqno < s.Seen.Seqno
}

// WentBack returns true if a later change of the volume group of the device class was seen.
func WentBack(w Desired, s NodeState) bool { return wentBack(s, GroupOf(w, s)) }

// seenDoubt is the part of doubt that follows from the changes that were seen.
func seenDoubt(w Desired, s NodeState, vg *lvm.VG) string {
	switch {
	case vg == nil:
		return ""
	case s.Seen.Err != nil:
		return fmt.Sprintf("whether the metadata of volume group %s on node %s was replaced with that of an earlier "+
			"time is not known: %v: check its volumes, and %s", w.Name, w.Node, s.Seen.Err, acceptHint(w))
	case wentBack(s, vg):
		text := fmt.Sprintf("the metadata of volume group %s on node %s was replaced with that of an earlier time: it "+
			"is change %d of the volume group, and change %d was seen before; space that it calls free can have "+
			"data, and a volume can have the data of another one: ", w.Name, w.Node, vg.Seqno, s.Seen.Seqno)
		if w.Spec.ThinPoolConfig == nil {
			text += fmt.Sprintf("to search later metadata, %s; ", rollbackHint(w))
		}
		return text + "to use the present metadata, " + acceptHint(w)
	}
	return ""
}

// acceptHint says how to use the present metadata of a volume group although it may be from an earlier time.
func acceptHint(w Desired) string {
	return fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}", w.Node, w.Name,
		v1alpha1.RecoveryAcceptMetadata)
}

// otherwiseAccept adds to why metadata is not restored how to use the present one, if it went back.
func otherwiseAccept(w Desired, s NodeState, vg *lvm.VG) string {
	if !wentBack(s, vg) {
		return ""
	}
	return "; to use the present metadata, " + acceptHint(w)
}

// seenProblems reports that the metadata of the volume group is from an earlier time than one that was seen.
func seenProblems(w Desired, s NodeState, vg *lvm.VG) []Problem {
	why := seenDoubt(w, s, vg)
	if why == "" {
		return nil
	}
	return []Problem{{Event: EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
		Reason: v1alpha1.ReasonMetadataReplaced, Message: why, Unknown: s.Seen.Err != nil}}
}

// newAcceptPlan returns what it means to accept the present metadata, or why there is nothing to accept. The ID is one
// of this change of the volume group only.
func newAcceptPlan(w Desired, s NodeState, created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := GroupOf(w, s)
	if problem := changeProblem(w, s, vg); problem != "" {
		return nil, problem
	}
	if seenDoubt(w, s, vg) == "" {
		return nil, fmt.Sprintf("the metadata of volume group %s on node %s is not from an earlier time than one that "+
			"was seen before: it is change %d", w.Name, w.Node, vg.Seqno)
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID,
		KeptVolumeCount: int32(len(vg.LVs)),
		MetadataSource:  fmt.Sprintf("the devices, change %d of the volume group", vg.Seqno)}
	p.ID = v1alpha1.PlanID(v1alpha1.RecoveryAcceptMetadata, w.Node, w.Name, p)
	return p, ""
}

// acceptAction returns the change that an approved plan allows.
func acceptAction(w Desired, s NodeState) Action {
	if !accepts(w) {
		return Action{}
	}
	if p, problem := newAcceptPlan(w, s, w.Recovery.Created); problem == "" && p.ID == w.Recovery.PlanID {
		return Action{Kind: AcceptMetadata}
	}
	return Action{}
}

// accepts returns true if an approved recovery accepts the present metadata.
func accepts(w Desired) bool {
	return w.Recovery != nil && w.Recovery.Action == v1alpha1.RecoveryAcceptMetadata
}

// acceptStatus is RecoveryStatus for AcceptMetadata.
func (o Outcome) acceptStatus(w Desired, r *v1alpha1.LVMRecovery, status v1alpha1.LVMRecoveryStatus,
	now metav1.Time) v1alpha1.LVMRecoveryStatus {
	vg := GroupOf(w, o.Node)
	switch {
	case accepts(w) && vg != nil && vg.UUID == status.Plan.VolumeGroupUUID && seenDoubt(w, o.Node, vg) == "":
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
		status.Message = fmt.Sprintf("the metadata of volume group %s on node %s is used as it is, change %d", w.Name,
			w.Node, vg.Seqno)
	case acceptAction(w, o.Node).Kind != Nothing:
		setRunning(&status, o.progress(vg), now)
	default:
		renewPlan(&status, r.Spec.ApprovedPlan, now, func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
			return newAcceptPlan(w, o.Node, created)
		}, acceptConsequence)
	}
	return status
}

// acceptConsequence describes the plan.
func acceptConsequence(p *v1alpha1.RecoveryPlan) string {
	return fmt.Sprintf("the metadata on %s, is used as it is; volumes of it: %d; what only later metadata has is "+
		"lost, because its space is used for new volumes", p.MetadataSource, p.KeptVolumeCount)
}
