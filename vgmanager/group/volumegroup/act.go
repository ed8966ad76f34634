package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/attempts"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/noderecord"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/poolmetadata"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// act performs one action. Its plan must come from an observation of the node in the same reconcile.
func (r *Reconciler) act(ctx context.Context, w state.Desired, s state.NodeState, a state.Action) error {
	logger := log.FromContext(ctx).WithValues("action", a.Kind, "vg", w.Group())
	if len(a.Devices) > 0 {
		logger = logger.WithValues("devices", device.Names(a.Devices))
	}
	if len(a.PVs) > 0 {
		logger = logger.WithValues("physicalVolumes", lvm.PVNames(a.PVs))
	}
	if !w.UsesExisting() {
		r.LVM.AcceptLoss(w.Name, members.AcceptedLosses(w, s))
	}
	if err := r.perform(ctx, w, s, a); err != nil {
		return err
	}
	logger.Info("performed an action on the node")
	return nil
}

func (r *Reconciler) perform(ctx context.Context, w state.Desired, s state.NodeState, a state.Action) error {
	if a.Change != nil {
		return r.LVM.Apply(ctx, a.Change)
	}
	switch a.Kind {
	case state.WipeDevice:
		return r.wiper.wipe(ctx, w, s, a.Wipe)
	case state.DeactivateVG:
		return r.wiper.deactivateGroup(ctx, w, s, a)
	case state.CreateVG:
		return r.group.createVG(ctx, w, s, a)
	case state.UnhideVG:
		return r.hidden.Unhide(ctx, w, a)
	case state.RenameVG:
		return pathExists(w, r.LVM.Apply(ctx, lvm.VGRename{UUID: a.VGUUID, Name: w.Name}))
	case state.ExtendVG:
		return r.group.extendVG(ctx, w, s, a)
	case state.Activate:
		return r.group.activate(ctx, w, ownership.GroupOf(w, s))
	case state.PublishClass:
		return r.Classes.Publish(a.Class)
	case state.WithdrawClass:
		return r.Classes.Withdraw(w.Name)
	case state.RemovePool:
		return r.group.removePool(ctx, w, a)
	case state.RemoveVG:
		return r.group.removeVG(ctx, w, a)
	case state.RemovePVs:
		return r.group.removePVs(ctx, w, a)
	}
	return r.performOnDevice(ctx, w, s, a)
}

// performOnDevice performs the actions on single devices of the group.
func (r *Reconciler) performOnDevice(ctx context.Context, w state.Desired, s state.NodeState, a state.Action) error {
	switch a.Kind {
	case state.StartMove:
		return r.group.startMove(ctx, w, a)
	case state.ResumeMove:
		return r.group.resumeMove(ctx, w, s)
	case state.ReduceVG:
		return r.group.reduceVG(ctx, w, s, a)
	case state.ReduceLost:
		return r.group.reduceLost(ctx, w, a)
	case state.Unmap:
		return r.Devices.Unmap(ctx, a.Volumes...)
	case state.DeactivatePool:
		return r.LVM.Apply(ctx, lvm.LVDeactivate{VG: w.Name, Names: a.Volumes})
	case state.InspectPool, state.RepairPool, state.ActivatePool, state.RemoveLost:
		return r.pools.Perform(ctx, w, s, a)
	case state.RestoreLabel:
		return r.restores.RestoreLabel(ctx, w, s, a.Label)
	case state.VerifyLabel:
		return r.restores.VerifyLabel(ctx, w, s, a.Label)
	case state.RestoreGroup:
		archive := s.Metadata.Archive
		err := r.LVM.Apply(ctx, lvm.GroupRestore{VG: w.Name, UUID: archive.UUID, File: archive.File})
		if err != nil {
			return err
		}
		return r.restores.Sequences.Restart(w.Name, archive.UUID, s.Before)
	case state.RestoreEarlier:
		return r.restores.StartRestore(ctx, w, s)
	case state.AcceptMetadata:
		return r.restores.Sequences.Accept(w.Name, ownership.GroupOf(w, s), s.Before)
	case state.TrimVolumes:
		r.trims.Start(ctx, w, s, a)
		return nil
	case state.CheckVolumes, state.RepairVolumes:
		r.checks.Start(ctx, w, s, a)
		return nil
	case state.RemoveOrphans:
		return r.orphans.RemoveOrphans(ctx, w, s, a)
	case state.RemoveDeleted:
		return r.orphans.RemoveDeleted(ctx, w, s, a)
	case state.RemoveUnreadable:
		return r.LVM.Apply(ctx, lvm.LVRemoveUnreadable{VG: w.Name, Names: a.Volumes})
	case state.Refresh, state.Resume, state.Rebuild:
		return r.group.reload(ctx, w, a)
	}
	return fmt.Errorf("volume group %s on node %s: unknown action %q", w.Name, w.Node, a.Kind)
}

