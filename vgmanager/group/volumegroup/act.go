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
func (r *Reconciler) act(ctx context.Context, d state.Desired, s state.NodeState, a state.Action) error {
	logger := log.FromContext(ctx).WithValues("action", a.Kind, "vg", d.Group())
	if devices := a.Devices(); len(devices) > 0 {
		logger = logger.WithValues("devices", device.Names(devices))
	}
	if pvs := a.PVs(); len(pvs) > 0 {
		logger = logger.WithValues("physicalVolumes", lvm.PVNames(pvs))
	}
	if !d.UsesExisting() {
		r.LVM.AcceptLoss(d.Name, members.AcceptedLosses(d, s))
	}
	if err := r.perform(ctx, d, s, a); err != nil {
		return err
	}
	logger.Info("performed an action on the node")
	return nil
}

// perform makes one change of LVM, with what is checked before it and recorded with it.
func (r *Reconciler) perform(ctx context.Context, d state.Desired, s state.NodeState, a state.Action) error {
	switch c := a.Change.(type) {
	case nil:
		return r.performTask(ctx, d, s, a)
	case lvm.GroupDeactivate:
		return r.wiper.deactivateGroup(ctx, d, s, a)
	case lvm.GroupRestore:
		return r.restoreGroup(ctx, d, s, c)
	case lvm.LVRefresh, lvm.LVRebuild:
		return r.group.reload(ctx, d, a)
	case lvm.PVMoveResume:
		return r.group.resumeMove(ctx, d, s, c)
	case lvm.PVMoveStart:
		return r.group.startMove(ctx, d, c)
	case lvm.ThinPoolActivate:
		return r.pools.ActivateRepaired(ctx, d, ownership.GroupOf(d, s), c)
	case lvm.VGActivate:
		return r.group.activate(ctx, d, ownership.GroupOf(d, s), c)
	case lvm.VGCreate:
		return r.group.createVG(ctx, d, s, a)
	case lvm.VGExtend:
		return r.group.extendVG(ctx, d, s, a)
	case lvm.VGReduce:
		return r.group.reduceVG(ctx, d, s, a)
	case lvm.VGReduceMissing:
		return r.group.reduceLost(ctx, d, a)
	case lvm.VGRemove:
		return r.group.removeVG(ctx, d, a)
	case lvm.VGRename:
		return pathExists(d, r.LVM.Apply(ctx, c))
	}
	return r.LVM.Apply(ctx, a.Change)
}

func (r *Reconciler) restoreGroup(ctx context.Context, d state.Desired, s state.NodeState, c lvm.GroupRestore) error {
	if err := r.LVM.Apply(ctx, c); err != nil {
		return err
	}
	return r.restores.Sequences.Restart(d.Name, c.UUID, s.Before)
}

// performTask does what is not one change of LVM.
func (r *Reconciler) performTask(ctx context.Context, d state.Desired, s state.NodeState, a state.Action) error {
	switch t := a.Target.(type) {
	case state.HiddenGroup:
		return r.hidden.Unhide(ctx, d, t)
	case state.Label:
		return r.restores.PerformLabel(ctx, d, s, a.Kind, t)
	case state.LabeledPVs:
		return r.group.removePVs(ctx, d, t)
	case state.Publication:
		return r.Classes.Publish(t.Class)
	case state.Volumes:
		return r.performOnVolumes(ctx, d, s, a.Kind, t)
	case state.WipeTarget:
		if a.Kind != state.WipeDevice { // the same target is deactivated first, which is a change of LVM
			return unknownAction(d, a.Kind)
		}
		return r.wiper.wipe(ctx, d, s, t)
	}
	switch a.Kind {
	case state.AcceptMetadata:
		return r.restores.Sequences.Accept(d.Name, ownership.GroupOf(d, s), s.Before)
	case state.InspectPool:
		return r.pools.StartInspection(ctx, d, ownership.GroupOf(d, s))
	case state.RepairPool:
		return r.pools.StartRepair(ctx, d, s)
	case state.RestoreEarlier:
		return r.restores.StartRestore(ctx, d, s)
	case state.WithdrawClass:
		return r.Classes.Withdraw(d.Name)
	}
	return unknownAction(d, a.Kind)
}

