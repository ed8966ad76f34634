package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// RefusedError is why a volume cannot be moved at all.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

// PendingError is what a move waits for.
type PendingError struct {
	Message string
	// Position is the place in the queue for the target node, or 0.
	Position int32
	Target   string
}

func (e PendingError) Error() string { return e.Message }

func refused(format string, args ...any) error { return RefusedError(fmt.Sprintf(format, args...)) }

// Pending returns a PendingError.
func Pending(format string, args ...any) error {
	return PendingError{Message: fmt.Sprintf(format, args...)}
}

// Start are the facts with which a move begins.
type Start struct {
	Class, Source, Target string
	// Thick: the volume has no snapshots.
	Thick bool
	// Doubt says why the target may have no room for the data of the volume, or is "".
	Doubt string
}

// Movable returns an error if the volume of the claim cannot be moved, or not now.
func (s *State) Movable() error {
	if err := claimMovable(s); err != nil {
		return err
	}
	return volumeMovable(s)
}

// claimMovable is about the claim and its PersistentVolume.
func claimMovable(s *State) error {
	claim := s.Move.Spec.Claim
	switch {
	case s.Claim == nil:
		return Pending("claim %s does not exist", claim)
	case !s.Claim.DeletionTimestamp.IsZero():
		return Pending("claim %s is being deleted", claim)
	case s.Claim.Spec.VolumeName == "" || s.PV == nil || s.PV.Spec.ClaimRef == nil ||
		s.PV.Spec.ClaimRef.UID != s.Claim.UID:
		return Pending("claim %s is not bound", claim)
	case s.PV.Spec.CSI == nil || s.PV.Spec.CSI.Driver != wellknown.DriverName:
		return refused("claim %s has a volume of another driver: PersistentVolume %s is not of %s", claim, s.PV.Name,
			wellknown.DriverName)
	}
	return nil
}

// volumeMovable is about the LogicalVolume.
func volumeMovable(s *State) error {
	claim := s.Move.Spec.Claim
	switch {
	case s.Volume == nil:
		return Pending("PersistentVolume %s of claim %s has no LogicalVolume", s.PV.Name, claim)
	case !s.Volume.DeletionTimestamp.IsZero() || !s.PV.DeletionTimestamp.IsZero():
		return Pending("volume %s of claim %s is being deleted", s.PV.Name, claim)
	case s.Volume.Status.VolumeID == "" || s.Volume.Status.VolumeID != s.PV.Spec.CSI.VolumeHandle:
		return Pending("volume %s of claim %s is being created", s.PV.Name, claim)
	case view.MovedVolume(s.Volume) != "" || view.NodeOfVolume(s.PV) != s.Volume.Spec.NodeName:
		return Pending("the PersistentVolume %s of claim %s is being recreated", s.PV.Name, claim)
	case fence.IsOfClone(fence.Holder(s.Volume)):
		return PendingError{Message: s.otherFence()}
	case fence.Holder(s.Volume)+fence.Confirmed(s.Volume)+view.Adopts(s.Volume) != "":
		return Pending("another move of volume %s of claim %s is being undone or completed", s.PV.Name, claim)
	case view.Condition(s.Volume) != "":
		return Pending("volume %s of claim %s is not healthy: %s", s.PV.Name, claim, view.Condition(s.Volume))
	case s.Move.Spec.NodeName == s.Volume.Spec.NodeName:
		return refused("volume %s of claim %s is on node %s already", s.PV.Name, claim, s.Volume.Spec.NodeName)
	}
	return nil
}

// Alone returns an error if another move of the claim has not ended and is older. A move that only keeps the old
// logical volume does not count.
func Alone(move *v1alpha1.VolumeMove, moves []v1alpha1.VolumeMove) error {
	for i := range moves {
		other := &moves[i]
		if other.UID != move.UID && other.Spec.Claim == move.Spec.Claim && !other.Ended() && isOlder(other, move) &&
			(other.Status.Phase != v1alpha1.MoveKeepingSource || other.Status.SourceRemovalTime == nil) {
			return Pending("VolumeMove %s moves the volume of claim %s: wait until it has ended, or delete it",
				other.Name, move.Spec.Claim)
		}
	}
	return nil
}

func isOlder(a, b *v1alpha1.VolumeMove) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// Turn returns a PendingError with the place in the queue if as many moves and clones copy from the source node or to
// the target node as may, or if older moves wait for these nodes.
func Turn(move *v1alpha1.VolumeMove, source, target string, others []fence.Copy) error {
	position := fence.Turn(CopyOf(move, source, target), others)
	if position == 0 {
		return nil
	}
	return PendingError{Position: position, Target: target, Message: fmt.Sprintf("place %d in the queue: at most %d "+
		"volumes are copied from node %s, and to node %s, at the same time", position, fence.MaxCopies, source, target)}
}

// CopyOf returns a move for the queue.
func CopyOf(move *v1alpha1.VolumeMove, source, target string) fence.Copy {
	return fence.Copy{UID: string(move.UID), Source: source, Target: target, Created: move.CreationTimestamp.Time,
		Name: move.Name}
}

// Candidate is a node to which the volume could be moved.
type Candidate struct {
	supply.Candidate
	// Neighbor describes a volume of the spread group on the node, or is "".
	Neighbor string
	// Pool is the thin pool of the device class on the node. It is nil if the class is thick, or the state of the pool
	// is not known.
	Pool *v1alpha1.ThinPoolStatus
}

// Others returns the moves without one, whose volume is not requested twice.
func Others(move *v1alpha1.VolumeMove, moves []v1alpha1.VolumeMove) []v1alpha1.VolumeMove {
	return slices.DeleteFunc(slices.Clone(moves), func(m v1alpha1.VolumeMove) bool { return m.UID == move.UID })
}

// AddMoves adds the volumes of moves whose targets the cache does not have yet. The target of a thick volume is created
// when no Pod uses the volume.
func AddMoves(requested supply.Requests, volumes []topolvmv1.LogicalVolume, moves []v1alpha1.VolumeMove,
	class string) {
	known := map[string]bool{}
	for i := range volumes {
		known[volumes[i].Name] = true
	}
	for i := range moves {
		m := &moves[i]
		waits := m.Status.Thick && m.Status.Phase == v1alpha1.MoveWaitingForPods
		if (waits || m.Status.Phase == v1alpha1.MoveCopying) && m.Status.DeviceClass == class && !known[TargetName(m)] {
			requested.Add(m.Status.TargetNode, m.Status.TotalBytes)
		}
	}
}

// IsAllowed reports whether a node with these labels is in one of the terms (core/v1, TopologySelectorTerm).
func IsAllowed(terms []corev1.TopologySelectorTerm, labels map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(r corev1.TopologySelectorLabelRequirement) bool {
			return !slices.Contains(r.Values, labels[r.Key])
		})
	})
}
