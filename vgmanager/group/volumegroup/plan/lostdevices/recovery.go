// Package lostdevices decides about the recovery RemoveLostDevices: what is lost with the missing devices of a volume
// group, and how the volumes and the devices are removed once this was approved.
package lostdevices

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// WasThere returns true if the node had the volume group, unless its loss was approved with an LVMRecovery. A request
// to remove each of its devices is not an approval: it means that their data is moved first. LVM does not list a group
// if none of its devices can be read.
func WasThere(d state.Desired, s state.NodeState) bool {
	return !Recovers(d, s, nil) && (s.Class != nil || len(s.Before.PhysicalVolumes) > 0)
}

// Unhiding returns the commands that make LVM list the attached physical volumes of the group.
func Unhiding(s state.NodeState) []string {
	var commands []string
	for _, d := range state.HiddenDevices(s) {
		if state.BeforeOf(s, d.UUID).UUID != "" {
			commands = append(commands, "lvmdevices --adddev "+d.Name)
		}
	}
	return commands
}

// loss is what cannot be read without the missing devices of a volume group.
type loss struct {
	devices []lvm.PV
	// pools are thin pools with extents on a missing device. volumes are the volumes of these pools, and other volumes
	// that cannot be read.
	pools, Volumes []*lvm.LV
	kept           int
}

// LossOf returns what the volume group loses without its missing devices.
func LossOf(vg *lvm.VG) loss {
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
			l.Volumes = append(l.Volumes, lv)
		default:
			l.kept++
		}
	}
	return l
}

// allows returns true if the recovery covers the loss.
func allows(r *state.Recovery, l loss) bool {
	return r != nil &&
		!slices.ContainsFunc(l.devices, func(pv lvm.PV) bool { return !slices.Contains(r.Devices, pv.UUID) }) &&
		!slices.ContainsFunc(l.pools, func(lv *lvm.LV) bool { return !slices.Contains(r.Pools, lv.UUID) }) &&
		!slices.ContainsFunc(l.Volumes, func(lv *lvm.LV) bool {
			return !slices.Contains(r.Volumes, lv.UUID) &&
				!slices.ContainsFunc(l.pools, func(pool *lvm.LV) bool { return pool.Name == lv.PoolName })
		})
}

// NewPlan returns what a recovery of the volume group removes. It returns why there is nothing to recover, or
// why the action cannot help, in problem. objects are the volumes of the device class on the node according to the API,
// with their claims. created is part of the ID.
func NewPlan(d state.Desired, s state.NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := ownership.GroupOf(d, s)
	if problem := Problem(d, s, vg); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created}
	if vg == nil {
		for _, pv := range s.Before.PhysicalVolumes {
			p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: pv.UUID, Name: pv.Name, DeviceID: pv.DeviceID})
		}
		p.LostVolumes = slices.Clone(objects)
	} else {
		l := LossOf(vg)
		p.VolumeGroupUUID, p.KeptVolumeCount = vg.UUID, int32(l.kept)
		for _, pv := range l.devices {
			p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: pv.UUID, Name: state.LastName(s, pv),
				DeviceID: state.BeforeOf(s, pv.UUID).DeviceID})
		}
		p.ThinPools, p.LostVolumes = recovery.Volumes(l.pools, nil), recovery.Volumes(l.Volumes, objects)
		p.FailingDevices = failingDevices(s, vg)
	}
	slices.SortFunc(p.Devices, func(a, b v1alpha1.RecoveryDevice) int { return strings.Compare(a.UUID, b.UUID) })
	slices.SortFunc(p.LostVolumes, func(a, b v1alpha1.RecoveryVolume) int { return strings.Compare(a.Name, b.Name) })
	p.LostVolumeCount = int32(len(p.LostVolumes))
	p.ID = recoveryplan.ID(v1alpha1.RecoveryRemoveLostDevices, d.Node, d.Name, p)
	if inPools := len(p.ThinPools) > 0; len(p.LostVolumes) > v1alpha1.MaxLostVolumes && !inPools {
		return nil, fmt.Sprintf("volume group %s on node %s has lost %d volumes, and a plan can have only %d: delete "+
			"claims of lost volumes", d.Name, d.Node, len(p.LostVolumes), v1alpha1.MaxLostVolumes)
	}
	p.LostVolumes = p.LostVolumes[:min(len(p.LostVolumes), v1alpha1.MaxLostVolumes)]
	return p, ""
}

