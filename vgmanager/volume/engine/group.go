package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

// This file has what the engine does for groups of snapshots (package groupsnapshot): it creates pending snapshots,
// and makes them usable when the group is complete. If the group fails, they are removed like other volumes.

// isPending returns whether a volume is a snapshot of a group that is not complete. Its data must not be used.
func isPending(lv *lvm.LV) bool { return slices.Contains(lv.Tags, groupsnapshot.PendingTag) }

// pendingError is the error of a request that would use a pending snapshot.
func (l classView) pendingError(lv *lvm.LV) error {
	return status.Errorf(codes.Aborted, "logical volume %s/%s is a snapshot of a group that is not complete",
		l.vg.Name, lv.Name)
}

// PrepareSnapshot creates a pending snapshot for a group. It is inactive, and its data is not that of the group until
// groupsnapshot.Node.Take. The checks and codes are those of CreateLVSnapshot. The snapshot has the size of its source:
// any other size is InvalidArgument. If it is pending already, it is not an error; if it is complete, the code is
// AlreadyExists.
func (e *Engine) PrepareSnapshot(ctx context.Context, in *proto.CreateLVSnapshotRequest) error {
	if err := checkSnapshotRequest(in); err != nil {
		return err
	}
	leave, err := e.enter(ctx, in.GetDeviceClass())
	if err != nil {
		return err
	}
	defer leave()
	return e.withFreshRetry(ctx, in.GetDeviceClass(), func(l classView) error { return e.prepareIn(ctx, l, in) })
}

func (e *Engine) prepareIn(ctx context.Context, l classView, in *proto.CreateLVSnapshotRequest) error {
	if lv := l.volume(in.GetName()); lv != nil && isPending(lv) && lv.Origin == in.GetSourceVolume() {
		return nil
	}
	present, err := e.present(ctx, l, in.GetName())
	if err != nil {
		return err
	}
	if present != nil {
		return status.Errorf(codes.AlreadyExists,
			"logical volume %s/%s already exists, and is not a pending snapshot of %s",
			l.vg.Name, present.Name, in.GetSourceVolume())
	}
	source, size, err := l.admitSnapshot(in)
	if err != nil {
		return err
	}
	if size != source.Size {
		return status.Errorf(codes.InvalidArgument,
			"a snapshot of a group has the size of its source %s/%s, %d bytes, not %d",
			l.vg.Name, source.Name, source.Size, size)
	}
	release, err := e.hold(ctx, l, source)
	if err != nil {
		return err
	}
	release() // The data of the group is taken later.
	err = e.createSnapshot(ctx, l, lvm.LVCreateSnapshot{
		VG: l.vg.Name, Source: source.Name, Name: in.GetName(), ReadOnly: in.GetAccessType() == "ro", Inactive: true,
		Tags: append(inherited(in.GetTags(), source), groupsnapshot.PendingTag),
	})
	if err != nil {
		return statusOf(err)
	}
	log.FromContext(ctx).Info("created a pending snapshot of a group", "deviceClass", l.class.Name, "lv", in.GetName(),
		"source", source.Name, "size", int64(size))
	e.watchers.notify()
	return nil
}

// KeepSnapshot makes a pending snapshot usable, because its group is complete: it is activated, and then loses the tag.
// The tags that it has inherited are of an earlier moment than its data, so the same commit replaces them. If it is not
// pending, it is not an error. It returns NotFound if the snapshot does not exist.
func (e *Engine) KeepSnapshot(ctx context.Context, class, name string) error {
	return e.upkeep(ctx, class, name, func(l classView) error {
		snapshot := l.volume(name)
		if !isPending(snapshot) {
			return nil
		}
		err := e.lvm.Apply(ctx, lvm.LVAllowActivation{VG: l.vg.Name, Name: name})
		if err == nil {
			err = e.lvm.Apply(ctx, lvm.LVActivate{VG: l.vg.Name, Name: name})
		}
		if err == nil {
			err = e.retag(ctx, l, snapshot, name, l.inheritedLater(snapshot), func(tag string) bool {
				return tag == groupsnapshot.PendingTag || isContentTag(tag)
			})
		}
		if err != nil {
			return statusOf(fmt.Errorf("complete snapshot %s/%s of a group: %w", l.vg.Name, name, err))
		}
		return nil
	})
}

// VolumeGroup returns the volume group of a device class. It returns NotFound if the node does not have the class.
func (e *Engine) VolumeGroup(class string) (string, error) {
	c, known := e.classes.Load().find(class)
	if !known {
		return "", status.Errorf(codes.NotFound, "device class %q is not set up on this node", class)
	}
	return c.VolumeGroup, nil
}
