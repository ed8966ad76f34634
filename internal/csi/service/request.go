// Package service has what the operator and the agents share of the CSI services: the lock of a volume, the check of a
// request, the file systems, the log of calls, and which codes of a LogicalVolume are final.
package service

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Healthy is the message of a volume condition that is not abnormal.
const Healthy = "healthy"

// CheckRequest refuses incomplete calls, and requests that a volume on one node cannot fulfill.
func CheckRequest(id, path, pathName string, capability *csi.VolumeCapability) error {
	switch {
	case id == "":
		return status.Error(codes.InvalidArgument, "volume_id is required")
	case path == "":
		return status.Errorf(codes.InvalidArgument, "%s is required", pathName)
	case capability == nil:
		return status.Error(codes.InvalidArgument, "volume_capability is required")
	case capability.GetBlock() == nil && capability.GetMount() == nil:
		return status.Error(codes.InvalidArgument, "volume_capability is neither block nor mount")
	case !slices.Contains(accessModes, capability.GetAccessMode().GetMode()):
		return status.Errorf(codes.InvalidArgument,
			"access mode %s is not supported: a volume is on one node, so only single-node modes are possible",
			capability.GetAccessMode().GetMode())
	}
	return nil
}

var accessModes = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
}
