package sidecar

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

func TestAPersistentVolumeIsLabeledWithItsNode(t *testing.T) {
	pv := &corev1.PersistentVolume{}
	labelNode(pv)
	if len(pv.Labels) > 0 {
		t.Errorf("without a node, got the labels %v", pv.Labels)
	}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: wellknown.TopologyNodeKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}}}
	labelNode(pv)
	if pv.Labels["kubernetes.io/hostname"] != "n1" {
		t.Errorf("got the labels %v", pv.Labels)
	}
}
