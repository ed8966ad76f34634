package lvmcluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	helpers "k8s.io/component-helpers/scheduling/corev1"
)

// conditionTaints are set by Kubernetes for what a node suffers. They come and go, most are tolerated by every
// DaemonSet, and a node that has one keeps its volume groups: they never make a node count less. Among them are
// cordon, not ready and unreachable.
var conditionTaints = []string{
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure,
	corev1.TaintNodePIDPressure,
	corev1.TaintNodeNetworkUnavailable,
}

// placement says on which nodes the node agent runs.
type placement struct {
	// selectors are those of the device classes; nil among them selects every node.
	selectors   []*corev1.NodeSelector
	tolerations []corev1.Toleration
}

// reduced leaves out selectors that are there already, and puts the others into an order that is the same each time.
func (p placement) reduced() placement {
	if slices.Contains(p.selectors, nil) {
		p.selectors = []*corev1.NodeSelector{nil}
		return p
	}
	slices.SortFunc(p.selectors, func(a, b *corev1.NodeSelector) int { return strings.Compare(a.String(), b.String()) })
	p.selectors = slices.CompactFunc(p.selectors, func(a, b *corev1.NodeSelector) bool { return a.String() == b.String() })
	return p
}

// allows returns "" if the node agent can run on a node, or why it cannot and what to do.
func (p placement) allows(node *corev1.Node) (string, error) {
	selected, err := selectedByAny(p.selectors, node)
	if err != nil {
		return "", err
	}
	if !selected {
		return "no device class selects the node: give it the labels that the nodeSelector asks for", nil
	}
	if taint := untolerated(node, p.tolerations); taint != nil {
		return fmt.Sprintf("taint %s is not tolerated: add a toleration to spec.tolerations, or remove the taint", taint.ToString()), nil
	}
	return "", nil
}

// selectedByAny reports whether one of several selectors selects a node.
func selectedByAny(selectors []*corev1.NodeSelector, node *corev1.Node) (bool, error) {
	for _, selector := range selectors {
		selected, err := selects(selector, node)
		if selected || err != nil {
			return selected, err
		}
	}
	return false, nil
}

// selects reports whether a selector selects a node. No selector selects every node.
func selects(selector *corev1.NodeSelector, node *corev1.Node) (bool, error) {
	if selector == nil {
		return true, nil
	}
	selected, err := nodeaffinity.NewLazyErrorNodeSelector(selector).Match(node)
	if err != nil {
		return false, fmt.Errorf("nodeSelector of a device class: %w", err)
	}
	return selected, nil
}

// untolerated returns the first taint by which a node keeps the node agent away, or nil.
func untolerated(node *corev1.Node, tolerations []corev1.Toleration) *corev1.Taint {
	const comparisonOperators = false
	keepsAway := func(taint *corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.Contains(conditionTaints, taint.Key)
	}
	taint, found := helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, tolerations, keepsAway, comparisonOperators)
	if !found {
		return nil
	}
	return &taint
}

// unready returns "" if a node is ready, or what is wrong with it.
func unready(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return ""
		}
		return fmt.Sprintf("the node is not ready since %s (%s)",
			condition.LastTransitionTime.UTC().Format("2006-01-02 15:04:05 UTC"), condition.Reason)
	}
	return "the node has not said yet whether it is ready"
}
