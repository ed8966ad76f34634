package restore

import (
	"context"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Replacement is the result of a search in LVM's archive for volumes that a volume group does not have.
type Replacement struct {
	uuid   string
	absent []string
	found  state.Replaced
}

// replaced finds out whether a volume group lacks volumes of the API because its metadata was replaced with that of an
// earlier time. It starts processes only if volumes are absent, and once for the same volumes. absent must have been
// read before, so that a volume that is created meanwhile does not count.
func (t *Restores) replaced(ctx context.Context, d state.Desired, vg *lvm.VG, absent []string) state.Replaced {
	if len(absent) == 0 || vg.MissingPVs > 0 || len(vg.PVs) == 0 {
		delete(t.Replacements, d.Name)
		return state.Replaced{}
	}
	slices.Sort(absent)
	if last := t.Replacements[d.Name]; last.uuid == vg.UUID && slices.Equal(last.absent, absent) {
		return last.found
	}
	delete(t.Replacements, d.Name)
	present, err := t.LVM.ReadMetadata(ctx, vg.PVs[0].Name)
	if err != nil {
		return state.Replaced{Err: err}
	}
	if present.UUID != vg.UUID {
		return state.Replaced{Err: fmt.Errorf("device %s has a physical volume of another volume group",
			vg.PVs[0].Name)}
	}
	later, _, err := t.LVM.FindMetadata(ctx, d.Name, doubt.WasReplaced(present, absent))
	if err != nil {
		return state.Replaced{Err: err}
	}
	found := doubt.NewReplaced(present, later, absent)
	t.Replacements[d.Name] = Replacement{vg.UUID, absent, found}
	return found
}
