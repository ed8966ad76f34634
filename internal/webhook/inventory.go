package webhook

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// inventory is what the nodes say about their devices.
type inventory struct {
	nodes    []corev1.Node
	statuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus
}

// onceEach: two paths that lead to one device on a node are one device. Where a node has not listed its devices nothing is known, and
// the node agent decides.
func (i inventory) onceEach(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	reported := map[string]bool{}
	for n := range i.nodes {
		node := &i.nodes[n]
		seen := map[string]use{}
		for _, s := range selections(classes) {
			if !selectsNode(s.class.NodeSelector, node) || !selectsNode(s.node, node) {
				continue
			}
			for _, u := range usesOf(s) {
				device := i.deviceAt(node.Name, u.path)
				if device == "" {
					continue
				}
				other, taken := seen[device]
				if !taken {
					seen[device] = u
					continue
				}
				// The same words in two places are told by another rule already.
				if path.Clean(other.path) != path.Clean(u.path) && !reported[u.at.String()] {
					reported[u.at.String()] = true
					violations = append(violations, field.Invalid(u.at, u.path, fmt.Sprintf(
						"leads to the same device on node %s (%s) as %s at %s: name it once", node.Name, device, other.path, other.at)))
				}
			}
		}
	}
	return violations
}

// deviceAt returns the device of a node that a path leads to, or "".
func (i inventory) deviceAt(node, name string) string {
	for _, d := range i.statuses[node].Status.Devices {
		if d.State != lvmv1alpha1.DeviceMissing && slices.Contains(namesOf(d), path.Clean(name)) {
			return strings.TrimSpace(d.Name + " " + d.ID)
		}
	}
	return ""
}

func namesOf(d lvmv1alpha1.DeviceStatus) []string {
	names := []string{d.Name, d.KernelName}
	for _, l := range d.ByID {
		names = append(names, "/dev/disk/by-id/"+l)
	}
	for _, l := range d.ByPath {
		names = append(names, "/dev/disk/by-path/"+l)
	}
	return names
}

// selectsNode reports whether a selector surely selects a node. One that cannot be read is not this rule's business.
func selectsNode(selector *corev1.NodeSelector, node *corev1.Node) bool {
	if selector == nil {
		return true
	}
	selected, err := nodeaffinity.NewLazyErrorNodeSelector(selector).Match(node)
	return err == nil && selected
}
