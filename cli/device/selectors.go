package device

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// byHand is what to do if a command cannot add a device to the selector.
const byHand = "add the path of the new device to the selector of the LVMCluster, wait until kubectl lvms devices " +
	"shows the device in the device class, and run kubectl lvms remove for the old one"

// replaceOperations returns how the path of a new device is added to the selector of a device class, so that the volume
// group gets the device before another one is removed. It returns nothing if the selector has the path. Selectors whose
// devices are wiped are not changed.
func replaceOperations(c classAt, m member, device *v1alpha1.DeviceStatus, nodes int) ([]session.Operation, error) {
	class := c.class()
	at, err := selectorOf(class, m, nodes)
	if err != nil {
		return nil, err
	}
	switch selector := at.selector; {
	case selector == nil || len(selector.Paths)+len(selector.OptionalPaths) == 0:
		return nil, fmt.Errorf("the device class %s does not select devices by path, so it finds the new device "+
			"itself: wait until kubectl lvms devices shows the device in the device class, and run kubectl lvms "+
			"remove for the old one",
			class.Name)
	case selector.ForceWipeDevicesAndDestroyAllData != nil && *selector.ForceWipeDevicesAndDestroyAllData ||
		len(selector.WipeVolumeGroups) > 0:
		return nil, fmt.Errorf("the selector of the device class %s wipes its devices, and this command adds none to "+
			"it: %s",
			class.Name, byHand)
	case hasPathOf(selector, objects.NamesOfDevice(device)):
		return nil, nil
	}
	list := at.field + "/optionalPaths"
	isAbsent := len(at.selector.OptionalPaths) == 0
	if at.nodes == 1 && len(at.selector.Paths) > 0 {
		list = at.field + "/paths"
		isAbsent = false
	}
	return []session.Operation{appendTo(c.path(list), isAbsent, v1alpha1.DevicePath(objects.StablePath(device)))}, nil
}

// selectorAt is a selector of a device class.
type selectorAt struct {
	selector *v1alpha1.DeviceSelector
	// field is its path in the device class.
	field string
	// nodes is the number of nodes that it is for, at most.
	nodes int
}

// selectorOf returns the selector that has a device of a node: deviceSelector, or the one of deviceSelectors with a
// path of the device. If none has a path, because the device was not found, it returns the only one that names the
// node.
func selectorOf(class *v1alpha1.DeviceClass, m member, nodes int) (selectorAt, error) {
	if len(class.DeviceSelectors) == 0 {
		return selectorAt{selector: class.DeviceSelector, field: "deviceSelector", nodes: nodes}, nil
	}
	var withPath, withNode []selectorAt
	for i := range class.DeviceSelectors {
		entry := &class.DeviceSelectors[i]
		names := namedNodes(entry.NodeSelector)
		at := selectorAt{selector: &entry.DeviceSelector, field: fmt.Sprintf("deviceSelectors/%d", i), nodes: nodes}
		switch {
		case len(names) > 0 && !slices.Contains(names, m.at.Node):
			continue
		case len(names) > 0:
			at.nodes = len(names)
			withNode = append(withNode, at)
		}
		if hasPathOf(at.selector, m.names) {
			withPath = append(withPath, at)
		}
	}
	found := withPath
	if len(found) == 0 {
		found = withNode
	}
	if len(found) != 1 {
		return selectorAt{}, fmt.Errorf("%d of the deviceSelectors of the device class %s select the device on node "+
			"%s: %s", len(found), class.Name, m.at.Node, byHand)
	}
	return found[0], nil
}

// namedNodes returns the nodes of a selector that selects nodes only by name, or nothing.
func namedNodes(selector *corev1.NodeSelector) []string {
	if selector == nil {
		return nil
	}
	var names []string
	for _, term := range selector.NodeSelectorTerms {
		if len(term.MatchExpressions) > 0 || len(term.MatchFields) != 1 {
			return nil
		}
		field := term.MatchFields[0]
		if field.Key != metav1.ObjectNameField || field.Operator != corev1.NodeSelectorOpIn {
			return nil
		}
		names = append(names, field.Values...)
	}
	return names
}

// hasPathOf returns whether a selector has one of the names of a device as a path.
func hasPathOf(selector *v1alpha1.DeviceSelector, names []string) bool {
	paths := slices.Concat(selector.Paths, selector.OptionalPaths)
	return slices.ContainsFunc(paths, func(path v1alpha1.DevicePath) bool {
		return slices.Contains(names, string(path))
	})
}
