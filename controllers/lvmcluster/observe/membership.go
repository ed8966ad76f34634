package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// A node is a member of a device class as long as its node status has an entry with the name of the class
// (vgmanager/group/volumegroup, part.go).

// NodeStatuses returns the node statuses of a namespace by name, without copies. Do not modify them.
func NodeStatuses(ctx context.Context, cached client.Reader,
	namespace string) (map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus, error) {
	list := &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list LVMVolumeGroupNodeStatuses: %w", err)
	}
	statuses := make(map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus, len(list.Items))
	for _, status := range list.Items {
		statuses[status.Name] = status
	}
	return statuses, nil
}

// Entry returns the entry of a node status for a device class, or nil.
func Entry(status *lvmv1alpha1.LVMVolumeGroupNodeStatus, class string) *lvmv1alpha1.VGStatus {
	for i := range status.Status.NodeStatus {
		if status.Status.NodeStatus[i].Name == class {
			return &status.Status.NodeStatus[i]
		}
	}
	return nil
}

// Members returns the sorted names of the nodes that are members of a device class.
func Members(statuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus, class string) []string {
	var nodes []string
	for node, status := range statuses {
		if Entry(&status, class) != nil {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// isMember reports whether a node is a member of a device class, or was one under upstream LVMS.
func (s State) isMember(node, class string) bool {
	status := s.NodeStatuses[node]
	return Entry(&status, class) != nil ||
		slices.Contains(s.VolumeGroups[class].Finalizers, wellknown.NodeCleanupFinalizer(node))
}

// NotObservedSince returns a message for a node status that is stale.
func NotObservedSince(status *lvmv1alpha1.LVMVolumeGroupNodeStatus) string {
	return fmt.Sprintf(
		"the node agent has not observed node %s since %s: check the vg-manager Pod there, and its log",
		status.Name, status.Status.LastObserved.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// OwnerName returns the value of the label that marks the objects of an LVMCluster: its name, truncated to the length
// of a label value.
func OwnerName(cluster *lvmv1alpha1.LVMCluster) string {
	const limit = 63
	if len(cluster.Name) <= limit {
		return cluster.Name
	}
	return strings.TrimRight(cluster.Name[:limit], "-.")
}

// IsOwned reports whether a namespaced object is an operand. An LVMVolumeGroup that a user created is not.
func IsOwned(object client.Object, cluster *lvmv1alpha1.LVMCluster) bool {
	return metav1.IsControlledBy(object, cluster) ||
		object.GetLabels()[wellknown.OwnerNameLabel] == OwnerName(cluster)
}