// Problem returns why missing devices cannot be removed from the volume group, or "".
func Problem(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	if problems := ownership.Duplicates(d, s); len(problems) > 0 {
		return problems[0].Message
	}
	switch commands := Unhiding(s); {
	case s.Disks.Hidden.Err != nil:
		return fmt.Sprintf("%s: whether a missing device is attached is not known: %v", where, s.Disks.Hidden.Err)
	case len(commands) > 0:
		return fmt.Sprintf("%s: a device that LVM on the node does not list is attached, so it is not lost: run on "+
			"the node: %s", where, strings.Join(commands, "; "))
	case vg == nil && !WasThere(state.WithoutRecovery(d), s):
		return where + " does not exist, and no volume group was there before"
	case vg == nil:
		return ""
	}
	if problem := ownership.Foreign(d, vg); problem != "" {
		return problem
	}
	if vg.MissingPVs == 0 {
		return where + ": no device is missing"
	}
	for _, pv := range vg.PVs {
		if pv.Missing && state.IsAttached(pv) {
			return fmt.Sprintf("%s: device %s with physical volume %s is attached, so it is not lost: to use it again "+
				"if its data is valid, run on the node: vgextend --restoremissing %s %s",
				where, pv.Name, pv.UUID, d.Name, pv.Name)
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
func failingDevices(s state.NodeState, vg *lvm.VG) []v1alpha1.RecoveryDevice {
	var list []v1alpha1.RecoveryDevice
	for _, pv := range vg.PVs {
		if !pv.Missing && s.Health.Failing[state.NumberOf(pv)] != nil {
			list = append(list, v1alpha1.RecoveryDevice{UUID: pv.UUID, Name: pv.Name,
				DeviceID: s.Disks.Identities[state.NumberOf(pv)]})
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.RecoveryDevice) int { return strings.Compare(a.UUID, b.UUID) })
	return list
}

// recoveryStep is the next step of an approved recovery.
type recoveryStep struct {
	Action state.Action
	// Waiting says what the recovery waits for, or "".
	Waiting string
}

// Recovers returns true if an approved recovery allows the loss of the missing devices of the volume group. A device
// that is attached again, or more lost volumes than approved, stop the recovery.
func Recovers(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	if !d.Open.Allows(v1alpha1.RecoveryRemoveLostDevices) || Problem(d, s, vg) != "" {
		return false
	}
	if d.Open.Approved.Unattended && !hasBegun(d.Open.Approved, vg) {
		return false
	}
	if vg != nil {
		return allows(d.Open.Approved, LossOf(vg))
	}
	return !slices.ContainsFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return !slices.Contains(d.Open.Approved.Devices, pv.UUID)
	})
}

// hasBegun returns true if a part of what the plan removes is gone: only an approved recovery removes it.
func hasBegun(r *state.Recovery, vg *lvm.VG) bool {
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

// RecoverVolumes returns the next step of an approved recovery, or an empty step if no unreadable volume is left. The
// devices are then removed as if their removal was requested (members.requestedAction).
//
// LVM cannot remove a single volume of a pool without all its devices, but it removes an inactive pool with its
// volumes.
func RecoverVolumes(d state.Desired, s state.NodeState, vg *lvm.VG) recoveryStep {
	if !Recovers(d, s, vg) {
		return recoveryStep{}
	}
	l := LossOf(vg)
	if open := state.OpenVolumes(l.Volumes); len(open) > 0 {
		return recoveryStep{Waiting: fmt.Sprintf("volumes are still in use: %s: delete the Pods that use them",
			state.Joined(open))}
	}
	if len(l.pools) > 0 {
		return recoveryStep{Action: removePoolAction(vg, l.pools[0])}
	}
	if len(l.Volumes) > 0 {
		var names []string
		for _, lv := range l.Volumes[:min(len(l.Volumes), state.MaxNamesOfCommand)] {
			names = append(names, lv.Name)
		}
		return recoveryStep{Action: removal(vg, names...)}
	}
	return recoveryStep{}
}

// removePoolAction deactivates the volumes of an unreadable pool, then the pool, and then removes both.
func removePoolAction(vg *lvm.VG, pool *lvm.LV) state.Action {
	if vg.IsPoolActive(pool.Name) {
		return recovery.Deactivation(vg, pool)
	}
	return removal(vg, pool.Name)
}

func removal(vg *lvm.VG, names ...string) state.Action {
	return state.Action{Kind: state.RemoveUnreadable, Change: lvm.LVRemoveUnreadable{VG: vg.Name, Names: names}}
}

// EmptyRemains returns the action that removes what has no data and still prevents LVM from removing the missing
// devices: a thin pool without volumes, and the spare for the metadata of pools.
func EmptyRemains(vg *lvm.VG) state.Action {
	for _, lv := range LossOf(vg).pools {
		if pool := vg.ThinPool(lv.Name); len(pool.Volumes) == 0 {
			return removePoolAction(vg, lv)
		}
	}
	for i := range vg.Hidden {
		if lv := &vg.Hidden[i]; strings.HasSuffix(lv.Name, "_pmspare") && vg.Unreadable(lv) {
			return removal(vg, lv.Name)
		}
	}
	return state.Action{}
}
