package extender

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// score returns the scores of nodes for the device classes that a Pod names: for each node, the lowest score of its
// classes. A class without an annotation on a node does not count; the filter has removed such a node.
func (d Divisors) score(nodes []corev1.Node, classes []string) extenderv1.HostPriorityList {
	scores := make(extenderv1.HostPriorityList, 0, len(nodes))
	for i := range nodes {
		scores = append(scores, extenderv1.HostPriority{Host: nodes[i].Name, Score: d.ofNode(&nodes[i], classes)})
	}
	return scores
}

func (d Divisors) ofNode(node *corev1.Node, classes []string) int64 {
	lowest := int64(-1)
	for _, class := range classes {
		text, found := node.Annotations[wellknown.CapacityAnnotationPrefix+class]
		if !found {
			continue
		}
		capacity, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0
		}
		if score := scoreOf(capacity, d.of(class)); lowest < 0 || score < lowest {
			lowest = score
		}
	}
	return max(lowest, 0)
}

// scoreOf returns log2(GiB / divisor), at least 1 and at most 10, or 0 if there is no capacity.
func scoreOf(capacity uint64, divisor float64) int64 {
	gib := capacity >> 30
	switch {
	case capacity == 0:
		return extenderv1.MinExtenderPriority
	case gib == 0:
		return 1 // It has no logarithm.
	}
	score := math.Log2(float64(gib) / divisor)
	return int64(min(max(score, 1), float64(extenderv1.MaxExtenderPriority)))
}
