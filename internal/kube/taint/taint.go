// Package taint decides which taints of a node prevent volume groups: for the operator, which reports it, and for the
// node agent, which complies with it.
package taint

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	helpers "k8s.io/component-helpers/scheduling/corev1"
)

// conditions are the taints that Kubernetes sets for node conditions, including cordon, not ready and unreachable. They
// come and go, so they do not prevent volume groups.
var conditions = []string{
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure,
	corev1.TaintNodePIDPressure,
	corev1.TaintNodeNetworkUnavailable,
}

// Untolerated returns the first taint of a node that prevents new volume groups, or nil. Taints with the effect
// PreferNoSchedule do not prevent them.
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
