// Package health reports what is wrong with the devices and the volumes of a volume group: missing, copied, failing
// and shrunk devices, and broken or suspended volumes.
package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/labels"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// isDeleted returns true if all physical volumes of the missing volume group belong to no volume group.
func isDeleted(s state.NodeState) bool {
	return len(s.Before.PhysicalVolumes) > 0 &&
		!slices.ContainsFunc(s.Before.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
			return Unassigned(s, pv.UUID) == nil
		})
}

// Unassigned returns the physical volume with this UUID if it belongs to no volume group, or nil.
func Unassigned(s state.NodeState, uuid string) *lvm.PV {
	at := slices.IndexFunc(s.Report.Unassigned, func(pv lvm.PV) bool { return pv.UUID == uuid })
	if at < 0 {
		return nil
	}
	return &s.Report.Unassigned[at]
}

// BrokenGroup returns the problems that prevent LVM from changing the group, and the failing devices that soon may.
func BrokenGroup(desired state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	var problems []state.Problem
	for _, pv := range vg.PVs {
		if pv.Missing {
			problems = append(problems, state.DeviceProblem(v1alpha1.ReasonDeviceMissing, missing(desired, s, vg, pv),
				vg.VolumesOn(pv.UUID)))
		}
	}
	if vg.MissingPVs > 0 && len(problems) == 0 {
		problems = append(problems, state.DeviceProblem(v1alpha1.ReasonDeviceMissing,
			fmt.Sprintf("volume group %s on node %s is missing %d physical volumes",
				desired.Name, desired.Node, vg.MissingPVs), nil))
	}
	for _, d := range s.Devices {
		if uuid, copied := ownership.CopyOf(d, vg); copied {
			problems = append(problems, state.DeviceProblem(v1alpha1.ReasonDuplicatePV, fmt.Sprintf(
				"physical volume %s of volume group %s appears twice on node %s, "+
					"the second time as %s: detach the copy",
				uuid, desired.Name, desired.Node, d.Name), vg.VolumesOn(uuid)))
		}
	}
	return slices.Concat(problems, Failing(desired, s, vg), shrunk(desired, s, vg))
}

// LostGroup reports a volume group that is missing. It is not recreated, because a new group with the same name would
// be confused with it when its disks return.
func LostGroup(d state.Desired, s state.NodeState) []state.Problem {
	var devices []string
	for _, pv := range s.Before.PhysicalVolumes {
		devices = append(devices, fmt.Sprintf("%s (%s)", pv.Name, pv.UUID))
	}
	message := fmt.Sprintf(
		"volume group %s on node %s is missing: none of its physical volumes was found", d.Name, d.Node)
	remedy := "attach its disks again; if they are lost, so is their data: delete the volumes, and remove the device " +
		"class from the LVMCluster before you create it again"
	if len(devices) > 0 {
		message += ": " + strings.Join(devices, ", ")
		remedy = "attach them again and see the kernel's log; if they are lost, so is their data: to create the " +
			"volume group on other devices, " + recovery.LostDevicesHint(d)
	}
	if hint := labels.Hint(d, s, nil); hint != "" {
		remedy = hint + "if the data was overwritten, too, " + recovery.LostDevicesHint(d)
	}
	if isDeleted(s) {
		message = fmt.Sprintf("volume group %s on node %s was deleted: its physical volumes are there, but belong "+
			"to no volume group", d.Name, d.Node)
		remedy = fmt.Sprintf("to restore it, create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, "+
			"which changes nothing until it is approved; if its data is not needed, %s", d.Node, d.Name,
			v1alpha1.RecoveryRestoreMetadata, recovery.LostDevicesHint(d))
	}
	if commands := lostdevices.Unhiding(s); len(commands) > 0 {
		message = fmt.Sprintf("volume group %s on node %s is missing: LVM there does not list its devices",
			d.Name, d.Node)
		remedy = fmt.Sprintf("the devices file of the node or a filter in lvm.conf hides them: run on the node: %s",
			strings.Join(commands, "; "))
	}
	p := state.DeviceProblem(v1alpha1.ReasonDeviceMissing, message+"; "+remedy, nil)
	p.AffectsClass = true
	return []state.Problem{p}
}

// Failing returns the devices of the group that are present and return errors.
func Failing(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	var problems []state.Problem
	for _, pv := range vg.PVs {
		if err := s.Health.Failing[state.NumberOf(pv)]; err != nil && !pv.Missing {
			problems = append(problems, state.DeviceProblem(v1alpha1.ReasonDeviceFailing, fmt.Sprintf(
				"device %s (physical volume %s) of volume group %s on node %s is failing: %v: see the kernel's log, "+
					"save the data, and replace the device",
				pv.Name, pv.UUID, d.Group(), d.Node, err), vg.VolumesOn(pv.UUID)))
		}
	}
	return problems
}

