package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// deviceProblem returns a Problem of the condition DevicesHealthy.
func deviceProblem(reason, message string, volumes []string) Problem {
	return Problem{Event: EventInconsistentVolumes, Condition: v1alpha1.ConditionDevicesHealthy, Reason: reason,
		Message: message, Volumes: volumes}
}

// brokenGroup returns the problems that prevent LVM from changing the group, and the failing devices that soon may.
func brokenGroup(w Desired, s NodeState, vg *lvm.VG) []Problem {
	var problems []Problem
	for _, pv := range vg.PVs {
		if pv.Missing {
			problems = append(problems, deviceProblem(v1alpha1.ReasonDeviceMissing, missing(w, s, vg, pv),
				vg.VolumesOn(pv.UUID)))
		}
	}
	if vg.MissingPVs > 0 && len(problems) == 0 {
		problems = append(problems, deviceProblem(v1alpha1.ReasonDeviceMissing,
			fmt.Sprintf("volume group %s on node %s is missing %d physical volumes",
				w.Name, w.Node, vg.MissingPVs), nil))
	}
	for _, d := range s.Devices {
		if uuid, copied := copyOf(d, vg); copied {
			problems = append(problems, deviceProblem(v1alpha1.ReasonDuplicatePV, fmt.Sprintf(
				"physical volume %s of volume group %s appears twice on node %s, "+
					"the second time as %s: detach the copy",
				uuid, w.Name, w.Node, d.Name), vg.VolumesOn(uuid)))
		}
	}
	return slices.Concat(problems, failing(w, s, vg), shrunk(w, s, vg))
}

// wasThere returns true if the node had the volume group, unless its loss was approved with an LVMRecovery. A request
// to remove each of its devices is not an approval: it means that their data is moved first. LVM does not list a group
// if none of its devices can be read.
func wasThere(w Desired, s NodeState) bool {
	return !recovers(w, s, nil) && (s.Class != nil || len(s.Before.PhysicalVolumes) > 0)
}

// lostGroup reports a volume group that is missing. It is not recreated, because a new group with the same name would
// be confused with it when its disks return.
func lostGroup(w Desired, s NodeState) []Problem {
	var devices []string
	for _, pv := range s.Before.PhysicalVolumes {
		devices = append(devices, fmt.Sprintf("%s (%s)", pv.Name, pv.UUID))
	}
	message := fmt.Sprintf(
		"volume group %s on node %s is missing: none of its physical volumes was found", w.Name, w.Node)
	remedy := "attach its disks again; if they are lost, so is their data: delete the volumes, and remove the device " +
		"class from the LVMCluster before you create it again"
	if len(devices) > 0 {
		message += ": " + strings.Join(devices, ", ")
		remedy = "attach them again and see the kernel's log; if they are lost, so is their data: to create the " +
			"volume group on other devices, " + recoveryHint(w)
	}
	if hint := labelHint(w, s, nil); hint != "" {
		remedy = hint + "if the data was overwritten, too, " + recoveryHint(w)
	}
	if isDeleted(s) {
		message = fmt.Sprintf("volume group %s on node %s was deleted: its physical volumes are there, but belong "+
			"to no volume group", w.Name, w.Node)
		remedy = fmt.Sprintf("to restore it, create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, "+
			"which changes nothing until it is approved; if its data is not needed, %s", w.Node, w.Name,
			v1alpha1.RecoveryRestoreMetadata, recoveryHint(w))
	}
	if commands := unhiding(s); len(commands) > 0 {
		message = fmt.Sprintf("volume group %s on node %s is missing: LVM there does not list its devices",
			w.Name, w.Node)
		remedy = fmt.Sprintf("the devices file of the node or a filter in lvm.conf hides them: run on the node: %s",
			strings.Join(commands, "; "))
	}
	p := deviceProblem(v1alpha1.ReasonDeviceMissing, message+"; "+remedy, nil)
	p.AffectsClass = true
	return []Problem{p}
}

