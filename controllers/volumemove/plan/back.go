package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
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

// WayBack plans how a volume is moved back.
type WayBack struct{ *State }

// IsBackRequested reports whether somebody has requested that the volume is moved back from the target node.
func (s WayBack) IsBackRequested() bool {
	node := s.Move.Annotations[wellknown.MoveBackAnnotation]
	return node != "" && node == s.TargetNode()
}

// IsOldKept reports whether the node agent keeps the old logical volume, whatever happens to its owner.
func (s WayBack) IsOldKept() bool {
	return s.Old != nil && view.MoveBack(s.Old) != "" && view.MoveBack(s.Old) != s.Old.Spec.NodeName
}

// IsOldRetired reports whether the source node has given up the old logical volume.
func (s WayBack) IsOldRetired() bool { return s.Old.Status.VolumeID != "" }

// isBack reports whether the volume was switched back, and the status does not say so yet.
func (s WayBack) isBack() bool {
	if !s.IsOldKept() || s.Volume == nil || s.Volume.Spec.NodeName != s.Old.Spec.NodeName {
		return false
	}
	adopts := view.Adopts(s.Volume)
	return adopts == "" || adopts == string(s.Old.UID)
}

// isLostWithoutOwner reports whether the volume was deleted after it was switched back, and before the status said so.
// The logical volume on the lost node needs an owner, as if it had not been deleted: nothing else removes it.
func (s WayBack) isLostWithoutOwner() bool {
	return s.Volume == nil && s.IsOldKept() && s.IsOldRetired() && s.notLost() == ""
}

// moveBack switches the volume back, unless that is blocked or no longer requested.
func (s WayBack) moveBack(now time.Time) Step {
	st := Step{Phase: v1alpha1.MoveSwitching, After: Soon,
		Message: fmt.Sprintf("the volume is moved back to node %s", s.SourceNode())}
	why := s.backProblem()
	switch {
	case !s.IsBackRequested() && why == "":
		why = "this is no longer requested"
	case why == "" && !s.IsOldKept():
		st.Action = KeepOld
		return st
	case why == "":
		st.Action = SwitchBack
		return st
	}
	if s.IsOldKept() {
		st.Action = KeepOld
	} else {
		st = ending(s).complete(now)
	}
	if st.Message != "" {
		st.Message = ". " + st.Message
	}
	st.Message = fmt.Sprintf("the volume is not moved back to node %s: %s%s", s.SourceNode(), why, st.Message)
	st.After = min(st.After, Blocked)
	return st
}

// backProblem returns why the volume cannot be moved back now, or "".
func (s WayBack) backProblem() string {
	if why := s.notLost(); why != "" {
		return why
	}
	name := s.Move.Status.PersistentVolume
	switch {
	case s.Old == nil || !s.Old.DeletionTimestamp.IsZero():
		return "the old logical volume there is removed"
	case s.Volume == nil || !s.Volume.DeletionTimestamp.IsZero():
		return fmt.Sprintf("LogicalVolume %s no longer exists, or is being deleted", name)
	case s.Volume.Spec.NodeName != s.TargetNode():
		return fmt.Sprintf("volume %s was moved to node %s since then", name, s.Volume.Spec.NodeName)
	case s.PV == nil || !s.PV.DeletionTimestamp.IsZero():
		return fmt.Sprintf("PersistentVolume %s does not exist, is being recreated or deleted", name)
	case fence.Holder(s.Volume) != "":
		return s.otherFence()
	case len(s.Snapshots) > 0:
		return "the snapshots of the move are removed first"
	case s.From.NotReady:
		return s.From.String()
	case s.IsOldRetired() == (view.Adopts(s.Volume) != ""):
		return "the old logical volume there is being given up"
	case len(s.Pods) > 0:
		return fmt.Sprintf("these Pods on other nodes use it: %s. If they do not end, delete them with "+
			"`kubectl delete pod --force`", s.podText())
	}
	return ""
}

// notLost returns why the target node may still use the volume, or "": then its Pods could write to a copy of the
// volume that nobody uses any longer.
func (s WayBack) notLost() string {
	node := s.TargetNode()
	switch {
	case !s.To.NotReady:
		return fmt.Sprintf("node %s is ready: create a VolumeMove instead, which copies what was written there", node)
	case !s.To.Missing && !s.To.IsOutOfService:
		return fmt.Sprintf("it is not known that node %s is off. If it is, and stays off, run: kubectl taint node %s "+
			"%s=nodeshutdown:NoExecute", node, node, corev1.TaintNodeOutOfService)
	}
	return ""
}

// afterSwitchBack has the status say that the volume was switched back.
func (s WayBack) afterSwitchBack() Step {
	lost, node := s.TargetNode(), s.Old.Spec.NodeName
	switch {
	case s.IsOldRetired():
		return s.swap(fmt.Sprintf("node %s takes the volume back", node))
	case view.MovedVolume(s.Volume) != "":
		return Step{Phase: v1alpha1.MoveSwitching, After: Soon,
			Message: fmt.Sprintf("the PersistentVolume of claim %s is recreated on node %s", s.Move.Spec.Claim, node)}
	case ending(s).isLost():
		return ending(s).rebindClaim()
	}
	return ending(s).undo(v1alpha1.MoveFailed, fmt.Sprintf("the switch is undone, because node %s was lost "+
		"before it took over the volume: the volume stays on node %s, with all its data", lost, node))
}

func (s WayBack) swap(message string) Step {
	return Step{Action: SwapNodes, Phase: v1alpha1.MoveSwitching, After: Soon, Message: message}
}

// SwapNodes makes the lost node the source node of the move.
func (s WayBack) SwapNodes() {
	status := &s.Move.Status
	status.SourceNode, status.TargetNode = status.TargetNode, s.Old.Spec.NodeName
	status.SwitchTime, status.SourceRemovalTime = nil, nil
}
