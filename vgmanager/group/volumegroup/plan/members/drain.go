// Package members decides about single devices of a volume group: requests to cordon, drain, remove and suspend
// them, and the space for LVM's metadata.
package members

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/placement"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/redundancy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// cordonTag marks a physical volume, on the device, that this product cordoned. A physical volume that an
// administrator cordoned does not have the tag and stays cordoned.
const cordonTag = "lvms.cordoned"

// Requests is the plan for single devices of the group.
type Requests struct {
	// Actions are the next changes of the devices.
	Actions  []state.Action
	Notes    map[string]state.DeviceNote
	Problems []state.Problem
	Note     string
	Waiting  bool
}

// Plan plans the requests for physical volumes of the group: cordon, drain, remove.
//
// pvmove drains a device atomically: until it ends, and if it is aborted or the node loses power, the data stays on
// the device. Devices are drained one at a time. The agent resumes a started pvmove after any restart.
func Plan(d state.Desired, s state.NodeState, vg *lvm.VG) Requests {
	r := Requests{Notes: map[string]state.DeviceNote{}}
	held := doubt.HeldBack(d, s, vg)
	for _, pv := range vg.PVs {
		action := requestedAction(d, s, vg, pv)
		next := r.one(d, s, vg, pv, action)
		if change := r.suspension(d, s, vg, pv); change.Kind != state.Nothing {
			next = change
		}
		if why := next.Kind.Waits(vg, held); why != "" {
			r.block(d, pv, why)
			continue
		}
		r.Actions = append(r.Actions, next)
	}
	r.noteUnusable(d, vg)
	r.noteGrown(s, vg)
	return r
}

// requestedAction returns the requested action for a physical volume. A request names it, or its path was removed
// from the selectors.
func requestedAction(desired state.Desired, s state.NodeState, vg *lvm.VG, pv lvm.PV) v1alpha1.DeviceAction {
	d := state.DeviceOfPV(s, pv)
	if action := devicerequests.ActionFor(desired, s, d, pv.UUID); action != "" {
		return action
	}
	if devicerequests.PathTakenOut(desired, s, pv) || pv.Missing && lostdevices.Recovers(desired, s, vg) {
		return v1alpha1.DeviceActionRemove
	}
	return ""
}

// one plans the action for one physical volume.
func (r *Requests) one(d state.Desired, s state.NodeState, vg *lvm.VG, pv lvm.PV,
	action v1alpha1.DeviceAction) state.Action {
	ours := slices.Contains(pv.Tags, cordonTag)
	switch {
	case pv.Missing && action == v1alpha1.DeviceActionRemove:
		return r.replaceLost(d, s, vg, pv)
	case pv.Missing:
		return state.Action{}
	case action == "" && ours:
		return r.release(vg, pv)
	case action == "":
		if !pv.Allocatable {
			r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeCordoned,
				Message: "cordoned manually; to uncordon it, run on the node: pvchange --allocatable y " + pv.Name}
		}
		return state.Action{}
	case pv.Allocatable || !ours:
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeCordoned}
		return cordon(pv)
	case action == v1alpha1.DeviceActionCordon:
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeCordoned,
			Message: "no new extents are allocated on it (deviceRequests)"}
		if move := moveFrom(vg, pv); move != nil {
			return abortMove(pv)
		}
		return state.Action{}
	}
	return r.drain(d, s, vg, pv, action)
}

// release reverts a cordon or drain whose request was withdrawn.
func (r *Requests) release(vg *lvm.VG, pv lvm.PV) state.Action {
	if moveFrom(vg, pv) != nil {
		return abortMove(pv)
	}
	return uncordon(pv)
}

// drain moves the extents off a device, and then removes it from the group if that is requested.
func (r *Requests) drain(d state.Desired, s state.NodeState, vg *lvm.VG, pv lvm.PV,
	action v1alpha1.DeviceAction) state.Action {
	if move := moveFrom(vg, pv); move != nil {
		return r.follow(s, pv, move)
	}
	if pv.Used > 0 {
		return r.StartMove(d, vg, pv)
	}
	if action == v1alpha1.DeviceActionDrain {
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeDrained,
			Message: "empty, and no new extents are allocated on it (deviceRequests)"}
		return state.Action{}
	}
	if refusal := keepReason(d, vg, pv); refusal != "" {
		r.block(d, pv, refusal)
		return state.Action{}
	}
	r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeDrained,
		Message: "is being removed from the volume group"}
	return state.Action{Kind: state.ReduceVG, Target: state.PVs{pv},
		Change: lvm.VGReduce{VG: vg.Name, Device: pv.Name}}
}

