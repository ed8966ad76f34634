package csinode

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// NodeGetVolumeStats returns the size, usage and condition of a volume. It starts no process, because the kubelet calls
// it for each volume once a minute. A broken file system is reported as a condition and not as an error; its usage is
// omitted if it cannot be read.
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
	class := object.Spec.DeviceClass
	usage, broken, err := s.FileSystems.At(ctx, service.Volume{Class: class, Name: id, Claim: s.ClaimOf(ctx, id)}, path)
	if err != nil {
		return nil, status.Errorf(codeOfPath(err), "read the statistics of volume %s at %s on node %s: %v",
			id, path, s.Node, err)
	}
	wrong, err := s.Volumes.Condition(ctx, class, id)
	if err != nil {
		return nil, err
	}
	wrong = strings.Join(slices.DeleteFunc([]string{broken, wrong}, func(text string) bool { return text == "" }), "; ")
	condition := &csi.VolumeCondition{Abnormal: wrong != "", Message: wrong}
	if wrong == "" {
		condition.Message = service.Healthy
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage, VolumeCondition: condition}, nil
}

func codeOfPath(err error) codes.Code {
	if errors.Is(err, os.ErrNotExist) {
		return codes.NotFound
	}
	return codes.Internal
}
