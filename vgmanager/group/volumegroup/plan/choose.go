package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// minimumAge is the minimum age of a device for the policy Dynamic, because another driver may be attaching the
// device.
const minimumAge = time.Minute

// choice is the result of the rules for all devices.
type choice struct {
	// candidates passed all rules and are not in the volume group yet.
	candidates []device.Device
	// wipes are devices that are excluded only because of their content, and whose wipe the user consented to.
	wipes    []WipeTarget
	excluded []v1alpha1.ExcludedDevice
	// problems describe requested devices that are not available.
	problems []Problem
	// blocked is the number of devices that are excluded only because of their content or because of another class.
	blocked int
	// waiting: a device will reach minimumAge, or be in the node status.
	waiting bool
	// unlisted are devices that are not in the node status of this node yet.
	unlisted []string
	// unapproved are the devices that would be used or wiped if they were approved. doubtful are those of them that
	// seem to have changed since they were approved, and were not read.
	unapproved, doubtful []device.Device
}

// choose applies the selectors of the node.
func choose(w Desired, s NodeState, vg *lvm.VG) choice {
	c := choice{}
	pvs := PhysicalVolumes(s.Report)
	taken := c.named(w, s, vg, pvs)
	if discovers(w.Selectors) {
		c.discovered(w, s, pvs, vg != nil, taken)
	}
	c.awaitListing(s)
	c.keepSectorSize(w, s, vg)
	slices.SortFunc(c.excluded, func(a, b v1alpha1.ExcludedDevice) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// PhysicalVolumes returns LVM's information about the devices, by number.
func PhysicalVolumes(report *lvm.Report) map[device.Number]device.PV {
	pvs := map[device.Number]device.PV{}
	add := func(list []lvm.PV, group string) {
		for _, pv := range list {
			if number := NumberOf(pv); number != "" {
				pvs[number] = device.PV{UUID: pv.UUID, Group: pv.VGName, GroupUUID: group, InUse: pv.InUse}
			}
		}
	}
	for i := range report.VGs {
		add(report.VGs[i].PVs, report.VGs[i].UUID)
	}
	add(report.Unassigned, "")
	return pvs
}

// NumberOf returns the device number of a physical volume, or "" if it is missing.
func NumberOf(pv lvm.PV) device.Number {
	if pv.Major == 0 {
		return ""
	}
	return device.NewNumber(pv.Major, pv.Minor)
}

// named applies the paths of the selectors, and returns the devices that they lead to.
func (c *choice) named(w Desired, s NodeState, vg *lvm.VG, pvs map[device.Number]device.PV) map[device.Number]bool {
	taken := map[device.Number]bool{}
	for _, path := range s.Paths {
		if path.Err != nil {
			c.unresolved(w, path)
			continue
		}
		if taken[path.Number] {
			continue
		}
		taken[path.Number] = true
		if !isOwnPV(w, s, pvs[path.Number]) {
			c.judgeNamed(w, s, vg, pvs, path)
		}
	}
	c.keepWhole(w)
	return taken
}

// isOwnPV returns true for a physical volume of the group with the name of the device class, unless it is to be
// destroyed.
func isOwnPV(w Desired, s NodeState, pv device.PV) bool {
	return pv.Group == w.Group() && slices.ContainsFunc(namedGroups(w, s.Report),
		func(vg *lvm.VG) bool { return vg.UUID == pv.GroupUUID })
}

// keepWhole drops the wipes of volume groups of which another device cannot be wiped.
func (c *choice) keepWhole(w Desired) {
	wiped := func(d device.Device) bool {
		return slices.ContainsFunc(c.wipes, func(t WipeTarget) bool { return isOn(d, t.Device) })
	}
	var whole []WipeTarget
	for _, t := range c.wipes {
		var left []string
		for _, g := range t.Groups {
			for _, d := range g.Devices {
				if !wiped(d) {
					left = append(left, d.Name)
				}
			}
		}
		if len(left) == 0 {
			whole = append(whole, t)
			continue
		}
		reasons := append(t.Reasons, device.Reason{Code: device.NotWiped, Message: fmt.Sprintf(
			"is not wiped: other devices of its volume group cannot be wiped: %s", joined(left))})
		c.exclude(t.Path, reasons)
		if !slices.ContainsFunc(left, func(n string) bool { return !slices.Contains(device.Names(c.unapproved), n) }) {
			c.unapproved = append(c.unapproved, t.Device)
			continue // they wait for their approval
		}
		c.problem(EventDevicePathCheckFailed, "device %s of node %s cannot be used for device class %s: it %s", t.Path,
			w.Node, w.Name, device.Messages(reasons))
	}
	c.wipes = whole
}

func (c *choice) judgeNamed(w Desired, s NodeState, vg *lvm.VG, pvs map[device.Number]device.PV, path Path) {
	d, reasons := namedReasons(w, s, pvs, path)
	if why := movedPath(w, s, vg, path, d); why != "" {
		reasons = append(reasons, device.Reason{Code: device.PathMoved, Message: why})
	}
	if len(reasons) == 0 {
		if !c.holdBack(w, s, d, path.Path, nil) {
			c.candidates = append(c.candidates, d)
		}
		return
	}
	if target, ok := newWipeTarget(w, s, path, d, reasons); ok {
		refusal := wipeRefusal(w, s, vg, target)
		if refusal == "" {
			if !c.holdBack(w, s, d, path.Path, reasons) {
				c.wipes = append(c.wipes, target)
			}
			return
		}
		reasons = append(reasons, device.Reason{Code: device.NotWiped, Message: "is not wiped: " + refusal})
	} else {
		reasons = withWays(w, s, d, reasons)
	}
	c.exclude(path.Path, withApproval(w, s, d, reasons, false))
	if onlyContent(reasons) || isShared(reasons) {
		c.blocked++
	}
	if !path.Optional && !allOf(reasons, device.RemovalRequested) {
		c.problem(EventDevicePathCheckFailed, "device %s of node %s cannot be used for device class %s: it %s",
			path.Path, w.Node, w.Name, device.Messages(reasons))
	}
}

// namedReasons returns the device of a path and all reasons against it that also apply to a named device.
func namedReasons(w Desired, s NodeState, pvs map[device.Number]device.PV, path Path) (device.Device, []device.Reason) {
	d, reasons := examine(s, pvs, path.Number)
	reasons = slices.DeleteFunc(reasons, func(r device.Reason) bool {
		return slices.Contains(
			acceptedWhenNamed, r.Code)
	})
	selector := selectorAt(w, path.Selector)
	for _, lack := range mismatches(&selector, d) {
		reasons = append(reasons, device.Reason{Code: device.NotSelected,
			Message: lack + ", so the deviceSelector that names it does not match"})
	}
	reasons = append(append(reasons, conflicts(w, s, d, true)...), sharedWith(s, d)...)
	if requestFor(w, s, d, pvs[d.Number].UUID) == v1alpha1.DeviceActionRemove {
		reasons = append(reasons, device.Reason{Code: device.RemovalRequested,
			Message: "has a Remove request (deviceRequests): remove the request to use the device again, or " +
				"remove the path from the deviceSelector"})
	}
	return d, reasons
}

func selectorAt(w Desired, i int) v1alpha1.DeviceSelector {
	if i < len(w.Selectors) {
		return w.Selectors[i]
	}
	return v1alpha1.DeviceSelector{}
}

func (c *choice) problem(event EventReason, format string, args ...any) {
	c.problems = append(c.problems, Problem{Event: event, Message: fmt.Sprintf(format, args...)})
}

// acceptedWhenNamed are reasons that exclude a discovered device, but not a named one. A physical volume without a
// volume group is the result of "pvcreate" and holds no data. LVM accepts it without a question.
var acceptedWhenNamed = []device.Code{device.Removable, device.UnassignedPV}

// CheckProbed returns an error unless each device was read and found blank in this reconcile. A device that only
// appeared in the second observation was not read; the next reconcile uses it.
func CheckProbed(w Desired, s NodeState, devices []device.Device) error {
	for _, d := range devices {
		reasons, ok := s.Probed[d.Number]
		reasons = slices.DeleteFunc(slices.Clone(reasons),
			func(r device.Reason) bool { return slices.Contains(acceptedWhenNamed, r.Code) })
		if !ok || len(reasons) > 0 {
			return fmt.Errorf("device %s of node %s was not found blank in this reconcile; the next one reads it again",
				d.Name, w.Node)
		}
	}
	return nil
}

// examine returns a device and all reasons against it.
func examine(s NodeState, pvs map[device.Number]device.PV, number device.Number) (device.Device, []device.Reason) {
	at := slices.IndexFunc(s.Devices, func(d device.Device) bool { return d.Number == number })
	if at < 0 {
		return device.Device{Number: number},
			[]device.Reason{{Code: device.Unreadable, Message: "is not listed by lsblk: it has no medium, or no size"}}
	}
	d := s.Devices[at]
	reasons := merge(device.Explain(d, pvs), s.Probed[d.Number])
	if err := s.Failing[d.Number]; err != nil {
		reasons = append(reasons, device.Reason{Code: device.Failing, Message: fmt.Sprintf("is failing: %v", err)})
	}
	return d, reasons
}

// merge appends the reasons of a probe, without those that udev's data already gave.
func merge(reasons, probed []device.Reason) []device.Reason {
	for _, r := range probed {
		same := func(o device.Reason) bool { return o.Code == r.Code && o.Message == r.Message }
		if !slices.ContainsFunc(reasons, same) {
			reasons = append(reasons, r)
		}
	}
	return reasons
}

// unresolved handles a path that does not lead to a device. It must not cause any change, in particular no removal,
// because udev's links can disappear and return.
func (c *choice) unresolved(w Desired, path Path) {
	missing := errors.Is(path.Err, device.ErrMissing)
	switch {
	case path.Optional && missing:
	case missing:
		c.problem(EventDevicePathCheckFailed,
			"device %s does not exist on node %s: attach it, or correct the paths of device class %s",
			path.Path, w.Node, w.Name)
	default:
		c.problem(EventDevicePathCheckFailed, "device %s of node %s cannot be used for device class %s: %v", path.Path,
			w.Node, w.Name, path.Err)
	}
}

// discovered applies the selectors to all devices of the node that are not named.
func (c *choice) discovered(w Desired, s NodeState, pvs map[device.Number]device.PV, exists bool,
	named map[device.Number]bool) {
	for _, d := range s.Devices {
		if named[d.Number] || isOwnPV(w, s, pvs[d.Number]) {
			continue
		}
		reasons, ok := discoveredReasons(w, s, pvs, d, exists)
		switch {
		case !ok:
		case len(reasons) == 0:
			if !c.holdBack(w, s, d, d.Name, nil) {
				c.candidates = append(c.candidates, d)
			}
		default:
			c.exclude(d.Name, withApproval(w, s, d, reasons, false))
			c.waiting = c.waiting || allOf(reasons, device.TooYoung)
			if onlyContent(reasons) || allOf(reasons, device.UsedByOtherDeviceClass) || isShared(reasons) {
				c.blocked++
			}
			if allOf(reasons, device.UsedByOtherDeviceClass) && findersOf(w, s, d) != "" {
				c.problem(EventDevicePathCheckFailed, "device %s of node %s %s", d.Name, w.Node,
					device.Messages(reasons))
			}
		}
	}
}

// discoveredReasons returns the reasons against a discovered device. It returns false if the device class does not
// select the device.
func discoveredReasons(w Desired, s NodeState, pvs map[device.Number]device.PV, d device.Device,
	exists bool) ([]device.Reason, bool) {
	_, reasons := examine(s, pvs, d.Number)
	if slices.ContainsFunc(reasons, func(r device.Reason) bool { return slices.Contains(unlisted, r.Code) }) ||
		!finds(w.Selectors, d) {
		return nil, false
	}
	reasons = slices.DeleteFunc(reasons, func(r device.Reason) bool {
		return r.Code == device.Removable && allowsRemovable(w.Selectors, d)
	})
	if requestFor(w, s, d, pvs[d.Number].UUID) == v1alpha1.DeviceActionRemove {
		reasons = append(reasons, device.Reason{Code: device.RemovalRequested,
			Message: "has a Remove request (deviceRequests): remove the request to use the device again"})
	}
	reasons = append(append(reasons, conflicts(w, s, d, false)...), sharedWith(s, d)...)
	if len(reasons) > 0 {
		return reasons, true
	}
	dynamic := w.Spec.DeviceDiscoveryPolicy == v1alpha1.DeviceDiscoveryDynamic
	switch {
	case exists && !dynamic && !w.requiresApproval():
		what := "appeared"
		if haveLabels(w.Selectors) {
			what = "appeared or was labeled"
		}
		return []device.Reason{{Code: device.NotAtCreation, Message: what + " after the volume group was created, " +
			"and deviceDiscoveryPolicy is Static: name the device in deviceSelector, or set the policy Dynamic"}}, true
	case dynamic && age(s, d) < minimumAge:
		return []device.Reason{{Code: device.TooYoung,
			Message: "appeared less than a minute ago; it is used if it is still attached after a minute"}}, true
	}
	return nil, true
}

// age returns how long a device has been attached, according to udev or, if udev does not know, this agent.
func age(s NodeState, d device.Device) time.Duration {
	if d.AppearedKnown {
		return d.Appeared
	}
	return s.Watched[d.Number]
}

// unlisted are the reasons for which a device is not listed as excluded, because users do not expect these devices
// there.
var unlisted = []device.Code{device.LVMInternal, device.UnsupportedType, device.KubernetesLoop}

// conflicts returns a reason if another device class selects the device too. A class that names the device has
// priority over one that discovers it. If both name it or both discover it, no class gets it, because the result must
// not depend on the order of the reconciles.
func conflicts(w Desired, s NodeState, d device.Device, named bool) []device.Reason {
	if others := namersOf(s, d); others != "" {
		message := fmt.Sprintf("is named by device class %s", others)
		if named {
			message += " too: a device can belong to only one device class; remove it from the other"
		}
		return []device.Reason{{Code: device.UsedByOtherDeviceClass, Message: message}}
	}
	if others := findersOf(w, s, d); others != "" && !named {
		return []device.Reason{{Code: device.UsedByOtherDeviceClass,
			Message: fmt.Sprintf(
				"is selected by device class %s as well as by %s: change their deviceSelectors so that only one "+
					"selects it",
				others, w.Name)}}
	}
	return nil
}

func namersOf(s NodeState, d device.Device) string {
	var names []string
	for name, paths := range s.OtherPaths {
		if slices.ContainsFunc(paths, func(p Path) bool { return p.Err == nil && p.Number == d.Number }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func findersOf(w Desired, _ NodeState, d device.Device) string {
	var names []string
	for _, o := range w.Others {
		if finds(o.Selectors, d) {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (c *choice) exclude(name string, reasons []device.Reason) {
	excluded := v1alpha1.ExcludedDevice{Name: name}
	for _, r := range reasons {
		excluded.Reasons = append(excluded.Reasons, r.String())
	}
	c.excluded = append(c.excluded, excluded)
}

// content are the reasons that a wipe removes.
var content = []device.Code{
	device.HasSignature, device.HasPartitions, device.RAIDMember, device.UnassignedPV, device.UnknownPV,
	device.LUKSLocked,
	device.CephBlueStore, device.NotWiped,
}

// isShared returns true if a device is not used because another node may see it.
func isShared(reasons []device.Reason) bool {
	return slices.ContainsFunc(reasons, func(r device.Reason) bool { return r.Code == device.SharedWithNode })
}

// onlyContent returns true if all reasons are about the content of a device.
func onlyContent(reasons []device.Reason) bool { return allOf(reasons, content...) }

func allOf(reasons []device.Reason, codes ...device.Code) bool {
	return len(reasons) > 0 && !slices.ContainsFunc(reasons,
		func(r device.Reason) bool { return !slices.Contains(codes, r.Code) })
}
