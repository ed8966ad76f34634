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

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/encryption"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
)

// rootMode is the mode of the root directory of a new file system. Every Pod can write to it, and new files get the
// group of the directory. It is set once, so that later changes by the owner remain.
const rootMode = 0o777 | os.ModeSetgid

// fileSystemTools work on the file systems of devices.
type fileSystemTools interface {
	// Probe reads a device and returns its content. After an error the content is unknown.
	Probe(ctx context.Context, path string) (mounter.Content, error)
	// IsZero reads both ends of a device, and reports whether they have only zeros. It starts no process.
	IsZero(path string) (bool, error)
	Format(ctx context.Context, mkfs []string, path string) error
	// Check repairs what can be repaired automatically, and returns an error for other damage.
	Check(ctx context.Context, path, fileSystem string) error
	// Grow expands a mounted file system to the size of its device. Unless always is true, it does nothing if the file
	// system is known to have this size, or cannot be expanded. It does not end with its context.
	Grow(ctx context.Context, device, path string, always bool) error
}

// stager creates, checks, mounts and expands the file systems of volumes.
type stager struct {
	node       string
	volumes    *volume.Finder
	encryption *encryption.Encryption
	locks      *service.Locks
	system     interface {
		mountTable
		mounts
		fileSystemTools
	}
}

func (s *stager) stage(ctx context.Context, v volume.Volume, staging string,
	request *csi.NodeStageVolumeRequest) error {
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return status.Errorf(codes.Internal, "create mount point %s: %v", staging, err)
	}
	mounted, err := s.system.Mounted(staging)
	if err != nil {
		return status.Errorf(codes.Internal, "check the mount of volume %s: %v", v.ID, err)
	}
	if mounted != (mounter.Number{}) && mounted != v.Number() {
		return status.Errorf(codes.Internal, "%s is a mount point of device %s, not of volume %s",
			staging, mounted, v.ID)
	}
	kind, isNew := "", v.IsFormatting()
	if mounted == (mounter.Number{}) {
		if err := s.encryption.Open(ctx, &v, request); err != nil {
			return err
		}
		if kind, isNew, err = s.mountFileSystem(ctx, &v, staging, request); err != nil {
			return err
		}
	} else if err := checkStaged(v, request.GetVolumeCapability().GetMount().GetFsType()); err != nil {
		return err
	} else if isNew {
		if kind, err = s.mountedKind(ctx, v); err != nil {
			return err
		}
	}
	if isNew {
		// The root directory gets its mode before a tag marks the file system as complete.
		if err := s.system.SetMode(staging, rootMode); err != nil {
			return status.Errorf(codes.Internal, "set the mode of the root directory of volume %s on node %s: %v",
				v.ID, s.node, err)
		}
		return s.volumes.Formatted(ctx, v, kind)
	}
	if err := s.growStaged(ctx, v, staging, request); err != nil {
		return err
	}
	if err := s.noteFileSystem(ctx, v, kind); err != nil {
		return err
	}
	return s.volumes.Forget(v.ID)
}

// checkStaged returns AlreadyExists if a volume that is mounted has another file system than the one that is requested
// (CSI specification, NodeStageVolume). A volume without the tag has the file system that an older version created.
func checkStaged(v volume.Volume, want string) error {
	if kind, known := v.Tagged(wellknown.FormattedTagPrefix); known && want != "" && kind != want {
		return status.Error(codes.AlreadyExists, otherFileSystem(v, kind, want))
	}
	return nil
}

func otherFileSystem(v volume.Volume, kind, want string) string {
	return fmt.Sprintf("volume %s has the file system %s, but %s is requested: correct csi.storage.k8s.io/fstype of "+
		"the StorageClass; nothing is formatted a second time", v.ID, kind, want)
}

