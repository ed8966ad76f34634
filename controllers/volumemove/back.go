package volumemove

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
)

// This file moves a volume back to the node that has kept its old logical volume, because the node to which it was
// moved is lost. Nothing is copied:
//  1. keepOld: from then on, the node agent does not remove the old logical volume.
//  2. switchBack: one request moves the LogicalVolume back, as the switch has moved it away. The node agent gives the
//     old logical volume the name and the tags of the volume.
//  3. swapNodes: from now on, the lost node is the source node, whose logical volume is kept and then removed.
//
// If the lost node had not taken over the volume, the old logical volume has not been given up: then the switch is
// undone, and the move has failed.

// wayBack plans how a volume is moved back.
type wayBack struct{ *state }

// isBackRequested reports whether somebody has requested that the volume is moved back from the target node.
func (s wayBack) isBackRequested() bool {
	node := s.move.Annotations[v1alpha1.MoveBackAnnotation]
	return node != "" && node == s.targetNode()
}

// isOldKept reports whether the node agent keeps the old logical volume, whatever happens to its owner.
func (s wayBack) isOldKept() bool {
	return s.old != nil && s.old.Annotations[v1alpha1.MoveBackAnnotation] != "" &&
		s.old.Annotations[v1alpha1.MoveBackAnnotation] != s.old.Spec.NodeName
}

// isOldRetired reports whether the source node has given up the old logical volume.
func (s wayBack) isOldRetired() bool { return s.old.Status.VolumeID != "" }

// isBack reports whether the volume was switched back, and the status does not say so yet.
func (s wayBack) isBack() bool {
	if !s.isOldKept() || s.volume == nil || s.volume.Spec.NodeName != s.old.Spec.NodeName {
		return false
	}
	adopts := s.volume.Annotations[v1alpha1.AdoptAnnotation]
	return adopts == "" || adopts == string(s.old.UID)
}

// isLostWithoutOwner reports whether the volume was deleted after it was switched back, and before the status said so.
// The logical volume on the lost node needs an owner, as if it had not been deleted: nothing else removes it.
func (s wayBack) isLostWithoutOwner() bool {
	return s.volume == nil && s.isOldKept() && s.isOldRetired() && s.notLost() == ""
}

// moveBack switches the volume back, unless that is blocked or no longer requested.
func (s wayBack) moveBack(now time.Time) step {
	st := step{phase: v1alpha1.MoveSwitching, after: soon,
		message: fmt.Sprintf("the volume is moved back to node %s", s.sourceNode())}
	why := s.backProblem()
	switch {
	case !s.isBackRequested() && why == "":
		why = "this is no longer requested"
	case why == "" && !s.isOldKept():
		st.action = keepOld
		return st
	case why == "":
		st.action = switchBack
		return st
	}
	if s.isOldKept() {
		st.action = keepOld
	} else {
		st = ending(s).complete(now)
	}
	if st.message != "" {
		st.message = ". " + st.message
	}
	st.message = fmt.Sprintf("the volume is not moved back to node %s: %s%s", s.sourceNode(), why, st.message)
	st.after = min(st.after, blocked)
	return st
}

// backProblem returns why the volume cannot be moved back now, or "".
func (s wayBack) backProblem() string {
	if why := s.notLost(); why != "" {
		return why
	}
	name := s.move.Status.PersistentVolume
	switch {
	case s.old == nil || !s.old.DeletionTimestamp.IsZero():
		return "the old logical volume there is removed"
	case s.volume == nil || !s.volume.DeletionTimestamp.IsZero():
		return fmt.Sprintf("LogicalVolume %s no longer exists, or is being deleted", name)
	case s.volume.Spec.NodeName != s.targetNode():
		return fmt.Sprintf("volume %s was moved to node %s since then", name, s.volume.Spec.NodeName)
	case s.pv == nil || !s.pv.DeletionTimestamp.IsZero():
		return fmt.Sprintf("PersistentVolume %s does not exist, is being recreated or deleted", name)
	case fence.Holder(s.volume) != "":
		return s.otherFence()
	case len(s.snapshots) > 0:
		return "the snapshots of the move are removed first"
	case s.from.NotReady:
		return s.from.String()
	case s.isOldRetired() == (s.volume.Annotations[v1alpha1.AdoptAnnotation] != ""):
		return "the old logical volume there is being given up"
	case len(s.pods) > 0:
		return fmt.Sprintf("these Pods on other nodes use it: %s. If they do not end, delete them with "+
			"`kubectl delete pod --force`", s.podText())
	}
	return ""
}

// notLost returns why the target node may still use the volume, or "": then its Pods could write to a copy of the
// volume that nobody uses any longer.
func (s wayBack) notLost() string {
	node := s.targetNode()
	switch {
	case !s.to.NotReady:
		return fmt.Sprintf("node %s is ready: create a VolumeMove instead, which copies what was written there", node)
	case !s.to.Missing && !s.to.IsOutOfService:
		return fmt.Sprintf("it is not known that node %s is off. If it is, and stays off, run: kubectl taint node %s "+
			"%s=nodeshutdown:NoExecute", node, node, corev1.TaintNodeOutOfService)
	}
	return ""
}

// afterSwitchBack has the status say that the volume was switched back.
func (s wayBack) afterSwitchBack() step {
	lost, node := s.targetNode(), s.old.Spec.NodeName
	switch {
	case s.isOldRetired():
		return s.swap(fmt.Sprintf("node %s takes the volume back", node))
	case s.volume.Annotations[v1alpha1.MovedVolumeAnnotation] != "":
		return step{phase: v1alpha1.MoveSwitching, after: soon,
			message: fmt.Sprintf("the PersistentVolume of claim %s is recreated on node %s", s.move.Spec.Claim, node)}
	case ending(s).isLost():
		return ending(s).rebindClaim()
	}
	return ending(s).undo(v1alpha1.MoveFailed, fmt.Sprintf("the switch is undone, because node %s was lost "+
		"before it took over the volume: the volume stays on node %s, with all its data", lost, node))
}

func (s wayBack) swap(message string) step {
	return step{action: swapNodes, phase: v1alpha1.MoveSwitching, after: soon, message: message}
}

// keepOld has the node agent keep the old logical volume, or withdraws that. It fails if the owner has changed since it
// was read: its deletion may have been requested.
func (c *Controller) keepOld(ctx context.Context, s *state) error {
	before := s.old.DeepCopy()
	if back := (wayBack{s}); back.isOldKept() {
		delete(s.old.Annotations, v1alpha1.MoveBackAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&s.old.ObjectMeta, v1alpha1.MoveBackAnnotation, s.targetNode())
	}
	return c.patch(ctx, "keep", s.old, before)
}

// swapNodes makes the lost node the source node of the move.
func (s wayBack) swapNodes() {
	status := &s.move.Status
	status.SourceNode, status.TargetNode = status.TargetNode, s.old.Spec.NodeName
	status.SwitchTime, status.SourceRemovalTime = nil, nil
}
