package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Recovery is an approved recovery. It allows the loss of these devices, pools and volumes, and of nothing else.
type Recovery struct {
	// Name is the name of the LVMRecovery.
	Name   string
	Action v1alpha1.RecoveryAction
	// PlanID is the ID of the approved plan, and Created is its creation time.
	PlanID  string
	Created metav1.Time
	// Devices are the UUIDs of missing physical volumes. Pools and Volumes are UUIDs of logical volumes. Trim are the
	// UUIDs of the volumes whose file systems are trimmed.
	Devices, Pools, Volumes, Trim []string
	// Names are the names of the lost logical volumes. Those of a whole group have no known UUID.
	Names []string
	// Checked are the volumes with file systems, with what a check has found.
	Checked []v1alpha1.RecoveryVolume
	// WholeGroup: no device of the volume group was present.
	WholeGroup bool
	// Replaces: the metadata of a volume group that exists is replaced.
	Replaces bool
	// Unattended: the approval was given while no agent ran on the node, or before the agent was restarted. A lost
	// device can have returned meanwhile.
	Unattended bool
}

// NewRecovery returns the recovery that an approved plan allows.
func NewRecovery(name string, action v1alpha1.RecoveryAction, approved *v1alpha1.RecoveryPlan) *Recovery {
	r := &Recovery{Name: name, Action: action, PlanID: approved.ID, Created: approved.CreationTime,
		Pools: uuidsOf(approved.ThinPools), Volumes: uuidsOf(approved.LostVolumes),
		Trim: uuidsOf(approved.MountedVolumes), Checked: approved.CheckedVolumes,
		WholeGroup: approved.VolumeGroupUUID == "", Replaces: approved.ReplacesMetadata}
	for _, v := range approved.LostVolumes {
		r.Names = append(r.Names, v.Name)
	}
	for _, d := range approved.Devices {
		r.Devices = append(r.Devices, d.UUID)
	}
	return r
}

func uuidsOf(volumes []v1alpha1.RecoveryVolume) []string {
	var uuids []string
	for _, v := range volumes {
		uuids = append(uuids, v.UUID)
	}
	return uuids
}

// loss is what cannot be read without the missing devices of a volume group.
type loss struct {
	devices []lvm.PV
	// pools are thin pools with extents on a missing device. volumes are the volumes of these pools, and other volumes
	// that cannot be read.
	pools, volumes []*lvm.LV
	kept           int
}

// lossOf returns what the volume group loses without its missing devices.
func lossOf(vg *lvm.VG) loss {
	var l loss
	for _, pv := range vg.PVs {
		if pv.Missing {
			l.devices = append(l.devices, pv)
		}
	}
	for i := range vg.LVs {
		switch lv := &vg.LVs[i]; {
		case lv.Attr.IsThinPool() && vg.Unreadable(lv):
			l.pools = append(l.pools, lv)
		case lv.Attr.IsThinPool():
		case vg.Unreadable(lv):
			l.volumes = append(l.volumes, lv)
		default:
			l.kept++
		}
	}
	return l
}

// allows returns true if the recovery covers the loss.
func (r *Recovery) allows(l loss) bool {
	return r != nil &&
		!slices.ContainsFunc(l.devices, func(pv lvm.PV) bool { return !slices.Contains(r.Devices, pv.UUID) }) &&
		!slices.ContainsFunc(l.pools, func(lv *lvm.LV) bool { return !slices.Contains(r.Pools, lv.UUID) }) &&
		!slices.ContainsFunc(l.volumes, func(lv *lvm.LV) bool {
			return !slices.Contains(r.Volumes, lv.UUID) &&
				!slices.ContainsFunc(l.pools, func(pool *lvm.LV) bool { return pool.Name == lv.PoolName })
		})
}

// replaces returns true if the recovery allows the loss of a whole volume group, and another one was created for the
// device class since.
func (r *Recovery) replaces(vg *lvm.VG, w Desired) bool {
	return r != nil && r.WholeGroup && notOurs(w, vg) == "" && tagValue(vg, v1alpha1.NodeTagPrefix) == w.Node
}