// follow tracks a move. If no process polls the move, follow resumes it, because LVM requires polling to finish a
// move.
func (r *Requests) follow(s state.NodeState, pv lvm.PV, move *lvm.Move) state.Action {
	percent := int32(0)
	if move.Percent != nil {
		percent = int32(*move.Percent)
	}
	r.Waiting = true
	r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeDraining, Moved: &percent,
		Message: "its extents are being moved to the other devices"}
	r.Note = fmt.Sprintf("the extents of %s are being moved to the other devices", pv.Name)
	if s.Records.Unattended[move.Name] {
		return state.Action{Kind: state.ResumeMove, Target: state.PVs{pv}, Change: lvm.PVMoveResume{}}
	}
	return state.Action{}
}

// StartMove starts to move the extents of a device to others.
func (r *Requests) StartMove(d state.Desired, vg *lvm.VG, pv lvm.PV) state.Action {
	least, why := classspec.MinimumDevices(nil, d.Spec.ThinPoolConfig, d.Spec.ThickConfig)
	if why := unmovableCache(vg, pv); why != "" {
		r.block(d, pv, why)
		return state.Action{}
	}
	switch free := vg.FreeOn(pv.UUID); {
	case least > 1 && len(vg.PVs)-1 < least:
		r.block(d, pv, fmt.Sprintf("%s requires at least %d devices, and only %d would have data: add a device to the "+
			"device class", why, least, len(vg.PVs)-1))
		return state.Action{}
	case vg.MissingPVs > 0:
		r.block(d, pv, "LVM cannot move extents while a device of the volume group is missing")
		return state.Action{}
	case free < pv.Used:
		r.block(d, pv, fmt.Sprintf("%s of it is in use, and the other devices have only %s free: add a device to the "+
			"device class, or delete volumes", state.Quantity(pv.Used), state.Quantity(free)))
		return state.Action{}
	case len(vg.Moves()) > 0:
		r.Waiting = true
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeCordoned,
			Message: "waiting until the move from another device has finished"}
		return state.Action{}
	}
	r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeDraining,
		Message: "its extents are about to be moved to the other devices"}
	return state.Action{Kind: state.StartMove, Target: state.PVs{pv},
		Change: lvm.PVMoveStart{VG: vg.Name, Source: pv.Name, Target: placement.MoveTarget(d, vg, pv)}}
}

// keepReason returns why an empty device must stay in the group, or "".
func keepReason(d state.Desired, vg *lvm.VG, pv lvm.PV) string {
	left := len(vg.PVs) - 1
	least, why := classspec.MinimumDevices(d.Spec.RAIDConfig, d.Spec.ThinPoolConfig, d.Spec.ThickConfig)
	switch {
	case left < 1:
		return "it is the only device of the volume group: remove the device class instead"
	case vg.MissingPVs > 0:
		return "another device of the volume group is missing"
	case left < least:
		return fmt.Sprintf("%s requires at least %d devices, and only %d would remain", why, least, left)
	}
	return ""
}

// block reports why a request cannot be carried out. The problem does not affect the health of the volumes.
func (r *Requests) block(d state.Desired, pv lvm.PV, why string) {
	r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeBlocked, Message: why}
	r.Problems = append(r.Problems, state.Problem{
		Event: state.EventDeviceRemovalBlocked,
		Message: fmt.Sprintf("device %s of volume group %s on node %s cannot be drained or removed: %s", pv.Name,
			d.Name, d.Node, why),
	})
}

// replaceLost restores the redundancy of volumes that lost a device, and then removes the lost device from the group.
func (r *Requests) replaceLost(d state.Desired, s state.NodeState, vg *lvm.VG, pv lvm.PV) state.Action {
	if step := lostdevices.RecoverVolumes(d, s, vg); step.Waiting != "" || step.Action.Kind != state.Nothing {
		r.Waiting = true
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeMissing,
			Message: cmp.Or(step.Waiting, "the volumes that cannot be read without it are being removed")}
		return step.Action
	}
	volumes := vg.VolumesOn(pv.UUID)
	remains := lostdevices.EmptyRemains(vg)
	switch {
	case d.Spec.RAIDConfig == nil && len(volumes) > 0:
		r.block(d, pv, fmt.Sprintf("it is missing and had data of %s, which is not discarded without approval: %s",
			state.Joined(volumes), recovery.LostDevicesHint(d)))
		return state.Action{}
	case remains.Kind != state.Nothing && AllAccepted(d, s, vg):
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeMissing,
			Message: "no volume uses it; what is left of a thin pool on it is being removed"}
		return remains
	case len(volumes) == 0 && vg.MissingPVs == 1:
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeMissing,
			Message: "no volume uses it; it is being removed from the volume group"}
		return reduceLost(vg, pv)
	case len(volumes) == 0:
		r.block(d, pv, "other devices of the volume group are missing too: add a Remove request for each")
		if !allRequested(d, s, vg) {
			return state.Action{}
		}
		return reduceLost(vg, pv)
	}
	if failed, _, _ := redundancy.WrongRAID(vg); len(failed) > 0 {
		r.block(d, pv, fmt.Sprintf("it is missing, and %s cannot be read without it, which is not discarded without "+
			"approval: %s", state.Joined(failed), recovery.LostDevicesHint(d)))
		return state.Action{}
	}
	if lv := redundancy.Syncing(vg, volumes); lv != "" {
		r.Waiting = true
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeMissing,
			Message: "waiting until " + lv + " is in sync"}
		return state.Action{}
	}
	if !AllAccepted(d, s, vg) {
		r.block(d, pv, "another device of the volume group is missing too, and LVM would mark it as missing for good: "+
			"attach it again or, if it is lost, add a Remove request for it")
		return state.Action{}
	}
	r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeMissing,
		Message: "its part of " + volumes[0] + " is being rebuilt on another device"}
	return state.Action{Kind: state.Repair, Target: state.Volume{Name: volumes[0], PVs: state.PVs{pv}},
		Change: lvm.LVRepair{VG: vg.Name, Name: volumes[0]}}
}

