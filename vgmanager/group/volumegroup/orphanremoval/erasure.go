package orphanremoval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/orphans"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// Erasing is returned while volumes are erased before their removal. It is not a failure.
type Erasing struct{ Text string }

func (e *Erasing) Error() string { return e.Text }

// eraseAndRemove erases logical volumes if their class requires that, one after the other, and removes those for which
// this is complete. It returns the names of those that it removed, and *erasing if volumes are left. The caller has
// checked that nothing needs them.
func (p *Removal) eraseAndRemove(ctx context.Context, d state.Desired, vg *lvm.VG,
	volumes []string) (removed []string, left error) {
	if _, published := p.Classes.Class(d.Name); !published {
		return nil, &Erasing{fmt.Sprintf("device class %s is not set up on node %s yet", d.Name, d.Node)}
	}
	var ready []string
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if !slices.Contains(volumes, lv.UUID) {
			continue
		}
		progress, err := p.Classes.EraseVolume(ctx, p.Eraser, d.Name, lv.Name)
		if err != nil {
			left = fmt.Errorf("logical volume %s/%s on node %s: %s", d.Name, lv.Name, d.Node,
				status.Convert(err).Message())
			break
		}
		if progress != "" {
			p.Erasing[d.Name] = []string{lv.Name}
			left = &Erasing{fmt.Sprintf("%s/%s: %s", d.Name, lv.Name, progress)}
			break
		}
		ready, removed = append(ready, lv.UUID), append(removed, lv.Name)
	}
	if len(ready) == 0 {
		return nil, left
	}
	if err := p.LVM.Apply(ctx, lvm.LVRemoveByUUID{VG: d.Name, UUIDs: ready}); err != nil {
		return nil, err
	}
	return removed, left
}

// StopErasing stops to erase the volumes of a volume group that are not removed now: their recovery was deleted, an
// object of the cluster has them again, or this is not known.
func (p *Removal) StopErasing(ctx context.Context, group string, removing []string) error {
	var kept []string
	var errs []error
	for _, name := range p.Erasing[group] {
		key := engine.EraseKey(group, name)
		if slices.Contains(removing, name) && p.Eraser.Running(key) {
			kept = append(kept, name)
			continue
		}
		if err := p.Eraser.Stop(ctx, key); err != nil {
			kept = append(kept, name)
			errs = append(errs, err)
		}
	}
	p.Erasing[group] = kept
	return errors.Join(errs...)
}

// RemoveOrphans erases and deletes orphans of an approved plan. It first reads the objects of the cluster again.
func (p *Removal) RemoveOrphans(ctx context.Context, d state.Desired, s state.NodeState, uuids []string) error {
	s.Owners = p.Objects.ReadOwners(ctx)
	if problem := orphans.Problem(d, s); problem != "" {
		return errors.New(problem)
	}
	_, err := p.eraseAndRemove(ctx, d, ownership.GroupOf(d, s), uuids)
	return err
}