// NewRecoveryPlan returns what a recovery of the volume group removes. It returns why there is nothing to recover, or
// why the action cannot help, in problem. objects are the volumes of the device class on the node according to the API,
// with their claims. created is part of the ID.
func NewRecoveryPlan(w Desired, s NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := GroupOf(w, s)
	if problem := recoveryProblem(w, s, vg); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created}
	if vg == nil {
		for _, pv := range s.Before.PhysicalVolumes {
			p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: pv.UUID, Name: pv.Name, DeviceID: pv.DeviceID})
		}
		p.LostVolumes = slices.Clone(objects)
	} else {
		l := lossOf(vg)
		p.VolumeGroupUUID, p.KeptVolumeCount = vg.UUID, int32(l.kept)
		for _, pv := range l.devices {
			p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: pv.UUID, Name: lastName(s, pv),
				DeviceID: beforeOf(s, pv.UUID).DeviceID})
		}
		p.ThinPools, p.LostVolumes = recoveryVolumes(l.pools, nil), recoveryVolumes(l.volumes, objects)
		p.FailingDevices = failingDevices(s, vg)
	}
	slices.SortFunc(p.Devices, func(a, b v1alpha1.RecoveryDevice) int { return strings.Compare(a.UUID, b.UUID) })
	slices.SortFunc(p.LostVolumes, func(a, b v1alpha1.RecoveryVolume) int { return strings.Compare(a.Name, b.Name) })
	p.LostVolumeCount = int32(len(p.LostVolumes))
	p.ID = v1alpha1.PlanID(v1alpha1.RecoveryRemoveLostDevices, w.Node, w.Name, p)
	if inPools := len(p.ThinPools) > 0; len(p.LostVolumes) > v1alpha1.MaxLostVolumes && !inPools {
		return nil, fmt.Sprintf("volume group %s on node %s has lost %d volumes, and a plan can have only %d: delete "+
			"claims of lost volumes", w.Name, w.Node, len(p.LostVolumes), v1alpha1.MaxLostVolumes)
	}
	p.LostVolumes = p.LostVolumes[:min(len(p.LostVolumes), v1alpha1.MaxLostVolumes)]
	return p, ""
}

// recoveryProblem returns why missing devices cannot be removed from the volume group, or "".
func recoveryProblem(w Desired, s NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", w.Name, w.Node)
	if problems := duplicates(w, s); len(problems) > 0 {
		return problems[0].Message
	}
	switch commands := unhiding(s); {
	case s.Hidden.Err != nil:
		return fmt.Sprintf("%s: whether a missing device is attached is not known: %v", where, s.Hidden.Err)
	case len(commands) > 0:
		return fmt.Sprintf("%s: a device that LVM on the node does not list is attached, so it is not lost: run on "+
			"the node: %s", where, strings.Join(commands, "; "))
	case vg == nil && !wasThere(withoutRecovery(w), s):
		return where + " does not exist, and no volume group was there before"
	case vg == nil:
		return ""
	}
	if problem := foreign(w, vg); problem != "" {
		return problem
	}
	if vg.MissingPVs == 0 {
		return where + ": no device is missing"
	}
	for _, pv := range vg.PVs {
		if pv.Missing && isAttached(pv) {
			return fmt.Sprintf("%s: device %s with physical volume %s is attached, so it is not lost: to use it again "+
				"if its data is valid, run on the node: vgextend --restoremissing %s %s",
				where, pv.Name, pv.UUID, w.Name, pv.Name)
		}
	}
	if len(vg.Moves()) > 0 {
		return where +
			": extents are being moved from a device: cancel the Drain or Remove request of that device first"
	}
	return ""
}

// failingDevices returns the devices of a volume group that are attached and failing. What is lost is determined by the
// devices that are missing: the data of a failing one can only be moved away when none is missing.
func failingDevices(s NodeState, vg *lvm.VG) []v1alpha1.RecoveryDevice {
	var list []v1alpha1.RecoveryDevice
	for _, pv := range vg.PVs {
		if !pv.Missing && s.Failing[NumberOf(pv)] != nil {
			list = append(list, v1alpha1.RecoveryDevice{UUID: pv.UUID, Name: pv.Name,
				DeviceID: s.Identities[NumberOf(pv)]})
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.RecoveryDevice) int { return strings.Compare(a.UUID, b.UUID) })
	return list
}

func withoutRecovery(w Desired) Desired {
	w.Recovery = nil
	return w
}

// isAttached returns true if a physical volume with LVM's mark for missing ones is on a device.
func isAttached(pv lvm.PV) bool { return pv.Name != "" && !strings.HasPrefix(pv.Name, "[") }

// recoveryVolumes returns logical volumes with their claims.
func recoveryVolumes(lvs []*lvm.LV, objects []v1alpha1.RecoveryVolume) []v1alpha1.RecoveryVolume {
	var list []v1alpha1.RecoveryVolume
	for _, lv := range lvs {
		volume := v1alpha1.RecoveryVolume{Name: lv.Name, UUID: lv.UUID, Size: int64(lv.Size)}
		for _, object := range objects {
			if object.Name == lv.Name {
				volume.Claim = object.Claim
			}
		}
		list = append(list, volume)
	}
	return list
}

