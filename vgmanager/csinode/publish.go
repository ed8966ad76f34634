package csinode

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
)

// publisher creates the bind mounts at the target paths of Pods.
type publisher struct {
	volumes *volume.Finder
	table   mountTable
	mounts  mounts
}

// checkAlone refuses to publish a volume for a single writer at a second target. A repeated call for the first target
// succeeds.
func (p *publisher) checkAlone(v volume.Volume, target, staging string) error {
	points, err := p.table.MountPoints(v.Number())
	if err != nil {
		return status.Errorf(codes.Internal, "read the mounts of volume %s: %v", v.ID, err)
	}
	if slices.Contains(points, target) {
		return nil
	}
	if at := slices.IndexFunc(points, func(p string) bool { return p != staging }); at >= 0 {
		return status.Errorf(codes.FailedPrecondition, "volume %s allows a single writer, and is already "+
			"published at %s", v.ID, points[at])
	}
	return nil
}

func (p *publisher) publishBlock(ctx context.Context, v volume.Volume, target string, options []string) error {
	err := p.volumes.MarkUsed(ctx, v)
	if err == nil {
		err = p.volumes.Forget(v.ID)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return status.Errorf(codes.Internal, "create the directory of %s: %v", target, err)
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o640)
	if err != nil {
		return status.Errorf(codes.Internal, "create mount point %s: %v", target, err)
	}
	_ = file.Close()
	return p.bind(ctx, v, v.Path(), target, options)
}

// publishMount creates a bind mount of the staged file system. If the file system is not mounted, it returns an error:
// otherwise the Pod would write to a disk of the node.
func (p *publisher) publishMount(ctx context.Context, v volume.Volume, staging, target string, options []string) error {
	mounted, err := p.table.Mounted(staging)
	if err != nil {
		return status.Errorf(codes.Internal, "check the mount of volume %s: %v", v.ID, err)
	}
	if mounted != v.Number() {
		return status.Errorf(codes.FailedPrecondition, "volume %s is not mounted at %s", v.ID, staging)
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return status.Errorf(codes.Internal, "create mount point %s: %v", target, err)
	}
	return p.bind(ctx, v, staging, target, options)
}

// bind creates a bind mount, unless it exists: the kubelet repeats a call whose response was lost. A mount of an agent
// that ended before it made it read-only is completed.
func (p *publisher) bind(ctx context.Context, v volume.Volume, source, target string, options []string) error {
	there, err := p.table.IsMountPoint(target)
	if err != nil {
		return status.Errorf(codes.Internal, "check mount point %s: %v", target, err)
	}
	if there {
		number, err := p.table.BackingDevice(target)
		if err == nil && number == v.Number() {
			return p.complete(ctx, v, source, target, options)
		}
		return status.Errorf(codes.Internal, "%s is a mount point, but not of volume %s (device %s, %v)", target,
			v.ID, number, err)
	}
	if err := p.mounts.Mount(ctx, source, target, "", options); err != nil {
		return status.Errorf(codes.Internal, "mount volume %s at %s: %v", v.ID, target, err)
	}
	return nil
}

func (p *publisher) complete(ctx context.Context, v volume.Volume, source, target string, options []string) error {
	if !slices.Contains(options, "ro") {
		return nil
	}
	if err := p.mounts.SetReadOnly(ctx, source, target); err != nil {
		return status.Errorf(codes.Internal, "remount volume %s at %s read-only: %v", v.ID, target, err)
	}
	return nil
}
