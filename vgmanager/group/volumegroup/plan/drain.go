package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// CordonTag marks a physical volume, on the device, that this product cordoned. A physical volume that an
// administrator cordoned does not have the tag and stays cordoned.
const CordonTag = "lvms.cordoned"

// deviceNote is the state of a physical volume in the status that is not from LVM.
type deviceNote struct {
	state   v1alpha1.PhysicalVolumeState
	message string
	moved   *int32
}

// deviceRequests is the plan for single devices of the group.
type deviceRequests struct {
	// actions are the next changes of the devices.
	actions  []Action
	notes    map[string]deviceNote
	problems []Problem
	note     string
	waiting  bool
}

// planDevices plans the requests for physical volumes of the group: cordon, drain, remove.
//
// pvmove drains a device atomically: until it ends, and if it is aborted or the node loses power, the data stays on
// the device. Devices are drained one at a time. The agent resumes a started pvmove after any restart.
func planDevices(w Desired, s NodeState, vg *lvm.VG) deviceRequests {
	r := deviceRequests{notes: map[string]deviceNote{}}
	held := heldBack(w, s, vg)
	for _, pv := range vg.PVs {
		action := requestedAction(w, s, vg, pv)
		next := r.one(w, s, vg, pv, action)
		if change := r.suspension(w, s, vg, pv); change.Kind != Nothing {
			next = change
		}
		if why := next.Kind.waits(vg, held); why != "" {
			r.block(w, pv, why)
			continue
		}
		r.actions = append(r.actions, next)
	}
	r.noteUnusable(w, vg)
	r.noteGrown(s, vg)
	return r
}

// requestedAction returns the requested action for a physical volume. A request names it, or its path was removed
// from the selectors.
func requestedAction(w Desired, s NodeState, vg *lvm.VG, pv lvm.PV) v1alpha1.DeviceAction {
	d := deviceOf(s, pv)
	if action := requestFor(w, s, d, pv.UUID); action != "" {
		return action
	}
	if pathTakenOut(w, s, pv) || pv.Missing && recovers(w, s, vg) {
		return v1alpha1.DeviceActionRemove
	}
	return ""
}

// requestFor returns the action of the request for a device, or "".
func requestFor(w Desired, s NodeState, d device.Device, uuid string) v1alpha1.DeviceAction {
	return deviceRequest(w, s, d, uuid).Action
}

// deviceRequest returns the request for a device, or an empty one.
func deviceRequest(w Desired, s NodeState, d device.Device, uuid string) v1alpha1.DeviceRequest {
	for _, request := range w.Spec.DeviceRequests {
		if request.Node == w.Node && isMeant(s, request.Device, d, uuid) {
			return request
		}
	}
	return v1alpha1.DeviceRequest{}
}

// isMeant returns true if a name, identity, link or UUID identifies a device. A missing device is identified by the
// last status, and so is one whose name or identity has changed. A name that means a physical volume of the group means
// no other device later: kernel names change at a restart, and identities with an update of the operating system.
func isMeant(s NodeState, name string, d device.Device, uuid string) bool {
	if uuid != "" && name == uuid {
		return true
	}
	if owner := requestedPV(s, name); owner != "" {
		return owner == uuid
	}
	if d.Name != "" && (hasName(s, d, name) || wasTakenOut(s, name, d)) {
		return true
	}
	before := beforeOf(s, uuid)
	meant := uuid != "" && before.UUID == uuid && name != "" && (name == before.DeviceID || name == before.Path)
	return meant && (d.Name == "" || !slices.ContainsFunc(s.Devices, func(o device.Device) bool {
		return hasName(s, o, name)
	}))
}

// hasName returns true if a device has a name, link or identity now.
func hasName(s NodeState, d device.Device, name string) bool {
	id := s.Identities[d.Number]
	return id != "" && name == id || slices.Contains(namesOfDevice(d), path.Clean(name))
}

// namesOfDevice returns all paths of a device.
func namesOfDevice(d device.Device) []string {
	return slices.Concat([]string{d.Name, d.KernelName}, d.ByID, d.ByPath, d.Links)
}

// Removal is a device that was removed from a group.
type Removal struct {
	UUID string `json:"uuid"`
	// ID is the identity of the device. Names are the paths that led to it.
	ID    string   `json:"id,omitempty"`
	Names []string `json:"names"`
}

// NewRemoval returns the record of a device that is removed from its group.
func NewRemoval(s NodeState, pv lvm.PV) Removal {
	d := deviceOf(s, pv)
	return Removal{UUID: pv.UUID, ID: s.Identities[d.Number], Names: namesOfDevice(d)}
}

// wasTakenOut returns true if the device was removed from the group when its physical volume had this UUID.
func wasTakenOut(s NodeState, uuid string, d device.Device) bool {
	for _, r := range s.Removed {
		if r.UUID != uuid {
			continue
		}
		if id := s.Identities[d.Number]; r.ID != "" || id != "" {
			return r.ID == id
		}
		return slices.ContainsFunc(namesOfDevice(d), func(name string) bool { return slices.Contains(r.Names, name) })
	}
	return false
}

