package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// newDevices returns the devices of nodes that are in one of the states, or all if there are no states.
func newDevices(nodes []v1alpha1.LVMVolumeGroupNodeStatus, states []string, now time.Time) output.DeviceList {
	all := output.DeviceList{TypeMeta: output.TypeMeta("DeviceList"), Items: []output.Device{},
		Nodes: objects.NewNodes(nodes, now)}
	for i := range nodes {
		node := &nodes[i]
		for j := range node.Status.Devices {
			device := &node.Status.Devices[j]
			if len(states) == 0 || slices.Contains(states, string(device.State)) {
				suspended, message := membershipOf(node, device)
				all.Items = append(all.Items, output.Device{Node: node.Name,
					DeviceClasses: verdict.ClassesOf(node, device), Suspended: suspended, Message: message,
					DeviceStatus: *device})
			}
		}
	}
	slices.SortStableFunc(all.Items, func(a, b output.Device) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// newClasses returns the device classes of nodes that have a name, or all if it is empty.
func newClasses(nodes []v1alpha1.LVMVolumeGroupNodeStatus, name string, now time.Time) output.ClassList {
	all := output.ClassList{TypeMeta: output.TypeMeta("ClassList"), Items: []output.Class{},
		Nodes: objects.NewNodes(nodes, now)}
	for i := range nodes {
		for _, group := range nodes[i].Status.NodeStatus {
			if name == "" || group.Name == name {
				all.Items = append(all.Items, output.Class{Node: nodes[i].Name, VGStatus: group})
			}
		}
	}
	slices.SortStableFunc(all.Items, func(a, b output.Class) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// membershipOf returns whether a device of a volume group is suspended, and the message about the device there.
func membershipOf(node *v1alpha1.LVMVolumeGroupNodeStatus,
	device *v1alpha1.DeviceStatus) (suspended bool, text string) {
	for _, group := range node.Status.NodeStatus {
		for _, pv := range group.PhysicalVolumes {
			if verdict.Uses(&v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{pv}}, device) {
				suspended = suspended || pv.Suspended
				text = cmp.Or(text, output.OneLine(pv.Message))
			}
		}
	}
	return suspended, text
}
