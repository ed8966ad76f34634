// Package restore restores labels and metadata of volume groups, and remembers the changes of the metadata that were
// seen.
package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/rollback"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/poolmetadata"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/classes"
)

// LVM reads and writes LVM's metadata.
type LVM interface {
	Metadata
	Apply(ctx context.Context, c lvm.Change) error
	LabelCheck(ctx context.Context, device string) error
}

// Metadata reads LVM's text metadata.
type Metadata interface {
	ReadBackup(ctx context.Context, vg string) (*textmeta.Metadata, error)
	ReadArchive(ctx context.Context, vg, uuid string) (*textmeta.Metadata, error)
	ReadMetadata(ctx context.Context, device string) (*textmeta.Metadata, error)
	FindMetadata(ctx context.Context, vg string, fits func(*textmeta.Metadata) string) (*textmeta.Metadata,
		[]string, error)
}

// Devices reads the block devices of the node.
type Devices interface {
	List(ctx context.Context) ([]device.Device, error)
	Content(ctx context.Context, d device.Device) ([]device.Signature, []device.Reason)
}

// Restores restore labels and metadata of the volume groups of this node.
type Restores struct {
	LVM      LVM
	Devices  Devices
	Objects  *clusterobjects.Objects
	Pools    *poolmetadata.Pools
	StateDir string
	// Sequences has the highest change of each volume group that was seen.
	Sequences *Sequences
	// Verified are the UUIDs of physical volumes whose restored headers were checked, by volume group.
	Verified map[string][]string
	// Replacements has what is known about metadata that was replaced, by volume group.
	Replacements map[string]Replacement
}

// Observe reads what is known about LVM's metadata of the volume group at other times.
func (t *Restores) Observe(ctx context.Context, d state.Desired, s state.NodeState) (state.Metadata, error) {
	m, vg := s.Metadata, ownership.GroupOf(d, s)
	if d.Open.Action == v1alpha1.RecoveryRestoreMetadata && vg == nil && s.Before.UUID != "" {
		m.Archive.Metadata, m.Archive.Err = t.LVM.ReadArchive(ctx, d.Name, s.Before.UUID)
	}
	if d.Open.Action == v1alpha1.RecoveryRestoreLabels && vg == nil {
		m.Backup.Metadata, m.Backup.Err = t.LVM.ReadBackup(ctx, d.Name)
	}
	if d.Open.Action != v1alpha1.RecoveryRestoreLabels {
		delete(t.Verified, d.Name)
	}
	m.Verified = slices.Clone(t.Verified[d.Name])
	if vg == nil {
		return m, nil
	}
	var err error
	if m.Rollback, err = t.rollback(ctx, d, s, vg); err != nil {
		return m, err
	}
	absent, err := t.Objects.Absent(ctx, d, vg)
	if err != nil {
		return m, err
	}
	m.Replaced = t.replaced(ctx, d, vg, absent)
	if thinpool.LacksPool(d, s, vg) {
		m.Absent = absent
	}
	return m, nil
}

// rollback reads what a recovery needs that restores the metadata of a volume group that exists.
func (t *Restores) rollback(ctx context.Context, d state.Desired, s state.NodeState,
	vg *lvm.VG) (state.Rollback, error) {
	if d.Open.Action != v1alpha1.RecoveryRestoreMetadata {
		return state.Rollback{}, nil
	}
	r := &s.Metadata.Rollback
	var err error
	if r.Absent, err = t.Objects.Absent(ctx, d, vg); err != nil || !rollback.NeedsEarlierMetadata(d, s) {
		return *r, err
	}
	r.Present, r.Earlier, r.Rejected, r.Err = t.earlierMetadata(ctx, d, s)
	return *r, nil
}

// earlierMetadata reads the present metadata of a volume group and the newest earlier one that fits.
func (t *Restores) earlierMetadata(ctx context.Context, d state.Desired, s state.NodeState) (present,
	earlier *textmeta.Metadata, rejected []string, err error) {
	if present, err = t.LVM.ReadMetadata(ctx, ownership.GroupOf(d, s).PVs[0].Name); err != nil {
		return nil, nil, nil, err
	}
	s.Metadata.Rollback.Present = present
	earlier, rejected, err = t.LVM.FindMetadata(ctx, d.Name, rollback.FitsRollback(d, s))
	return present, earlier, rejected, err
}

// StartRestore restores earlier metadata of a volume group that exists. It reads everything again that the approved
// plan is based on, in the same call. The metadata of a thin pool can take hours to read, so this runs in the
// background.
func (t *Restores) StartRestore(ctx context.Context, d state.Desired, s state.NodeState) error {
	if d.Spec.ThinPoolConfig == nil {
		return t.restoreEarlier(ctx, d, s)
	}
	vg, planned := ownership.GroupOf(d, s), s.Pool.Inspection
	target, err := poolmetadata.MetadataOf(d, vg)
	if err != nil {
		return err
	}
	t.Pools.InBackground(ctx, d, vg, target, func(ctx context.Context) (state.PoolInspection, bool) {
		now := t.Pools.Inspect(ctx, d.Name, d.Spec.ThinPoolConfig.Name, target)
		if now.Err != nil || !reflect.DeepEqual(now, *planned) {
			return now, true
		}
		if err := t.restoreEarlier(ctx, d, s); err != nil {
			return state.PoolInspection{Err: err}, true
		}
		return state.PoolInspection{}, false
	})
	return nil
}

// restoreEarlier compares the present and the earlier metadata with those of the plan again, and restores the earlier
// one from a copy, because LVM can replace its backup. It also keeps a copy of the present metadata.
func (t *Restores) restoreEarlier(ctx context.Context, d state.Desired, s state.NodeState) error {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	present, earlier, _, err := t.earlierMetadata(ctx, d, s)
	if err != nil {
		return fmt.Errorf("%s: read its metadata again: %w", where, err)
	}
	planned := s.Metadata.Rollback
	if earlier == nil || present.Digest != planned.Present.Digest || earlier.Digest != planned.Earlier.Digest {
		return fmt.Errorf("%s: its metadata, or LVM's archive of it, has changed since it was planned", where)
	}
	if err := t.keepPresent(ctx, d, s); err != nil {
		return fmt.Errorf("%s: copy its present metadata: %w", where, err)
	}
	file := filepath.Join(t.StateDir, "earlier-"+d.Name+".vg")
	if err := classes.ReplaceFile(file, earlier.Text); err != nil {
		return fmt.Errorf("%s: copy its earlier metadata: %w", where, err)
	}
	err = t.LVM.Apply(ctx, lvm.MetadataRestore{VG: d.Name, UUID: ownership.GroupOf(d, s).UUID, File: file})
	if err != nil {
		return err
	}
	if err := t.Sequences.Restart(d.Name, ownership.GroupOf(d, s).UUID, s.Before); err != nil {
		return err
	}
	return os.Remove(file)
}

// keepPresent copies the present metadata of a volume group to a file on the node.
func (t *Restores) keepPresent(ctx context.Context, d state.Desired, s state.NodeState) error {
	file := filepath.Join(t.StateDir, "replaced-"+d.Name+".vg")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := t.LVM.Apply(ctx, lvm.MetadataDump{Device: ownership.GroupOf(d, s).PVs[0].Name, File: file}); err != nil {
		return err
	}
	_, err := os.Stat(file)
	return err
}
