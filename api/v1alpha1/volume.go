package v1alpha1

import corev1 "k8s.io/api/core/v1"

// NodeOfVolume returns the node in the node affinity of a PersistentVolume of this driver, or "".
func NodeOfVolume(pv *corev1.PersistentVolume) string {
	affinity := pv.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return ""
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == TopologyNodeKey && len(e.Values) == 1 {
				return e.Values[0]
			}
		}
	}
	return ""
}
