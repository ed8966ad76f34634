package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// CreateLVSnapshot creates a thin snapshot. It is read-only (access type "ro") for a CSI snapshot, or writable ("rw")
// for a restore or a clone, which can be larger than its source. Size 0 selects the size of the source. A snapshot
// counts with its full size against the capacity, like any volume, because every block of it can be overwritten.
//
// Codes: NotFound (class, source), Unimplemented (thick), OutOfRange (smaller than the source), ResourceExhausted,
// InvalidArgument, AlreadyExists, and the codes of codeTable.
func (e *Engine) CreateLVSnapshot(ctx context.Context,
	in *proto.CreateLVSnapshotRequest) (*proto.CreateLVSnapshotResponse, error) {
	if err := checkSnapshotRequest(in); err != nil {
		return nil, err
	}
	leave, err := e.enter(ctx, in.GetDeviceClass())
	if err != nil {
		return nil, err
	}
	defer leave()
	var made *proto.LogicalVolume
	err = e.withFreshRetry(ctx, in.GetDeviceClass(), func(l classView) (err error) {
		made, err = e.snapshotIn(ctx, l, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &proto.CreateLVSnapshotResponse{Snapshot: made}, nil
}

func (e *Engine) snapshotIn(ctx context.Context, l classView,
	in *proto.CreateLVSnapshotRequest) (*proto.LogicalVolume, error) {
	present, err := e.present(ctx, l, in.GetName())
	if err != nil {
		return nil, err
	}
	if present != nil {
		return e.existingSnapshot(ctx, l, present, in)
	}
	source, size, err := l.admitSnapshot(in)
	if err != nil {
		return nil, err
	}
	release, err := e.hold(ctx, l, source)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := e.snapshot(ctx, l, in, source, size); err != nil {
		return nil, statusOf(err)
	}
	log.FromContext(ctx).Info("created a snapshot", "deviceClass", l.class.Name, "lv", in.GetName(), "source",
		source.Name, "size", int64(size))
	e.watchers.notify()
	return &proto.LogicalVolume{Name: in.GetName(), SizeBytes: int64(size)}, nil
}

// admitSnapshot returns the source and the size of a new snapshot, or why it cannot be created.
func (l classView) admitSnapshot(in *proto.CreateLVSnapshotRequest) (*lvm.LV, lvm.Bytes, error) {
	source, size, err := l.source(in)
	if err != nil {
		return nil, 0, err
	}
	if err := l.open(); err != nil {
		return nil, 0, err
	}
	if err := l.admitNamespace(in.GetTags(), size); err != nil {
		return nil, 0, err
	}
	if err := l.refuseThinSpread(in.GetTags()); err != nil {
		return nil, 0, err
	}
	return source, size, l.admitThin(size)
}

func checkSnapshotRequest(in *proto.CreateLVSnapshotRequest) error {
	if err := checkName(in.GetName()); err != nil {
		return err
	}
	if in.GetSizeBytes() < 0 {
		return status.Errorf(codes.InvalidArgument, "invalid size of a snapshot: %d", in.GetSizeBytes())
	}
	if access := in.GetAccessType(); access != "ro" && access != "rw" {
		return status.Errorf(codes.InvalidArgument, `access type is %q, want "ro" or "rw"`, access)
	}
	return nil
}

// source returns the source volume of a snapshot and the requested size.
func (l classView) source(in *proto.CreateLVSnapshotRequest) (*lvm.LV, lvm.Bytes, error) {
	if l.pool == nil {
		return nil, 0, status.Errorf(codes.Unimplemented,
			"device class %s is thick: only thin volumes support snapshots", l.class.Name)
	}
	source := l.volume(in.GetSourceVolume())
	if source == nil {
		return nil, 0, status.Errorf(codes.NotFound, "source %s/%s not found", l.vg.Name, in.GetSourceVolume())
	}
	if isPending(source) {
		return nil, 0, l.pendingError(source)
	}
	if source.PoolName != l.pool.Name {
		return nil, 0, status.Errorf(codes.Unimplemented, "source %s/%s is not in the thin pool %s", l.vg.Name,
			source.Name, l.pool.Name)
	}
	if in.GetSizeBytes() == 0 {
		return source, source.Size, nil
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	if size < source.Size {
		return nil, 0, status.Errorf(codes.OutOfRange, "%d bytes are requested, but the source %s has %d",
			in.GetSizeBytes(), source.Name, source.Size)
	}
	return source, size, nil
}

// existingSnapshot handles a request for a snapshot that exists. It extends the snapshot if an earlier process was
// killed before it did. The source may no longer exist.
func (e *Engine) existingSnapshot(ctx context.Context, l classView, present *lvm.LV,
	in *proto.CreateLVSnapshotRequest) (*proto.LogicalVolume, error) {
	if err := unlessCopying(l, present); err != nil {
		return nil, err
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	ours := l.pool != nil && present.PoolName == l.pool.Name &&
		(present.Origin == "" || present.Origin == in.GetSourceVolume())
	if !ours {
		return nil, status.Errorf(codes.AlreadyExists, "logical volume %s/%s already exists with other properties",
			l.vg.Name, present.Name)
	}
	if present.Size >= size {
		return message(present), e.reload(ctx, l, present)
	}
	if err := l.admitNamespace(present.Tags, size-present.Size); err != nil {
		return nil, err
	}
	if _, err := l.admitGrowth(present, size-present.Size); err != nil {
		return nil, err
	}
	if err := e.lvm.Apply(ctx, lvm.LVExtend{VG: l.vg.Name, Name: present.Name, Size: size}); err != nil {
		return nil, statusOf(err)
	}
	e.watchers.notify()
	return &proto.LogicalVolume{Name: present.Name, SizeBytes: int64(size)}, nil
}

// formatTags is the prefix of FormattedTagPrefix and FormattingTagPrefix.
const formatTags = "lvms.format"

// isContentTag reports whether a tag says whether a volume has a file system, or is not used yet. These tags only
// change from new to formatting, and then to formatted or used.
func isContentTag(tag string) bool { return tag == TagNew || strings.HasPrefix(tag, formatTags) }

// isCopied reports whether a tag that describes the content of a volume also applies to a copy. FormattingTagPrefix
// does not: in earlier versions, it could be older than the data of the copy, which would be formatted.
func isCopied(tag string) bool {
	return isContentTag(tag) && !strings.HasPrefix(tag, FormattingTagPrefix)
}

// inherited returns the tags of a snapshot. It includes the tags of the source that describe the content of the
// volume.
func inherited(tags []string, source *lvm.LV) []string {
	tags = slices.Clone(tags)
	for _, tag := range source.Tags {
		if isCopied(tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// inheritedLater returns the tags of a snapshot that describe its content, some time after it got its data. The source
// now has the same state as the data or a later one, so data is never taken for a volume that may be formatted. Without
// the source, the snapshot loses the tag that permits formatting.
func (l classView) inheritedLater(snapshot *lvm.LV) []string {
	if source := l.volume(snapshot.Origin); source != nil {
		return inherited(nil, source)
	}
	return slices.DeleteFunc(inherited(nil, snapshot), func(tag string) bool { return tag == TagNew })
}

// snapshot creates the snapshot and extends it. If the extension fails, it removes the snapshot, so that a retry
// starts from the beginning.
func (e *Engine) snapshot(ctx context.Context, l classView, in *proto.CreateLVSnapshotRequest, source *lvm.LV,
	to lvm.Bytes) error {
	err := e.createSnapshot(ctx, l, lvm.LVCreateSnapshot{
		VG: l.vg.Name, Source: source.Name, Name: in.GetName(), ReadOnly: in.GetAccessType() == "ro",
		Tags: inherited(in.GetTags(), source),
	})
	if err != nil || to == source.Size {
		return err
	}
	err = e.lvm.Apply(ctx, lvm.LVExtend{VG: l.vg.Name, Name: in.GetName(), Size: to})
	if err == nil {
		return nil
	}
	if undo := e.lvm.Apply(ctx, lvm.LVRemove{VG: l.vg.Name, Names: []string{in.GetName()}}); undo != nil {
		return errors.Join(err, fmt.Errorf("the snapshot was not removed: %w", undo))
	}
	return err
}