// groupChanges change the volume groups of this node.
type groupChanges struct {
	lvm      LVM
	classes  Classes
	objects  *clusterobjects.Objects
	events   *eventLog
	pools    *poolmetadata.Pools
	moves    *moves
	attempts attempts.All
	released noderecord.Records[release]
	removed  removals
	wipes    wipeRecords
	now      func() time.Time
}

// reload refreshes, resumes or rebuilds a volume. A failed attempt counts too, so that it does not delay the other
// volumes.
func (g *groupChanges) reload(ctx context.Context, w state.Desired, a state.Action) error {
	defer func() { g.attempts.Add(w.Name, a.Volume, g.now()) }()
	if a.Kind == state.Rebuild {
		return g.lvm.Apply(ctx, lvm.LVRebuild{VG: w.Name, Name: a.Volume, Devices: lvm.PVNames(a.PVs)})
	}
	return g.lvm.Apply(ctx, lvm.LVRefresh{VG: w.Name, Name: a.Volume})
}

// prepare checks new devices of the volume group again, right before LVM writes to them.
func (g *groupChanges) prepare(ctx context.Context, w state.Desired, s state.NodeState, devices []device.Device) error {
	if err := selection.CheckProbed(w, s, devices); err != nil {
		return err
	}
	if err := selection.CheckPeers(w, s, devices...); err != nil {
		return err
	}
	if err := g.objects.ConfirmApproved(ctx, w, s, devices...); err != nil {
		return err
	}
	return g.wipes.completed(w, s, devices)
}

func (g *groupChanges) createVG(ctx context.Context, w state.Desired, s state.NodeState, a state.Action) error {
	if err := g.prepare(ctx, w, s, a.Devices); err != nil {
		return err
	}
	if s.Class != nil && s.Class.VolumeGroupUUID != "" {
		// The new group has another UUID. It is only created if the removal of each device of the old group was
		// requested.
		class := *s.Class
		class.VolumeGroupUUID = ""
		if err := g.classes.Publish(class); err != nil {
			return err
		}
	}
	err := g.lvm.Apply(ctx, lvm.VGCreate{Name: w.Name, Devices: device.Names(a.Devices), Tags: ownership.OwnerTags(w),
		MetadataSize: members.MetadataSize(a.Devices, nil)})
	return pathExists(w, err)
}

// pathExists adds to an error that /dev has the name of the volume group what to do. On hosts without LVM, udev does
// not remove links to logical volumes, so they stay if the volumes are removed with dmsetup. The command removes only
// links that lead nowhere.
func pathExists(w state.Desired, err error) error {
	if !errors.Is(err, lvm.ErrPathExists) {
		return err
	}
	return fmt.Errorf("the path /dev/%[1]s exists on node %[2]s, so no volume group can get this name: links to "+
		"logical volumes of an earlier volume group are probably left in it; to remove links that lead nowhere, run "+
		"on the node: find /dev/%[1]s -xtype l -delete && rmdir /dev/%[1]s; if the path belongs to something else, "+
		"give the device class another name: %[3]w", w.Name, w.Node, err)
}

func (g *groupChanges) extendVG(ctx context.Context, w state.Desired, s state.NodeState, a state.Action) error {
	if err := g.prepare(ctx, w, s, a.Devices); err != nil {
		return err
	}
	return g.lvm.Apply(ctx, lvm.VGExtend{Name: w.Name, Devices: device.Names(a.Devices),
		MetadataSize: members.MetadataSize(a.Devices, ownership.GroupOf(w, s))})
}

