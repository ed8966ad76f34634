package webhook

import (
	"fmt"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file has the warnings for removals: devices that are removed from a volume group, and nodes that are removed
// from a device class.

// removals returns the devices for which a device class has a Remove request on a node, as named in the requests.
func removals(class lvmv1alpha1.DeviceClass, node string) []string {
	var devices []string
	for _, request := range class.DeviceRequests {
		if request.Node == node && request.Action == lvmv1alpha1.DeviceActionRemove {
			devices = append(devices, request.Device)
		}
	}
	return devices
}

// nothingLeft returns warnings for volume groups of which all devices would be removed.
func (i inventory) nothingLeft(classes []lvmv1alpha1.DeviceClass) []string {
	var all []string
	for _, class := range classes {
		for n := range i.nodes {
			node := i.nodes[n].Name
			if requested := removals(class, node); len(requested) > 0 && i.takesAll(class.Name, node, requested) {
				all = append(all, fmt.Sprintf("device class %q: deviceRequests would remove every device of its "+
					"volume group on node %s: the last device is not removed; to remove the volume group, remove "+
					"the device class",
					class.Name, node))
			}
		}
	}
	return all
}

// takesAll reports whether the requests name every physical volume of a volume group.
func (i inventory) takesAll(class, node string, requested []string) bool {
	devices := i.devicesOf(node)
	for _, group := range i.statuses[node].Status.NodeStatus {
		if group.Name != class || len(group.PhysicalVolumes) == 0 {
			continue
		}
		left := slices.ContainsFunc(group.PhysicalVolumes, func(pv lvmv1alpha1.PhysicalVolumeStatus) bool {
			return !slices.ContainsFunc(requested, func(name string) bool { return isMeant(devices, name, pv) })
		})
		return !left
	}
	return false
}

// isMeant reports whether a request names a physical volume.
func isMeant(devices nodeDevices, name string, pv lvmv1alpha1.PhysicalVolumeStatus) bool {
	if name == "" {
		return false
	}
	if name == pv.UUID || name == pv.Name || name == pv.DeviceID || name == pv.Path {
		return true
	}
	device := devices.at(name)
	return device != nil && device.PVUUID == pv.UUID
}

// stillNamed returns warnings for devices that have a Remove request and are still named in a selector.
func (i inventory) stillNamed(classes []lvmv1alpha1.DeviceClass) []string {
	var all []string
	for _, class := range classes {
		for _, request := range class.DeviceRequests {
			if request.Action != lvmv1alpha1.DeviceActionRemove {
				continue
			}
			if at := i.whereNamed(class, classes, request); at != nil {
				all = append(all, fmt.Sprintf("device class %q: the request to remove %s on node %s conflicts with "+
					"its path at %s: the device is not added again as long as the request exists; remove the path "+
					"too",
					class.Name, request.Device, request.Node, at))
			}
		}
	}
	return all
}

// whereNamed returns the path of the field that names the device of a request, or nil.
func (i inventory) whereNamed(class lvmv1alpha1.DeviceClass, classes []lvmv1alpha1.DeviceClass,
	request lvmv1alpha1.DeviceRequest) *field.Path {
	devices := i.devicesOf(request.Node)
	meant := devices.at(request.Device)
	for _, s := range selections(classes) {
		if s.class.Name != class.Name || !i.holdsOn(s, request.Node) {
			continue
		}
		for _, u := range usesOf(s) {
			if path.Clean(u.path) == path.Clean(request.Device) || meant != nil && devices.at(u.path) == meant {
				return u.at
			}
		}
	}
	return nil
}

// takenOut returns warnings for devices whose path was removed from the selectors of a node. It omits nodes that are
// known not to have the device.
func (i inventory) takenOut(before, after []lvmv1alpha1.DeviceClass) []string {
	var order []string
	nodes := map[string][]string{}
	classOf := map[string]use{}
	old := selections(before)
	all := selections(after)
	for n := range i.nodes {
		node := &i.nodes[n]
		still := map[string]bool{}
		for _, u := range usesOn(node, all) {
			still[u.key()] = true
		}
		for _, u := range usesOn(node, old) {
			if still[u.key()] || !namesDevices(after, u.class.Name) || i.leadsNowhere(node.Name, u) {
				continue
			}
			if _, known := classOf[u.key()]; !known {
				classOf[u.key()] = u
				order = append(order, u.key())
			}
			nodes[u.key()] = append(nodes[u.key()], node.Name)
		}
	}
	var warnings []string
	for _, key := range order {
		u := classOf[key]
		warnings = append(warnings, fmt.Sprintf(
			"device class %q: %s is no longer selected on %s: unless another path or property selects the device, "+
				"its data is moved to the other devices of the volume group and the device is removed; to stop "+
				"this, restore the path",
			u.class.Name, u.path, shown(nodes[key])))
	}
	return warnings
}

// leadsNowhere reports whether a path certainly resolves to no device of a node, and to no missing physical volume of
// the class's volume group.
func (i inventory) leadsNowhere(node string, u use) bool {
	status := i.statuses[node].Status
	name := path.Clean(u.path)
	if !meta.IsStatusConditionTrue(status.Conditions, lvmv1alpha1.ConditionDevicesObserved) ||
		status.IsStale(time.Now()) {
		return false
	}
	for n := range status.Devices {
		if slices.Contains(namesOf(&status.Devices[n]), name) {
			return false
		}
	}
	return !slices.ContainsFunc(status.NodeStatus, func(group lvmv1alpha1.VGStatus) bool {
		return group.Name == u.class.Name && slices.ContainsFunc(group.PhysicalVolumes,
			func(pv lvmv1alpha1.PhysicalVolumeStatus) bool {
				// The names of a missing device are not always known.
				return pv.State == lvmv1alpha1.PhysicalVolumeMissing || isMeant(nil, name, pv)
			})
	})
}

// nodesLeft returns warnings for nodes that the new nodeSelector no longer selects and that have a volume group of the
// class.
func (i inventory) nodesLeft(before, after []lvmv1alpha1.DeviceClass) []string {
	var all []string
	for n, class := range after {
		at := slices.IndexFunc(before, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class.Name })
		if at < 0 {
			continue
		}
		var nodes []string
		for k := range i.nodes {
			node := &i.nodes[k]
			if selectsNode(before[at].NodeSelector, node) && !selectsNode(class.NodeSelector, node) &&
				i.hasGroup(class.Name, node.Name) {
				nodes = append(nodes, node.Name)
			}
		}
		if len(nodes) > 0 {
			all = append(all, fmt.Sprintf("%s: device class %q no longer selects %s: existing volumes remain "+
				"available there, but new volumes are not created, and a volume group without volumes is removed",
				classesPath.Index(n).Child("nodeSelector"), class.Name, shown(nodes)))
		}
	}
	return all
}

func (i inventory) hasGroup(class, node string) bool {
	return slices.ContainsFunc(i.statuses[node].Status.NodeStatus,
		func(entry lvmv1alpha1.VGStatus) bool { return entry.Name == class && len(entry.Devices) > 0 })
}

// namesDevices reports whether a device class exists and has a device selector. A class without one uses every unused
// device and keeps its devices.
func namesDevices(classes []lvmv1alpha1.DeviceClass, name string) bool {
	return slices.ContainsFunc(classes, func(c lvmv1alpha1.DeviceClass) bool {
		return c.Name == name && (c.DeviceSelector != nil || len(c.DeviceSelectors) > 0)
	})
}
