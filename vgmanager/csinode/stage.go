package csinode

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// rootMode is the mode of the root directory of a new file system. Every Pod can write to it, and new files get the
// group of the directory. It is set once, so that later changes by the owner remain.
const rootMode = 0o777 | os.ModeSetgid

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
type step func(ctx context.Context, v volume, staging string, request *csi.NodeStageVolumeRequest) error

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
	if err := s.locks.Enter(request.GetVolumeId()); err != nil {
		return err
	}
	v, err := s.device(ctx, request.GetVolumeId())
	if err == nil {
		err = s.locks.TakeFailure(request.GetVolumeId())
	}
	if err != nil {
		s.locks.Leave(request.GetVolumeId())
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
func (s *NodeServer) stageToItsEnd(ctx context.Context, v volume, staging string,
	request *csi.NodeStageVolumeRequest, stage step) error {
	result := make(chan error, 1)
	go func() {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), stageTimeout)
		defer cancel()
		err := stage(detached, v, staging, request)
		if ctx.Err() == nil {
			s.locks.Leave(v.id)
			result <- err
			return
		}
		log.FromContext(ctx).Info("staging ended after the end of its call", "volume", v.id, "device",
			v.lv.GetPath(), "cause", err)
		if err != nil {
			s.locks.LeaveFailed(v.id, err)
		} else {
			s.locks.Leave(v.id)
		}
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return status.Errorf(codes.Aborted,
			"volume %s (%s) on node %s was not ready before the timeout of this call: %s; staging continues",
			v.id, v.lv.GetPath(), s.Node, s.locks.State(v.id))
	}
}

func (s *NodeServer) stage(ctx context.Context, v volume, staging string, request *csi.NodeStageVolumeRequest) error {
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return status.Errorf(codes.Internal, "create mount point %s: %v", staging, err)
	}
	mounted, err := s.disks.mounted(staging)
	if err != nil {
		return status.Errorf(codes.Internal, "check the mount of volume %s: %v", v.id, err)
	}
	if mounted != (deviceNumber{}) && mounted != numberOf(v) {
		return status.Errorf(codes.Internal, "%s is a mount point of device %s, not of volume %s",
			staging, mounted, v.id)
	}
	kind, isNew := "", v.isFormatting()
	if mounted == (deviceNumber{}) {
		if err := s.openVolume(ctx, &v, request); err != nil {
			return err
		}
		if kind, isNew, err = s.mountFileSystem(ctx, &v, staging, request); err != nil {
			return err
		}
	} else if isNew {
		if kind, err = s.mountedKind(ctx, v); err != nil {
			return err
		}
	}
	if isNew {
		// The root directory gets its mode before a tag marks the file system as complete.
		if err := s.disks.setMode(staging, rootMode); err != nil {
			return status.Errorf(codes.Internal, "set the mode of the root directory of volume %s on node %s: %v",
				v.id, s.Node, err)
		}
		return s.formatted(ctx, v, kind)
	}
	if err := s.growStaged(ctx, v, staging, request); err != nil {
		return err
	}
	if err := s.noteFileSystem(ctx, v, kind); err != nil {
		return err
	}
	return s.forget(v.id)
}

// mountedKind returns the type of the new file system that an agent mounted before it ended.
func (s *NodeServer) mountedKind(ctx context.Context, v volume) (string, error) {
	found, err := s.disks.probe(ctx, v.path())
	if err == nil && !found.fileSystem {
		err = fmt.Errorf("it is mounted, but has %q", found.kind)
	}
	if err != nil {
		return "", status.Errorf(codes.Internal, "volume %s (%s) on node %s: read its new file system: %v", v.id,
			v.path(), s.Node, err)
	}
	return found.kind, nil
}

// noteFileSystem tags a volume whose file system this version did not create: it was taken over, or an older version
// created it. With the tag the volume is not formatted even if a later probe finds it blank. kind is "" if it was
// already mounted.
func (s *NodeServer) noteFileSystem(ctx context.Context, v volume, kind string) error {
	if _, noted := v.tagged(v1alpha1.FormattedTagPrefix); noted {
		return s.markUsed(ctx, v)
	}
	if kind == "" {
		if found, err := s.disks.probe(ctx, v.path()); err == nil && found.fileSystem {
			kind = found.kind
		}
	}
	if kind == "" {
		return s.markUsed(ctx, v)
	}
	old := v.unusedTags()
	err := s.Volumes.TagLV(ctx, v.class, v.id, []string{v1alpha1.FormattedTagPrefix + kind}, old)
	if err != nil && len(old) > 0 {
		return fmt.Errorf("tag volume %s on node %s as used: %w", v.id, s.Node, err)
	}
	if err != nil {
		// A user waits for the data on the volume. The next call tags it.
		log.FromContext(ctx).Info("cannot tag a logical volume as formatted", "volume", v.id,
			"cause", err.Error())
	}
	return nil
}