// unhiding returns the commands that make LVM list the attached physical volumes of the group.
func unhiding(s NodeState) []string {
	var commands []string
	for _, d := range hiddenDevices(s) {
		if beforeOf(s, d.UUID).UUID != "" {
			commands = append(commands, "lvmdevices --adddev "+d.Name)
		}
	}
	return commands
}

// failing returns the devices of the group that are present and return errors.
func failing(w Desired, s NodeState, vg *lvm.VG) []Problem {
	var problems []Problem
	for _, pv := range vg.PVs {
		if err := s.Failing[NumberOf(pv)]; err != nil && !pv.Missing {
			problems = append(problems, deviceProblem(v1alpha1.ReasonDeviceFailing, fmt.Sprintf(
				"device %s (physical volume %s) of volume group %s on node %s is failing: %v: see the kernel's log, "+
					"save the data, and replace the device",
				pv.Name, pv.UUID, w.Group(), w.Node, err), vg.VolumesOn(pv.UUID)))
		}
	}
	return problems
}

func missing(w Desired, s NodeState, vg *lvm.VG, pv lvm.PV) string {
	where := ""
	if last := lastName(s, pv); last != "" {
		where = ", last seen as " + last
	}
	found := fmt.Sprintf("volume group %s on node %s is missing the physical volume %s%s",
		w.Name, w.Node, pv.UUID, where)
	if d, hidden := s.Hidden.deviceOf(s, pv.UUID); hidden {
		return found +
			fmt.Sprintf(": it is on %s, which LVM on this node does not list: run on the node: lvmdevices --adddev %s",
				d.Name, d.Name)
	}
	if pv.Name != "" && !strings.HasPrefix(pv.Name, "[") {
		return found + fmt.Sprintf(": its device %s is attached again, but the volume group was changed in the "+
			"meantime: if the data on the device is still valid, run on the node: vgextend --restoremissing %s %s",
			pv.Name, w.Name, pv.Name)
	}
	if hint := labelHint(w, s, vg); hint != "" {
		return found + ": " + hint + "until then no volume of the group is deleted or formatted; if the data was " +
			"overwritten, too, " + recoveryHint(w)
	}
	request := fmt.Sprintf("add to the deviceRequests of the device class: {node: %s, device: %s, action: Remove}",
		w.Node, pv.UUID)
	found += ": attach the disk again; until then no volume of the group is deleted or formatted; if the disk is lost, "
	switch volumes := lossOf(vg).volumes; {
	case len(volumes) == 0 && w.Deleting:
		// The LVMVolumeGroup is being deleted, so deviceRequests can no longer be changed.
		return found + "no volume is lost: " + recoveryHint(w)
	case len(volumes) == 0 && w.Spec.RAIDConfig != nil:
		return found + "attach a new one, add it to the device class, and " + request
	case len(volumes) == 0:
		return found + "no volume is affected: " + request
	}
	return found + "so is data of volumes: " + recoveryHint(w)
}

// recoveryHint says how to remove lost devices with the volumes that were on them.
func recoveryHint(w Desired) string {
	return fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, which lists what is "+
		"lost and changes nothing until it is approved", w.Node, w.Name, v1alpha1.RecoveryRemoveLostDevices)
}

// lastName returns the last known device of a missing physical volume.
func lastName(s NodeState, pv lvm.PV) string {
	if name := s.Names[pv.UUID]; name != "" {
		return name
	}
	return beforeOf(s, pv.UUID).Name
}

func beforeOf(s NodeState, uuid string) v1alpha1.PhysicalVolumeStatus {
	for _, pv := range s.Before.PhysicalVolumes {
		if pv.UUID == uuid {
			return pv
		}
	}
	return v1alpha1.PhysicalVolumeStatus{}
}

// hasDuplicates returns true if a physical volume of the group is on two devices.
func hasDuplicates(s NodeState, vg *lvm.VG) bool {
	return slices.ContainsFunc(s.Devices, func(d device.Device) bool { _, copied := copyOf(d, vg); return copied })
}

