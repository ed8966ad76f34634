// Package selection decides which devices of the node a device class uses, and why it excludes the others. A device
// is used only if it is blank, or is wiped with consent.
package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// minimumAge is the minimum age of a device for the policy Dynamic, because another driver may be attaching the
// device.
const minimumAge = time.Minute

// Choice is the result of the rules for all devices.
type Choice struct {
	// Candidates passed all rules and are not in the volume group yet.
	Candidates []device.Device
	// Wipes are devices that are excluded only because of their content, and whose wipe the user consented to.
	Wipes    []state.WipeTarget
	Excluded []v1alpha1.ExcludedDevice
	// Problems describe requested devices that are not available.
	Problems []state.Problem
	// Blocked is the number of devices that are excluded only because of their content or because of another class.
	Blocked int
	// Waiting: a device will reach minimumAge, or be in the node status.
	Waiting bool
	// Unlisted are devices that are not in the node status of this node yet.
	Unlisted []string
	// Unapproved are the devices that would be used or wiped if they were approved. Doubtful are those of them that
	// seem to have changed since they were approved, and were not read.
	Unapproved, Doubtful []device.Device
}

// Choose applies the selectors of the node.
func Choose(d state.Desired, s state.NodeState, vg *lvm.VG) Choice {
	c := Choice{}
	pvs := state.PhysicalVolumes(s.Report)
	taken := c.named(d, s, vg, pvs)
	if state.Discovers(d.Selectors) {
		c.discovered(d, s, pvs, vg != nil, taken)
	}
	c.awaitListing(s)
	c.keepSectorSize(d, s, vg)
	slices.SortFunc(c.Excluded, func(a, b v1alpha1.ExcludedDevice) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// named applies the paths of the selectors, and returns the devices that they lead to.
func (c *Choice) named(d state.Desired, s state.NodeState, vg *lvm.VG,
	pvs map[device.Number]device.PV) map[device.Number]bool {
	taken := map[device.Number]bool{}
	for _, path := range s.Disks.Paths {
		if path.Err != nil {
			c.unresolved(d, path)
			continue
		}
		if taken[path.Number] {
			continue
		}
		taken[path.Number] = true
		if !isOwnPV(d, s, pvs[path.Number]) {
			c.judgeNamed(d, s, vg, pvs, path)
		}
	}
	c.keepWhole(d)
	return taken
}

// isOwnPV returns true for a physical volume of the group with the name of the device class, unless it is to be
// destroyed.
func isOwnPV(d state.Desired, s state.NodeState, pv device.PV) bool {
	return pv.Group == d.Group() && slices.ContainsFunc(ownership.NamedGroups(d, s.Report),
		func(vg *lvm.VG) bool { return vg.UUID == pv.GroupUUID })
}

// keepWhole drops the wipes of volume groups of which another device cannot be wiped.
func (c *Choice) keepWhole(desired state.Desired) {
	wiped := func(d device.Device) bool {
		return slices.ContainsFunc(c.Wipes, func(t state.WipeTarget) bool { return state.IsOn(d, t.Device) })
	}
	var whole []state.WipeTarget
	for _, t := range c.Wipes {
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
			"is not wiped: other devices of its volume group cannot be wiped: %s", state.Joined(left))})
		c.exclude(t.Path, reasons)
		if !slices.ContainsFunc(left, func(n string) bool { return !slices.Contains(device.Names(c.Unapproved), n) }) {
			c.Unapproved = append(c.Unapproved, t.Device)
			continue // they wait for their approval
		}
		c.problem(state.EventDevicePathCheckFailed, "device %s of node %s cannot be used for device class %s: it %s",
			t.Path, desired.Node, desired.Name, device.Messages(reasons))
	}
	c.Wipes = whole
}

