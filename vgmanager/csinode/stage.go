package csinode

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
)

// stageTimeout limits all steps that stage a volume, one of which is a check or format.
const stageTimeout = mounter.CheckTimeout + time.Hour

// NodeStageVolume prepares a volume for Pods. It activates the device, opens it if it is encrypted, creates a file
// system if there never was one, checks it, mounts it, and expands it to the size of the device. It refuses to mount
// the file system of a suspended volume. A block volume that is suspended is refused when it is published.
func (s *NodeServer) NodeStageVolume(ctx context.Context,
	request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := s.stageVolume(ctx, request, s.stageUnlessSuspended); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// step stages an active volume.
type step func(ctx context.Context, v volume.Volume, staging string, request *csi.NodeStageVolumeRequest) error

func (s *NodeServer) stageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest, stage step) error {
	staging := request.GetStagingTargetPath()
	capability := request.GetVolumeCapability()
	if err := service.CheckRequest(request.GetVolumeId(), staging, "staging_target_path", capability); err != nil {
		return err
	}
	if s.Staging != nil {
		if err := s.Staging.BeforeStaging(ctx, request.GetVolumeId(), staging); err != nil {
			return err
		}
	}
	if err := s.Locks.Enter(request.GetVolumeId()); err != nil {
		return err
	}
	v, err := s.volumes.Active(ctx, request.GetVolumeId())
	if err == nil {
		err = s.Locks.TakeFailure(request.GetVolumeId())
	}
	if err != nil {
		s.Locks.Leave(request.GetVolumeId())
		return err
	}
	if capability.GetMount() == nil {
		stage = s.stageBlock
	}
	return s.stageToItsEnd(ctx, v, staging, request, stage)
}

// stageToItsEnd stages a volume and ends the work on it. A program that processes a whole device can take longer than
// the timeout of the kubelet for a call (2 minutes). It continues when the call ends, so that the next call does not
// start it again. The call then returns Aborted, and the next call returns the error of the program, if any.
func (s *NodeServer) stageToItsEnd(ctx context.Context, v volume.Volume, staging string,
	request *csi.NodeStageVolumeRequest, stage step) error {
	result := make(chan error, 1)
	go func() {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), stageTimeout)
		defer cancel()
		detached, end := liveness.Begin(detached, "staging of volume "+v.ID)
		defer end()
		err := stage(detached, v, staging, request)
		if ctx.Err() == nil {
			s.Locks.Leave(v.ID)
			result <- err
			return
		}
		log.FromContext(ctx).Info("staging ended after the end of its call", "volume", v.ID, "device",
			v.LV.Path, "cause", err)
		if err != nil {
			s.Locks.LeaveFailed(v.ID, err)
		} else {
			s.Locks.Leave(v.ID)
		}
	}()
	defer liveness.Busy(ctx)()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return status.Errorf(codes.Aborted,
			"volume %s (%s) on node %s was not ready before the timeout of this call: %s; staging continues",
			v.ID, v.LV.Path, s.Node, s.Locks.State(v.ID))
	}
}

// stageBlock opens an encrypted block volume.
func (s *NodeServer) stageBlock(ctx context.Context, v volume.Volume, _ string,
	request *csi.NodeStageVolumeRequest) error {
	return s.encryption.Open(ctx, &v, request)
}

// NodeUnstageVolume unmounts a volume that no Pod uses, and closes it if it is encrypted. It succeeds if the volume was
// never staged.
func (s *NodeServer) NodeUnstageVolume(ctx context.Context,
	request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	id, staging := request.GetVolumeId(), request.GetStagingTargetPath()
	if err := s.unmount(ctx, id, staging, "staging_target_path", unmounting{after: s.endStaging}); err != nil {
		return nil, err
	}
	s.reportUnstaged(id)
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// endStaging ends what staging a volume began, except the mount.
func (s *NodeServer) endStaging(ctx context.Context, id, staging string) error {
	if err := s.encryption.Close(ctx, id); err != nil || s.Staging == nil {
		return err
	}
	return s.Staging.Unstaged(ctx, id, staging)
}

// NodeExpandVolume expands the mapped device of an encrypted volume, and the file system, to the size of the logical
// volume. It does not need the key.
func (s *NodeServer) NodeExpandVolume(ctx context.Context,
	request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if err := checkExpansion(request); err != nil {
		return nil, err
	}
	path := request.GetVolumePath()
	if err := s.Locks.Enter(request.GetVolumeId()); err != nil {
		return nil, err
	}
	defer s.Locks.Leave(request.GetVolumeId())
	v, err := s.volumes.Active(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := v.RequireOpen(s.Node, nil); err != nil {
		return nil, err
	}
	if err := s.encryption.Resize(ctx, v); err != nil {
		return nil, err
	}
	number, err := s.system.BackingDevice(path)
	if err != nil {
		return nil, status.Errorf(codeOfPath(err), "find the device of volume %s at %s: %v", v.ID, path, err)
	}
	if number != v.Number() {
		return nil, status.Errorf(codes.FailedPrecondition, "%s on node %s is device %s, not volume %s", path,
			s.Node, number, v.ID)
	}
	mounted, err := s.system.Mounted(path)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "check the mount of volume %s: %v", v.ID, err)
	}
	if mounted == v.Number() {
		if err := s.stager.growMounted(ctx, v, path, true); err != nil {
			return nil, err
		}
	}
	return &csi.NodeExpandVolumeResponse{}, nil
}

// checkExpansion returns InvalidArgument for a request that the CSI specification does not allow.
func checkExpansion(request *csi.NodeExpandVolumeRequest) error {
	r := request.GetCapacityRange()
	switch {
	case request.GetVolumeId() == "":
		return status.Error(codes.InvalidArgument, "volume_id is required")
	case request.GetVolumePath() == "":
		return status.Error(codes.InvalidArgument, "volume_path is required")
	case r.GetRequiredBytes() < 0 || r.GetLimitBytes() < 0 ||
		r.GetLimitBytes() > 0 && r.GetLimitBytes() < r.GetRequiredBytes():
		return status.Errorf(codes.InvalidArgument, "invalid capacity_range: required_bytes %d, limit_bytes %d",
			r.GetRequiredBytes(), r.GetLimitBytes())
	}
	return nil
}

// reportUnstaged reports that a volume is no longer staged, so that a fence that is requested is set at once: its Pods
// wait for it. If too many volumes are reported at once, fencing.Reconciler examines the volume after fencing.Retry.
func (s *NodeServer) reportUnstaged(id string) {
	lv := &topolvmv1.LogicalVolume{Status: topolvmv1.LogicalVolumeStatus{VolumeID: id}}
	select {
	case s.unstaged <- event.GenericEvent{Object: lv}:
	default:
	}
}
