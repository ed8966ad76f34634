package engine

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

// This file has what the engine does for groups of snapshots (package groupsnapshot): it creates pending snapshots,
// and makes them usable when the group is complete.

// isPending returns whether a volume is a snapshot of a group that is not complete. Its data must not be used.
func isPending(lv *lvm.LV) bool { return slices.Contains(lv.Tags, groupsnapshot.PendingTag) }

// pendingError is the error of a request that would use a pending snapshot.
func pendingError(v view.Class, lv *lvm.LV) error {
	return fault.New(fault.Aborted, "logical volume %s/%s is a snapshot of a group that is not complete",
		v.VG.Name, lv.Name)
}

// PrepareSnapshot creates a pending snapshot for a group. It is inactive, and its data is not that of the group until
// groupsnapshot.Node.Take. The checks and codes are those of CreateLVSnapshot. The snapshot has the size of its source:
// any other size is InvalidArgument. If it is pending already, it is not an error; if it is complete, the code is
// AlreadyExists.
func (s *Snapshotter) PrepareSnapshot(ctx context.Context, in NewSnapshot) error {
	if err := checkSnapshotRequest(in); err != nil {
		return err
	}
	return s.admitted(ctx, in.Class, func(v view.Class) error { return s.prepareIn(ctx, v, in) })
}

func (s *Snapshotter) prepareIn(ctx context.Context, v view.Class, in NewSnapshot) error {
	if lv := v.Volume(in.Name); lv != nil && isPending(lv) && lv.Origin == in.Source {
		return nil
	}
	present, err := s.present(ctx, v, in.Name)
	if err != nil {
		return err
	}
	if present != nil {
		return fault.New(fault.AlreadyExists,
			"logical volume %s/%s already exists, and is not a pending snapshot of %s",
			v.VG.Name, present.Name, in.Source)
	}
	source, size, err := admitSnapshot(v, in)
	if err != nil {
		return err
	}
	if size != source.Size {
		return fault.New(fault.InvalidArgument,
			"a snapshot of a group has the size of its source %s/%s, %d bytes, not %d",
			v.VG.Name, source.Name, source.Size, size)
	}
	release, err := s.hold(ctx, v, source)
	if err != nil {
		return err
	}
	release() // The data of the group is taken later.
	err = s.createSnapshot(ctx, v, lvm.LVCreateSnapshot{
		VG: v.VG.Name, Source: source.Name, Name: in.Name, ReadOnly: in.ReadOnly, Inactive: true,
		Tags: append(inherited(in.Tags, source), groupsnapshot.PendingTag),
	})
	if err != nil {
		return fault.Of(err)
	}
	log.FromContext(ctx).Info("created a pending snapshot of a group", "deviceClass", v.Config.Name, "lv", in.Name,
		"source", source.Name, "size", int64(size))
	s.watchers.Changed()
	return nil
}

// KeepSnapshot makes a pending snapshot usable, because its group is complete: it is activated, and then loses the tag.
// The tags that it has inherited are of an earlier moment than its data, so the same commit replaces them. If it is not
// pending, it is not an error. It returns NotFound if the snapshot does not exist.
func (s *Snapshotter) KeepSnapshot(ctx context.Context, class, name string) error {
	return s.onVolume(ctx, class, name, func(v view.Class, snapshot *lvm.LV) error {
		if !isPending(snapshot) {
			return nil
		}
		err := s.lvm.Apply(ctx, lvm.LVAllowActivation{VG: v.VG.Name, Name: name})
		if err == nil {
			err = s.lvm.Apply(ctx, lvm.LVActivate{VG: v.VG.Name, Name: name})
		}
		if err == nil {
			err = s.retag(ctx, v, snapshot, name, inheritedLater(v, snapshot), func(tag string) bool {
				return tag == groupsnapshot.PendingTag || lvtag.IsContent(tag)
			})
		}
		if err != nil {
			return fault.Of(fmt.Errorf("complete snapshot %s/%s of a group: %w", v.VG.Name, name, err))
		}
		return nil
	})
}
