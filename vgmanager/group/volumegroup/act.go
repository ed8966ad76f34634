package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// act performs one action. Its plan must come from an observation of the node in the same reconcile.
func (r *Reconciler) act(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	logger := log.FromContext(ctx).WithValues("action", a.Kind, "vg", w.Group())
	if len(a.Devices) > 0 {
		logger = logger.WithValues("devices", device.Names(a.Devices))
	}
	if len(a.PVs) > 0 {
		logger = logger.WithValues("physicalVolumes", lvm.PVNames(a.PVs))
	}
	if !w.UsesExisting() {
		r.LVM.AcceptLoss(w.Name, plan.AcceptedLosses(w, s))
	}
	if err := r.perform(ctx, w, s, a); err != nil {
		return err
	}
	logger.Info("performed an action on the node")
	return nil
}

func (r *Reconciler) perform(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	switch a.Kind {
	case plan.WipeDevice:
		return r.wipe(ctx, w, s, a.Wipe)
	case plan.DeactivateVG:
		return r.deactivateGroup(ctx, w, s, a)
	case plan.CreateVG:
		return r.createVG(ctx, w, s, a)
	case plan.UnhideVG:
		return r.unhide(ctx, w, a)
	case plan.TagVG:
		return r.LVM.Apply(ctx, lvm.VGChangeTags{VG: w.Name, Add: a.AddTags, Remove: a.RemoveTags})
	case plan.RenameVG:
		return pathExists(w, r.LVM.Apply(ctx, lvm.VGRename{UUID: a.VGUUID, Name: w.Name}))
	case plan.ExtendVG:
		return r.extendVG(ctx, w, s, a)
	case plan.Activate:
		return r.activate(ctx, w, plan.GroupOf(w, s))
	case plan.CreatePool, plan.ExtendPool, plan.ExtendMeta, plan.SetDiscards:
		return r.changePool(ctx, w, a)
	case plan.PublishClass:
		return r.Classes.Publish(a.Class)
	case plan.WithdrawClass:
		return r.Classes.Withdraw(w.Name)
	case plan.RemovePool:
		return r.removePool(ctx, w, a)
	case plan.RemoveVG:
		return r.removeVG(ctx, w, a)
	case plan.RemovePVs:
		return r.removePVs(ctx, w, a)
	}
	return r.performOnDevice(ctx, w, s, a)
}

func (r *Reconciler) changePool(ctx context.Context, w plan.Desired, a plan.Action) error {
	pool := w.Spec.ThinPoolConfig.Name
	switch a.Kind {
	case plan.ExtendPool:
		config := w.Spec.ThinPoolConfig
		return r.LVM.Apply(ctx, lvm.LVExtend{VG: w.Name, Name: pool, Size: a.Size,
			Stripes: config.DataStripes(), StripeSize: lvm.Bytes(config.StripeBytes())})
	case plan.ExtendMeta:
		return r.LVM.Apply(ctx, lvm.ThinPoolMetadataExtend{VG: w.Name, Pool: pool, Add: a.Size})
	case plan.SetDiscards:
		return r.LVM.Apply(ctx, lvm.ThinPoolSetDiscards{VG: w.Name, Pool: pool, Mode: a.Discards})
	}
	return r.LVM.Apply(ctx, a.Pool)
}

