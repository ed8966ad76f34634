package plan

import (
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file plans how a move ends: after the switch, or without it.

// ending plans the end of a move.
type ending struct{ *State }

// undo removes what was created for a move that was not switched. The volume can be used on its node again.
func (s ending) undo(phase v1alpha1.VolumeMovePhase, message string) Step {
	st := Step{Phase: phase, Message: message, After: Soon}
	if s.IsFenced() {
		st.Action = Unfence
		return st
	}
	if lv := s.undeleted(); lv != nil {
		st.Action = Remove
		st.Object = lv
		return st
	}
	// The nodes remove the logical volumes. The move does not wait for them: a node can be lost.
	st.Action = End
	return st
}

// undeleted returns the target, the owner of the old logical volume or a snapshot whose deletion has not been
// requested, or nil.
func (s ending) undeleted() *topolvmv1.LogicalVolume {
	for _, lv := range append([]*topolvmv1.LogicalVolume{s.Target, s.Old}, s.Snapshots...) {
		if lv != nil && lv.DeletionTimestamp.IsZero() {
			return lv
		}
	}
	return nil
}

// afterSwitch completes a move, and names the Pods that were bound to another node before the scheduler knew of the
// switch: they cannot start there, and nothing else says so. The move does not end before none is left.
func (s ending) afterSwitch(now time.Time) Step {
	st := s.complete(now)
	if len(s.Pods) == 0 {
		return st
	}
	if st.Action == End && s.Move.DeletionTimestamp.IsZero() {
		st.Action = Wait
		st.Phase = v1alpha1.MoveKeepingSource
		st.After = Blocked
	}
	st.After = min(st.After, Blocked)
	if st.Message != "" {
		st.Message += ". "
	}
	st.Message += fmt.Sprintf("These Pods are bound to another node than %s and cannot start; delete them, so that "+
		"they are created again: %s", s.Volume.Spec.NodeName, s.podText())
	return st
}

// complete completes a move. The logical volume on the source node gets an owner, which is deleted after keepSource.
// The snapshots and the target are deleted when the owner exists, so that each state shows what is left to do.
func (s ending) complete(now time.Time) Step {
	st := Step{Phase: v1alpha1.MoveSwitching, After: Soon}
	switch {
	case s.isLost() && s.rebindClaim().Action == Rebind:
		return s.rebindClaim()
	case s.Old == nil && (s.Target != nil || len(s.Snapshots) > 0):
		st.Action = CreateOld
		st.Message = fmt.Sprintf("node %s gives up the volume", s.SourceNode())
		return st
	case s.isBeingSwitched():
		st.Message = fmt.Sprintf("node %s takes over the volume", s.TargetNode())
	}
	for _, snapshot := range s.Snapshots {
		if snapshot.DeletionTimestamp.IsZero() {
			st.Action = Remove
			st.Object = snapshot
			return st
		}
	}
	switch {
	case s.isBeingSwitched():
		return st
	case s.Target != nil && s.isLost():
		return s.rebindClaim()
	case s.Target != nil && s.Target.DeletionTimestamp.IsZero():
		st.Action = Remove
		st.Object = s.Target
		return st
	}
	return s.keep(now)
}

// rebindClaim has kube-controller-manager bind a lost claim, or waits for it.
func (s ending) rebindClaim() Step {
	st := Step{Phase: v1alpha1.MoveSwitching, After: Soon, Message: fmt.Sprintf("kube-controller-manager has not "+
		"bound claim %s to its PersistentVolume on node %s yet", s.Move.Spec.Claim, s.Volume.Spec.NodeName)}
	if s.Claim.Annotations[wellknown.RecreatedVolumeAnnotation] != string(s.PV.UID) {
		st.Action = Rebind
	}
	return st
}

// isBeingSwitched reports whether the node agent of the target node, or the controller that recreates the
// PersistentVolume, has something left to do. A volume that no longer exists needs neither.
func (s ending) isBeingSwitched() bool {
	return s.Volume != nil && view.IsBeingSwitched(s.Volume)
}

// isLost reports whether kube-controller-manager has marked the claim as Lost, because the PersistentVolume did not
// exist for a moment, and has accepted the one that was recreated. A Pod cannot use the claim before it is bound again.
func (s ending) isLost() bool {
	return s.Volume != nil && s.Claim != nil && s.Claim.Status.Phase == corev1.ClaimLost &&
		s.Claim.DeletionTimestamp.IsZero() && s.PV != nil && s.PV.Status.Phase == corev1.VolumeBound &&
		s.PV.DeletionTimestamp.IsZero() &&
		s.Claim.Spec.VolumeName == s.PV.Name && s.PV.Spec.ClaimRef != nil && s.PV.Spec.ClaimRef.UID == s.Claim.UID &&
		view.NodeOfVolume(s.PV) == s.Volume.Spec.NodeName
}

// keep keeps the old logical volume for keepSource after the switch, and then deletes it.
func (s ending) keep(now time.Time) Step {
	st := Step{Phase: v1alpha1.MoveKeepingSource, After: Blocked}
	isDeleted := !s.Move.DeletionTimestamp.IsZero()
	switch {
	case s.Old == nil:
		return Step{Action: End, Phase: v1alpha1.MoveCompleted,
			Message: fmt.Sprintf("the volume is on node %s", s.TargetNode())}
	case !s.Old.DeletionTimestamp.IsZero():
		st.Message = fmt.Sprintf("node %s removes the old logical volume", s.Old.Spec.NodeName)
		if isDeleted {
			st.Action = End
		}
	case s.Target != nil || len(s.Snapshots) > 0:
		// Without the owner, they would show that it has to be created.
		st.Message = "the snapshots and the copy are being removed"
	case s.Old.Status.VolumeID == "":
		return s.keepUnretired(st)
	case isDeleted || s.Volume == nil || s.SourceNodeGone || !now.Before(s.removalTime()):
		return s.removeOld(st)
	default:
		left := s.removalTime().Sub(now)
		st.After = min(left, time.Hour)
		st.Message = fmt.Sprintf("the volume is on node %s; the old logical volume on node %s is kept until %s",
			s.TargetNode(), s.Old.Spec.NodeName, s.removalTime().UTC().Format(time.RFC3339))
	}
	return st
}

// keepUnretired waits until the node has given up the old logical volume. If the node does not exist, the object is all
// that knows of this logical volume: it stays until the node returns.
func (s ending) keepUnretired(st Step) Step {
	st.Message = fmt.Sprintf("node %s has not given up the old logical volume yet", s.Old.Spec.NodeName)
	switch why := s.Old.Status.Message; {
	case (s.SourceNodeGone || why != "") && s.isRemovalAllowed():
		st.Action = Remove
		st.Object = s.Old
		st.Message = fmt.Sprintf("node %s has not given up the old logical volume, and the annotation %s=true is set: "+
			"the logical volume is forgotten", s.Old.Spec.NodeName, wellknown.AllowSourceRemovalAnnotation)
	case s.SourceNodeGone:
		st.Message = fmt.Sprintf("node %s no longer exists, and had not given up the old logical volume. "+
			"LogicalVolume %s is kept until the node returns. If it never does, set the annotation %s=true on the "+
			"VolumeMove",
			s.Old.Spec.NodeName, s.Old.Name, wellknown.AllowSourceRemovalAnnotation)
	case why != "":
		st.Message += fmt.Sprintf(": %s. If it never can, set the annotation %s=true on the VolumeMove", why,
			wellknown.AllowSourceRemovalAnnotation)
	}
	return st
}

// removeOld removes the old logical volume, but only if the volume on the new node is known to be good: otherwise, it
// may be the last copy of the data.
func (s ending) removeOld(st Step) Step {
	if doubt := s.doubt(); doubt != "" && !s.isRemovalAllowed() {
		st.Message = fmt.Sprintf("the old logical volume on node %s is kept, because it may have the last copy of the "+
			"data: %s. To remove it although this is so, set the annotation %s=true on the VolumeMove",
			s.Old.Spec.NodeName, doubt, wellknown.AllowSourceRemovalAnnotation)
		return st
	}
	st.Action = Remove
	st.Object = s.Old
	st.Message = fmt.Sprintf("node %s removes the old logical volume", s.Old.Spec.NodeName)
	if s.SourceNodeGone {
		st.Message = fmt.Sprintf("node %s no longer exists, and so does not keep the old logical volume",
			s.Old.Spec.NodeName)
	}
	return st
}

// isRemovalAllowed reports whether somebody has said that the old logical volume is not needed.
func (s ending) isRemovalAllowed() bool {
	return s.Move.Annotations[wellknown.AllowSourceRemovalAnnotation] == "true"
}

// doubt returns why the volume on its new node is not known to be good, or "". A volume that was deleted together with
// its claim and PersistentVolume is not needed.
func (s ending) doubt() string {
	name := s.Move.Status.PersistentVolume
	isClaimed := s.Claim != nil && s.Claim.Spec.VolumeName == name
	switch {
	case s.Volume == nil && (s.PV != nil || isClaimed):
		return fmt.Sprintf("LogicalVolume %s no longer exists, but claim %s or its PersistentVolume does", name,
			s.Move.Spec.Claim)
	case s.Volume == nil:
		return ""
	case s.isBeingSwitched() || s.Volume.Status.VolumeID == "":
		return fmt.Sprintf("node %s has not taken over volume %s", s.Volume.Spec.NodeName, s.Volume.Name)
	case view.Condition(s.Volume) != "":
		return fmt.Sprintf("volume %s on node %s is not healthy: %s", s.Volume.Name, s.Volume.Spec.NodeName,
			view.Condition(s.Volume))
	case s.VolumeNode.NotReady:
		return fmt.Sprintf("%s, which has volume %s", s.VolumeNode, s.Volume.Name)
	case s.IsUnregistered:
		return fmt.Sprintf("the node agent of node %s, which has volume %s, is not registered", s.Volume.Spec.NodeName,
			s.Volume.Name)
	}
	return ""
}

// removalTime returns when the old logical volume is deleted. The owner is created at the switch.
func (s ending) removalTime() time.Time { return s.Old.CreationTimestamp.Add(s.keepSource()) }

// Undo returns the next step of a move that is not continued: it removes what was created for the move.
func Undo(s *State, phase v1alpha1.VolumeMovePhase, message string) Step {
	return ending{s}.undo(phase, message)
}
