package volumemove

import (
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file plans how a move ends: after the switch, or without it.

// ending plans the end of a move.
type ending struct{ *state }

// undo removes what was created for a move that was not switched. The volume can be used on its node again.
func (s ending) undo(phase v1alpha1.VolumeMovePhase, message string) step {
	st := step{phase: phase, message: message, after: soon}
	if s.isFenced() {
		st.action = unfence
		return st
	}
	if lv := s.undeleted(); lv != nil {
		st.action = remove
		st.object = lv
		return st
	}
	// The nodes remove the logical volumes. The move does not wait for them: a node can be lost.
	st.action = end
	return st
}

// undeleted returns the target, the owner of the old logical volume or a snapshot whose deletion has not been
// requested, or nil.
func (s ending) undeleted() *topolvmv1.LogicalVolume {
	for _, lv := range append([]*topolvmv1.LogicalVolume{s.target, s.old}, s.snapshots...) {
		if lv != nil && lv.DeletionTimestamp.IsZero() {
			return lv
		}
	}
	return nil
}

// afterSwitch completes a move, and names the Pods that were bound to another node before the scheduler knew of the
// switch: they cannot start there, and nothing else says so. The move does not end before none is left.
func (s ending) afterSwitch(now time.Time) step {
	st := s.complete(now)
	if len(s.pods) == 0 {
		return st
	}
	if st.action == end && s.move.DeletionTimestamp.IsZero() {
		st.action = wait
		st.phase = v1alpha1.MoveKeepingSource
		st.after = blocked
	}
	st.after = min(st.after, blocked)
	if st.message != "" {
		st.message += ". "
	}
	st.message += fmt.Sprintf("These Pods are bound to another node than %s and cannot start; delete them, so that "+
		"they are created again: %s", s.volume.Spec.NodeName, s.podText())
	return st
}

// complete completes a move. The logical volume on the source node gets an owner, which is deleted after keepSource.
// The snapshots and the target are deleted when the owner exists, so that each state shows what is left to do.
func (s ending) complete(now time.Time) step {
	st := step{phase: v1alpha1.MoveSwitching, after: soon}
	switch {
	case s.isLost() && s.rebindClaim().action == rebind:
		return s.rebindClaim()
	case s.old == nil && (s.target != nil || len(s.snapshots) > 0):
		st.action = createOld
		st.message = fmt.Sprintf("node %s gives up the volume", s.sourceNode())
		return st
	case s.isBeingSwitched():
		st.message = fmt.Sprintf("node %s takes over the volume", s.targetNode())
	}
	for _, snapshot := range s.snapshots {
		if snapshot.DeletionTimestamp.IsZero() {
			st.action = remove
			st.object = snapshot
			return st
		}
	}
	switch {
	case s.isBeingSwitched():
		return st
	case s.target != nil && s.isLost():
		return s.rebindClaim()
	case s.target != nil && s.target.DeletionTimestamp.IsZero():
		st.action = remove
		st.object = s.target
		return st
	}
	return s.keep(now)
}

// rebindClaim has kube-controller-manager bind a lost claim, or waits for it.
func (s ending) rebindClaim() step {
	st := step{phase: v1alpha1.MoveSwitching, after: soon, message: fmt.Sprintf("kube-controller-manager has not "+
		"bound claim %s to its PersistentVolume on node %s yet", s.move.Spec.Claim, s.volume.Spec.NodeName)}
	if s.claim.Annotations[v1alpha1.RecreatedVolumeAnnotation] != string(s.pv.UID) {
		st.action = rebind
	}
	return st
}

// isBeingSwitched reports whether the node agent of the target node, or the controller that recreates the
// PersistentVolume, has something left to do. A volume that no longer exists needs neither.
func (s ending) isBeingSwitched() bool {
	return s.volume != nil && (s.volume.Annotations[v1alpha1.AdoptAnnotation] != "" ||
		s.volume.Annotations[v1alpha1.MovedVolumeAnnotation] != "")
}

// isLost reports whether kube-controller-manager has marked the claim as Lost, because the PersistentVolume did not
// exist for a moment, and has accepted the one that was recreated. A Pod cannot use the claim before it is bound again.
func (s ending) isLost() bool {
	return s.volume != nil && s.claim != nil && s.claim.Status.Phase == corev1.ClaimLost &&
		s.claim.DeletionTimestamp.IsZero() && s.pv != nil && s.pv.Status.Phase == corev1.VolumeBound &&
		s.pv.DeletionTimestamp.IsZero() &&
		s.claim.Spec.VolumeName == s.pv.Name && s.pv.Spec.ClaimRef != nil && s.pv.Spec.ClaimRef.UID == s.claim.UID &&
		v1alpha1.NodeOfVolume(s.pv) == s.volume.Spec.NodeName
}

// keep keeps the old logical volume for keepSource after the switch, and then deletes it.
func (s ending) keep(now time.Time) step {
	st := step{phase: v1alpha1.MoveKeepingSource, after: blocked}
	isDeleted := !s.move.DeletionTimestamp.IsZero()
	switch {
	case s.old == nil:
		return step{action: end, phase: v1alpha1.MoveCompleted,
			message: fmt.Sprintf("the volume is on node %s", s.targetNode())}
	case !s.old.DeletionTimestamp.IsZero():
		st.message = fmt.Sprintf("node %s removes the old logical volume", s.old.Spec.NodeName)
		if isDeleted {
			st.action = end
		}
	case s.target != nil || len(s.snapshots) > 0:
		// Without the owner, they would show that it has to be created.
		st.message = "the snapshots and the copy are being removed"
	case s.old.Status.VolumeID == "":
		return s.keepUnretired(st)
	case isDeleted || s.volume == nil || s.sourceNodeGone || !now.Before(s.removalTime()):
		return s.removeOld(st)
	default:
		left := s.removalTime().Sub(now)
		st.after = min(left, time.Hour)
		st.message = fmt.Sprintf("the volume is on node %s; the old logical volume on node %s is kept until %s",
			s.targetNode(), s.old.Spec.NodeName, s.removalTime().UTC().Format(time.RFC3339))
	}
	return st
}

// keepUnretired waits until the node has given up the old logical volume. If the node does not exist, the object is all
// that knows of this logical volume: it stays until the node returns.
func (s ending) keepUnretired(st step) step {
	st.message = fmt.Sprintf("node %s has not given up the old logical volume yet", s.old.Spec.NodeName)
	switch why := s.old.Status.Message; {
	case (s.sourceNodeGone || why != "") && s.isRemovalAllowed():
		st.action = remove
		st.object = s.old
		st.message = fmt.Sprintf("node %s has not given up the old logical volume, and the annotation %s=true is set: "+
			"the logical volume is forgotten", s.old.Spec.NodeName, v1alpha1.AllowSourceRemovalAnnotation)
	case s.sourceNodeGone:
		st.message = fmt.Sprintf("node %s no longer exists, and had not given up the old logical volume. "+
			"LogicalVolume %s is kept until the node returns. If it never does, set the annotation %s=true on the "+
			"VolumeMove",
			s.old.Spec.NodeName, s.old.Name, v1alpha1.AllowSourceRemovalAnnotation)
	case why != "":
		st.message += fmt.Sprintf(": %s. If it never can, set the annotation %s=true on the VolumeMove", why,
			v1alpha1.AllowSourceRemovalAnnotation)
	}
	return st
}

// removeOld removes the old logical volume, but only if the volume on the new node is known to be good: otherwise, it
// may be the last copy of the data.
func (s ending) removeOld(st step) step {
	if doubt := s.doubt(); doubt != "" && !s.isRemovalAllowed() {
		st.message = fmt.Sprintf("the old logical volume on node %s is kept, because it may have the last copy of the "+
			"data: %s. To remove it although this is so, set the annotation %s=true on the VolumeMove",
			s.old.Spec.NodeName, doubt, v1alpha1.AllowSourceRemovalAnnotation)
		return st
	}
	st.action = remove
	st.object = s.old
	st.message = fmt.Sprintf("node %s removes the old logical volume", s.old.Spec.NodeName)
	if s.sourceNodeGone {
		st.message = fmt.Sprintf("node %s no longer exists, and so does not keep the old logical volume",
			s.old.Spec.NodeName)
	}
	return st
}

// isRemovalAllowed reports whether somebody has said that the old logical volume is not needed.
func (s ending) isRemovalAllowed() bool {
	return s.move.Annotations[v1alpha1.AllowSourceRemovalAnnotation] == "true"
}

// doubt returns why the volume on its new node is not known to be good, or "". A volume that was deleted together with
// its claim and PersistentVolume is not needed.
func (s ending) doubt() string {
	name := s.move.Status.PersistentVolume
	isClaimed := s.claim != nil && s.claim.Spec.VolumeName == name
	switch {
	case s.volume == nil && (s.pv != nil || isClaimed):
		return fmt.Sprintf("LogicalVolume %s no longer exists, but claim %s or its PersistentVolume does", name,
			s.move.Spec.Claim)
	case s.volume == nil:
		return ""
	case s.isBeingSwitched() || s.volume.Status.VolumeID == "":
		return fmt.Sprintf("node %s has not taken over volume %s", s.volume.Spec.NodeName, s.volume.Name)
	case s.volume.Annotations[v1alpha1.ConditionAnnotation] != "":
		return fmt.Sprintf("volume %s on node %s is not healthy: %s", s.volume.Name, s.volume.Spec.NodeName,
			s.volume.Annotations[v1alpha1.ConditionAnnotation])
	case s.volumeNode.NotReady:
		return fmt.Sprintf("%s, which has volume %s", s.volumeNode, s.volume.Name)
	case s.isUnregistered:
		return fmt.Sprintf("the node agent of node %s, which has volume %s, is not registered", s.volume.Spec.NodeName,
			s.volume.Name)
	}
	return ""
}

// removalTime returns when the old logical volume is deleted. The owner is created at the switch.
func (s ending) removalTime() time.Time { return s.old.CreationTimestamp.Add(s.keepSource()) }
