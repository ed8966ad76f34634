package setup

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
)

// The limits of the API for a device class.
const (
	// maxSelectors is the limit of deviceSelectors.
	maxSelectors = 16
	// maxPaths is the limit of paths and of optionalPaths.
	maxPaths = 128
)

// reviewedNode is a node with the paths of its reviewed devices, sorted.
type reviewedNode struct {
	name  string
	paths []v1alpha1.DevicePath
}

// newReviewedClass returns a device class that selects the reviewed devices. Nodes with the same paths share a
// selector. If that needs more selectors than the API allows, nodes with different paths share one, with optionalPaths.
func newReviewedClass(f *initFlags, review []output.ReviewedDevice) (v1alpha1.DeviceClass, error) {
	class := v1alpha1.DeviceClass{Name: f.class, Default: f.isDefault, Approval: v1alpha1.ApprovalRequired}
	if f.thinPool != "" {
		class.ThinPoolConfig = &v1alpha1.ThinPoolConfig{Name: f.thinPool, OverprovisionRatio: 10}
	}
	nodes := reviewedNodes(review)
	for _, node := range nodes {
		if len(node.paths) > maxPaths {
			return class, fmt.Errorf("node %s has %d selected devices, and a device class can name %d on a node: "+
				"select fewer, and add the others with another --class", node.name, len(node.paths), maxPaths)
		}
	}
	class.DeviceSelectors = selectorsByPaths(nodes)
	if len(class.DeviceSelectors) > maxSelectors {
		class.DeviceSelectors = sharedSelectors(nodes)
	}
	if len(class.DeviceSelectors) > maxSelectors {
		return class, fmt.Errorf("the selected devices need %d deviceSelectors with %d paths each, and the API allows "+
			"%d in a device class: split the file by nodes, and run init for each part with another --class, or "+
			"create a device class that selects devices by property, with approval: Required",
			len(class.DeviceSelectors), maxPaths, maxSelectors)
	}
	return class, nil
}

// reviewedNodes returns the nodes of a review, in its order.
func reviewedNodes(review []output.ReviewedDevice) []reviewedNode {
	var nodes []reviewedNode
	for _, r := range review {
		at := slices.IndexFunc(nodes, func(n reviewedNode) bool { return n.name == r.Node })
		if at < 0 {
			at = len(nodes)
			nodes = append(nodes, reviewedNode{name: r.Node})
		}
		nodes[at].paths = union(nodes[at].paths, []v1alpha1.DevicePath{v1alpha1.DevicePath(r.Path)})
	}
	return nodes
}

// union returns the paths of two lists, sorted.
func union(a, b []v1alpha1.DevicePath) []v1alpha1.DevicePath {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// selectorsByPaths returns a selector for each set of paths. A node without one of its paths is reported.
func selectorsByPaths(nodes []reviewedNode) []v1alpha1.NodeDeviceSelector {
	var selectors []v1alpha1.NodeDeviceSelector
	for _, node := range nodes {
		at := slices.IndexFunc(selectors, func(s v1alpha1.NodeDeviceSelector) bool {
			return slices.Equal(s.Paths, node.paths)
		})
		if at < 0 {
			at = len(selectors)
			selectors = append(selectors, newNodeSelector(v1alpha1.DeviceSelector{Paths: node.paths}))
		}
		addNode(&selectors[at], node.name)
	}
	return selectors
}

// sharedSelectors returns as few selectors as possible, in the order of the nodes: each has the paths of several nodes,
// which are optional, because no node has all of them. A path that another of these nodes has too needs an approval
// there, as each device does.
func sharedSelectors(nodes []reviewedNode) []v1alpha1.NodeDeviceSelector {
	var selectors []v1alpha1.NodeDeviceSelector
	for _, node := range nodes {
		last := len(selectors) - 1
		if last < 0 || len(union(selectors[last].OptionalPaths, node.paths)) > maxPaths {
			selectors = append(selectors, newNodeSelector(v1alpha1.DeviceSelector{}))
			last++
		}
		selectors[last].OptionalPaths = union(selectors[last].OptionalPaths, node.paths)
		addNode(&selectors[last], node.name)
	}
	return selectors
}

func newNodeSelector(selector v1alpha1.DeviceSelector) v1alpha1.NodeDeviceSelector {
	return v1alpha1.NodeDeviceSelector{NodeSelector: &corev1.NodeSelector{}, DeviceSelector: selector}
}

// addNode lets a selector apply to one more node.
func addNode(selector *v1alpha1.NodeDeviceSelector, node string) {
	selector.NodeSelector.NodeSelectorTerms = append(selector.NodeSelector.NodeSelectorTerms,
		corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
			Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}})
}

// hasOptionalPaths returns true if nodes with different paths share a selector.
func hasOptionalPaths(class *v1alpha1.DeviceClass) bool {
	return slices.ContainsFunc(class.DeviceSelectors,
		func(s v1alpha1.NodeDeviceSelector) bool { return len(s.OptionalPaths) > 0 })
}