// AcceptedLosses returns the UUIDs of the missing physical volumes of the group whose removal is requested.
func AcceptedLosses(d state.Desired, s state.NodeState) []string {
	var uuids []string
	vg := ownership.GroupOf(d, s)
	if vg == nil {
		return nil
	}
	for _, pv := range vg.PVs {
		if pv.Missing && requestedAction(d, s, vg, pv) == v1alpha1.DeviceActionRemove {
			uuids = append(uuids, pv.UUID)
		}
	}
	return uuids
}

// AllAccepted returns true if the removal of each missing physical volume is requested.
func AllAccepted(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	return len(AcceptedLosses(d, s)) == vg.MissingPVs
}

// allRequested returns true if the removal of each lost device is requested and none of them holds data of a volume.
func allRequested(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	for _, pv := range vg.PVs {
		if pv.Missing && (requestedAction(d, s, vg, pv) != v1alpha1.DeviceActionRemove ||
			len(vg.VolumesOn(pv.UUID)) > 0) {
			return false
		}
	}
	return true
}

// moveFrom returns the move that empties a physical volume, or nil.
func moveFrom(vg *lvm.VG, pv lvm.PV) *lvm.Move {
	for _, move := range vg.Moves() {
		if move.SourceUUID == pv.UUID {
			return &move
		}
	}
	return nil
}

// noteGrown says on each device that is larger than its physical volume how to use all of it.
func (r *Requests) noteGrown(s state.NodeState, vg *lvm.VG) {
	for _, pv := range vg.PVs {
		grown := health.GrowthOf(s, vg, pv)
		if _, noted := r.Notes[pv.UUID]; noted || grown == 0 {
			continue
		}
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeReady, Message: fmt.Sprintf(
			"the device has %s more than its physical volume: to use it, set deviceResizePolicy: Automatic in the "+
				"device class, or run on the node: pvresize %s", state.Quantity(grown), state.DeviceOfPV(s, pv).Name)}
	}
}

// noteUnusable says on each device with free space why the thin pool does not use it: too few other devices have some.
// Like thinpool.GrownSize, it ignores what is left by rounding.
func (r *Requests) noteUnusable(d state.Desired, vg *lvm.VG) {
	config := d.Spec.ThinPoolConfig
	if config == nil || classspec.Stripes(config.Stripes) <= 1 || vg.ThinPool(config.Name) == nil {
		return
	}
	ignored := vg.Size / 100
	lacking := vg.Size/100*lvm.Bytes(config.SizePercent) - vg.ThinPool(config.Name).Size
	if lacking <= ignored || thinpool.DataRoom(config, vg) > ignored {
		return
	}
	for _, pv := range vg.PVs {
		if _, noted := r.Notes[pv.UUID]; noted || !pv.Allocatable || pv.Missing || pv.Free <= ignored {
			continue
		}
		r.Notes[pv.UUID] = state.DeviceNote{State: v1alpha1.PhysicalVolumeReady, Message: fmt.Sprintf(
			"%s of it is not used: the data of the thin pool is striped over %d devices, and too few devices have "+
				"free space: add more devices", state.Quantity(pv.Free), classspec.Stripes(config.Stripes))}
	}
}

func cordon(pv lvm.PV) state.Action {
	return state.Action{Kind: state.Cordon, Target: state.PVs{pv},
		Change: lvm.PVSetAllocatable{Device: pv.Name, Allocatable: false, AddTag: cordonTag}}
}

func uncordon(pv lvm.PV) state.Action {
	return state.Action{Kind: state.Uncordon, Target: state.PVs{pv},
		Change: lvm.PVSetAllocatable{Device: pv.Name, Allocatable: true, RemoveTag: cordonTag}}
}

func abortMove(pv lvm.PV) state.Action {
	return state.Action{Kind: state.AbortMove, Target: state.PVs{pv}, Change: lvm.PVMoveAbort{Source: pv.Name}}
}

func reduceLost(vg *lvm.VG, pv lvm.PV) state.Action {
	return state.Action{Kind: state.ReduceLost, Target: state.PVs{pv}, Change: lvm.VGReduceMissing{VG: vg.Name}}
}