// performOnVolumes does what takes long, or removes volumes.
func (r *Reconciler) performOnVolumes(ctx context.Context, d state.Desired, s state.NodeState, kind state.Kind,
	volumes state.Volumes) error {
	switch kind {
	case state.CheckVolumes, state.RepairVolumes:
		r.checks.Start(ctx, d, s, kind == state.RepairVolumes, volumes)
		return nil
	case state.RemoveDeleted:
		return r.orphans.RemoveDeleted(ctx, d, s, volumes)
	case state.RemoveOrphans:
		return r.orphans.RemoveOrphans(ctx, d, s, volumes)
	case state.RemovePool:
		return r.group.removePool(ctx, d, volumes)
	case state.TrimVolumes:
		r.trims.Start(ctx, d, s, volumes)
		return nil
	case state.Unmap:
		return r.Devices.Unmap(ctx, volumes...)
	}
	return unknownAction(d, kind)
}

func unknownAction(d state.Desired, kind state.Kind) error {
	return fmt.Errorf("volume group %s on node %s: unknown action %q", d.Name, d.Node, kind)
}

// groupChanges change the volume groups of this node.
type groupChanges struct {
	lvm       LVM
	classes   Classes
	objects   *clusterobjects.Objects
	events    *eventLog
	pools     *poolmetadata.Pools
	moves     *moves
	attempts  attempts.All
	released  noderecord.Records[release]
	additions noderecord.Records[[]string]
	removed   removals
	wipes     wipeRecords
	now       func() time.Time
}

// reload refreshes, resumes or rebuilds a volume. A failed attempt counts too, so that it does not delay the other
// volumes.
func (g *groupChanges) reload(ctx context.Context, d state.Desired, a state.Action) error {
	volume, _ := a.Target.(state.Volume)
	defer func() { g.attempts.Add(d.Name, volume.Name, g.now()) }()
	return g.lvm.Apply(ctx, a.Change)
}

// prepare checks new devices of the volume group again, right before LVM writes to them.
func (g *groupChanges) prepare(ctx context.Context, d state.Desired, s state.NodeState, devices []device.Device) error {
	if err := selection.CheckProbed(d, s, devices); err != nil {
		return err
	}
	if err := selection.CheckPeers(d, s, devices...); err != nil {
		return err
	}
	if err := g.objects.ConfirmApproved(ctx, d, s, devices...); err != nil {
		return err
	}
	if err := g.wipes.completed(d, s, devices); err != nil {
		return err
	}
	return g.additions.Write(d.Name, additionOf(s, devices))
}

