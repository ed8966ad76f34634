package device

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// classAt is a device class in the spec of an LVMCluster.
type classAt struct {
	cluster *v1alpha1.LVMCluster
	index   int
}

// findClass returns the device class with a name. Only one LVMCluster may have it.
func findClass(clusters []v1alpha1.LVMCluster, name string) (classAt, error) {
	var found []classAt
	for i := range clusters {
		for j := range clusters[i].Spec.Storage.DeviceClasses {
			if clusters[i].Spec.Storage.DeviceClasses[j].Name == name {
				found = append(found, classAt{cluster: &clusters[i], index: j})
			}
		}
	}
	switch {
	case len(found) == 0:
		return classAt{}, fmt.Errorf("no LVMCluster has the device class %s in its spec", name)
	case len(found) > 1:
		return classAt{}, fmt.Errorf("several LVMClusters have the device class %s: give the namespace with -n", name)
	}
	class := found[0].class()
	if class.ExistingVolumeGroup != "" {
		return classAt{}, fmt.Errorf("the device class %s uses the volume group %s, which an administrator created "+
			"(existingVolumeGroup): its devices are changed with LVM commands on the "+
			"node", name, class.ExistingVolumeGroup)
	}
	return found[0], nil
}

func (c classAt) class() *v1alpha1.DeviceClass { return &c.cluster.Spec.Storage.DeviceClasses[c.index] }

func (c classAt) name() string {
	return "LVMCluster " + c.cluster.Namespace + "/" + c.cluster.Name
}

// path returns the path of a field of the device class in a JSON patch.
func (c classAt) path(field string) string {
	return fmt.Sprintf("/spec/storage/deviceClasses/%d/%s", c.index, field)
}

// guarded returns a patch that the API server applies only to the LVMCluster as it was read: if it was changed in the
// meantime, there is a conflict.
func (c classAt) guarded(operations []session.Operation) []session.Operation {
	return append([]session.Operation{
		{Op: "test", Path: "/metadata/uid", Value: c.cluster.UID},
		{Op: "replace", Path: "/metadata/resourceVersion", Value: c.cluster.ResourceVersion},
		{Op: "test", Path: c.path("name"), Value: c.class().Name},
	}, operations...)
}

// requestOperations returns how the requests of a device class are changed so that the device has one request with the
// action, or none if the action is empty. It returns nothing if that is so already. The new request names the UUID of
// the physical volume, which is on the device itself. A suspended device stays suspended, unless the action is empty.
func requestOperations(c classAt, m member, action v1alpha1.DeviceAction) []session.Operation {
	current := m.requestIn(c)
	switch {
	case action == "":
		return replaceRequests(c, m, nil)
	case current == nil:
		return replaceRequests(c, m, &v1alpha1.DeviceRequest{Node: m.at.Node, Device: m.pv.UUID, Action: action})
	case current.Action == action:
		return nil
	}
	return replaceRequests(c, m, &v1alpha1.DeviceRequest{Node: m.at.Node, Device: m.pv.UUID, Action: action,
		Suspend: current.Suspend, SuspendReason: current.SuspendReason})
}

// requestIn returns the request for the device that is in effect, which is the first, or nil.
func (m member) requestIn(c classAt) *v1alpha1.DeviceRequest {
	requests := c.class().DeviceRequests
	if about := slices.IndexFunc(requests, m.isAbout); about >= 0 {
		return &requests[about]
	}
	return nil
}

// replaceRequests returns how all requests for a device are replaced by one, or removed if it is nil.
func replaceRequests(c classAt, m member, next *v1alpha1.DeviceRequest) []session.Operation {
	requests := c.class().DeviceRequests
	about := slices.IndexFunc(requests, m.isAbout)
	isOther := func(r v1alpha1.DeviceRequest) bool { return !m.isAbout(r) }
	if about >= 0 && next == nil && !slices.ContainsFunc(requests, isOther) {
		return []session.Operation{{Op: "remove", Path: c.path("deviceRequests")}}
	}
	var operations []session.Operation
	for i := len(requests) - 1; i >= 0; i-- {
		if m.isAbout(requests[i]) {
			operations = append(operations, session.Operation{Op: "remove",
				Path: fmt.Sprintf("%s/%d", c.path("deviceRequests"), i)})
		}
	}
	if next != nil {
		operations = append(operations, appendTo(c.path("deviceRequests"), len(requests) == 0, *next))
	}
	return operations
}

// appendTo returns the operation that appends a value to a list, or creates the list.
func appendTo(list string, isAbsent bool, value any) session.Operation {
	if isAbsent {
		return session.Operation{Op: "add", Path: list, Value: []any{value}}
	}
	return session.Operation{Op: "add", Path: list + "/-", Value: value}
}

// withdrawOperations returns how the requests of a node are removed that have a name as their device.
func withdrawOperations(c classAt, node, device string) []session.Operation {
	return requestOperations(c, member{at: session.Target{Node: node}, names: []string{device}}, "")
}

// adoptOperations returns how a device class adopts a volume group on a node, or nothing if it does so already. It can
// adopt one on each node.
func adoptOperations(c classAt, node, uuid string) []session.Operation {
	adopted := v1alpha1.VolumeGroupAdoption{Node: node, VolumeGroupUUID: uuid}
	list := c.class().Adopt
	index := slices.IndexFunc(list, func(a v1alpha1.VolumeGroupAdoption) bool { return a.Node == node })
	switch {
	case index >= 0 && list[index] == adopted:
		return nil
	case index >= 0:
		return []session.Operation{{Op: "replace", Path: fmt.Sprintf("%s/%d", c.path("adopt"), index), Value: adopted}}
	}
	return []session.Operation{appendTo(c.path("adopt"), len(list) == 0, adopted)}
}
