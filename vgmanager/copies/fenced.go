package copies

import (
	"context"
	"errors"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
	"github.com/lvm-storage/lvm-operator/vgmanager/peer"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

// A thick volume has no snapshots: it is copied itself, while it is fenced for its VolumeMove or its clone. The target
// has the annotation of the fence under which it is copied, and the operator discards it if the volume has another one:
// then the volume could have been written to in between.

// fencedSource returns the volume ID of the volume that is copied to a target, and the fence that it must have for it.
// The volume ID is "" if the target is not that of a move, and not a clone of a thick volume.
func fencedSource(target *topolvmv1.LogicalVolume) (volume, fence string) {
	if moved := target.Annotations[v1alpha1.MoveVolumeAnnotation]; moved != "" {
		return moved, target.Annotations[v1alpha1.MoveAnnotation]
	}
	return target.Annotations[v1alpha1.CloneVolumeAnnotation], v1alpha1.CloneFence(target.UID)
}

// isFencedVolume reports whether the source of a target is the volume that is moved or cloned, and not a snapshot of
// it.
func isFencedVolume(target, source *topolvmv1.LogicalVolume) bool {
	volume, _ := fencedSource(target)
	return volume != "" && source.Status.VolumeID == volume && source.Spec.AccessType != accessSnapshot
}

// openFenced opens the thick volume that is copied to a target. It checks that the fence is that of the target, under
// the lock of the volume, under which it is fenced.
func (s *Sender) openFenced(ctx context.Context, target *topolvmv1.LogicalVolume, r peer.Request) (*peer.Opened,
	error) {
	if r.Base != "" {
		return nil, fmt.Errorf("source %s is not a snapshot, so there are no differences to %s: %w", target.Spec.Source,
			r.Base, peer.ErrForbidden)
	}
	id, fence := fencedSource(target)
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
	found, err := s.Volumes.FencedDevice(ctx, source.Spec.DeviceClass, id, fence)
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
	volume, fence := fencedSource(target)
	requested := target.Annotations[v1alpha1.FenceTimeAnnotation]
	switch {
	case !isFencedVolume(target, source):
		return fmt.Errorf("source %s is no longer volume %s: %w", source.Name, volume, peer.ErrForbidden)
	case source.Spec.NodeName != s.Node:
		return fmt.Errorf("source %s is on node %s, not on %s: %w", source.Name, source.Spec.NodeName, s.Node,
			peer.ErrForbidden)
	case !source.DeletionTimestamp.IsZero():
		return fmt.Errorf("source %s is being deleted: %w", source.Name, peer.ErrGone)
	case fence == "" || source.Annotations[v1alpha1.FenceAnnotation] != fence ||
		source.Annotations[v1alpha1.FencedAnnotation] != fence:
		return fmt.Errorf("source %s is not fenced for %s: %w", source.Name, lvmd.FenceText(fence), peer.ErrForbidden)
	case requested == "" || source.Annotations[v1alpha1.FenceTimeAnnotation] != requested:
		return fmt.Errorf("source %s is fenced again since the copy %s was requested, so it can have changed: %w",
			source.Name, target.Name, peer.ErrForbidden)
	}
	return nil
}
