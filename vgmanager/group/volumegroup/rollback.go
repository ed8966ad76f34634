package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/classes"
)

// rollback reads what a recovery needs that restores the metadata of a volume group that exists.
func (r *Reconciler) rollback(ctx context.Context, w plan.Desired, s plan.NodeState) (plan.Rollback, error) {
	vg := plan.GroupOf(w, s)
	if !w.RestoringGroup || vg == nil {
		return plan.Rollback{}, nil
	}
	var err error
	if s.Rollback.Absent, err = r.absent(ctx, w, vg); err != nil || !plan.NeedsEarlierMetadata(w, s) {
		return s.Rollback, err
	}
	s.Rollback.Present, s.Rollback.Earlier, s.Rollback.Rejected, s.Rollback.Err = r.earlierMetadata(ctx, w, s)
	return s.Rollback, nil
}

// absent returns the names of the volumes of a device class that the volume group does not have. A failed read is an
// error, so that no volume is called present.
func (r *Reconciler) absent(ctx context.Context, w plan.Desired, vg *lvm.VG) ([]string, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	var names []string
	for i := range list.Items {
		v := &list.Items[i]
		ours := v.Spec.NodeName == r.Node &&
			(v.Spec.DeviceClass == w.Name || v.Spec.DeviceClass == "" && w.Spec.Default)
		if ours && v.Status.VolumeID != "" && v.DeletionTimestamp.IsZero() && vg.LV(v.Status.VolumeID) == nil {
			names = append(names, v.Status.VolumeID)
		}
	}
	return names, nil
}

// earlierMetadata reads the present metadata of a volume group and the newest earlier one that fits.
func (r *Reconciler) earlierMetadata(ctx context.Context, w plan.Desired, s plan.NodeState) (present,
	earlier *textmeta.Metadata, rejected []string, err error) {
	if present, err = r.LVM.ReadMetadata(ctx, plan.GroupOf(w, s).PVs[0].Name); err != nil {
		return nil, nil, nil, err
	}
	s.Rollback.Present = present
	earlier, rejected, err = r.LVM.FindMetadata(ctx, w.Name, plan.FitsRollback(w, s))
	return present, earlier, rejected, err
}

// startRestore restores earlier metadata of a volume group that exists. It reads everything again that the approved
// plan is based on, in the same call. The metadata of a thin pool can take hours to read, so this runs in the
// background.
func (r *Reconciler) startRestore(ctx context.Context, w plan.Desired, s plan.NodeState) error {
	if w.Spec.ThinPoolConfig == nil {
		return r.restoreEarlier(ctx, w, s)
	}
	vg, planned := plan.GroupOf(w, s), s.Inspection
	target, err := metadataOf(w, vg)
	if err != nil {
		return err
	}
	r.inBackground(ctx, w, vg, target, func(ctx context.Context) (plan.PoolInspection, bool) {
		now := r.inspect(ctx, w.Name, w.Spec.ThinPoolConfig.Name, target)
		if now.Err != nil || !reflect.DeepEqual(now, *planned) {
			return now, true
		}
		if err := r.restoreEarlier(ctx, w, s); err != nil {
			return plan.PoolInspection{Err: err}, true
		}
		return plan.PoolInspection{}, false
	})
	return nil
}

// restoreEarlier compares the present and the earlier metadata with those of the plan again, and restores the earlier
// one from a copy, because LVM can replace its backup. It also keeps a copy of the present metadata.
func (r *Reconciler) restoreEarlier(ctx context.Context, w plan.Desired, s plan.NodeState) error {
	where := fmt.Sprintf("volume group %s on node %s", w.Name, w.Node)
	present, earlier, _, err := r.earlierMetadata(ctx, w, s)
	if err != nil {
		return fmt.Errorf("%s: read its metadata again: %w", where, err)
	}
	if earlier == nil || present.Digest != s.Rollback.Present.Digest || earlier.Digest != s.Rollback.Earlier.Digest {
		return fmt.Errorf("%s: its metadata, or LVM's archive of it, has changed since it was planned", where)
	}
	if err := r.keepPresent(ctx, w, s); err != nil {
		return fmt.Errorf("%s: copy its present metadata: %w", where, err)
	}
	file := filepath.Join(r.StateDir, "earlier-"+w.Name+".vg")
	if err := classes.ReplaceFile(file, earlier.Text); err != nil {
		return fmt.Errorf("%s: copy its earlier metadata: %w", where, err)
	}
	err = r.LVM.Apply(ctx, lvm.MetadataRestore{VG: w.Name, UUID: plan.GroupOf(w, s).UUID, File: file})
	if err != nil {
		return err
	}
	if err := r.sequences.restart(w.Name, plan.GroupOf(w, s).UUID, s.Before); err != nil {
		return err
	}
	return os.Remove(file)
}

// keepPresent copies the present metadata of a volume group to a file on the node.
func (r *Reconciler) keepPresent(ctx context.Context, w plan.Desired, s plan.NodeState) error {
	file := filepath.Join(r.StateDir, "replaced-"+w.Name+".vg")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := r.LVM.Apply(ctx, lvm.MetadataDump{Device: plan.GroupOf(w, s).PVs[0].Name, File: file}); err != nil {
		return err
	}
	_, err := os.Stat(file)
	return err
}