func missing(desired state.Desired, s state.NodeState, vg *lvm.VG, pv lvm.PV) string {
	where := ""
	if last := state.LastName(s, pv); last != "" {
		where = ", last seen as " + last
	}
	found := fmt.Sprintf("volume group %s on node %s is missing the physical volume %s%s",
		desired.Name, desired.Node, pv.UUID, where)
	if d, hidden := s.Disks.Hidden.DeviceOf(s, pv.UUID); hidden {
		return found +
			fmt.Sprintf(": it is on %s, which LVM on this node does not list: run on the node: lvmdevices --adddev %s",
				d.Name, d.Name)
	}
	if pv.Name != "" && !strings.HasPrefix(pv.Name, "[") {
		return found + fmt.Sprintf(": its device %s is attached again, but the volume group was changed in the "+
			"meantime: if the data on the device is still valid, run on the node: vgextend --restoremissing %s %s",
			pv.Name, desired.Name, pv.Name)
	}
	if hint := labels.Hint(desired, s, vg); hint != "" {
		return found + ": " + hint + "until then no volume of the group is deleted or formatted; if the data was " +
			"overwritten, too, " + recovery.LostDevicesHint(desired)
	}
	request := fmt.Sprintf("add to the deviceRequests of the device class: {node: %s, device: %s, action: Remove}",
		desired.Node, pv.UUID)
	found += ": attach the disk again; until then no volume of the group is deleted or formatted; if the disk is lost, "
	switch volumes := lostdevices.LossOf(vg).Volumes; {
	case len(volumes) == 0 && desired.Deleting:
		// The LVMVolumeGroup is being deleted, so deviceRequests can no longer be changed.
		return found + "no volume is lost: " + recovery.LostDevicesHint(desired)
	case len(volumes) == 0 && desired.Spec.RAIDConfig != nil:
		return found + "attach a new one, add it to the device class, and " + request
	case len(volumes) == 0:
		return found + "no volume is affected: " + request
	}
	return found + "so is data of volumes: " + recovery.LostDevicesHint(desired)
}

// BrokenVolumes returns the volumes that LVM reports as broken, and the suspended ones. The pool and the redundancy
// have separate rules.
func BrokenVolumes(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	var broken, held, names []string
	suspended := HeldVolumes(s, vg)
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		switch {
		case slices.Contains(suspended, lv.Name):
			held = append(held, lv.Name)
		case lv.Health != "" && !lv.Attr.IsThinPool() && !lv.IsRAID():
			broken = append(broken, fmt.Sprintf("%s (%s)", lv.Name, lv.Health))
			names = append(names, lv.Name)
		}
	}
	for _, name := range s.Health.Stale {
		if !slices.Contains(names, name) {
			broken = append(broken, name+" (still uses a device that was detached; being refreshed)")
			names = append(names, name)
		}
	}
	slices.Sort(broken)
	slices.Sort(held)
	var problems []state.Problem
	if len(broken) > 0 {
		problems = append(problems, state.Problem{
			Event: state.EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
			Reason: v1alpha1.ReasonVolumesBroken, Volumes: names,
			Message: fmt.Sprintf("logical volumes of volume group %s on node %s are broken: %s", d.Name, d.Node,
				state.Joined(broken)),
		})
	}
	if len(held) > 0 {
		problems = append(problems, state.Problem{
			Event: state.EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
			Reason: v1alpha1.ReasonVolumesSuspended, Volumes: held,
			Message: fmt.Sprintf("logical volumes of volume group %s on node %s are suspended, so their I/O blocks: "+
				"%s; the node agent resumes them when no LVM command is working on them",
				d.Name, d.Node, state.Joined(held)),
		})
	}
	return problems
}

// HeldVolumes returns the visible volumes that are suspended or depend on a suspended hidden volume. I/O of both
// blocks.
func HeldVolumes(s state.NodeState, vg *lvm.VG) []string {
	var names []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if IsHeld(s, lv) {
				names = append(names, TopOf(vg, lv))
			}
		}
	}
	return names
}

// Resume reloads a volume that is suspended, which also resumes the devices below it. A killed LVM command leaves
// devices suspended, and no later command resumes them. LVM's lock ensures that no other command is working on them.
func Resume(s state.NodeState, vg *lvm.VG) state.Action {
	if vg.MissingPVs > 0 {
		return state.Action{}
	}
	var due []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if !IsHeld(s, lv) || !lv.Attr.Suspended() && !lv.Attr.IsStateUnknown() {
				continue
			}
			if name := TopOf(vg, lv); !s.Records.Attempts[name].Waiting {
				due = append(due, name)
			}
		}
	}
	if len(due) == 0 {
		return state.Action{}
	}
	// A thin volume resumes its pool, but a pool does not resume its volumes.
	at := slices.IndexFunc(due, func(name string) bool { lv := vg.LV(name); return lv != nil && lv.PoolName != "" })
	name := due[max(at, 0)]
	return state.Action{Kind: state.Resume, Target: state.Volume{Name: name},
		Change: lvm.LVRefresh{VG: vg.Name, Name: name}}
}

// IsHeld returns true if the device of a logical volume has been suspended for longer than LVM's operations take.
func IsHeld(s state.NodeState, lv *lvm.LV) bool {
	return lv.Major != 0 && s.Health.Held[device.NewNumber(lv.Major, lv.Minor)]
}

// TopOf returns the visible volume that contains a logical volume.
func TopOf(vg *lvm.VG, lv *lvm.LV) string {
	name := lv.Name
	for range vg.Hidden {
		at := slices.IndexFunc(vg.Hidden, func(h lvm.LV) bool { return h.Name == name && h.Parent != "" })
		if at < 0 {
			break
		}
		name = vg.Hidden[at].Parent
	}
	return name
}

// UnknownHealth reports that the kernel does not respond, so that the health is not known.
func UnknownHealth(d state.Desired, s state.NodeState) []state.Problem {
	if s.Health.Unknown == nil {
		return nil
	}
	var problems []state.Problem
	for _, kind := range state.HealthConditions(d) {
		problems = append(problems, state.Problem{
			Event: state.EventObserveFailed, Condition: kind, Reason: v1alpha1.ReasonObservationFailed, Unknown: true,
			Message: fmt.Sprintf("the health of volume group %s on node %s is unknown: %v: see the kernel's log "+
				"and the log of the node agent", d.Group(), d.Node, s.Health.Unknown),
		})
	}
	return problems
}
