// Package taint tells which taint of a node keeps volume groups away: for the operator, which reports it, and for the
// node agent, which keeps to it.
package taint

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	helpers "k8s.io/component-helpers/scheduling/corev1"
)

// conditions are the taints that Kubernetes sets for the condition of a node. They come and go: a node that has one
// gets its volume groups all the same. Among them are cordon, not ready and unreachable.
var conditions = []string{
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure,
	corev1.TaintNodePIDPressure,
	corev1.TaintNodeNetworkUnavailable,
}

// Untolerated returns the first taint of a node that keeps new volume groups away, or nil. Taints with the effect
// PreferNoSchedule do not.
func Untolerated(node *corev1.Node, tolerations []corev1.Toleration) *corev1.Taint {
	const comparisonOperators = false
	counts := func(taint *corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.Contains(conditions, taint.Key)
	}
	taint, found := helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, tolerations, counts,
		comparisonOperators)
	if !found {
		return nil
	}
	return &taint
}
