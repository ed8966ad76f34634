package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// act performs one action. Its plan must come from an observation of the node in the same reconcile.
func (r *Reconciler) act(ctx context.Context, w Wanted, s Seen, a Action) error {
	logger := log.FromContext(ctx).WithValues("action", a.Kind, "vg", w.Name)
	if len(a.Devices) > 0 {
		logger = logger.WithValues("devices", device.Names(a.Devices))
	}
	if len(a.PVs) > 0 {
		logger = logger.WithValues("physicalVolumes", lvm.PVNames(a.PVs))
	}
	r.LVM.AcceptLoss(w.Name, acceptedLosses(w, s))
	if err := r.perform(ctx, w, s, a); err != nil {
		return err
	}
	logger.Info("changed the node")
	return nil
}

func (r *Reconciler) perform(ctx context.Context, w Wanted, s Seen, a Action) error {
	switch a.Kind {
	case WipeDevice:
		return r.wipe(ctx, w, s, a.Wipe)
	case CreateVG:
		return r.createVG(ctx, w, s, a)
	case UnhideVG:
		return r.unhide(ctx, w, a)
	case TagVG:
		return r.LVM.VGChangeTags(ctx, lvm.VGTagOptions{VG: w.Name, Add: a.AddTags, Remove: a.RemoveTags})
	case ExtendVG:
		return r.extendVG(ctx, w, s, a)
	case Activate:
		return r.activate(ctx, w)
	case CreatePool, ExtendPool, ExtendMeta:
		return r.changePool(ctx, w, a)
	case PublishClass:
		return r.Classes.Publish(a.Class)
	case WithdrawClass:
		return r.Classes.Withdraw(w.Name)
	case RemovePool:
		return r.removePool(ctx, w)
	case RemoveVG:
		return r.removeVG(ctx, w, a)
	case RemovePVs:
		return r.removePVs(ctx, w, a)
	}
	return r.performOnDevice(ctx, w, s, a)
}

func (r *Reconciler) changePool(ctx context.Context, w Wanted, a Action) error {
	pool := w.Spec.ThinPoolConfig.Name
	switch a.Kind {
	case ExtendPool:
		return r.LVM.LVExtend(ctx, lvm.LVExtendOptions{VG: w.Name, Name: pool, Size: a.Size})
	case ExtendMeta:
		return r.LVM.ThinPoolMetadataExtend(ctx, w.Name, pool, a.Size)
	}
	return r.LVM.LVCreateThinPool(ctx, poolOptions(w, a.Size))
}

// performOnDevice performs the actions on single devices of the group.
func (r *Reconciler) performOnDevice(ctx context.Context, w Wanted, s Seen, a Action) error {
	switch a.Kind {
	case Cordon:
		return r.LVM.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: a.PVs[0].Name, Allocatable: false,
			AddTag: cordonTag})
	case Uncordon:
		return r.LVM.PVSetAllocatable(ctx, lvm.PVAllocatableOptions{Device: a.PVs[0].Name, Allocatable: true,
			RemoveTag: cordonTag})
	case StartMove:
		return r.startMove(ctx, w, a)
	case ResumeMove:
		return r.resumeMove(ctx, w, s)
	case AbortMove:
		return r.LVM.PVMoveAbort(ctx, a.PVs[0].Name)
	case ReduceVG:
		return r.reduceVG(ctx, w, s, a)
	case ReduceLost:
		return r.reduceLost(ctx, w, a)
	case Repair:
		return r.LVM.LVRepair(ctx, w.Name, a.Volume)
	case Refresh:
		return r.LVM.LVRefresh(ctx, w.Name, a.Volume)
	}
	return fmt.Errorf("volume group %s on node %s: there is no action %q", w.Name, w.Node, a.Kind)
}

func (r *Reconciler) createVG(ctx context.Context, w Wanted, s Seen, a Action) error {
	if err := allProbed(w, s, a.Devices); err != nil {
		return err
	}
	if s.Class != nil && s.Class.VolumeGroupUUID != "" {
		// The new group has another UUID. It is only created if the removal of each device of the old group was
		// requested.
		class := *s.Class
		class.VolumeGroupUUID = ""
		if err := r.Classes.Publish(class); err != nil {
			return err
		}
	}
	return r.LVM.VGCreate(ctx, lvm.VGCreateOptions{Name: w.Name, Devices: device.Names(a.Devices), Tags: ownerTags(w)})
}

func (r *Reconciler) extendVG(ctx context.Context, w Wanted, s Seen, a Action) error {
	if err := allProbed(w, s, a.Devices); err != nil {
		return err
	}
	return r.LVM.VGExtend(ctx, lvm.VGExtendOptions{Name: w.Name, Devices: device.Names(a.Devices)})
}