// activate activates the volume group and checks the result, because LVM returns success if lvm.conf keeps a volume
// inactive.
func (g *groupChanges) activate(ctx context.Context, w state.Desired, vg *lvm.VG) error {
	err := g.pools.CheckBlank(ctx, w, vg)
	if err == nil {
		// If volumes miss a physical volume, LVM activates the others and returns an error.
		err = g.lvm.Apply(ctx, lvm.VGActivate{VG: w.Name})
	}
	g.pools.RecordFault(w, err)
	if err != nil && !errors.Is(err, lvm.ErrMissingPV) {
		return err
	}
	report, err := g.lvm.Report(ctx)
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
func (g *groupChanges) startMove(ctx context.Context, w state.Desired, a state.Action) error {
	o := lvm.PVMoveStart{VG: w.Name, Source: a.PVs[0].Name, Target: a.Target}
	if err := g.lvm.Apply(ctx, o); err != nil {
		return err
	}
	report, err := g.lvm.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(w.Name); vg != nil {
		g.moves.attend(vg)
	}
	return nil
}

func (g *groupChanges) resumeMove(ctx context.Context, w state.Desired, s state.NodeState) error {
	if err := g.lvm.Apply(ctx, lvm.PVMoveResume{}); err != nil {
		return err
	}
	g.moves.attend(ownership.GroupOf(w, s))
	return nil
}

// reduceVG removes an empty device from the group. The next reconcile removes its label, according to the record.
func (g *groupChanges) reduceVG(ctx context.Context, w state.Desired, s state.NodeState, a state.Action) error {
	note := state.NewRemoval(s, a.PVs[0])
	named := func(uuid string) bool {
		return slices.ContainsFunc(w.Spec.DeviceRequests,
			func(q v1alpha1.DeviceRequest) bool { return q.Device == uuid })
	}
	if err := g.removed.add(w.Name, note, named); err != nil {
		return err
	}
	if err := g.released.Write(w.Name, releaseOf(w.Name, a.PVs)); err != nil {
		return err
	}
	if err := g.lvm.Apply(ctx, lvm.VGReduce{VG: w.Name, Device: a.PVs[0].Name}); err != nil {
		return err
	}
	g.events.emit(w, corev1.EventTypeNormal, state.EventDeviceRemoved,
		fmt.Sprintf("device %s (physical volume %s) of node %s is empty and was removed from volume group %s: "+
			"it can be detached", a.PVs[0].Name, a.PVs[0].UUID, w.Node, w.Name))
	return nil
}

func (g *groupChanges) reduceLost(ctx context.Context, w state.Desired, a state.Action) error {
	if err := g.lvm.Apply(ctx, lvm.VGReduceMissing{VG: w.Name}); err != nil {
		return err
	}
	g.events.emit(w, corev1.EventTypeNormal, state.EventDeviceRemoved,
		fmt.Sprintf("the missing physical volume %s of node %s was removed from volume group %s", a.PVs[0].UUID,
			w.Node, w.Name))
	return nil
}

// removePool removes the previous metadata that repairs left, and then the pool. It deactivates them first: LVM removes
// active volumes only with --yes, which would also confirm the removal of the volumes of the pool. LVM removes an empty
// inactive pool without a question. For one with volumes it asks, and takes "no" as the answer.
func (g *groupChanges) removePool(ctx context.Context, w state.Desired, a state.Action) error {
	if len(a.Volumes) > 0 {
		if err := g.lvm.Apply(ctx, lvm.LVDeactivate{VG: w.Name, Names: a.Volumes}); err != nil {
			return err
		}
		return g.lvm.Apply(ctx, lvm.LVRemoveInactive{VG: w.Name, Names: a.Volumes})
	}
	pool := w.Spec.ThinPoolConfig.Name
	if err := g.lvm.Apply(ctx, lvm.LVDeactivate{VG: w.Name, Names: []string{pool}}); err != nil {
		return err
	}
	return g.lvm.Apply(ctx, lvm.ThinPoolRemove{VG: w.Name, Name: pool})
}

// removeVG records the physical volumes and removes the group. The next reconcile removes their labels.
func (g *groupChanges) removeVG(ctx context.Context, w state.Desired, a state.Action) error {
	if err := g.released.Write(w.Name, releaseOf(w.Name, a.PVs)); err != nil {
		return err
	}
	return g.lvm.Apply(ctx, lvm.VGRemove{VG: w.Name})
}

// removePVs removes labels. pvremove rejects a physical volume that belongs to a group.
func (g *groupChanges) removePVs(ctx context.Context, w state.Desired, a state.Action) error {
	var errs []error
	for _, pv := range a.PVs {
		if err := g.lvm.Apply(ctx, lvm.PVRemove{Device: pv.Name}); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, g.lvm.Apply(ctx, lvm.DevicesFileRemove{Device: pv.Name}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if w.Leaving {
		return nil // until the status is written, the records distinguish a removed group from a missing one
	}
	return g.released.Forget(w.Name)
}