// copyOf returns true if a device has a physical volume of the group that LVM uses on another device. What users of
// logical volumes write to them does not count.
func copyOf(d device.Device, vg *lvm.VG) (string, bool) {
	if d.Signature != device.SignatureLVM || d.UUID == "" || d.Type == "mpath" || d.Type == "lvm" {
		return "", false
	}
	for _, pv := range vg.PVs {
		if pv.UUID == d.UUID && !pv.Missing && NumberOf(pv) != d.Number && !isUnder(d, pv) {
			return pv.UUID, true
		}
	}
	return "", false
}

// isUnder returns true if the physical volume's device is built on d. Both then have the same label, for example d is
// a path of a multipath device.
func isUnder(d device.Device, pv lvm.PV) bool {
	return slices.ContainsFunc(d.Children, func(c device.Child) bool { return c.Type != "part" && c.Name == pv.Name })
}

// brokenVolumes returns the volumes that LVM reports as broken, and the suspended ones. The pool and the redundancy
// have separate rules.
func brokenVolumes(w Desired, s NodeState, vg *lvm.VG) []Problem {
	var broken, held, names []string
	suspended := heldVolumes(s, vg)
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
	for _, name := range s.Stale {
		if !slices.Contains(names, name) {
			broken = append(broken, name+" (still uses a device that was detached; being refreshed)")
			names = append(names, name)
		}
	}
	slices.Sort(broken)
	slices.Sort(held)
	var problems []Problem
	if len(broken) > 0 {
		problems = append(problems, Problem{
			Event: EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
			Reason: v1alpha1.ReasonVolumesBroken, Volumes: names,
			Message: fmt.Sprintf("logical volumes of volume group %s on node %s are broken: %s", w.Name, w.Node,
				joined(broken)),
		})
	}
	if len(held) > 0 {
		problems = append(problems, Problem{
			Event: EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
			Reason: v1alpha1.ReasonVolumesSuspended, Volumes: held,
			Message: fmt.Sprintf("logical volumes of volume group %s on node %s are suspended, so their I/O blocks: "+
				"%s; the node agent resumes them when no LVM command is working on them",
				w.Name, w.Node, joined(held)),
		})
	}
	return problems
}

// heldVolumes returns the visible volumes that are suspended or depend on a suspended hidden volume. I/O of both
// blocks.
func heldVolumes(s NodeState, vg *lvm.VG) []string {
	var names []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if isHeld(s, lv) {
				names = append(names, TopOf(vg, lv))
			}
		}
	}
	return names
}

// resume reloads a volume that is suspended, which also resumes the devices below it. A killed LVM command leaves
// devices suspended, and no later command resumes them. LVM's lock ensures that no other command is working on them.
func resume(s NodeState, vg *lvm.VG) Action {
	if vg.MissingPVs > 0 {
		return Action{}
	}
	var due []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if !isHeld(s, lv) || !lv.Attr.Suspended() && !lv.Attr.IsStateUnknown() {
				continue
			}
			if name := TopOf(vg, lv); !s.Attempts[name].Waiting {
				due = append(due, name)
			}
		}
	}
	if len(due) == 0 {
		return Action{}
	}
	// A thin volume resumes its pool, but a pool does not resume its volumes.
	at := slices.IndexFunc(due, func(name string) bool { lv := vg.LV(name); return lv != nil && lv.PoolName != "" })
	return Action{Kind: Resume, Volume: due[max(at, 0)]}
}

// isHeld returns true if the device of a logical volume has been suspended for longer than LVM's operations take.
func isHeld(s NodeState, lv *lvm.LV) bool {
	return lv.Major != 0 && s.Held[device.NewNumber(lv.Major, lv.Minor)]
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

// unknownHealth reports that the kernel does not respond, so that the health is not known.
func unknownHealth(w Desired, s NodeState) []Problem {
	if s.HealthUnknown == nil {
		return nil
	}
	var problems []Problem
	for _, kind := range healthConditions(w) {
		problems = append(problems, Problem{
			Event: EventObserveFailed, Condition: kind, Reason: v1alpha1.ReasonObservationFailed, Unknown: true,
			Message: fmt.Sprintf("the health of volume group %s on node %s is unknown: %v: see the kernel's log "+
				"and the log of the node agent", w.Group(), w.Node, s.HealthUnknown),
		})
	}
	return problems
}
