package driver

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// CreateSnapshot creates a snapshot of a thin volume on the node of the volume. The creation time is that of the
// LogicalVolume, so a repeated call returns the same response.
func (s *ControllerServer) CreateSnapshot(ctx context.Context,
	request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "name is required")
	}
	if request.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "source_volume_id is required")
	}
	name := strings.ToLower(request.GetName())
	if err := s.locks.Enter(name); err != nil {
		return nil, err
	}
	defer s.locks.Leave(name)
	source, err := s.volumes.Find(ctx, request.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	if source == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", request.GetSourceVolumeId())
	}
	desired := volumespec.Snapshot(name, source, service.ClaimOf(request.GetParameters()))
	lv, err := s.volumes.Ensure(ctx, desired, func(*topolvmv1.LogicalVolume) error { return nil })
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: volumespec.SnapshotMessage(lv, request.GetSourceVolumeId())}, nil
}

// DeleteSnapshot deletes a snapshot. It succeeds if the snapshot does not exist.
func (s *ControllerServer) DeleteSnapshot(ctx context.Context,
	request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := s.delete(ctx, request.GetSnapshotId(), "snapshot_id"); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}
