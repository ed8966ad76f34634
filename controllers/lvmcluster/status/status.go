package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/kube/condition"
	"github.com/lvm-storage/lvm-operator/internal/kube/taint"
)

// problemsShown is the number of volume groups that a condition names. It counts the others.
const problemsShown = 10

// deviceClassStatuses returns the volume groups of each device class, sorted by class and node. It includes device
// classes that were removed from the spec as long as a node is a member of them.
func deviceClassStatuses(cluster *lvmv1alpha1.LVMCluster,
	current observe.State) ([]lvmv1alpha1.DeviceClassStatus, error) {
	var all []lvmv1alpha1.DeviceClassStatus
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		view := classView{name: class.Name, group: current.VolumeGroups[class.Name], current: current,
			selector: class.NodeSelector, byNode: class.DeviceSelectors,
			placement:   current.ClassPlacement(class.Name, class.NodeSelector, cluster.Spec.Tolerations),
			tolerations: cluster.Spec.Tolerations}
		status, err := view.status()
		if err != nil {
			return nil, err
		}
		all = append(all, status)
	}
	for _, removed := range current.RemovedClasses {
		view := classView{name: removed.VolumeGroup.Name, group: removed.VolumeGroup, current: current,
			removed: &removed}
		status, err := view.status()
		if err != nil {
			return nil, err
		}
		if len(status.NodeStatus) > 0 {
			all = append(all, status)
		}
	}
	slices.SortFunc(all, func(a, b lvmv1alpha1.DeviceClassStatus) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// classView is one device class on all nodes.
type classView struct {
	name      string
	group     lvmv1alpha1.LVMVolumeGroup
	current   observe.State
	selector  *corev1.NodeSelector
	placement observe.Placement
	// tolerations are those of the spec: the device class uses nodes whose taints they tolerate.
	tolerations []corev1.Toleration
	// byNode has the device selectors that apply to some of the nodes only.
	byNode  []lvmv1alpha1.NodeDeviceSelector
	removed *observe.RemovedClass
}

func (v classView) status() (lvmv1alpha1.DeviceClassStatus, error) {
	status := lvmv1alpha1.DeviceClassStatus{Name: v.name}
	for _, node := range v.current.Nodes {
		entry, err := v.onNode(&node)
		if err != nil {
			return status, err
		}
		if entry != nil {
			status.NodeStatus = append(status.NodeStatus, lvmv1alpha1.NodeStatus{Node: node.Name, VGStatus: *entry})
		}
	}
	return status, nil
}

// onNode returns the state of the volume group on a node, or nil if there is none and should be none.
func (v classView) onNode(node *corev1.Node) (*lvmv1alpha1.VGStatus, error) {
	reported := v.reported(node.Name)
	if v.removed != nil {
		return v.removal(reported), nil
	}
	obstacle, err := v.placement.Allows(node)
	if err != nil {
		return nil, err
	}
	if expected, err := v.expects(node); err != nil || reported == nil && (!expected || obstacle != "") {
		return nil, err
	}
	if reported == nil {
		return v.pending(node), nil
	}
	if why := v.whyUnmanaged(node, obstacle); why != "" {
		return markUnmanaged(reported, why), nil
	}
	return v.managed(node, reported), nil
}

// expects reports whether the device class should have a volume group on a node.
func (v classView) expects(node *corev1.Node) (bool, error) {
	hasSelector, err := v.hasSelector(node)
	if err != nil {
		return false, err
	}
	selected, err := observe.Selects(v.selector, node)
	return hasSelector && selected && taint.Untolerated(node, v.tolerations) == nil, err
}

// pending returns the entry of a volume group that the agent has not reported yet.
func (v classView) pending(node *corev1.Node) *lvmv1alpha1.VGStatus {
	why := "the node has not reported its volume group yet"
	if problem := observe.NotReady(node); problem != "" {
		why = problem + " and has not reported its volume group"
	}
	return &lvmv1alpha1.VGStatus{Name: v.name, Status: lvmv1alpha1.VGStatusProgressing, Reason: why}
}

// whyUnmanaged returns why no agent manages the volume group on a node, or "". The first reason explains the others.
func (v classView) whyUnmanaged(node *corev1.Node, obstacle string) string {
	status := v.current.NodeStatuses[node.Name]
	switch problem := observe.NotReady(node); {
	case obstacle != "":
		return "the node agent can no longer run here, so the volume group is not managed: " + obstacle
	case problem != "":
		return problem
	case v.current.IsStale(node.Name):
		return observe.NotObservedSince(&status)
	}
	return ""
}

// managed completes what the agent reported by what only the operator knows: the agent has not seen the last change of
// the device class, or the node is cordoned.
func (v classView) managed(node *corev1.Node, reported *lvmv1alpha1.VGStatus) *lvmv1alpha1.VGStatus {
	// A new generation of the LVMVolumeGroup does not change health: an unhealthy volume group stays so until the agent
	// has observed it again.
	if reported.ObservedGeneration != 0 && reported.ObservedGeneration < v.group.Generation &&
		len(unhealthy(reported)) == 0 {
		reported.Status = lvmv1alpha1.VGStatusProgressing
		reported.Reason = "the node agent has not observed the latest change of the device class yet"
	}
	if node.Spec.Unschedulable && reported.Status == lvmv1alpha1.VGStatusReady && reported.Reason == "" {
		reported.Reason = "the node is cordoned: running Pods keep their volumes, and no new Pods are scheduled"
	}
	return reported
}

// hasSelector reports whether a device selector of the device class applies to a node.
func (v classView) hasSelector(node *corev1.Node) (bool, error) {
	if len(v.byNode) == 0 {
		return true, nil
	}
	var selectors []*corev1.NodeSelector
	for i := range v.byNode {
		selectors = append(selectors, v.byNode[i].NodeSelector)
	}
	return observe.SelectsAny(selectors, node)
}

// reported returns the entry that the agent of a node has reported, or nil.
func (v classView) reported(node string) *lvmv1alpha1.VGStatus {
	status := v.current.NodeStatuses[node]
	entry := observe.Entry(&status, v.name)
	if entry == nil || entry.Status == lvmv1alpha1.VGStatusRemoved {
		return nil
	}
	return summaryOf(entry)
}

// summaryOf omits details that stay in the node status: the LVMCluster holds the entries of all nodes, and its size is
// limited.
func summaryOf(entry *lvmv1alpha1.VGStatus) *lvmv1alpha1.VGStatus {
	summary := entry.DeepCopy()
	summary.PhysicalVolumes = nil
	summary.WipedDevices = nil
	summary.Conditions = slices.DeleteFunc(summary.Conditions,
		func(c metav1.Condition) bool { return c.Status == metav1.ConditionTrue })
	withConditions(summary)
	if summary.RAIDStatus != nil {
		summary.RAIDStatus.LVHealth = nil
	}
	return summary
}

// withConditions sets the state Degraded if an entry is Ready but one of its conditions is False.
func withConditions(summary *lvmv1alpha1.VGStatus) {
	if summary.Status != lvmv1alpha1.VGStatusReady {
		return // the reason contains the conditions
	}
	if wrong := unhealthy(summary); len(wrong) > 0 {
		summary.Status = lvmv1alpha1.VGStatusDegraded
		summary.Reason = strings.Join(wrong, "; ")
	}
}

// unhealthy returns the messages of conditions that are False.
func unhealthy(entry *lvmv1alpha1.VGStatus) []string {
	var wrong []string
	for _, c := range entry.Conditions {
		if c.Status == metav1.ConditionFalse {
			wrong = append(wrong, messageOrReason(c))
		}
	}
	return wrong
}

func messageOrReason(c metav1.Condition) string {
	if c.Message == "" {
		return c.Type + ": " + c.Reason
	}
	return c.Message
}

// removal returns the state of a volume group whose device class is being removed.
func (v classView) removal(reported *lvmv1alpha1.VGStatus) *lvmv1alpha1.VGStatus {
	if reported == nil || reported.Status == lvmv1alpha1.VGStatusFailed ||
		reported.Status == lvmv1alpha1.VGStatusDegraded {
		return reported
	}
	why := "the device class was removed: the volume group is being removed"
	if !v.removed.Users.None() {
		why = "the device class was removed: the volume group is kept until it is no longer in use"
	}
	if reported.Reason != "" {
		why += ": " + reported.Reason
	}
	reported.Status = lvmv1alpha1.VGStatusProgressing
	reported.Reason = why
	return reported
}

// markUnmanaged marks an entry as unmanaged and keeps what was last reported. Failed stays Failed.
func markUnmanaged(reported *lvmv1alpha1.VGStatus, why string) *lvmv1alpha1.VGStatus {
	last := string(reported.Status)
	if reported.Reason != "" {
		last += ", " + reported.Reason
	}
	if reported.Status != lvmv1alpha1.VGStatusFailed {
		reported.Status = lvmv1alpha1.VGStatusDegraded
	}
	reported.Reason = fmt.Sprintf("%s; last reported: %s", why, last)
	return reported
}

// severities are the states of a volume group that is not Ready, worst first, each with its reason in
// VolumeGroupsReady.
var severities = []struct {
	state  lvmv1alpha1.VGState
	reason string
}{
	{lvmv1alpha1.VGStatusFailed, lvmv1alpha1.ReasonVGsFailed},
	{lvmv1alpha1.VGStatusDegraded, lvmv1alpha1.ReasonVGsDegraded},
	{lvmv1alpha1.VGStatusProgressing, lvmv1alpha1.ReasonVGReadinessInProgress},
}

// reportVolumeGroups sets VolumeGroupsReady and returns its reason. The reason is that of the worst state. The message
// lists the volume groups that are not ready, worst first.
func reportVolumeGroups(conditions *condition.Accumulator, cluster *lvmv1alpha1.LVMCluster, current observe.State,
	classes []lvmv1alpha1.DeviceClassStatus,
) string {
	const ready = lvmv1alpha1.ConditionVolumeGroupsReady
	reason := ""
	problems := []string(nil)
	for _, severity := range severities {
		found := problemsOf(cluster, classes, severity.state)
		if len(found) > 0 && reason == "" {
			reason = severity.reason
		}
		problems = append(problems, found...)
	}
	switch {
	case len(problems) > 0:
		conditions.False(ready, reason, firstProblems(problems))
	case len(cluster.Spec.Storage.DeviceClasses) == 0:
		reason = lvmv1alpha1.ReasonVGsUnmanaged
		conditions.True(ready, reason, fmt.Sprintf(
			"the LVMCluster has no device classes: the node agents list the devices of %s in "+
				"LVMVolumeGroupNodeStatus.status.devices and change nothing; to use devices, add a device class to "+
				"spec.storage.deviceClasses",
			listedNodes(current)))
	default:
		reason = lvmv1alpha1.ReasonVGsReady
		conditions.True(ready, reason, "every device class has its volume group on every node that it selects")
	}
	return reason
}

// listedNodes returns how many of the nodes with a node status have listed their devices.
func listedNodes(current observe.State) string {
	listed := 0
	for name, status := range current.NodeStatuses {
		if meta.IsStatusConditionTrue(status.Status.Conditions, lvmv1alpha1.ConditionDevicesObserved) &&
			!current.IsStale(name) {
			listed++
		}
	}
	if listed < len(current.NodeStatuses) {
		return fmt.Sprintf("%d of %d nodes", listed, len(current.NodeStatuses))
	}
	if listed == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", listed)
}

// problemsOf returns a message for each volume group in a state. A device class that no node can have counts as
// Progressing.
func problemsOf(cluster *lvmv1alpha1.LVMCluster, classes []lvmv1alpha1.DeviceClassStatus,
	state lvmv1alpha1.VGState) []string {
	var problems []string
	for _, class := range classes {
		inSpec := observe.HasClass(cluster, class.Name)
		if len(class.NodeStatus) == 0 && state == lvmv1alpha1.VGStatusProgressing && inSpec {
			problems = append(problems, fmt.Sprintf(
				"device class %s: it selects no node: check its nodeSelector, those of its deviceSelectors, "+
					"and the taints that spec.tolerations does not tolerate", class.Name))
		}
		if state == lvmv1alpha1.VGStatusFailed && inSpec && hasNoVolumeGroup(class) {
			problems = append(problems, fmt.Sprintf(
				"device class %s: none of its nodes has a device for it: attach one, or correct its deviceSelector",
				class.Name))
		}
		for _, node := range class.NodeStatus {
			if stateOf(node.VGStatus) == state {
				problems = append(problems, fmt.Sprintf("device class %s on node %s: %s", class.Name, node.Node,
					reasonOrHint(node.Reason)))
			}
		}
	}
	return problems
}

// hasNoVolumeGroup reports whether a device class is Ready on all its nodes but has no volume group on any of them.
func hasNoVolumeGroup(class lvmv1alpha1.DeviceClassStatus) bool {
	return len(class.NodeStatus) > 0 && !slices.ContainsFunc(class.NodeStatus, func(n lvmv1alpha1.NodeStatus) bool {
		return stateOf(n.VGStatus) != lvmv1alpha1.VGStatusReady || len(n.Devices) > 0 || n.Reason == ""
	})
}

// stateOf returns the state of a volume group. An empty state counts as Progressing.
func stateOf(status lvmv1alpha1.VGStatus) lvmv1alpha1.VGState {
	if status.Status == "" {
		return lvmv1alpha1.VGStatusProgressing
	}
	return status.Status
}

func reasonOrHint(reason string) string {
	if reason == "" {
		return "no reason reported: check the log of the vg-manager Pod there"
	}
	return reason
}

func firstProblems(problems []string) string {
	if rest := len(problems) - problemsShown; rest > 0 {
		return strings.Join(problems[:problemsShown], "; ") + fmt.Sprintf("; and %d more", rest)
	}
	return strings.Join(problems, "; ")
}
