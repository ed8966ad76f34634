package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// act makes one kind of change. The plan it belongs to was made from a look at the node in the same call.
func (r *Reconciler) act(ctx context.Context, w Wanted, s Seen, a Action) error {
	logger := log.FromContext(ctx).WithValues("action", a.Kind, "vg", w.Name)
	if len(a.Devices) > 0 {
		logger = logger.WithValues("devices", deviceNames(a.Devices))
	}
	if err := r.perform(ctx, w, s, a); err != nil {
		return err
	}
	logger.Info("changed the node")
	return nil
}

func (r *Reconciler) perform(ctx context.Context, w Wanted, s Seen, a Action) error {
	switch a.Kind {
	case CreateVG:
		return r.createVG(ctx, w, s, a)
	case ExtendVG:
		return r.extendVG(ctx, w, s, a)
	case Activate:
		return r.activate(ctx, w)
	case CreatePool:
		return r.LVM.LVCreateThinPool(ctx, poolOptions(w))
	case ExtendPool:
		o := lvm.LVExtendOptions{VG: w.Name, Name: w.Spec.ThinPoolConfig.Name, Size: a.PoolSize}
		return r.LVM.LVExtend(ctx, o)
	case PublishClass:
		return r.Classes.Publish(a.Class)
	case WithdrawClass:
		return r.Classes.Withdraw(w.Name)
	case RemovePool:
		return r.removePool(ctx, w)
	case RemoveVG:
		return r.removeVG(ctx, w, a)
	case RemovePVs:
		return r.removePVs(ctx, a)
	}
	return fmt.Errorf("volume group %s on node %s: there is no action %q", w.Name, w.Node, a.Kind)
}

func (r *Reconciler) createVG(ctx context.Context, w Wanted, s Seen, a Action) error {
	if err := allProbed(w, s, a.Devices); err != nil {
		return err
	}
	return r.LVM.VGCreate(ctx, lvm.VGCreateOptions{Name: w.Name, Devices: deviceNames(a.Devices), Tags: []string{v1alpha1.OwnerTag}})
}

func (r *Reconciler) extendVG(ctx context.Context, w Wanted, s Seen, a Action) error {
	if err := allProbed(w, s, a.Devices); err != nil {
		return err
	}
	return r.LVM.VGExtend(ctx, lvm.VGExtendOptions{Name: w.Name, Devices: deviceNames(a.Devices)})
}

// allProbed makes sure that each device was read and found blank in this call. One that only appeared in the second look
// was not; the next reconcile takes it.
func allProbed(w Wanted, s Seen, devices []device.Device) error {
	for _, d := range devices {
		if reasons, ok := s.Probed[d.Number]; !ok || len(reasons) > 0 {
			return fmt.Errorf("device %s of node %s was not found blank in this look; it is looked at again", d.Name, w.Node)
		}
	}
	return nil
}

func deviceNames(devices []device.Device) []string {
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names
}

// activate checks that it had the effect, since LVM calls it a success when lvm.conf keeps a volume inactive.
func (r *Reconciler) activate(ctx context.Context, w Wanted) error {
	// LVM fails for the volumes that lack a disk, after it activated the others.
	if err := r.LVM.VGActivate(ctx, w.Name); err != nil && !errors.Is(err, lvm.ErrMissingPV) {
		return err
	}
	report, err := r.LVM.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(w.Name); vg != nil && hasInactive(vg) {
		return fmt.Errorf("volume group %s on node %s: logical volumes stay inactive: see activation/volume_list in the node's lvm.conf", w.Name, w.Node)
	}
	return nil
}

// removePool deactivates the pool first: LVM removes an active one only with --yes, and that would be a yes to the removal
// of its volumes too. Inactive, it goes without a question if it is empty, and with one, answered no, if it is not.
func (r *Reconciler) removePool(ctx context.Context, w Wanted) error {
	pool := w.Spec.ThinPoolConfig.Name
	if err := r.LVM.LVDeactivate(ctx, w.Name, pool); err != nil {
		return err
	}
	return r.LVM.ThinPoolRemove(ctx, w.Name, pool)
}

// removeVG notes the physical volumes and removes the group. Their labels are the next reconcile's.
func (r *Reconciler) removeVG(ctx context.Context, w Wanted, a Action) error {
	if err := r.released.write(w.Name, a.PVs); err != nil {
		return err
	}
	return r.LVM.VGRemove(ctx, w.Name)
}

// removePVs removes labels. pvremove refuses a physical volume that belongs to a group meanwhile.
func (r *Reconciler) removePVs(ctx context.Context, a Action) error {
	var errs []error
	for _, pv := range a.PVs {
		if err := r.LVM.PVRemove(ctx, pv.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.LVM.DevicesFileRemove(ctx, pv.Name))
	}
	return errors.Join(errs...)
}

// pvNames are the devices of a group, sorted, as the status lists them.
func pvNames(vg *lvm.VG, names map[string]string) []string {
	var list []string
	for _, pv := range vg.PVs {
		name := pv.Name
		if pv.Missing {
			name = "missing: " + pv.UUID
			if last := names[pv.UUID]; last != "" {
				name = last + " (missing)"
			}
		}
		list = append(list, name)
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
