package driver

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// accessSnapshot is the access type of a snapshot, which is read-only.
const accessSnapshot = "ro"

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
	source, err := s.find(ctx, request.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	if source == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", request.GetSourceVolumeId())
	}
	desired := newDesiredVolume(name, sizeOfVolume(source), service.ClaimOf(request.GetParameters()))
	setEncryption(desired, source.Annotations[v1alpha1.EncryptionAnnotation])
	setRequested(desired, requestedOf(source))
	setFileSystem(desired, source.Annotations[v1alpha1.FileSystemAnnotation])
	desired.Spec.Source = source.Name
	desired.Spec.AccessType = accessSnapshot
	desired.Spec.DeviceClass = source.Spec.DeviceClass
	desired.Spec.NodeName = source.Spec.NodeName
	lv, err := s.ensureVolume(ctx, desired, func(*topolvmv1.LogicalVolume) error { return nil })
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshotOf(lv, request.GetSourceVolumeId())}, nil
}

// snapshotOf returns a snapshot for CSI. Its size is what was requested for its source, so that a claim with the same
// request can be restored from it. The restored volume is as large as the snapshot.
func snapshotOf(lv *topolvmv1.LogicalVolume, source string) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: lv.Status.VolumeID, SourceVolumeId: source, SizeBytes: requestedOf(lv),
		CreationTime: timestamppb.New(lv.CreationTimestamp.Time), ReadyToUse: true,
	}
}

// DeleteSnapshot deletes a snapshot. It succeeds if the snapshot does not exist.
func (s *ControllerServer) DeleteSnapshot(ctx context.Context,
	request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := s.delete(ctx, request.GetSnapshotId(), "snapshot_id"); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}
