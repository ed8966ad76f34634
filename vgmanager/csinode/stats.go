package csinode

import (
	"context"
	"errors"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// NodeGetVolumeStats returns the size and usage of a volume. It starts no process, because the kubelet calls it for
// each volume once a minute. If a broken file system does not return its usage, the error says what is wrong.
func (s *NodeServer) NodeGetVolumeStats(ctx context.Context,
	request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	id := request.GetVolumeId()
	path := request.GetVolumePath()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	if path == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_path is required")
	}
	object, err := s.volumes.Object(ctx, id)
	if err != nil {
		return nil, err
	}
	volume := service.Volume{Class: object.Spec.DeviceClass, Name: id, Claim: s.ClaimOf(ctx, id)}
	usage, broken, err := s.FileSystems.At(ctx, volume, path)
	switch {
	case err != nil:
		return nil, status.Errorf(codeOfPath(err), "read the statistics of volume %s at %s on node %s: %v",
			id, path, s.Node, err)
	case broken != nil && usage == nil:
		return nil, status.Error(codes.Internal, broken.Message)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}

// NodeGetVolumeHealth returns what is wrong with a volume, and with its file system if it is mounted at the paths of
// the request. The kubelet writes it to the status of the Pod. It starts no process.
func (s *NodeServer) NodeGetVolumeHealth(ctx context.Context,
	request *csi.NodeGetVolumeHealthRequest) (*csi.NodeGetVolumeHealthResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	object, err := s.volumes.Object(ctx, id)
	if err != nil {
		return nil, err
	}
	class := object.Spec.DeviceClass
	problems, err := s.Volumes.Problems(ctx, class, id)
	if err != nil {
		return nil, err
	}
	volume := service.Volume{Class: class, Name: id, Claim: s.ClaimOf(ctx, id)}
	for _, path := range []string{request.GetVolumePublishPath(), request.GetStagingTargetPath()} {
		if path == "" {
			continue
		}
		_, broken, err := s.FileSystems.At(ctx, volume, path)
		if errors.Is(err, os.ErrNotExist) {
			continue // It has not been mounted yet.
		}
		if err != nil {
			return nil, status.Errorf(codes.Internal, "read the health of volume %s at %s on node %s: %v", id, path,
				s.Node, err)
		}
		if broken != nil {
			problems = append(problems, *broken)
		}
		break
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: health.CSI(id, problems)}, nil
}

// NodeGetStorageHealth returns what is wrong with the device classes of the node. The kubelet writes it to the
// status of the CSINode. It starts no process.
func (s *NodeServer) NodeGetStorageHealth(ctx context.Context,
	_ *csi.NodeGetStorageHealthRequest) (*csi.NodeGetStorageHealthResponse, error) {
	problems, err := s.Volumes.ClassProblems(ctx)
	if err != nil {
		return nil, err
	}
	response := &csi.NodeGetStorageHealthResponse{}
	for _, problem := range health.Merged(problems) {
		kind := csi.StorageHealthErrorType_STORAGE_DEGRADED
		if problem.Status == corev1.VolumeHealthInaccessible {
			kind = csi.StorageHealthErrorType_STORAGE_UNREACHABLE
		}
		response.BackendHealth = append(response.BackendHealth, &csi.NodeGetStorageHealthResponse_StorageBackendHealth{
			Status: kind, Reason: problem.Reason, Message: problem.Message})
	}
	return response, nil
}

func codeOfPath(err error) codes.Code {
	if errors.Is(err, os.ErrNotExist) {
		return codes.NotFound
	}
	return codes.Internal
}