// deviceOf returns the device of a physical volume. It returns an empty Device if the physical volume is missing.
func deviceOf(s NodeState, pv lvm.PV) device.Device {
	number := NumberOf(pv)
	if at := slices.IndexFunc(s.Devices, func(d device.Device) bool {
		return number != "" && d.Number == number
	}); at >= 0 {
		return s.Devices[at]
	}
	return device.Device{}
}

// pathTakenOut returns true if the path of a device was removed from the selectors. It depends on the text of the
// selectors, not on where a path currently leads: a link that is temporarily missing removes nothing. A label that the
// device does not have removes nothing either.
func pathTakenOut(w Desired, s NodeState, pv lvm.PV) bool {
	noted := beforeOf(s, pv.UUID).Path
	if noted == "" || w.Leaving || pv.Missing || writtenPaths(w.Selectors)[path.Clean(noted)] {
		return false
	}
	number := NumberOf(pv)
	for _, p := range s.Paths {
		// A path that leads nowhere now may be another name of this device.
		if p.Err != nil || p.Number == number {
			return false
		}
	}
	d := deviceOf(s, pv)
	return d.Name != "" && !(discovers(w.Selectors) && findsWithLabels(w.Selectors, d))
}

// one plans the action for one physical volume.
func (r *deviceRequests) one(w Desired, s NodeState, vg *lvm.VG, pv lvm.PV, action v1alpha1.DeviceAction) Action {
	ours := slices.Contains(pv.Tags, CordonTag)
	switch {
	case pv.Missing && action == v1alpha1.DeviceActionRemove:
		return r.replaceLost(w, s, vg, pv)
	case pv.Missing:
		return Action{}
	case action == "" && ours:
		return r.release(vg, pv)
	case action == "":
		if !pv.Allocatable {
			r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeCordoned,
				message: "cordoned manually; to uncordon it, run on the node: pvchange --allocatable y " + pv.Name}
		}
		return Action{}
	case pv.Allocatable || !ours:
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeCordoned}
		return Action{Kind: Cordon, PVs: []lvm.PV{pv}}
	case action == v1alpha1.DeviceActionCordon:
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeCordoned,
			message: "no new extents are allocated on it (deviceRequests)"}
		if move := moveFrom(vg, pv); move != nil {
			return Action{Kind: AbortMove, PVs: []lvm.PV{pv}}
		}
		return Action{}
	}
	return r.drain(w, s, vg, pv, action)
}

// release reverts a cordon or drain whose request was withdrawn.
func (r *deviceRequests) release(vg *lvm.VG, pv lvm.PV) Action {
	if moveFrom(vg, pv) != nil {
		return Action{Kind: AbortMove, PVs: []lvm.PV{pv}}
	}
	return Action{Kind: Uncordon, PVs: []lvm.PV{pv}}
}

// drain moves the extents off a device, and then removes it from the group if that is requested.
func (r *deviceRequests) drain(w Desired, s NodeState, vg *lvm.VG, pv lvm.PV, action v1alpha1.DeviceAction) Action {
	if move := moveFrom(vg, pv); move != nil {
		return r.follow(s, pv, move)
	}
	if pv.Used > 0 {
		return r.startMove(w, vg, pv)
	}
	if action == v1alpha1.DeviceActionDrain {
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeDrained,
			message: "empty, and no new extents are allocated on it (deviceRequests)"}
		return Action{}
	}
	if refusal := keepReason(w, vg, pv); refusal != "" {
		r.block(w, pv, refusal)
		return Action{}
	}
	r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeDrained,
		message: "is being removed from the volume group"}
	return Action{Kind: ReduceVG, PVs: []lvm.PV{pv}}
}

// follow tracks a move. If no process polls the move, follow resumes it, because LVM requires polling to finish a
// move.
func (r *deviceRequests) follow(s NodeState, pv lvm.PV, move *lvm.Move) Action {
	percent := int32(0)
	if move.Percent != nil {
		percent = int32(*move.Percent)
	}
	r.waiting = true
	r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeDraining, moved: &percent,
		message: "its extents are being moved to the other devices"}
	r.note = fmt.Sprintf("the extents of %s are being moved to the other devices", pv.Name)
	if s.Unattended[move.Name] {
		return Action{Kind: ResumeMove, PVs: []lvm.PV{pv}}
	}
	return Action{}
}

