package lvmcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Observation is the state that a reconcile reads before it changes anything. Nodes and node statuses, of which there
// may be thousands, are shared with the cache: copy one before you modify it.
type Observation struct {
	// Time is the time of the observation; zero disables the check for stale node statuses.
	Time time.Time
	// Nodes of the cluster, sorted by name.
	Nodes []corev1.Node
	// NodeStatuses has the node statuses by node.
	NodeStatuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus
	// VolumeGroups has the LVMVolumeGroups of the LVMCluster by name, including those of removed device classes.
	VolumeGroups map[string]lvmv1alpha1.LVMVolumeGroup
	// Leaving lists the device classes that are no longer in the spec and still have an LVMVolumeGroup, sorted.
	Leaving []Leaving
}

// Leaving is a device class that was removed from the spec and is not deleted yet.
type Leaving struct {
	VolumeGroup lvmv1alpha1.LVMVolumeGroup
	// Users still use the storage of the device class. If there are any, nothing of it is deleted.
	Users Users
}

// observe reads what a reconcile needs. It fails if one read fails: a list that cannot be read must not count as empty.
func (r Reconciler) observe(ctx context.Context, cluster *lvmv1alpha1.LVMCluster) (Observation, error) {
	seen := Observation{VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{}}
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list nodes: %w", err)
	}
	seen.Nodes = nodes.Items
	slices.SortFunc(seen.Nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })

	var err error
	if seen.NodeStatuses, err = r.nodeStatuses(ctx, cluster.Namespace); err != nil {
		return seen, err
	}
	groups := &lvmv1alpha1.LVMVolumeGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(cluster.Namespace)); err != nil {
		return seen, fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	for _, group := range groups.Items {
		if belongs(&group, cluster) {
			seen.VolumeGroups[group.Name] = group
		}
	}
	seen.Leaving, err = r.leaving(ctx, cluster, seen.VolumeGroups)
	return seen, err
}

// isStale reports whether the node agent has not observed its node for too long, so that its node status may be
// outdated.
func (s Observation) isStale(node string) bool {
	status := s.NodeStatuses[node]
	return !s.Time.IsZero() && status.Status.IsStale(s.Time)
}

// nextStale returns the time until the next node status becomes stale if its agent does not write it; 0 for never.
func (s Observation) nextStale() time.Duration {
	next := time.Duration(0)
	for name, status := range s.NodeStatuses {
		if status.Status.LastObserved == nil || s.isStale(name) {
			continue
		}
		left := status.Status.LastObserved.Add(lvmv1alpha1.ObservationLimit).Sub(s.Time) + time.Second
		if next == 0 || left < next {
			next = left
		}
	}
	return next
}

// leaving returns the device classes that were removed from the spec, with their users.
func (r Reconciler) leaving(ctx context.Context, cluster *lvmv1alpha1.LVMCluster,
	groups map[string]lvmv1alpha1.LVMVolumeGroup,
) ([]Leaving, error) {
	var all []Leaving
	for name, group := range groups {
		if hasClass(cluster, name) {
			continue
		}
		users, err := r.usersOf(ctx, scope{class: name, isDefault: group.Spec.Default})
		if err != nil {
			return nil, fmt.Errorf("device class %s was removed: find its users: %w", name, err)
		}
		all = append(all, Leaving{VolumeGroup: group, Users: users})
	}
	slices.SortFunc(all, func(a, b Leaving) int { return strings.Compare(a.VolumeGroup.Name, b.VolumeGroup.Name) })
	return all, nil
}

func hasClass(cluster *lvmv1alpha1.LVMCluster, name string) bool {
	return slices.ContainsFunc(cluster.Spec.Storage.DeviceClasses,
		func(class lvmv1alpha1.DeviceClass) bool { return class.Name == name })
}

// kept reports whether the objects of a device class stay: the class is in the spec, or it was removed and is still in
// use.
func (s Observation) kept(cluster *lvmv1alpha1.LVMCluster, class string) bool {
	return hasClass(cluster, class) || slices.ContainsFunc(s.Leaving,
		func(l Leaving) bool { return l.VolumeGroup.Name == class && !l.Users.None() })
}

// placement returns the nodes on which the node agent runs: those of the device classes in the spec, and those of
// removed classes, because their volumes are still served and their volume groups still have to be removed. Without any
// device class the agent runs on every node, to list its devices. The deviceSelectors of a class do not restrict the
// placement: they can change while a node has volumes, and without an agent those could be neither mounted nor
// unmounted.
func (s Observation) placement(cluster *lvmv1alpha1.LVMCluster) placement {
	p := placement{}
	if len(cluster.Spec.Storage.DeviceClasses) == 0 {
		p.selectors = append(p.selectors, nil)
	}
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		p.selectors = append(append(p.selectors, class.NodeSelector), s.holders(class.Name, class.NodeSelector)...)
	}
	for _, leaving := range s.Leaving {
		selector := leaving.VolumeGroup.Spec.NodeSelector
		p.selectors = append(append(p.selectors, selector), s.holders(leaving.VolumeGroup.Name, selector)...)
	}
	return p.reduced()
}

// holders returns selectors for the nodes that a device class no longer selects but that are still members of it, so
// that their volumes are served.
func (s Observation) holders(class string, selector *corev1.NodeSelector) []*corev1.NodeSelector {
	var all []*corev1.NodeSelector
	for i := range s.Nodes {
		node := &s.Nodes[i]
		selected, err := selects(selector, node)
		if err == nil && !selected && s.takesPart(node.Name, class) {
			all = append(all, onlyNode(node.Name))
		}
	}
	return all
}

// takesPart reports whether a node is a member of a device class, or was one under upstream LVMS.
func (s Observation) takesPart(node, class string) bool {
	status := s.NodeStatuses[node]
	return entryIn(&status, class) != nil ||
		slices.Contains(s.VolumeGroups[class].Finalizers, lvmv1alpha1.NodeCleanupFinalizer(node))
}

func onlyNode(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}}}}
}

// agentNodes returns the nodes on which the node agent runs.
func (s Observation) agentNodes(cluster *lvmv1alpha1.LVMCluster) ([]corev1.Node, error) {
	p := s.placement(cluster)
	var nodes []corev1.Node
	for _, node := range s.Nodes {
		obstacle, err := p.allows(&node)
		if err != nil {
			return nil, err
		}
		if obstacle == "" {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// keptByName is kept for the name of a StorageClass or VolumeSnapshotClass.
func (s Observation) keptByName(cluster *lvmv1alpha1.LVMCluster, name string) bool {
	class, ok := strings.CutPrefix(name, lvmv1alpha1.StorageClassPrefix)
	return ok && s.kept(cluster, class)
}
