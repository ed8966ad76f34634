package copies

import (
	"context"
	"errors"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/peer"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

// A thick volume has no snapshots: it is copied itself, while it is fenced. The target has the annotation of the fence
// for which it was created, and the operator discards it if the volume has another one: then the volume could have been
// written to in between.

// isMovedVolume reports whether the source of a target is the volume that is moved, and not a snapshot of it.
func isMovedVolume(target, source *topolvmv1.LogicalVolume) bool {
	moved := target.Annotations[v1alpha1.MoveVolumeAnnotation]
	return moved != "" && source.Status.VolumeID == moved && source.Spec.AccessType != accessSnapshot
}

// openFenced opens the thick volume that is moved to a target. It checks that the fence is that of the target, under
// the lock of the volume, under which it is fenced.
func (s *Sender) openFenced(ctx context.Context, target *topolvmv1.LogicalVolume, r peer.Request) (*peer.Opened,
	error) {
	if r.Base != "" {
		return nil, fmt.Errorf("source %s is not a snapshot, so there are no differences to %s: %w", target.Spec.Source,
			r.Base, peer.ErrForbidden)
	}
	id := target.Annotations[v1alpha1.MoveVolumeAnnotation]
	if err := s.Locks.Enter(id); err != nil {
		return nil, fmt.Errorf("source %s: %w", target.Spec.Source, err)
	}
	defer s.Locks.Leave(id)
	source, err := s.get(ctx, target.Spec.Source, peer.ErrGone)
	if err != nil {
		return nil, err
	}
	if err := s.checkFenced(target, source); err != nil {
		return nil, err
	}
	found, err := s.Volumes.FencedDevice(ctx, source.Spec.DeviceClass, id,
		target.Annotations[v1alpha1.MoveAnnotation])
	if status.Code(err) == codes.NotFound {
		err = errors.Join(err, peer.ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", source.Name, err)
	}
	if found.ThinPool != "" {
		return nil, fmt.Errorf("source %s: logical volume %s/%s is thin, so only its snapshots are copied: %w",
			source.Name, found.VolumeGroup, found.Name, peer.ErrForbidden)
	}
	return s.openDevice(source.Name, found, volumecopy.Whole(uint64(found.Size)), 0)
}

// checkFenced returns an error unless a volume is on this node, and the operator has it fenced for a target.
func (s *Sender) checkFenced(target, source *topolvmv1.LogicalVolume) error {
	move, fence := target.Annotations[v1alpha1.MoveAnnotation], target.Annotations[v1alpha1.FenceTimeAnnotation]
	switch {
	case !isMovedVolume(target, source):
		return fmt.Errorf("source %s is no longer volume %s: %w", source.Name,
			target.Annotations[v1alpha1.MoveVolumeAnnotation], peer.ErrForbidden)
	case source.Spec.NodeName != s.Node:
		return fmt.Errorf("source %s is on node %s, not on %s: %w", source.Name, source.Spec.NodeName, s.Node,
			peer.ErrForbidden)
	case !source.DeletionTimestamp.IsZero():
		return fmt.Errorf("source %s is being deleted: %w", source.Name, peer.ErrGone)
	case move == "" || source.Annotations[v1alpha1.FenceAnnotation] != move ||
		source.Annotations[v1alpha1.FencedAnnotation] != move:
		return fmt.Errorf("source %s is not fenced for the VolumeMove with the UID %q: %w", source.Name, move,
			peer.ErrForbidden)
	case fence == "" || source.Annotations[v1alpha1.FenceTimeAnnotation] != fence:
		return fmt.Errorf("source %s is fenced again since the copy %s was requested, so it can have changed: %w",
			source.Name, target.Name, peer.ErrForbidden)
	}
	return nil
}