func (g *groupChanges) createVG(ctx context.Context, d state.Desired, s state.NodeState, a state.Action) error {
	if err := g.prepare(ctx, d, s, a.Devices()); err != nil {
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
	return pathExists(d, g.lvm.Apply(ctx, a.Change))
}

// pathExists adds to an error that /dev has the name of the volume group what to do. On hosts without LVM, udev does
// not remove links to logical volumes, so they stay if the volumes are removed with dmsetup. The command removes only
// links that lead nowhere.
func pathExists(d state.Desired, err error) error {
	if !errors.Is(err, lvm.ErrPathExists) {
		return err
	}
	return fmt.Errorf("the path /dev/%[1]s exists on node %[2]s, so no volume group can get this name: links to "+
		"logical volumes of an earlier volume group are probably left in it; to remove links that lead nowhere, run "+
		"on the node: find /dev/%[1]s -xtype l -delete && rmdir /dev/%[1]s; if the path belongs to something else, "+
		"give the device class another name: %[3]w", d.Name, d.Node, err)
}

func (g *groupChanges) extendVG(ctx context.Context, d state.Desired, s state.NodeState, a state.Action) error {
	if err := g.prepare(ctx, d, s, a.Devices()); err != nil {
		return err
	}
	return g.lvm.Apply(ctx, a.Change)
}

// activate activates the volume group and checks the result, because LVM returns success if lvm.conf keeps a volume
// inactive.
func (g *groupChanges) activate(ctx context.Context, d state.Desired, vg *lvm.VG, c lvm.VGActivate) error {
	err := g.pools.CheckBlank(ctx, d, vg)
	if err == nil {
		// If volumes miss a physical volume, LVM activates the others and returns an error.
		err = g.lvm.Apply(ctx, c)
	}
	g.pools.RecordFault(d, err)
	if err != nil && !errors.Is(err, lvm.ErrMissingPV) {
		return err
	}
	report, err := g.lvm.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(d.Name); vg != nil && plan.HasInactive(vg) {
		return fmt.Errorf("volume group %s on node %s: logical volumes stay inactive: see activation/volume_list in "+
			"the node's lvm.conf", d.Name, d.Node)
	}
	return nil
}

// startMove starts to move the extents of a device. Other operations on the group can run meanwhile.
func (g *groupChanges) startMove(ctx context.Context, d state.Desired, c lvm.PVMoveStart) error {
	if err := g.lvm.Apply(ctx, c); err != nil {
		return err
	}
	report, err := g.lvm.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(d.Name); vg != nil {
		g.moves.attend(vg)
	}
	return nil
}

func (g *groupChanges) resumeMove(ctx context.Context, d state.Desired, s state.NodeState, c lvm.PVMoveResume) error {
	if err := g.lvm.Apply(ctx, c); err != nil {
		return err
	}
	g.moves.attend(ownership.GroupOf(d, s))
	return nil
}

// reduceVG removes an empty device from the group. The next reconcile removes its label, according to the record.
func (g *groupChanges) reduceVG(ctx context.Context, d state.Desired, s state.NodeState, a state.Action) error {
	pv := a.PVs()[0]
	note := state.NewRemoval(s, pv)
	named := func(uuid string) bool {
		return slices.ContainsFunc(d.Spec.DeviceRequests,
			func(q v1alpha1.DeviceRequest) bool { return q.Device == uuid })
	}
	if err := g.removed.add(d.Name, note, named); err != nil {
		return err
	}
	if err := g.released.Write(d.Name, releaseOf(d.Name, a.PVs())); err != nil {
		return err
	}
	if err := g.lvm.Apply(ctx, a.Change); err != nil {
		return err
	}
	g.events.emit(d, corev1.EventTypeNormal, state.EventDeviceRemoved,
		fmt.Sprintf("device %s (physical volume %s) of node %s is empty and was removed from volume group %s: "+
			"it can be detached", pv.Name, pv.UUID, d.Node, d.Name))
	return nil
}

func (g *groupChanges) reduceLost(ctx context.Context, d state.Desired, a state.Action) error {
	if err := g.lvm.Apply(ctx, a.Change); err != nil {
		return err
	}
	g.events.emit(d, corev1.EventTypeNormal, state.EventDeviceRemoved,
		fmt.Sprintf("the missing physical volume %s of node %s was removed from volume group %s", a.PVs()[0].UUID,
			d.Node, d.Name))
	return nil
}

// removePool removes the previous metadata that repairs left, and then the pool. It deactivates them first: LVM removes
// active volumes only with --yes, which would also confirm the removal of the volumes of the pool. LVM removes an empty
// inactive pool without a question. For one with volumes it asks, and takes "no" as the answer.
func (g *groupChanges) removePool(ctx context.Context, d state.Desired, kept []string) error {
	if len(kept) > 0 {
		if err := g.lvm.Apply(ctx, lvm.LVDeactivate{VG: d.Name, Names: kept}); err != nil {
			return err
		}
		return g.lvm.Apply(ctx, lvm.LVRemoveInactive{VG: d.Name, Names: kept})
	}
	pool := d.Spec.ThinPoolConfig.Name
	if err := g.lvm.Apply(ctx, lvm.LVDeactivate{VG: d.Name, Names: []string{pool}}); err != nil {
		return err
	}
	return g.lvm.Apply(ctx, lvm.ThinPoolRemove{VG: d.Name, Name: pool})
}

// removeVG records the physical volumes and removes the group. The next reconcile removes their labels.
func (g *groupChanges) removeVG(ctx context.Context, d state.Desired, a state.Action) error {
	if err := g.released.Write(d.Name, releaseOf(d.Name, a.PVs())); err != nil {
		return err
	}
	return g.lvm.Apply(ctx, a.Change)
}

// removePVs removes labels. LVM rejects a physical volume that belongs to a group. One whose label says so without
// metadata is what a killed vgcreate, vgextend or vgremove leaves: PVRemove checks that it has no metadata.
func (g *groupChanges) removePVs(ctx context.Context, d state.Desired, pvs []lvm.PV) error {
	var errs []error
	for _, pv := range pvs {
		if err := g.lvm.Apply(ctx, lvm.PVRemove{Device: pv.Name, Unfinished: pv.InUse}); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, g.lvm.Apply(ctx, lvm.DevicesFileRemove{Device: pv.Name}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if d.Leaving {
		return nil // until the status is written, the records distinguish a removed group from a missing one
	}
	return g.released.Forget(d.Name)
}