// mountFileSystem mounts the file system of a volume, and creates it if necessary. It returns its type, and whether it
// is new.
func (s *NodeServer) mountFileSystem(ctx context.Context, v *volume, staging string,
	request *csi.NodeStageVolumeRequest) (kind string, isNew bool, err error) {
	capability := request.GetVolumeCapability()
	path := v.path()
	found, err := s.contentOf(ctx, *v)
	if v.isNewContainer {
		// Random data can look like the signature of something.
		found = content{}
	}
	if err != nil {
		// It is unknown whether the volume is blank, so do not format or mount it.
		return "", false, status.Errorf(codes.Internal, "volume %s (%s) on node %s cannot be read: %v", v.id,
			path, s.Node, err)
	}
	readOnly := readsOnly(capability)
	d, err := decide(*v, found, capability.GetMount().GetFsType(), readOnly)
	if err != nil {
		return "", false, err
	}
	if d.format {
		options, err := service.MkfsOptions(d.fileSystem,
			request.GetVolumeContext()[v1alpha1.MkfsOptionsParameter])
		if err != nil {
			return "", false, err
		}
		if err := s.format(ctx, v, d.fileSystem, options); err != nil {
			return "", false, err
		}
	} else if err := s.check(ctx, *v, d.fileSystem); err != nil {
		return "", false, status.Errorf(codes.FailedPrecondition,
			"the %s file system of volume %s (%s) on node %s is broken: %v: %s", d.fileSystem, v.id, path, s.Node, err,
			service.Volume{Class: v.class, Name: v.id}.RepairAdvice(s.Node))
	}
	options := slices.Concat(capability.GetMount().GetMountFlags(), service.FileSystems[d.fileSystem].MountOptions)
	if readOnly {
		options = append(options, "ro")
	}
	if err := s.disks.mount(ctx, path, staging, d.fileSystem, options); err != nil {
		return "", false, status.Errorf(codes.Internal, "mount volume %s (%s) on node %s: %v", v.id, path, s.Node, err)
	}
	return d.fileSystem, d.format, nil
}

// growStaged expands the file system of a volume that is staged read-write. A copy may be larger than its source, and a
// volume may have been expanded while it was not in use. An agent that ended after the mount may not have done so, and
// neither has a call that failed.
func (s *NodeServer) growStaged(ctx context.Context, v volume, staging string,
	request *csi.NodeStageVolumeRequest) error {
	if readsOnly(request.GetVolumeCapability()) {
		return nil
	}
	return s.growMounted(ctx, v, staging, false)
}

// growMounted expands a mounted file system to the size of its device.
func (s *NodeServer) growMounted(ctx context.Context, v volume, path string, always bool) error {
	if err := s.disks.grow(ctx, v.path(), path, always); err != nil {
		return status.Errorf(codes.Internal, "expand the file system of volume %s (%s) on node %s: %v", v.id, v.path(),
			s.Node, err)
	}
	return nil
}

// contentOf returns the content of a volume. A new volume whose ends have only zeros is blank: blkid finds signatures
// only at the ends of a device.
func (s *NodeServer) contentOf(ctx context.Context, v volume) (content, error) {
	if v.isNew() && !v.isEncrypted() {
		if zero, err := s.disks.isZero(v.path()); err != nil || zero {
			return content{}, err
		}
	}
	return s.disks.probe(ctx, v.path())
}

// format creates a file system, after a record that the content of the volume is not data until it is complete.
func (s *NodeServer) format(ctx context.Context, v *volume, fileSystem string, options []string) error {
	if err := s.beginFormatting(ctx, v); err != nil {
		return err
	}
	command := service.MkfsCommand(fileSystem, options)
	s.locks.Running(v.id, strings.Join(append(slices.Clone(command), v.path()), " "))
	defer s.locks.Running(v.id, "")
	if err := s.disks.format(ctx, command, v.path()); err != nil {
		return status.Errorf(codes.Internal, "format volume %s (%s) on node %s: %v", v.id, v.path(), s.Node, err)
	}
	return nil
}