func (c *Choice) judgeNamed(desired state.Desired, s state.NodeState, vg *lvm.VG, pvs map[device.Number]device.PV,
	path state.Path) {
	d, reasons := namedReasons(desired, s, pvs, path)
	if why := movedPath(desired, s, vg, path, d); why != "" {
		reasons = append(reasons, device.Reason{Code: device.PathMoved, Message: why})
	}
	if len(reasons) == 0 {
		if !c.holdBack(desired, s, d, path.Path, nil) {
			c.Candidates = append(c.Candidates, d)
		}
		return
	}
	if target, ok := newWipeTarget(desired, s, path, d, reasons); ok {
		refusal := wipeRefusal(desired, s, vg, target)
		if refusal == "" {
			if !c.holdBack(desired, s, d, path.Path, reasons) {
				c.Wipes = append(c.Wipes, target)
			}
			return
		}
		reasons = append(reasons, device.Reason{Code: device.NotWiped, Message: "is not wiped: " + refusal})
	} else {
		reasons = withWays(desired, s, d, reasons)
	}
	c.exclude(path.Path, withApproval(desired, s, d, reasons, false))
	if onlyContent(reasons) || isShared(reasons) {
		c.Blocked++
	}
	if !path.Optional && !allOf(reasons, device.RemovalRequested) {
		c.problem(state.EventDevicePathCheckFailed, "device %s of node %s cannot be used for device class %s: it %s",
			path.Path, desired.Node, desired.Name, device.Messages(reasons))
	}
}

// namedReasons returns the device of a path and all reasons against it that also apply to a named device.
func namedReasons(desired state.Desired, s state.NodeState, pvs map[device.Number]device.PV,
	path state.Path) (device.Device, []device.Reason) {
	d, reasons := examine(s, pvs, path.Number)
	reasons = slices.DeleteFunc(reasons, func(r device.Reason) bool {
		return slices.Contains(
			acceptedWhenNamed, r.Code)
	})
	selector := state.SelectorAt(desired, path.Selector)
	for _, lack := range state.Mismatches(&selector, d) {
		reasons = append(reasons, device.Reason{Code: device.NotSelected,
			Message: lack + ", so the deviceSelector that names it does not match"})
	}
	reasons = append(append(reasons, conflicts(desired, s, d, true)...), sharedWith(s, d)...)
	if devicerequests.ActionFor(desired, s, d, pvs[d.Number].UUID) == v1alpha1.DeviceActionRemove {
		reasons = append(reasons, device.Reason{Code: device.RemovalRequested,
			Message: "has a Remove request (deviceRequests): remove the request to use the device again, or " +
				"remove the path from the deviceSelector"})
	}
	return d, reasons
}

func (c *Choice) problem(event state.EventReason, format string, args ...any) {
	c.Problems = append(c.Problems, state.Problem{Event: event, Message: fmt.Sprintf(format, args...)})
}

// acceptedWhenNamed are reasons that exclude a discovered device, but not a named one. A physical volume without a
// volume group is the result of "pvcreate" and holds no data. LVM accepts it without a question.
var acceptedWhenNamed = []device.Code{device.Removable, device.UnassignedPV}

// CheckProbed returns an error unless each device was read and found blank in this reconcile. A device that only
// appeared in the second observation was not read; the next reconcile uses it.
func CheckProbed(desired state.Desired, s state.NodeState, devices []device.Device) error {
	for _, d := range devices {
		reasons, ok := s.Disks.Probed[d.Number]
		reasons = slices.DeleteFunc(slices.Clone(reasons),
			func(r device.Reason) bool { return slices.Contains(acceptedWhenNamed, r.Code) })
		if !ok || len(reasons) > 0 {
			return fmt.Errorf("device %s of node %s was not found blank in this reconcile; the next one reads it again",
				d.Name, desired.Node)
		}
	}
	return nil
}

