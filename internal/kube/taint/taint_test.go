package taint

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestUntolerated(t *testing.T) {
	of := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: "v", Effect: effect}
	}
	tolerates := func(toleration corev1.Toleration) []corev1.Toleration { return []corev1.Toleration{toleration} }
	for name, tt := range map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		want        string
	}{
		"none":          {},
		"cordoned":      {taints: []corev1.Taint{of(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)}},
		"not ready":     {taints: []corev1.Taint{of(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)}},
		"unreachable":   {taints: []corev1.Taint{of(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)}},
		"disk pressure": {taints: []corev1.Taint{of(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)}},
		"preference":    {taints: []corev1.Taint{of("x", corev1.TaintEffectPreferNoSchedule)}},
		"not tolerated": {taints: []corev1.Taint{of("x", corev1.TaintEffectNoSchedule)}, want: "x=v:NoSchedule"},
		"second": {taints: []corev1.Taint{of("x", corev1.TaintEffectNoSchedule),
			of("y", corev1.TaintEffectNoExecute)},
			tolerations: tolerates(corev1.Toleration{Key: "x", Operator: "Exists"}), want: "y=v:NoExecute"},
		"tolerated": {taints: []corev1.Taint{of("x", corev1.TaintEffectNoExecute)},
			tolerations: tolerates(corev1.Toleration{Key: "x", Operator: "Equal", Value: "v", Effect: "NoExecute"})},
		"another value": {taints: []corev1.Taint{of("x", corev1.TaintEffectNoExecute)},
			tolerations: tolerates(corev1.Toleration{Key: "x", Operator: "Equal", Value: "w"}), want: "x=v:NoExecute"},
		"all tolerated": {taints: []corev1.Taint{of("x", corev1.TaintEffectNoExecute)},
			tolerations: tolerates(corev1.Toleration{Operator: "Exists"})},
		"out of service": {taints: []corev1.Taint{of(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)},
			want: "node.kubernetes.io/out-of-service=v:NoExecute"},
		"a control plane": {taints: []corev1.Taint{of("node-role.kubernetes.io/control-plane",
			corev1.TaintEffectNoSchedule)}, want: "node-role.kubernetes.io/control-plane=v:NoSchedule"},
	} {
		got := ""
		if taint := Untolerated(&corev1.Node{Spec: corev1.NodeSpec{Taints: tt.taints}}, tt.tolerations); taint != nil {
			got = taint.ToString()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