// recoveryStep is the next step of an approved recovery.
type recoveryStep struct {
	action Action
	// waiting says what the recovery waits for, or "".
	waiting string
}

// recovers returns true if an approved recovery allows the loss of the missing devices of the volume group. A device
// that is attached again, or more lost volumes than approved, stop the recovery.
func recovers(w Desired, s NodeState, vg *lvm.VG) bool {
	if w.Recovery == nil || w.Recovery.Action != v1alpha1.RecoveryRemoveLostDevices || recoveryProblem(w, s, vg) != "" {
		return false
	}
	if w.Recovery.Unattended && !w.Recovery.hasBegun(vg) {
		return false
	}
	if vg != nil {
		return w.Recovery.allows(lossOf(vg))
	}
	return !slices.ContainsFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return !slices.Contains(w.Recovery.Devices, pv.UUID)
	})
}

// hasBegun returns true if a part of what the plan removes is gone: only an approved recovery removes it.
func (r *Recovery) hasBegun(vg *lvm.VG) bool {
	if vg == nil {
		return false
	}
	there := func(uuid string) bool {
		is := func(lv lvm.LV) bool { return lv.UUID == uuid }
		return slices.ContainsFunc(vg.LVs, is) ||
			slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return pv.UUID == uuid })
	}
	return !r.WholeGroup && slices.ContainsFunc(slices.Concat(r.Pools, r.Volumes, r.Devices),
		func(uuid string) bool { return !there(uuid) })
}

// recoverVolumes returns the next step of an approved recovery, or an empty step if no unreadable volume is left. The
// devices are then removed as if their removal was requested (requestedAction).
//
// LVM cannot remove a single volume of a pool without all its devices, but it removes an inactive pool with its
// volumes.
func recoverVolumes(w Desired, s NodeState, vg *lvm.VG) recoveryStep {
	if !recovers(w, s, vg) {
		return recoveryStep{}
	}
	l := lossOf(vg)
	if open := openVolumes(l.volumes); len(open) > 0 {
		return recoveryStep{waiting: fmt.Sprintf("volumes are still in use: %s: delete the Pods that use them",
			joined(open))}
	}
	if len(l.pools) > 0 {
		return recoveryStep{action: removePoolAction(vg, l.pools[0])}
	}
	if len(l.volumes) > 0 {
		var names []string
		for _, lv := range l.volumes[:min(len(l.volumes), maxNamesOfCommand)] {
			names = append(names, lv.Name)
		}
		return recoveryStep{action: Action{Kind: RemoveUnreadable, Volumes: names}}
	}
	return recoveryStep{}
}

// removePoolAction deactivates the volumes of an unreadable pool, then the pool, and then removes both.
func removePoolAction(vg *lvm.VG, pool *lvm.LV) Action {
	if vg.IsPoolActive(pool.Name) {
		return deactivation(vg, pool)
	}
	return Action{Kind: RemoveUnreadable, Volumes: []string{pool.Name}}
}

// deactivation deactivates the active volumes of a thin pool, and then the pool. Two commands are necessary if a device
// is missing.
func deactivation(vg *lvm.VG, pool *lvm.LV) Action {
	active := []string{}
	for i := range vg.LVs {
		if lv := &vg.LVs[i]; lv.PoolName == pool.Name && lv.Attr.Active() && len(active) < maxNamesOfCommand {
			active = append(active, lv.Name)
		}
	}
	if len(active) == 0 {
		active = []string{pool.Name}
	}
	return Action{Kind: DeactivatePool, Volumes: active}
}

// maxNamesOfCommand is the maximum number of volumes that one command changes.
const maxNamesOfCommand = 50

func openVolumes(lvs []*lvm.LV) []string {
	var names []string
	for _, lv := range lvs {
		if lv.Attr.Open() {
			names = append(names, lv.Name)
		}
	}
	return names
}

// emptyRemains returns the action that removes what has no data and still prevents LVM from removing the missing
// devices: a thin pool without volumes, and the spare for the metadata of pools.
func emptyRemains(vg *lvm.VG) Action {
	for _, lv := range lossOf(vg).pools {
		if pool := vg.ThinPool(lv.Name); len(pool.Volumes) == 0 {
			return removePoolAction(vg, lv)
		}
	}
	for i := range vg.Hidden {
		if lv := &vg.Hidden[i]; strings.HasSuffix(lv.Name, "_pmspare") && vg.Unreadable(lv) {
			return Action{Kind: RemoveUnreadable, Volumes: []string{lv.Name}}
		}
	}
	return Action{}
}