func (s *NodeServer) check(ctx context.Context, v volume, fileSystem string) error {
	s.locks.Running(v.id, "the check of the file system on "+v.path())
	defer s.locks.Running(v.id, "")
	return s.disks.check(ctx, v.path(), fileSystem)
}

// content is the content of a device.
type content struct {
	// kind is the name that libblkid uses, such as "ext4" or "crypto_LUKS"; "" for a blank device.
	kind string
	// fileSystem reports whether the content can be mounted.
	fileSystem bool
}

// decision is what NodeStageVolume does with a volume.
type decision struct {
	fileSystem string
	format     bool
}

// decide implements the rule that protects data: it allows formatting only for a volume that was read, is blank, and
// never had a file system.
func decide(v volume, found content, want string, readOnly bool) (decision, error) {
	formatted, was := v.tagged(v1alpha1.FormattedTagPrefix)
	begun := v.isFormatting()
	if want == "" {
		want = service.DefaultFileSystem
		if found.fileSystem && !begun {
			want = found.kind
		}
	}
	_, known := service.FileSystems[want]
	switch {
	case found.kind == "" && was:
		return decision{}, status.Errorf(codes.DataLoss,
			"volume %s had a file system (%s) and no longer has one, and is not formatted a second time: check its "+
				"disks, and restore it from a snapshot or a backup", v.id, formatted)
	case begun && !was || found.kind == "":
		if !known {
			return decision{}, status.Errorf(codes.InvalidArgument,
				"volume %s: file system %s is not supported: use %s", v.id, want, service.Supported())
		}
		if readOnly {
			return decision{}, status.Errorf(codes.FailedPrecondition,
				"volume %s has no file system yet, and is requested read-only: mount it read-write first", v.id)
		}
		return decision{fileSystem: want, format: true}, nil
	case !found.fileSystem:
		return decision{}, status.Errorf(codes.FailedPrecondition,
			"volume %s contains %s, which is not a file system: use it as a block volume; if its data is not "+
				"needed, run on the node: wipefs --all %s", v.id, found.kind, v.path())
	case found.kind != want:
		return decision{}, status.Errorf(codes.FailedPrecondition,
			"volume %s has the file system %s, but %s is requested: correct csi.storage.k8s.io/fstype of the "+
				"StorageClass; nothing is formatted a second time", v.id, found.kind, want)
	}
	return decision{fileSystem: want}, nil
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
	if err := s.closeVolume(ctx, id); err != nil || s.Staging == nil {
		return err
	}
	return s.Staging.Unstaged(ctx, id, staging)
}

// NodeExpandVolume expands the mapped device of an encrypted volume, and the file system, to the size of the logical
// volume. It does not need the key.
func (s *NodeServer) NodeExpandVolume(ctx context.Context,
	request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	path := request.GetVolumePath()
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	if path == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_path is required")
	}
	if r := request.GetCapacityRange(); r.GetRequiredBytes() < 0 || r.GetLimitBytes() < 0 ||
		r.GetLimitBytes() > 0 && r.GetLimitBytes() < r.GetRequiredBytes() {
		return nil, status.Errorf(codes.InvalidArgument, "invalid capacity_range: required_bytes %d, limit_bytes %d",
			r.GetRequiredBytes(), r.GetLimitBytes())
	}
	if err := s.locks.Enter(request.GetVolumeId()); err != nil {
		return nil, err
	}
	defer s.locks.Leave(request.GetVolumeId())
	v, err := s.device(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := s.requireOpen(v, nil); err != nil {
		return nil, err
	}
	if err := s.resizeVolume(ctx, v); err != nil {
		return nil, err
	}
	number, err := s.disks.backingDevice(path)
	if err != nil {
		return nil, status.Errorf(codeOfPath(err), "find the device of volume %s at %s: %v", v.id, path, err)
	}
	if number != numberOf(v) {
		return nil, status.Errorf(codes.FailedPrecondition, "%s on node %s is device %s, not volume %s", path,
			s.Node, number, v.id)
	}
	mounted, err := s.disks.mounted(path)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "check the mount of volume %s: %v", v.id, err)
	}
	if mounted == numberOf(v) {
		if err := s.growMounted(ctx, v, path, true); err != nil {
			return nil, err
		}
	}
	return &csi.NodeExpandVolumeResponse{}, nil
}
