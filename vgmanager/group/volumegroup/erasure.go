package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// This file erases logical volumes that no object of the cluster has before they are removed, as the reconciler of
// LogicalVolumes does with those of deleted claims: no later volume must show their data.

// erasing is returned while volumes are erased before their removal. It is not a failure.
type erasing struct{ text string }

func (e *erasing) Error() string { return e.text }

// eraseAndRemove erases logical volumes if their class requires that, one after the other, and removes those for which
// this is complete. It returns the names of those that it removed, and *erasing if volumes are left. The caller has
// checked that nothing needs them.
func (r *Reconciler) eraseAndRemove(ctx context.Context, w plan.Desired, vg *lvm.VG,
	volumes []string) (removed []string, left error) {
	if _, published := r.Classes.Class(w.Name); !published {
		return nil, &erasing{fmt.Sprintf("device class %s is not set up on node %s yet", w.Name, w.Node)}
	}
	var ready []string
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if !slices.Contains(volumes, lv.UUID) {
			continue
		}
		progress, err := r.Classes.EraseVolume(ctx, r.Eraser, w.Name, lv.Name)
		if err != nil {
			left = fmt.Errorf("logical volume %s/%s on node %s: %s", w.Name, lv.Name, w.Node,
				status.Convert(err).Message())
			break
		}
		if progress != "" {
			r.erasing[w.Name] = []string{lv.Name}
			left = &erasing{fmt.Sprintf("%s/%s: %s", w.Name, lv.Name, progress)}
			break
		}
		ready, removed = append(ready, lv.UUID), append(removed, lv.Name)
	}
	if len(ready) == 0 {
		return nil, left
	}
	if err := r.LVM.Apply(ctx, lvm.LVRemoveByUUID{VG: w.Name, UUIDs: ready}); err != nil {
		return nil, err
	}
	return removed, left
}

// stopErasing stops to erase the volumes of a volume group that are not removed now: their recovery was deleted, an
// object of the cluster has them again, or this is not known.
func (r *Reconciler) stopErasing(ctx context.Context, group string, removing []string) error {
	var kept []string
	var errs []error
	for _, name := range r.erasing[group] {
		key := engine.EraseKey(group, name)
		if slices.Contains(removing, name) && r.Eraser.Running(key) {
			kept = append(kept, name)
			continue
		}
		if err := r.Eraser.Stop(ctx, key); err != nil {
			kept = append(kept, name)
			errs = append(errs, err)
		}
	}
	r.erasing[group] = kept
	return errors.Join(errs...)
}
