package driver

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// accessSnapshot is the access type of a snapshot: nobody writes to it.
const accessSnapshot = "ro"

// CreateSnapshot makes a snapshot of a thin volume, on the node of the volume. Its time is that of its object, so a
// call that comes again has the same answer.
func (s *ControllerServer) CreateSnapshot(ctx context.Context,
	request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "no name is given")
	}
	if request.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no source_volume_id is given")
	}
	name := strings.ToLower(request.GetName())
	if err := s.busy.enter(name); err != nil {
		return nil, err
	}
	defer s.busy.leave(name)
	source, err := s.find(ctx, request.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	if source == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", request.GetSourceVolumeId())
	}
	wish := newWish(name, sizeOfVolume(source), claimOf(request.GetParameters()))
	wish.Spec.Source = source.Name
	wish.Spec.AccessType = accessSnapshot
	wish.Spec.DeviceClass = source.Spec.DeviceClass
	wish.Spec.NodeName = source.Spec.NodeName
	lv, err := s.realize(ctx, wish, func(*topolvmv1.LogicalVolume) error { return nil })
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshotOf(lv, request.GetSourceVolumeId())}, nil
}

func snapshotOf(lv *topolvmv1.LogicalVolume, source string) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: lv.Status.VolumeID, SourceVolumeId: source, SizeBytes: sizeOfVolume(lv),
		CreationTime: timestamppb.New(lv.CreationTimestamp.Time), ReadyToUse: true,
	}
}

// DeleteSnapshot removes a snapshot. One that does not exist is no error.
func (s *ControllerServer) DeleteSnapshot(ctx context.Context,
	request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := s.delete(ctx, request.GetSnapshotId(), "snapshot_id"); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}