// performOnDevice performs the actions on single devices of the group.
func (r *Reconciler) performOnDevice(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	switch a.Kind {
	case plan.Cordon:
		return r.LVM.Apply(ctx, lvm.PVSetAllocatable{Device: a.PVs[0].Name, Allocatable: false,
			AddTag: plan.CordonTag})
	case plan.ResizePV:
		return r.LVM.Apply(ctx, lvm.PVResize{VG: w.Name, Device: a.PVs[0].Name})
	case plan.Uncordon:
		return r.LVM.Apply(ctx, lvm.PVSetAllocatable{Device: a.PVs[0].Name, Allocatable: true,
			RemoveTag: plan.CordonTag})
	case plan.SuspendPV:
		return r.LVM.Apply(ctx, lvm.PVSetAllocatable{Device: a.PVs[0].Name,
			Allocatable: a.PVs[0].Allocatable, AddTag: deviceclass.SuspendedTag})
	case plan.ResumePV:
		return r.LVM.Apply(ctx, lvm.PVSetAllocatable{Device: a.PVs[0].Name,
			Allocatable: a.PVs[0].Allocatable, RemoveTag: deviceclass.SuspendedTag})
	case plan.StartMove:
		return r.startMove(ctx, w, a)
	case plan.ResumeMove:
		return r.resumeMove(ctx, w, s)
	case plan.AbortMove:
		return r.LVM.Apply(ctx, lvm.PVMoveAbort{Source: a.PVs[0].Name})
	case plan.ReduceVG:
		return r.reduceVG(ctx, w, s, a)
	case plan.ReduceLost:
		return r.reduceLost(ctx, w, a)
	case plan.Repair:
		return r.LVM.Apply(ctx, lvm.LVRepair{VG: w.Name, Name: a.Volume})
	case plan.Unmap:
		return r.Devices.Unmap(ctx, a.Volumes...)
	case plan.DeactivatePool:
		return r.LVM.Apply(ctx, lvm.LVDeactivate{VG: w.Name, Names: a.Volumes})
	case plan.InspectPool, plan.CloseMetadata, plan.RepairPool, plan.ActivatePool, plan.RemoveLost:
		return r.repair(ctx, w, s, a)
	case plan.RestoreLabel:
		return r.restoreLabel(ctx, w, s, a.Label)
	case plan.VerifyLabel:
		return r.verifyLabel(ctx, w, s, a.Label)
	case plan.RestoreGroup:
		err := r.LVM.Apply(ctx, lvm.GroupRestore{VG: w.Name, UUID: s.Archive.UUID, File: s.Archive.File})
		if err != nil {
			return err
		}
		return r.sequences.restart(w.Name, s.Archive.UUID, s.Before)
	case plan.RestoreEarlier:
		return r.startRestore(ctx, w, s)
	case plan.AcceptMetadata:
		return r.sequences.accept(w.Name, plan.GroupOf(w, s), s.Before)
	case plan.TrimVolumes:
		r.startTrim(ctx, w, s, a)
		return nil
	case plan.CheckVolumes, plan.RepairVolumes:
		r.startCheck(ctx, w, s, a)
		return nil
	case plan.RemoveOrphans:
		return r.removeOrphans(ctx, w, s, a)
	case plan.RemoveDeleted:
		return r.removeDeleted(ctx, w, s, a)
	case plan.RemoveUnreadable:
		return r.LVM.Apply(ctx, lvm.LVRemoveUnreadable{VG: w.Name, Names: a.Volumes})
	case plan.Refresh, plan.Resume, plan.Rebuild:
		return r.reload(ctx, w, a)
	}
	return fmt.Errorf("volume group %s on node %s: unknown action %q", w.Name, w.Node, a.Kind)
}

// reload refreshes, resumes or rebuilds a volume. A failed attempt counts too, so that it does not delay the other
// volumes.
func (r *Reconciler) reload(ctx context.Context, w plan.Desired, a plan.Action) error {
	defer func() { r.attempts.add(w.Name, a.Volume, r.now()) }()
	if a.Kind == plan.Rebuild {
		return r.LVM.Apply(ctx, lvm.LVRebuild{VG: w.Name, Name: a.Volume, Devices: lvm.PVNames(a.PVs)})
	}
	return r.LVM.Apply(ctx, lvm.LVRefresh{VG: w.Name, Name: a.Volume})
}

// prepare checks new devices of the volume group again, right before LVM writes to them.
func (r *Reconciler) prepare(ctx context.Context, w plan.Desired, s plan.NodeState, devices []device.Device) error {
	if err := plan.CheckProbed(w, s, devices); err != nil {
		return err
	}
	if err := plan.CheckPeers(w, s, devices...); err != nil {
		return err
	}
	if err := r.confirmApproved(ctx, w, s, devices...); err != nil {
		return err
	}
	return r.wipes.completed(w, s, devices)
}

