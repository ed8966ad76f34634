package extender

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Reasons for which a node is filtered out, as TopoLVM words them. They are in the event FailedScheduling of the Pod.
const (
	noCapacity  = "no capacity annotation"
	badCapacity = "bad capacity annotation: "
	outOfSpace  = "out of VG free space"
)

// classesOf returns the device classes that the annotations of a Pod name, sorted.
func classesOf(pod *corev1.Pod) []string {
	var classes []string
	for key := range pod.Annotations {
		if class, ok := strings.CutPrefix(key, wellknown.CapacityAnnotationPrefix); ok {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes)
	return classes
}

// requestedBy returns the bytes that a Pod requests from each device class. Like TopoLVM, it ignores an annotation that
// is not an integer: the CSI controller checks the capacity again.
func requestedBy(pod *corev1.Pod) map[string]int64 {
	requested := map[string]int64{}
	for _, class := range classesOf(pod) {
		bytes, err := strconv.ParseInt(pod.Annotations[wellknown.CapacityAnnotationPrefix+class], 10, 64)
		if err == nil {
			requested[class] = bytes
		}
	}
	return requested
}

// filter returns the nodes that have the requested capacity, and the others with a reason. Evicting Pods does not free
// logical volumes, so nodes that are filtered out are also in FailedAndUnresolvableNodes, as by the scheduler's own
// check of CSIStorageCapacity: kube-scheduler then preempts no Pods there.
func filter(nodes []corev1.Node, requested map[string]int64) extenderv1.ExtenderFilterResult {
	passed := &corev1.NodeList{Items: []corev1.Node{}}
	failed := extenderv1.FailedNodesMap{}
	for i := range nodes {
		if reason := reasonAgainst(&nodes[i], requested); reason != "" {
			failed[nodes[i].Name] = reason
			continue
		}
		passed.Items = append(passed.Items, nodes[i])
	}
	return extenderv1.ExtenderFilterResult{Nodes: passed, FailedNodes: failed, FailedAndUnresolvableNodes: failed}
}

// reasonAgainst returns why a node does not have the requested capacity, or "". It checks the device classes in the
// order of their names.
func reasonAgainst(node *corev1.Node, requested map[string]int64) string {
	for _, class := range slices.Sorted(maps.Keys(requested)) {
		text, found := node.Annotations[wellknown.CapacityAnnotationPrefix+class]
		if !found {
			return noCapacity
		}
		capacity, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return badCapacity + text
		}
		if bytes := requested[class]; bytes < 0 || capacity < uint64(bytes) {
			return outOfSpace
		}
	}
	return ""
}
