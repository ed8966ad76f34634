package observe

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/lvm-storage/lvm-operator/internal/kube/taint"
)

// unsuitable excludes the nodes on which no node agent can run, by the labels of the kubelet and of Virtual Kubelet.
// The agent tolerates all taints, so their taints do not exclude them.
var unsuitable = []corev1.NodeSelectorRequirement{
	{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"windows"}},
	{Key: "type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-kubelet"}},
}

// arbiterKey is the label and the taint of a node that only votes in etcd (OpenShift, two nodes with an arbiter).
const arbiterKey = "node-role.kubernetes.io/arbiter"

var noArbiter = corev1.NodeSelectorRequirement{Key: arbiterKey, Operator: corev1.NodeSelectorOpDoesNotExist}

// Placement defines on which nodes the node agent runs, regardless of their taints: if a taint evicted the agent
// together with the Pods, nothing could unmount their volumes. Only a node that OpenShift has created as an arbiter
// needs a toleration for an agent, or a volume group.
type Placement struct {
	// selectors are those of the device classes; a nil selector selects every node.
	selectors []*corev1.NodeSelector
	// arbiters is set if the agent runs on all selected arbiters, and members has those on which it runs otherwise.
	arbiters bool
	members  []string
}

// toleratesArbiters reports whether tolerations allow volume groups on arbiters.
func toleratesArbiters(tolerations []corev1.Toleration) bool {
	arbiter := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: arbiterKey, Effect: corev1.TaintEffectNoSchedule}}}}
	return taint.Untolerated(arbiter, tolerations) == nil
}

func isArbiter(node *corev1.Node) bool {
	_, is := node.Labels[arbiterKey]
	return is
}

// reduced removes duplicates and sorts the others, so that the result is stable.
func (p Placement) reduced() Placement {
	slices.Sort(p.members)
	p.members = slices.Compact(p.members)
	if slices.Contains(p.selectors, nil) {
		p.selectors = []*corev1.NodeSelector{nil}
		return p
	}
	slices.SortFunc(p.selectors, func(a, b *corev1.NodeSelector) int { return strings.Compare(a.String(), b.String()) })
	p.selectors = slices.CompactFunc(p.selectors,
		func(a, b *corev1.NodeSelector) bool { return a.String() == b.String() })
	return p
}

// Allows returns "" if the node agent can run on a node, or the reason why it cannot and what to do.
func (p Placement) Allows(node *corev1.Node) (string, error) {
	selected, err := SelectsAny(p.selectors, node)
	if err != nil {
		return "", err
	}
	if !selected {
		return "no device class selects the node: add the labels that the nodeSelector of a device class requires", nil
	}
	all := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{suitable(corev1.NodeSelectorTerm{})}}
	if possible, err := Selects(all, node); err != nil || !possible {
		return "the node runs Windows or is a virtual node", err
	}
	if isArbiter(node) && !p.arbiters && !slices.Contains(p.members, node.Name) {
		return "the node is an arbiter: to use it, add a toleration for its taint " + arbiterKey, nil
	}
	return "", nil
}

// Terms returns the terms of a node affinity that selects the nodes, each of which excludes the nodes on which no node
// agent can run.
func (p Placement) Terms() []corev1.NodeSelectorTerm {
	var terms []corev1.NodeSelectorTerm
	for _, selector := range p.selectors {
		if selector == nil {
			selector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		}
		for _, term := range selector.NodeSelectorTerms {
			term = suitable(term)
			if !p.arbiters {
				term.MatchExpressions = append(term.MatchExpressions, noArbiter)
			}
			terms = append(terms, term)
		}
	}
	for _, name := range p.members {
		terms = append(terms, suitable(onlyNode(name).NodeSelectorTerms[0]))
	}
	return terms
}

// suitable returns a term that also excludes the nodes on which no node agent can run.
func suitable(term corev1.NodeSelectorTerm) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{
		MatchExpressions: append(slices.Clone(term.MatchExpressions), unsuitable...), MatchFields: term.MatchFields}
}

// SelectsAny reports whether any of the selectors selects a node.
func SelectsAny(selectors []*corev1.NodeSelector, node *corev1.Node) (bool, error) {
	for _, selector := range selectors {
		selected, err := Selects(selector, node)
		if selected || err != nil {
			return selected, err
		}
	}
	return false, nil
}

// Selects reports whether a selector selects a node. A nil selector selects every node.
func Selects(selector *corev1.NodeSelector, node *corev1.Node) (bool, error) {
	if selector == nil {
		return true, nil
	}
	selected, err := nodeaffinity.NewLazyErrorNodeSelector(selector).Match(node)
	if err != nil {
		return false, fmt.Errorf("evaluate nodeSelector of a device class: %w", err)
	}
	return selected, nil
}

// NotReady returns "" if a node is ready, or the reason why it is not.
func NotReady(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return ""
		}
		return fmt.Sprintf("the node has not been ready since %s (%s)",
			condition.LastTransitionTime.UTC().Format("2006-01-02 15:04:05 UTC"), condition.Reason)
	}
	return "the node has not reported the condition Ready yet"
}