func (r *Reconciler) createVG(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	if err := r.prepare(ctx, w, s, a.Devices); err != nil {
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
	err := r.LVM.Apply(ctx, lvm.VGCreate{Name: w.Name, Devices: device.Names(a.Devices), Tags: plan.OwnerTags(w),
		MetadataSize: plan.MetadataSize(a.Devices, nil)})
	return pathExists(w, err)
}

// pathExists adds to an error that /dev has the name of the volume group what to do. On hosts without LVM, udev does
// not remove links to logical volumes, so they stay if the volumes are removed with dmsetup. The command removes only
// links that lead nowhere.
func pathExists(w plan.Desired, err error) error {
	if !errors.Is(err, lvm.ErrPathExists) {
		return err
	}
	return fmt.Errorf("the path /dev/%[1]s exists on node %[2]s, so no volume group can get this name: links to "+
		"logical volumes of an earlier volume group are probably left in it; to remove links that lead nowhere, run "+
		"on the node: find /dev/%[1]s -xtype l -delete && rmdir /dev/%[1]s; if the path belongs to something else, "+
		"give the device class another name: %[3]w", w.Name, w.Node, err)
}

func (r *Reconciler) extendVG(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	if err := r.prepare(ctx, w, s, a.Devices); err != nil {
		return err
	}
	return r.LVM.Apply(ctx, lvm.VGExtend{Name: w.Name, Devices: device.Names(a.Devices),
		MetadataSize: plan.MetadataSize(a.Devices, plan.GroupOf(w, s))})
}

// activate activates the volume group and checks the result, because LVM returns success if lvm.conf keeps a volume
// inactive.
func (r *Reconciler) activate(ctx context.Context, w plan.Desired, vg *lvm.VG) error {
	err := r.checkBlank(ctx, w, vg)
	if err == nil {
		// If volumes miss a physical volume, LVM activates the others and returns an error.
		err = r.LVM.Apply(ctx, lvm.VGActivate{VG: w.Name})
	}
	r.recordFault(w, err)
	if err != nil && !errors.Is(err, lvm.ErrMissingPV) {
		return err
	}
	report, err := r.LVM.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(w.Name); vg != nil && plan.HasInactive(vg) {
		return fmt.Errorf("volume group %s on node %s: logical volumes stay inactive: see activation/volume_list in "+
			"the node's lvm.conf", w.Name, w.Node)
	}
	return nil
}

// startMove starts to move the extents of a device. Other operations on the group can run meanwhile.
func (r *Reconciler) startMove(ctx context.Context, w plan.Desired, a plan.Action) error {
	o := lvm.PVMoveStart{VG: w.Name, Source: a.PVs[0].Name, Target: a.Target}
	if err := r.LVM.Apply(ctx, o); err != nil {
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

func (r *Reconciler) resumeMove(ctx context.Context, w plan.Desired, s plan.NodeState) error {
	if err := r.LVM.Apply(ctx, lvm.PVMoveResume{}); err != nil {
		return err
	}
	r.attend(plan.GroupOf(w, s))
	return nil
}

// reduceVG removes an empty device from the group. The next reconcile removes its label, according to the record.
func (r *Reconciler) reduceVG(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	note := plan.NewRemoval(s, a.PVs[0])
	named := func(uuid string) bool {
		return slices.ContainsFunc(w.Spec.DeviceRequests,
			func(q v1alpha1.DeviceRequest) bool { return q.Device == uuid })
	}
	if err := r.removed.add(w.Name, note, named); err != nil {
		return err
	}
	if err := r.released.write(w.Name, releaseOf(w.Name, a.PVs)); err != nil {
		return err
	}
	if err := r.LVM.Apply(ctx, lvm.VGReduce{VG: w.Name, Device: a.PVs[0].Name}); err != nil {
		return err
	}
	r.emit(w, corev1.EventTypeNormal, plan.EventDeviceRemoved,
		fmt.Sprintf("device %s (physical volume %s) of node %s is empty and was removed from volume group %s: "+
			"it can be detached", a.PVs[0].Name, a.PVs[0].UUID, w.Node, w.Name))
	return nil
}

func (r *Reconciler) reduceLost(ctx context.Context, w plan.Desired, a plan.Action) error {
	if err := r.LVM.Apply(ctx, lvm.VGReduceMissing{VG: w.Name}); err != nil {
		return err
	}
	r.emit(w, corev1.EventTypeNormal, plan.EventDeviceRemoved,
		fmt.Sprintf("the missing physical volume %s of node %s was removed from volume group %s", a.PVs[0].UUID,
			w.Node, w.Name))
	return nil
}

// removePool removes the previous metadata that repairs left, and then the pool. It deactivates them first: LVM removes
// active volumes only with --yes, which would also confirm the removal of the volumes of the pool. LVM removes an empty
// inactive pool without a question. For one with volumes it asks, and takes "no" as the answer.
func (r *Reconciler) removePool(ctx context.Context, w plan.Desired, a plan.Action) error {
	if len(a.Volumes) > 0 {
		if err := r.LVM.Apply(ctx, lvm.LVDeactivate{VG: w.Name, Names: a.Volumes}); err != nil {
			return err
		}
		return r.LVM.Apply(ctx, lvm.LVRemoveInactive{VG: w.Name, Names: a.Volumes})
	}
	pool := w.Spec.ThinPoolConfig.Name
	if err := r.LVM.Apply(ctx, lvm.LVDeactivate{VG: w.Name, Names: []string{pool}}); err != nil {
		return err
	}
	return r.LVM.Apply(ctx, lvm.ThinPoolRemove{VG: w.Name, Name: pool})
}

// removeVG records the physical volumes and removes the group. The next reconcile removes their labels.
func (r *Reconciler) removeVG(ctx context.Context, w plan.Desired, a plan.Action) error {
	if err := r.released.write(w.Name, releaseOf(w.Name, a.PVs)); err != nil {
		return err
	}
	return r.LVM.Apply(ctx, lvm.VGRemove{VG: w.Name})
}

// removePVs removes labels. pvremove rejects a physical volume that belongs to a group.
func (r *Reconciler) removePVs(ctx context.Context, w plan.Desired, a plan.Action) error {
	var errs []error
	for _, pv := range a.PVs {
		if err := r.LVM.Apply(ctx, lvm.PVRemove{Device: pv.Name}); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.LVM.Apply(ctx, lvm.DevicesFileRemove{Device: pv.Name}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if w.Leaving {
		return nil // until the status is written, the records distinguish a removed group from a missing one
	}
	return r.released.forget(w.Name)
}