func (r *deviceRequests) startMove(w Desired, vg *lvm.VG, pv lvm.PV) Action {
	least, why := v1alpha1.MinimumDevices(nil, w.Spec.ThinPoolConfig, w.Spec.ThickConfig)
	if why := unmovableCache(vg, pv); why != "" {
		r.block(w, pv, why)
		return Action{}
	}
	switch free := vg.FreeOn(pv.UUID); {
	case least > 1 && len(vg.PVs)-1 < least:
		r.block(w, pv, fmt.Sprintf("%s requires at least %d devices, and only %d would have data: add a device to the "+
			"device class", why, least, len(vg.PVs)-1))
		return Action{}
	case vg.MissingPVs > 0:
		r.block(w, pv, "LVM cannot move extents while a device of the volume group is missing")
		return Action{}
	case free < pv.Used:
		r.block(w, pv, fmt.Sprintf("%s of it is in use, and the other devices have only %s free: add a device to the "+
			"device class, or delete volumes", quantity(pv.Used), quantity(free)))
		return Action{}
	case len(vg.Moves()) > 0:
		r.waiting = true
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeCordoned,
			message: "waiting until the move from another device has finished"}
		return Action{}
	}
	r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeDraining,
		message: "its extents are about to be moved to the other devices"}
	return Action{Kind: StartMove, PVs: []lvm.PV{pv}, Target: moveTarget(w, vg, pv)}
}

// keepReason returns why an empty device must stay in the group, or "".
func keepReason(w Desired, vg *lvm.VG, pv lvm.PV) string {
	left := len(vg.PVs) - 1
	least, why := v1alpha1.MinimumDevices(w.Spec.RAIDConfig, w.Spec.ThinPoolConfig, w.Spec.ThickConfig)
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
func (r *deviceRequests) block(w Desired, pv lvm.PV, why string) {
	r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeBlocked, message: why}
	r.problems = append(r.problems, Problem{
		Event: EventDeviceRemovalBlocked,
		Message: fmt.Sprintf("device %s of volume group %s on node %s cannot be drained or removed: %s", pv.Name,
			w.Name, w.Node, why),
	})
}

// replaceLost restores the redundancy of volumes that lost a device, and then removes the lost device from the group.
func (r *deviceRequests) replaceLost(w Desired, s NodeState, vg *lvm.VG, pv lvm.PV) Action {
	if step := recoverVolumes(w, s, vg); step.waiting != "" || step.action.Kind != Nothing {
		r.waiting = true
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeMissing,
			message: cmp.Or(step.waiting, "the volumes that cannot be read without it are being removed")}
		return step.action
	}
	volumes := vg.VolumesOn(pv.UUID)
	remains := emptyRemains(vg)
	switch {
	case w.Spec.RAIDConfig == nil && len(volumes) > 0:
		r.block(w, pv, fmt.Sprintf("it is missing and had data of %s, which is not discarded without approval: %s",
			joined(volumes), recoveryHint(w)))
		return Action{}
	case remains.Kind != Nothing && allAccepted(w, s, vg):
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeMissing,
			message: "no volume uses it; what is left of a thin pool on it is being removed"}
		return remains
	case len(volumes) == 0 && vg.MissingPVs == 1:
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeMissing,
			message: "no volume uses it; it is being removed from the volume group"}
		return Action{Kind: ReduceLost, PVs: []lvm.PV{pv}}
	case len(volumes) == 0:
		r.block(w, pv, "other devices of the volume group are missing too: add a Remove request for each")
		if !allRequested(w, s, vg) {
			return Action{}
		}
		return Action{Kind: ReduceLost, PVs: []lvm.PV{pv}}
	}
	if failed, _, _ := wrongRAID(vg); len(failed) > 0 {
		r.block(w, pv, fmt.Sprintf("it is missing, and %s cannot be read without it, which is not discarded without "+
			"approval: %s", joined(failed), recoveryHint(w)))
		return Action{}
	}
	if lv := syncing(vg, volumes); lv != "" {
		r.waiting = true
		r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeMissing,
			message: "waiting until " + lv + " is in sync"}
		return Action{}
	}
	if !allAccepted(w, s, vg) {
		r.block(w, pv, "another device of the volume group is missing too, and LVM would mark it as missing for good: "+
			"attach it again or, if it is lost, add a Remove request for it")
		return Action{}
	}
	r.notes[pv.UUID] = deviceNote{state: v1alpha1.PhysicalVolumeMissing,
		message: "its part of " + volumes[0] + " is being rebuilt on another device"}
	return Action{Kind: Repair, Volume: volumes[0], PVs: []lvm.PV{pv}}
}

// AcceptedLosses returns the UUIDs of the missing physical volumes of the group whose removal is requested.
func AcceptedLosses(w Desired, s NodeState) []string {
	var uuids []string
	vg := GroupOf(w, s)
	if vg == nil {
		return nil
	}
	for _, pv := range vg.PVs {
		if pv.Missing && requestedAction(w, s, vg, pv) == v1alpha1.DeviceActionRemove {
			uuids = append(uuids, pv.UUID)
		}
	}
	return uuids
}

// allAccepted returns true if the removal of each missing physical volume is requested.
func allAccepted(w Desired, s NodeState, vg *lvm.VG) bool {
	return len(AcceptedLosses(w, s)) == vg.MissingPVs
}

// allRequested returns true if the removal of each lost device is requested and none of them holds data of a volume.
func allRequested(w Desired, s NodeState, vg *lvm.VG) bool {
	for _, pv := range vg.PVs {
		if pv.Missing && (requestedAction(w, s, vg, pv) != v1alpha1.DeviceActionRemove ||
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