// mountedKind returns the type of the new file system that an agent mounted before it ended.
func (s *stager) mountedKind(ctx context.Context, v volume.Volume) (string, error) {
	found, err := s.system.Probe(ctx, v.Path())
	if err == nil && !found.FileSystem {
		err = fmt.Errorf("it is mounted, but has %q", found.Kind)
	}
	if err != nil {
		return "", status.Errorf(codes.Internal, "volume %s (%s) on node %s: read its new file system: %v", v.ID,
			v.Path(), s.node, err)
	}
	return found.Kind, nil
}

// noteFileSystem tags a volume whose file system this version did not create: it was taken over, or an older version
// created it. With the tag the volume is not formatted even if a later probe finds it blank. kind is "" if it was
// already mounted.
func (s *stager) noteFileSystem(ctx context.Context, v volume.Volume, kind string) error {
	if _, noted := v.Tagged(wellknown.FormattedTagPrefix); noted {
		return s.volumes.MarkUsed(ctx, v)
	}
	if kind == "" {
		if found, err := s.system.Probe(ctx, v.Path()); err == nil && found.FileSystem {
			kind = found.Kind
		}
	}
	if kind == "" {
		return s.volumes.MarkUsed(ctx, v)
	}
	old := v.UnusedTags()
	err := s.volumes.LVM.TagLV(ctx, v.Class, v.ID, []string{wellknown.FormattedTagPrefix + kind}, old)
	if err != nil && len(old) > 0 {
		return fmt.Errorf("tag volume %s on node %s as used: %w", v.ID, s.node, err)
	}
	if err != nil {
		// A user waits for the data on the volume. The next call tags it.
		log.FromContext(ctx).Info("cannot tag a logical volume as formatted", "volume", v.ID,
			"cause", err.Error())
	}
	return nil
}

// mountFileSystem mounts the file system of a volume, and creates it if necessary. It returns its type, and whether it
// is new.
func (s *stager) mountFileSystem(ctx context.Context, v *volume.Volume, staging string,
	request *csi.NodeStageVolumeRequest) (kind string, isNew bool, err error) {
	capability := request.GetVolumeCapability()
	path := v.Path()
	found, err := s.contentOf(ctx, *v)
	if v.IsNewContainer {
		// Random data can look like the signature of something.
		found = mounter.Content{}
	}
	if err != nil {
		// It is unknown whether the volume is blank, so do not format or mount it.
		return "", false, status.Errorf(codes.Internal, "volume %s (%s) on node %s cannot be read: %v", v.ID,
			path, s.node, err)
	}
	readOnly := volume.ReadsOnly(capability)
	d, err := decide(*v, found, capability.GetMount().GetFsType(), readOnly)
	if err != nil {
		return "", false, err
	}
	if d.format {
		options, err := service.MkfsOptions(d.fileSystem,
			request.GetVolumeContext()[wellknown.MkfsOptionsParameter])
		if err != nil {
			return "", false, err
		}
		if err := s.format(ctx, v, d.fileSystem, options); err != nil {
			return "", false, err
		}
	} else if err := s.check(ctx, *v, d.fileSystem); err != nil {
		return "", false, status.Errorf(codes.FailedPrecondition,
			"the %s file system of volume %s (%s) on node %s is broken: %v: %s", d.fileSystem, v.ID, path, s.node, err,
			service.Volume{Class: v.Class, Name: v.ID}.RepairAdvice(s.node))
	}
	options := slices.Concat(capability.GetMount().GetMountFlags(), service.FileSystems[d.fileSystem].MountOptions)
	if readOnly {
		options = append(options, "ro")
	}
	if err := s.system.Mount(ctx, path, staging, d.fileSystem, options); err != nil {
		return "", false, status.Errorf(codes.Internal, "mount volume %s (%s) on node %s: %v", v.ID, path, s.node, err)
	}
	return d.fileSystem, d.format, nil
}