// examine returns a device and all reasons against it.
func examine(s state.NodeState, pvs map[device.Number]device.PV, number device.Number) (device.Device,
	[]device.Reason) {
	at := slices.IndexFunc(s.Devices, func(d device.Device) bool { return d.Number == number })
	if at < 0 {
		return device.Device{Number: number},
			[]device.Reason{{Code: device.Unreadable, Message: "is not listed by lsblk: it has no medium, or no size"}}
	}
	d := s.Devices[at]
	reasons := merge(device.Explain(d, pvs), s.Disks.Probed[d.Number])
	if err := s.Health.Failing[d.Number]; err != nil {
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
func (c *Choice) unresolved(d state.Desired, path state.Path) {
	missing := errors.Is(path.Err, device.ErrMissing)
	switch {
	case path.Optional && missing:
	case missing:
		c.problem(state.EventDevicePathCheckFailed,
			"device %s does not exist on node %s: attach it, or correct the paths of device class %s",
			path.Path, d.Node, d.Name)
	default:
		c.problem(state.EventDevicePathCheckFailed, "device %s of node %s cannot be used for device class %s: %v",
			path.Path, d.Node, d.Name, path.Err)
	}
}

// discovered applies the selectors to all devices of the node that are not named.
func (c *Choice) discovered(desired state.Desired, s state.NodeState, pvs map[device.Number]device.PV, exists bool,
	named map[device.Number]bool) {
	for _, d := range s.Devices {
		if named[d.Number] || isOwnPV(desired, s, pvs[d.Number]) {
			continue
		}
		reasons, ok := discoveredReasons(desired, s, pvs, d, exists)
		switch {
		case !ok:
		case len(reasons) == 0:
			if !c.holdBack(desired, s, d, d.Name, nil) {
				c.Candidates = append(c.Candidates, d)
			}
		default:
			c.exclude(d.Name, withApproval(desired, s, d, reasons, false))
			c.Waiting = c.Waiting || allOf(reasons, device.TooYoung)
			if onlyContent(reasons) || allOf(reasons, device.UsedByOtherDeviceClass) || isShared(reasons) {
				c.Blocked++
			}
			if allOf(reasons, device.UsedByOtherDeviceClass) && findersOf(desired, d) != "" {
				c.problem(state.EventDevicePathCheckFailed, "device %s of node %s %s", d.Name, desired.Node,
					device.Messages(reasons))
			}
		}
	}
}

// discoveredReasons returns the reasons against a discovered device. It returns false if the device class does not
// select the device.
func discoveredReasons(desired state.Desired, s state.NodeState, pvs map[device.Number]device.PV, d device.Device,
	exists bool) ([]device.Reason, bool) {
	_, reasons := examine(s, pvs, d.Number)
	if slices.ContainsFunc(reasons, func(r device.Reason) bool { return slices.Contains(unlisted, r.Code) }) ||
		!state.Finds(desired.Selectors, d) {
		return nil, false
	}
	reasons = slices.DeleteFunc(reasons, func(r device.Reason) bool {
		return r.Code == device.Removable && state.AllowsRemovable(desired.Selectors, d)
	})
	if devicerequests.ActionFor(desired, s, d, pvs[d.Number].UUID) == v1alpha1.DeviceActionRemove {
		reasons = append(reasons, device.Reason{Code: device.RemovalRequested,
			Message: "has a Remove request (deviceRequests): remove the request to use the device again"})
	}
	reasons = append(append(reasons, conflicts(desired, s, d, false)...), sharedWith(s, d)...)
	if len(reasons) > 0 {
		return reasons, true
	}
	dynamic := desired.Spec.DeviceDiscoveryPolicy == v1alpha1.DeviceDiscoveryDynamic
	switch {
	case exists && !dynamic && !desired.RequiresApproval():
		what := "appeared"
		if haveLabels(desired.Selectors) {
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
func age(s state.NodeState, d device.Device) time.Duration {
	if d.AppearedKnown {
		return d.Appeared
	}
	return s.Disks.Watched[d.Number]
}

// unlisted are the reasons for which a device is not listed as excluded, because users do not expect these devices
// there.
var unlisted = []device.Code{device.LVMInternal, device.UnsupportedType, device.KubernetesLoop}

// conflicts returns a reason if another device class selects the device too. A class that names the device has
// priority over one that discovers it. If both name it or both discover it, no class gets it, because the result must
// not depend on the order of the reconciles.
func conflicts(desired state.Desired, s state.NodeState, d device.Device, named bool) []device.Reason {
	if others := namersOf(s, d); others != "" {
		message := fmt.Sprintf("is named by device class %s", others)
		if named {
			message += " too: a device can belong to only one device class; remove it from the other"
		}
		return []device.Reason{{Code: device.UsedByOtherDeviceClass, Message: message}}
	}
	if others := findersOf(desired, d); others != "" && !named {
		return []device.Reason{{Code: device.UsedByOtherDeviceClass,
			Message: fmt.Sprintf(
				"is selected by device class %s as well as by %s: change their deviceSelectors so that only one "+
					"selects it",
				others, desired.Name)}}
	}
	return nil
}

func namersOf(s state.NodeState, d device.Device) string {
	var names []string
	for name, paths := range s.Disks.OtherPaths {
		if slices.ContainsFunc(paths, func(p state.Path) bool { return p.Err == nil && p.Number == d.Number }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func findersOf(desired state.Desired, d device.Device) string {
	var names []string
	for _, o := range desired.Others {
		if state.Finds(o.Selectors, d) {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (c *Choice) exclude(name string, reasons []device.Reason) {
	excluded := v1alpha1.ExcludedDevice{Name: name}
	for _, r := range reasons {
		excluded.Reasons = append(excluded.Reasons, r.String())
	}
	c.Excluded = append(c.Excluded, excluded)
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
