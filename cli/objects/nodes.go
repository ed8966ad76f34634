// Package objects finds nodes, device classes, devices and claims in objects of the API. It reads nothing but its
// arguments.
package objects

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// OnNode returns the status of a node, or all if the name is empty. If there is none, it is an error.
func OnNode(nodes []v1alpha1.LVMVolumeGroupNodeStatus, name string) ([]v1alpha1.LVMVolumeGroupNodeStatus, error) {
	if name == "" {
		return nodes, nil
	}
	nodes = slices.DeleteFunc(nodes, func(n v1alpha1.LVMVolumeGroupNodeStatus) bool { return n.Name != name })
	if len(nodes) == 0 {
		return nil, fmt.Errorf("node %s has no LVMVolumeGroupNodeStatus: it does not exist, or no node agent runs on "+
			"it", name)
	}
	return nodes, nil
}

// NewNodes returns whether what is known about nodes is current, by name.
func NewNodes(statuses []v1alpha1.LVMVolumeGroupNodeStatus, now time.Time) []output.Node {
	nodes := []output.Node{}
	for i := range statuses {
		reason, message := verdict.NotCurrent(&statuses[i], now)
		nodes = append(nodes, output.Node{Name: statuses[i].Name, Current: reason == "",
			Message: output.OneLine(message), DevicesOmitted: statuses[i].Status.DevicesOmitted})
	}
	slices.SortStableFunc(nodes, func(a, b output.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// hasPhysicalVolume returns true if a volume group has a device that the list of devices does not have.
func hasPhysicalVolume(group *v1alpha1.VGStatus, name string) bool {
	return slices.ContainsFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.Name == name || pv.DeviceID == name || pv.UUID == name
	})
}

// Place is a device class on a node.
type Place struct{ Node, Class string }

// Location is where a device is used.
type Location struct {
	// Places are the device classes whose volume group has the device.
	Places []Place
	// Shared is true if a volume group has other devices too, so that a volume of it need not be on the device.
	Shared bool
}

// Locate returns where the device with a name is used, itself or through devices that are built on it, and false if no
// node has it. The name is a path, the ID, a link in /dev/disk/by-id or /dev/disk/by-path, or the UUID of the physical
// volume.
func Locate(nodes []v1alpha1.LVMVolumeGroupNodeStatus, name string) (Location, bool) {
	at := Location{}
	found := false
	for i := range nodes {
		node := &nodes[i]
		devices := DevicesNamed(node, name)
		found = found || len(devices) > 0
		for j := range node.Status.NodeStatus {
			group := &node.Status.NodeStatus[j]
			if slices.ContainsFunc(devices, func(d *v1alpha1.DeviceStatus) bool { return verdict.Uses(group, d) }) ||
				len(devices) == 0 && hasPhysicalVolume(group, name) {
				found = true
				at.Places = append(at.Places, Place{Node: node.Name, Class: group.Name})
				at.Shared = at.Shared || max(len(group.PhysicalVolumes), len(group.Devices)) > 1
			}
		}
	}
	return at, found
}
