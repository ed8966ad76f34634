package volumegroup

import (
	"context"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// replacement is the result of a search in LVM's archive for volumes that a volume group does not have.
type replacement struct {
	uuid   string
	absent []string
	found  plan.Replaced
}

// replaced finds out whether a volume group lacks volumes of the API because its metadata was replaced with that of an
// earlier time. It starts processes only if volumes are absent, and once for the same volumes. absent must have been
// read before, so that a volume that is created meanwhile does not count.
func (r *Reconciler) replaced(ctx context.Context, w plan.Desired, vg *lvm.VG, absent []string) plan.Replaced {
	if len(absent) == 0 || vg.MissingPVs > 0 || len(vg.PVs) == 0 {
		delete(r.replacements, w.Name)
		return plan.Replaced{}
	}
	slices.Sort(absent)
	if last := r.replacements[w.Name]; last.uuid == vg.UUID && slices.Equal(last.absent, absent) {
		return last.found
	}
	delete(r.replacements, w.Name)
	present, err := r.LVM.ReadMetadata(ctx, vg.PVs[0].Name)
	if err != nil {
		return plan.Replaced{Err: err}
	}
	if present.UUID != vg.UUID {
		return plan.Replaced{Err: fmt.Errorf("device %s has a physical volume of another volume group", vg.PVs[0].Name)}
	}
	later, _, err := r.LVM.FindMetadata(ctx, w.Name, plan.WasReplaced(present, absent))
	if err != nil {
		return plan.Replaced{Err: err}
	}
	found := plan.NewReplaced(present, later, absent)
	r.replacements[w.Name] = replacement{vg.UUID, absent, found}
	return found
}