// growStaged expands the file system of a volume that is staged read-write. A copy may be larger than its source, and a
// volume may have been expanded while it was not in use. An agent that ended after the mount may not have done so, and
// neither has a call that failed.
func (s *stager) growStaged(ctx context.Context, v volume.Volume, staging string,
	request *csi.NodeStageVolumeRequest) error {
	if volume.ReadsOnly(request.GetVolumeCapability()) {
		return nil
	}
	return s.growMounted(ctx, v, staging, false)
}

// growMounted expands a mounted file system to the size of its device.
func (s *stager) growMounted(ctx context.Context, v volume.Volume, path string, always bool) error {
	if err := s.system.Grow(ctx, v.Path(), path, always); err != nil {
		return status.Errorf(codes.Internal, "expand the file system of volume %s (%s) on node %s: %v", v.ID, v.Path(),
			s.node, err)
	}
	return nil
}

// contentOf returns the content of a volume. A new volume whose ends have only zeros is blank: blkid finds signatures
// only at the ends of a device.
func (s *stager) contentOf(ctx context.Context, v volume.Volume) (mounter.Content, error) {
	if v.IsNew() && !v.IsEncrypted() {
		if zero, err := s.system.IsZero(v.Path()); err != nil || zero {
			return mounter.Content{}, err
		}
	}
	return s.system.Probe(ctx, v.Path())
}

// format creates a file system, after a record that the content of the volume is not data until it is complete.
func (s *stager) format(ctx context.Context, v *volume.Volume, fileSystem string, options []string) error {
	if err := s.volumes.BeginFormatting(ctx, v); err != nil {
		return err
	}
	command := service.MkfsCommand(fileSystem, options)
	s.locks.Running(v.ID, strings.Join(append(slices.Clone(command), v.Path()), " "))
	defer s.locks.Running(v.ID, "")
	if err := s.system.Format(ctx, command, v.Path()); err != nil {
		return status.Errorf(codes.Internal, "format volume %s (%s) on node %s: %v", v.ID, v.Path(), s.node, err)
	}
	return nil
}

func (s *stager) check(ctx context.Context, v volume.Volume, fileSystem string) error {
	s.locks.Running(v.ID, "the check of the file system on "+v.Path())
	defer s.locks.Running(v.ID, "")
	return s.system.Check(ctx, v.Path(), fileSystem)
}

// decision is what NodeStageVolume does with a volume.
type decision struct {
	fileSystem string
	format     bool
}

// decide implements the rule that protects data: it allows formatting only for a volume that was read, is blank, and
// never had a file system.
func decide(v volume.Volume, found mounter.Content, want string, readOnly bool) (decision, error) {
	formatted, was := v.Tagged(wellknown.FormattedTagPrefix)
	begun := v.IsFormatting()
	if want == "" {
		want = service.DefaultFileSystem
		if found.FileSystem && !begun {
			want = found.Kind
		}
	}
	_, known := service.FileSystems[want]
	switch {
	case found.Kind == "" && was:
		return decision{}, status.Errorf(codes.DataLoss,
			"volume %s had a file system (%s) and no longer has one, and is not formatted a second time: check its "+
				"disks, and restore it from a snapshot or a backup", v.ID, formatted)
	case begun && !was || found.Kind == "":
		if !known {
			return decision{}, status.Errorf(codes.InvalidArgument,
				"volume %s: file system %s is not supported: use %s", v.ID, want, service.Supported())
		}
		if readOnly {
			return decision{}, status.Errorf(codes.FailedPrecondition,
				"volume %s has no file system yet, and is requested read-only: mount it read-write first", v.ID)
		}
		return decision{fileSystem: want, format: true}, nil
	case !found.FileSystem:
		return decision{}, status.Errorf(codes.FailedPrecondition,
			"volume %s contains %s, which is not a file system: use it as a block volume; if its data is not "+
				"needed, run on the node: wipefs --all %s", v.ID, found.Kind, v.Path())
	case found.Kind != want:
		return decision{}, status.Error(codes.FailedPrecondition, otherFileSystem(v, found.Kind, want))
	}
	return decision{fileSystem: want}, nil
}
