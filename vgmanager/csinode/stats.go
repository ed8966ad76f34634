package csinode

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
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
	object, err := s.objectOf(ctx, id)
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

// volumeUsage is the usage type of CSI.
type volumeUsage = *csi.VolumeUsage

func codeOfPath(err error) codes.Code {
	if errors.Is(err, os.ErrNotExist) {
		return codes.NotFound
	}
	return codes.Internal
}

// usageOf returns the bytes and inodes of a file system, or the size of a device.
func usageOf(path string) ([]*csi.VolumeUsage, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		size, err := sizeOf(path)
		return []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: size}}, err
	}
	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(path, &fs) }); err != nil {
		return nil, err
	}
	block := int64(fs.Frsize) //nolint:unconvert // Its type depends on the architecture.
	usage := []*csi.VolumeUsage{{
		Unit: csi.VolumeUsage_BYTES, Total: int64(fs.Blocks) * block,
		Used: int64(fs.Blocks-fs.Bfree) * block, Available: int64(fs.Bavail) * block,
	}}
	if fs.Files > 0 { // A file system without a fixed number of inodes reports 0.
		usage = append(usage, &csi.VolumeUsage{
			Unit: csi.VolumeUsage_INODES, Total: int64(fs.Files), Used: int64(fs.Files - fs.Ffree),
			Available: int64(fs.Ffree),
		})
	}
	return usage, nil
}

// retry repeats a system call while it returns EINTR.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
