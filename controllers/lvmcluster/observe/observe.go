// Package observe reads the state of the cluster before a reconcile of the LVMCluster changes anything, and answers
// what follows from it: on which nodes the agent runs, which nodes are members of a device class, which node statuses
// are stale, and what uses the storage. It writes nothing.
package observe

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
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// State is the current state of the cluster. Nodes and node statuses, of which there may be thousands, are shared with
// the cache: copy one before you modify it.
type State struct {
	// Time is the time of the observation; zero disables the check for stale node statuses.
	Time time.Time
	// Nodes of the cluster, sorted by name.
	Nodes []corev1.Node
	// NodeStatuses has the node statuses by node.
	NodeStatuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus
	// VolumeGroups has the LVMVolumeGroups of the LVMCluster by name, including those of removed device classes.
	VolumeGroups map[string]lvmv1alpha1.LVMVolumeGroup
	// RemovedClasses lists the device classes that are no longer in the spec and still have an LVMVolumeGroup, sorted.
	RemovedClasses []RemovedClass
}

// RemovedClass is a device class that was removed from the spec and is not deleted yet.
type RemovedClass struct {
	VolumeGroup lvmv1alpha1.LVMVolumeGroup
	// Users still use the storage of the device class. If there are any, nothing of it is deleted.
	Users Users
}

// Read reads the state at a time. It fails if one read fails: a list that cannot be read must not count as empty.
// cached may read from a cache; live must not.
func (u *Use) Read(ctx context.Context, cached, live client.Reader, cluster *lvmv1alpha1.LVMCluster,
	now time.Time) (State, error) {
	current := State{VolumeGroups: map[string]lvmv1alpha1.LVMVolumeGroup{}}
	nodes := &corev1.NodeList{}
	if err := cached.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return current, fmt.Errorf("list nodes: %w", err)
	}
	current.Nodes = nodes.Items
	slices.SortFunc(current.Nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })

	var err error
	if current.NodeStatuses, err = NodeStatuses(ctx, cached, cluster.Namespace); err != nil {
		return current, err
	}
	groups := &lvmv1alpha1.LVMVolumeGroupList{}
	if err := cached.List(ctx, groups, client.InNamespace(cluster.Namespace)); err != nil {
		return current, fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	for _, group := range groups.Items {
		if IsOwned(&group, cluster) {
			current.VolumeGroups[group.Name] = group
		}
	}
	current.RemovedClasses, err = u.removedClasses(ctx, live, cluster, current.VolumeGroups, now)
	return current, err
}

// IsStale reports whether the node agent has not observed its node for too long, so that its node status may be
// outdated.
func (s State) IsStale(node string) bool {
	status := s.NodeStatuses[node]
	return !s.Time.IsZero() && status.Status.IsStale(s.Time)
}

// NextStale returns the time until the next node status becomes stale if its agent does not write it; 0 for never.
func (s State) NextStale() time.Duration {
	next := time.Duration(0)
	for name, status := range s.NodeStatuses {
		if status.Status.LastObserved == nil || s.IsStale(name) {
			continue
		}
		left := status.Status.LastObserved.Add(lvmv1alpha1.ObservationLimit).Sub(s.Time) + time.Second
		if next == 0 || left < next {
			next = left
		}
	}
	return next
}

// removedClasses returns the device classes that were removed from the spec, with their users.
func (u *Use) removedClasses(ctx context.Context, live client.Reader, cluster *lvmv1alpha1.LVMCluster,
	groups map[string]lvmv1alpha1.LVMVolumeGroup, now time.Time) ([]RemovedClass, error) {
	var all []RemovedClass
	for name, group := range groups {
		if HasClass(cluster, name) {
			continue
		}
		users, err := u.OfClass(ctx, live, &group, now)
		if err != nil {
			return nil, fmt.Errorf("device class %s was removed: find its users: %w", name, err)
		}
		all = append(all, RemovedClass{VolumeGroup: group, Users: users})
	}
	slices.SortFunc(all,
		func(a, b RemovedClass) int { return strings.Compare(a.VolumeGroup.Name, b.VolumeGroup.Name) })
	return all, nil
}

// HasClass reports whether a device class is in the spec.
func HasClass(cluster *lvmv1alpha1.LVMCluster, name string) bool {
	return slices.ContainsFunc(cluster.Spec.Storage.DeviceClasses,
		func(class lvmv1alpha1.DeviceClass) bool { return class.Name == name })
}

// KeepsStorageClass reports whether the StorageClass and the VolumeSnapshotClass with a name stay: their device class
// is in the spec, or it was removed and is still in use.
func (s State) KeepsStorageClass(cluster *lvmv1alpha1.LVMCluster, name string) bool {
	class, ok := strings.CutPrefix(name, wellknown.StorageClassPrefix)
	return ok && (HasClass(cluster, class) || slices.ContainsFunc(s.RemovedClasses,
		func(removed RemovedClass) bool { return removed.VolumeGroup.Name == class && !removed.Users.None() }))
}

// Placement returns the nodes on which the node agent runs: those of the device classes in the spec, and those of
// removed classes, because their volumes are still served and their volume groups still have to be removed. Without any
// device class the agent runs on every node, to list its devices. The deviceSelectors of a class do not restrict the
// placement: they can change while a node has volumes, and without an agent those could be neither mounted nor
// unmounted.
func (s State) Placement(cluster *lvmv1alpha1.LVMCluster) Placement {
	p := Placement{arbiters: toleratesArbiters(cluster.Spec.Tolerations)}
	if len(cluster.Spec.Storage.DeviceClasses) == 0 {
		p.selectors = append(p.selectors, nil)
	}
	add := func(class string, selector *corev1.NodeSelector) {
		of := s.ClassPlacement(class, selector, cluster.Spec.Tolerations)
		p.selectors = append(p.selectors, of.selectors...)
		p.members = append(p.members, of.members...)
	}
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		add(class.Name, class.NodeSelector)
	}
	for _, removed := range s.RemovedClasses {
		add(removed.VolumeGroup.Name, removed.VolumeGroup.Spec.NodeSelector)
	}
	return p.reduced()
}

// ClassPlacement returns the nodes on which the node agent runs for a device class: those that the class selects, and
// those that it no longer selects but that are still members of it, so that their volumes are served.
func (s State) ClassPlacement(class string, selector *corev1.NodeSelector,
	tolerations []corev1.Toleration) Placement {
	p := Placement{selectors: []*corev1.NodeSelector{selector}, arbiters: toleratesArbiters(tolerations)}
	for i := range s.Nodes {
		node := &s.Nodes[i]
		selected, err := Selects(selector, node)
		if err != nil || !s.isMember(node.Name, class) {
			continue
		}
		if !selected {
			p.selectors = append(p.selectors, onlyNode(node.Name))
		}
		if isArbiter(node) && !p.arbiters {
			p.members = append(p.members, node.Name)
		}
	}
	return p
}

func onlyNode(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}}}}
}

// AgentNodes returns the nodes on which the node agent runs.
func (s State) AgentNodes(cluster *lvmv1alpha1.LVMCluster) ([]corev1.Node, error) {
	p := s.Placement(cluster)
	var nodes []corev1.Node
	for _, node := range s.Nodes {
		obstacle, err := p.Allows(&node)
		if err != nil {
			return nil, err
		}
		if obstacle == "" {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}
