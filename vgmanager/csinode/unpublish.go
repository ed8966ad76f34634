package csinode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Names of the kubelet (Kubernetes, pkg/volume/csi): the directory at which it stages a volume, and the file beside it
// with the driver and the handle of the volume. The kubelet writes the file before it calls NodeStageVolume.
const (
	stagingName     = "globalmount"
	stagingDataName = "vol_data.json"
)

// NodeUnpublishVolume unmounts a volume from a Pod. It succeeds if the mount or the volume does not exist.
func (s *NodeServer) NodeUnpublishVolume(ctx context.Context,
	request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	id, target := request.GetVolumeId(), request.GetTargetPath()
	if err := s.unmount(ctx, id, target, "target_path", unmounting{before: s.unstageWithLastPod}); err != nil {
		return nil, err
	}
	s.Limits.Unpublish(ctx, id, target)
	// TopoLVM before 0.24 created a device file of its own.
	if err := os.Remove(filepath.Join(topolvm.LegacyDeviceDirectory,
		filepath.Base(id))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "remove the old device file of volume %s: %v", id, err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// unmounting is what else an unmount does under the lock of the volume, before and after umount(8). Each function can
// be nil.
type unmounting struct {
	before, after func(ctx context.Context, id, path string) error
}

// unmount unmounts a volume from a path. It removes the path when everything else is done: without the staging path,
// the kubelet does not call NodeUnstageVolume again (TearDownDevice in pkg/volume/csi/csi_block.go of Kubernetes).
func (s *NodeServer) unmount(ctx context.Context, id, path, name string, more unmounting) error {
	if id == "" {
		return status.Error(codes.InvalidArgument, "volume_id is required")
	}
	if path == "" {
		return status.Errorf(codes.InvalidArgument, "%s is required", name)
	}
	if err := s.Locks.Enter(id); err != nil {
		return err
	}
	defer s.Locks.Leave(id)
	if more.before != nil {
		if err := more.before(ctx, id, path); err != nil {
			return err
		}
	}
	if err := s.unmountPath(ctx, id, path); err != nil {
		return err
	}
	if more.after != nil {
		if err := more.after(ctx, id, path); err != nil {
			return err
		}
	}
	return s.removePath(id, path)
}

func (s *NodeServer) removePath(id, path string) error {
	if err := s.system.RemoveMountPoint(path); err != nil {
		return status.Errorf(codes.Internal, "remove the mount point %s of volume %s: %v", path, id, err)
	}
	return nil
}

// unmountPath ends a trim of the file system at a path, and unmounts it.
func (s *NodeServer) unmountPath(ctx context.Context, id, path string) error {
	s.FileSystems.EndTrim(ctx, path)
	if err := s.system.Unmount(ctx, path); err != nil {
		return status.Errorf(codes.Internal, "unmount volume %s from %s: %v", id, path, err)
	}
	return nil
}

// unstageWithLastPod unstages a volume that the kubelet does not unstage, if only one Pod has it, at target. If TopoLVM
// mounted the volume first, stageIfNotMounted has staged it, and the kubelet has no file vol_data.json for it: without
// this file, csiAttacher.UnmountDevice skips the volume. The staging path is unmounted before the target: otherwise a
// repeated call would not find it.
func (s *NodeServer) unstageWithLastPod(ctx context.Context, id, target string) error {
	points, err := s.system.SameFileSystem(target)
	if err != nil {
		return status.Errorf(codes.Internal, "read the mounts of volume %s on node %s: %v", id, s.Node, err)
	}
	at := slices.IndexFunc(points, func(p string) bool { return filepath.Base(p) == stagingName })
	if len(points) != 2 || at < 0 {
		return nil
	}
	staging := points[at]
	_, err = os.Lstat(filepath.Join(filepath.Dir(staging), stagingDataName))
	if err == nil {
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return status.Errorf(codes.Internal, "check whether the kubelet of node %s unstages volume %s: %v",
			s.Node, id, err)
	}
	if err := s.unmountPath(ctx, id, staging); err != nil {
		return err
	}
	if err := s.removePath(id, staging); err != nil || s.Staging == nil {
		return err
	}
	return s.Staging.Unstaged(ctx, id, staging)
}
