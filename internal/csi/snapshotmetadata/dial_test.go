package snapshotmetadata

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lvm-storage/lvm-operator/internal/cluster/agentpod"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
)

func TestAConnectionNeedsAnAgentAndCredentials(t *testing.T) {
	missing := errors.New("no certificate yet")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{
		"app.kubernetes.io/name": "vg-manager", "app.kubernetes.io/part-of": "lvms-provisioner"}},
		Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{PodIP: "192.0.2.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	d := &Dialer{Namespace: "ns", Credentials: noCredentials{missing}, Live: fake.NewClientBuilder().WithObjects(pod).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).Build()}
	for node, want := range map[string]error{"node-1": missing, "node-2": agentpod.ErrNone} {
		if _, err := d.Dial(t.Context(), node); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", node, err, want)
		}
	}
}

type noCredentials struct{ err error }

func (n noCredentials) Current() (*mutualtls.Credentials, error) { return nil, n.err }
