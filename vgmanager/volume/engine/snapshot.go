package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// Snapshotter creates snapshots, also those of groups. If a group fails, they are removed like other volumes.
type Snapshotter struct {
	*node
	// holdUnformatted keeps the formatting of a volume from beginning, or is nil (HoldUnformattedWith).
	holdUnformatted func(name, uuid string, tags []string) (release func(), err error)
}

// NewSnapshot describes a snapshot to create.
type NewSnapshot struct {
	// Class is the device class, "" for the default one. Source is the name of the volume.
	Class, Name, Source string
	// Size is in bytes, 0 for the size of the source.
	Size int64
	// ReadOnly is for a CSI snapshot; a restore or a clone is writable.
	ReadOnly bool
	Tags     []string
}

// IsReadOnly returns true for TopoLVM's access type "ro", that of a CSI snapshot, and false for "rw", that of a restore
// or a clone.
func IsReadOnly(accessType string) (bool, error) {
	if accessType != "ro" && accessType != "rw" {
		return false, fault.New(fault.InvalidArgument, `access type is %q, want "ro" or "rw"`, accessType)
	}
	return accessType == "ro", nil
}

// CreateLVSnapshot creates a thin snapshot, which can be larger than its source. It counts with its full size against
// the capacity, like any volume, because every block of it can be overwritten.
//
// Reasons: NotFound (class, source), Unimplemented (thick), OutOfRange (smaller than the source), ResourceExhausted,
// InvalidArgument, AlreadyExists, and those of fault.Of.
func (s *Snapshotter) CreateLVSnapshot(ctx context.Context, in NewSnapshot) (*lvm.LV, error) {
	if err := checkSnapshotRequest(in); err != nil {
		return nil, err
	}
	var made *lvm.LV
	err := s.admitted(ctx, in.Class, func(v view.Class) (err error) {
		made, err = s.snapshotIn(ctx, v, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (s *Snapshotter) snapshotIn(ctx context.Context, v view.Class, in NewSnapshot) (*lvm.LV, error) {
	present, err := s.present(ctx, v, in.Name)
	if err != nil {
		return nil, err
	}
	if present != nil {
		return s.existingSnapshot(ctx, v, present, in)
	}
	source, size, err := admitSnapshot(v, in)
	if err != nil {
		return nil, err
	}
	release, err := s.hold(ctx, v, source)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.snapshot(ctx, v, in, source, size); err != nil {
		return nil, fault.Of(err)
	}
	log.FromContext(ctx).Info("created a snapshot", "deviceClass", v.Config.Name, "lv", in.Name, "source",
		source.Name, "size", int64(size))
	s.watchers.Changed()
	return &lvm.LV{Name: in.Name, Size: size}, nil
}

// admitSnapshot returns the source and the size of a new snapshot, or why it cannot be created.
func admitSnapshot(v view.Class, in NewSnapshot) (*lvm.LV, lvm.Bytes, error) {
	source, size, err := sourceOf(v, in)
	if err != nil {
		return nil, 0, err
	}
	if err := v.Open(); err != nil {
		return nil, 0, err
	}
	if err := v.AdmitNamespace(in.Tags, size); err != nil {
		return nil, 0, err
	}
	if err := v.RefuseThinSpread(in.Tags); err != nil {
		return nil, 0, err
	}
	return source, size, v.AdmitThin(size)
}

func checkSnapshotRequest(in NewSnapshot) error {
	if err := checkName(in.Name); err != nil {
		return err
	}
	if in.Size < 0 {
		return fault.New(fault.InvalidArgument, "invalid size of a snapshot: %d", in.Size)
	}
	return nil
}

// sourceOf returns the source volume of a snapshot and the requested size.
func sourceOf(v view.Class, in NewSnapshot) (*lvm.LV, lvm.Bytes, error) {
	if v.Pool == nil {
		return nil, 0, fault.New(fault.Unimplemented,
			"device class %s is thick: only thin volumes support snapshots", v.Config.Name)
	}
	source := v.Volume(in.Source)
	if source == nil {
		return nil, 0, fault.New(fault.NotFound, "source %s/%s not found", v.VG.Name, in.Source)
	}
	if isPending(source) {
		return nil, 0, pendingError(v, source)
	}
	if source.PoolName != v.Pool.Name {
		return nil, 0, fault.New(fault.Unimplemented, "source %s/%s is not in the thin pool %s", v.VG.Name,
			source.Name, v.Pool.Name)
	}
	if in.Size == 0 {
		return source, source.Size, nil
	}
	size := lvm.Bytes(in.Size).RoundUp(v.VG.ExtentSize)
	if size < source.Size {
		return nil, 0, fault.New(fault.OutOfRange, "%d bytes are requested, but the source %s has %d",
			in.Size, source.Name, source.Size)
	}
	return source, size, nil
}

// existingSnapshot handles a request for a snapshot that exists. It extends the snapshot if an earlier process was
// killed before it did. The source may no longer exist.
func (s *Snapshotter) existingSnapshot(ctx context.Context, v view.Class, present *lvm.LV,
	in NewSnapshot) (*lvm.LV, error) {
	if err := unlessCopying(v, present); err != nil {
		return nil, err
	}
	size := lvm.Bytes(in.Size).RoundUp(v.VG.ExtentSize)
	ours := v.Pool != nil && present.PoolName == v.Pool.Name &&
		(present.Origin == "" || present.Origin == in.Source)
	if !ours {
		return nil, fault.New(fault.AlreadyExists, "logical volume %s/%s already exists with other properties",
			v.VG.Name, present.Name)
	}
	if present.Size >= size {
		return present, s.reload(ctx, v, present)
	}
	if err := v.AdmitNamespace(present.Tags, size-present.Size); err != nil {
		return nil, err
	}
	if _, err := v.AdmitGrowth(present, size-present.Size); err != nil {
		return nil, err
	}
	if err := s.lvm.Apply(ctx, lvm.LVExtend{VG: v.VG.Name, Name: present.Name, Size: size}); err != nil {
		return nil, fault.Of(err)
	}
	s.watchers.Changed()
	return &lvm.LV{Name: present.Name, Size: size}, nil
}

// inherited returns the tags of a snapshot. It includes the tags of the source that describe the content of the
// volume.
func inherited(tags []string, source *lvm.LV) []string {
	tags = slices.Clone(tags)
	for _, tag := range source.Tags {
		if lvtag.IsCopied(tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// inheritedLater returns the tags of a snapshot that describe its content, some time after it got its data. The source
// now has the same state as the data or a later one, so data is never taken for a volume that may be formatted. Without
// the source, the snapshot loses the tag that permits formatting.
func inheritedLater(v view.Class, snapshot *lvm.LV) []string {
	if source := v.Volume(snapshot.Origin); source != nil {
		return inherited(nil, source)
	}
	return slices.DeleteFunc(inherited(nil, snapshot), func(tag string) bool { return tag == wellknown.NewTag })
}

// snapshot creates the snapshot and extends it. If the extension fails, it removes the snapshot, so that a retry
// starts from the beginning.
func (s *Snapshotter) snapshot(ctx context.Context, v view.Class, in NewSnapshot, source *lvm.LV,
	to lvm.Bytes) error {
	err := s.createSnapshot(ctx, v, lvm.LVCreateSnapshot{
		VG: v.VG.Name, Source: source.Name, Name: in.Name, ReadOnly: in.ReadOnly,
		Tags: inherited(in.Tags, source),
	})
	if err != nil || to == source.Size {
		return err
	}
	err = s.lvm.Apply(ctx, lvm.LVExtend{VG: v.VG.Name, Name: in.Name, Size: to})
	if err == nil {
		return nil
	}
	if undo := s.lvm.Apply(ctx, lvm.LVRemove{VG: v.VG.Name, Names: []string{in.Name}}); undo != nil {
		return errors.Join(err, fmt.Errorf("the snapshot was not removed: %w", undo))
	}
	return err
}

// createSnapshot creates a snapshot. LVM refuses it if the pool has a thin device with its ID, which LVM does not know:
// then createSnapshot removes this thin device, and tries again.
func (s *Snapshotter) createSnapshot(ctx context.Context, v view.Class, o lvm.LVCreateSnapshot) error {
	err := s.lvm.Apply(ctx, o)
	if !errors.Is(err, lvm.ErrLeftover) {
		return err
	}
	if failed := s.dropLeftover(ctx, v); failed != nil {
		return errors.Join(err, failed)
	}
	return s.lvm.Apply(ctx, o)
}

// leftoverName is the name of the volume of dropLeftover. No LogicalVolume has it.
const leftoverName = "lvms-leftover"

// dropLeftover removes the thin device that LVM does not know and whose ID the next new volume gets. It creates a
// volume, for which LVM accepts the device, and removes it with its data.
func (s *Snapshotter) dropLeftover(ctx context.Context, v view.Class) error {
	log.FromContext(ctx).Info("removing a thin device that LVM does not know", "deviceClass", v.Config.Name, "lv",
		leftoverName)
	err := s.lvm.Apply(ctx, lvm.LVCreateThin{VG: v.VG.Name, Pool: v.Pool.Name, PoolZeroes: true,
		Name: leftoverName, VirtualSize: v.VG.ExtentSize})
	if err != nil && !errors.Is(err, lvm.ErrExists) { // It exists if this was interrupted before.
		return err
	}
	return s.lvm.Apply(ctx, lvm.LVRemove{VG: v.VG.Name, Names: []string{leftoverName}})
}