// allProbed returns an error unless each device was read and found blank in this reconcile. A device that only
// appeared in the second observation was not read; the next reconcile uses it.
func allProbed(w Wanted, s Seen, devices []device.Device) error {
	for _, d := range devices {
		reasons, ok := s.Probed[d.Number]
		reasons = slices.DeleteFunc(slices.Clone(reasons),
			func(r device.Reason) bool { return slices.Contains(acceptedWhenNamed, r.Code) })
		if !ok || len(reasons) > 0 {
			return fmt.Errorf("device %s of node %s was not found blank in this look; it is looked at again", d.Name,
				w.Node)
		}
	}
	return nil
}

// activate activates the volume group and checks the result, because LVM returns success if lvm.conf keeps a volume
// inactive.
func (r *Reconciler) activate(ctx context.Context, w Wanted) error {
	// If volumes miss a physical volume, LVM activates the others and returns an error.
	if err := r.LVM.VGActivate(ctx, w.Name); err != nil && !errors.Is(err, lvm.ErrMissingPV) {
		return err
	}
	report, err := r.LVM.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(w.Name); vg != nil && hasInactive(vg) {
		return fmt.Errorf("volume group %s on node %s: logical volumes stay inactive: see activation/volume_list in "+
			"the node's lvm.conf", w.Name, w.Node)
	}
	return nil
}

// startMove starts to move the extents of a device. Other operations on the group can run meanwhile.
func (r *Reconciler) startMove(ctx context.Context, w Wanted, a Action) error {
	if err := r.LVM.PVMoveStart(ctx, lvm.PVMoveOptions{VG: w.Name, Source: a.PVs[0].Name}); err != nil {
		return err
	}
	report, err := r.LVM.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(w.Name); vg != nil {
		r.attend(vg)
	}
	return nil
}

func (r *Reconciler) resumeMove(ctx context.Context, w Wanted, s Seen) error {
	if err := r.LVM.PVMoveResume(ctx); err != nil {
		return err
	}
	r.attend(groupOf(w, s))
	return nil
}

// reduceVG removes an empty device from the group. The next reconcile removes its label, according to the record.
func (r *Reconciler) reduceVG(ctx context.Context, w Wanted, s Seen, a Action) error {
	note := newRemoval(s, a.PVs[0])
	named := func(uuid string) bool {
		return slices.ContainsFunc(w.Spec.DeviceRequests,
			func(q v1alpha1.DeviceRequest) bool { return q.Device == uuid })
	}
	if err := r.removed.add(w.Name, note, named); err != nil {
		return err
	}
	if err := r.released.write(w.Name, a.PVs); err != nil {
		return err
	}
	if err := r.LVM.VGReduce(ctx, lvm.VGReduceOptions{VG: w.Name, Device: a.PVs[0].Name}); err != nil {
		return err
	}
	r.tell(w, corev1.EventTypeNormal, EventDeviceRemoved,
		fmt.Sprintf(
			"device %s (physical volume %s) of node %s is empty and was taken out of volume group %s: "+
				"it may be detached",
			a.PVs[0].Name, a.PVs[0].UUID, w.Node, w.Name))
	return nil
}

func (r *Reconciler) reduceLost(ctx context.Context, w Wanted, a Action) error {
	if err := r.LVM.VGReduceMissing(ctx, w.Name); err != nil {
		return err
	}
	r.tell(w, corev1.EventTypeNormal, EventDeviceRemoved,
		fmt.Sprintf("the lost physical volume %s of node %s was taken out of volume group %s", a.PVs[0].UUID,
			w.Node, w.Name))
	return nil
}

// removePool deactivates the pool first. LVM removes an active pool only with --yes, which would also confirm the
// removal of its volumes. LVM removes an empty inactive pool without a question. For one with volumes it asks, and
// takes "no" as the answer.
func (r *Reconciler) removePool(ctx context.Context, w Wanted) error {
	pool := w.Spec.ThinPoolConfig.Name
	if err := r.LVM.LVDeactivate(ctx, w.Name, pool); err != nil {
		return err
	}
	return r.LVM.ThinPoolRemove(ctx, w.Name, pool)
}

// removeVG records the physical volumes and removes the group. The next reconcile removes their labels.
func (r *Reconciler) removeVG(ctx context.Context, w Wanted, a Action) error {
	if err := r.released.write(w.Name, a.PVs); err != nil {
		return err
	}
	return r.LVM.VGRemove(ctx, w.Name)
}

// removePVs removes labels. pvremove rejects a physical volume that belongs to a group.
func (r *Reconciler) removePVs(ctx context.Context, w Wanted, a Action) error {
	var errs []error
	for _, pv := range a.PVs {
		if err := r.LVM.PVRemove(ctx, pv.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.LVM.DevicesFileRemove(ctx, pv.Name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if w.Leaving {
		return nil // until the status is written, the records distinguish a removed group from a missing one
	}
	return r.released.forget(w.Name)
}

// pvNames returns the sorted devices of a group for the status.
func pvNames(s Seen, pvs []lvm.PV) []string {
	var list []string
	for _, pv := range pvs {
		name := pv.Name
		if pv.Missing {
			name = "missing: " + pv.UUID
			if last := lastName(s, pv); last != "" {
				name = last + " (missing)"
			}
		}
		list = append(list, name)
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
