package view

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// IsDriver reports whether a CSI driver has its volumes in the volume groups of this product: this driver, or that of
// TopoLVM before 0.15. The volume handle is the name of the logical volume in both.
func IsDriver(name string) bool {
	return name == wellknown.DriverName || name == wellknown.EarlierDriverName
}

// NodeOfVolume returns the node in the node affinity of a PersistentVolume of this driver, or "".
func NodeOfVolume(pv *corev1.PersistentVolume) string {
	return nodeInAffinity(pv, wellknown.TopologyNodeKey)
}

// NodeOfEarlierVolume returns the node in the node affinity of a PersistentVolume of the earlier driver, or "".
func NodeOfEarlierVolume(pv *corev1.PersistentVolume) string {
	return nodeInAffinity(pv, wellknown.EarlierTopologyNodeKey)
}

func nodeInAffinity(pv *corev1.PersistentVolume, key string) string {
	affinity := pv.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return ""
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == key && len(e.Values) == 1 {
				return e.Values[0]
			}
		}
	}
	return ""
}

// MigrationBlockedPrefix begins the text of MigrationAnnotation if somebody must act.
const MigrationBlockedPrefix = "blocked: "

// MigrationRequested reports whether the operator has to recreate a PersistentVolume of the earlier driver.
func MigrationRequested(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == wellknown.EarlierDriverName &&
		pv.Annotations[wellknown.MigrateAnnotation] == "true"
}
