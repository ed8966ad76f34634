package agentpod

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func agentPod(name, node, ip string, edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{PodIP: ip,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func TestTheAddressOfAnAgent(t *testing.T) {
	listErr := error(nil)
	live := fake.NewClientBuilder().WithObjects(
		agentPod("a", "node-1", "192.0.2.1", nil),
		agentPod("v6", "node-2", "2001:db8::1", nil),
		agentPod("other", "node-3", "192.0.2.3", func(p *corev1.Pod) { p.Labels = nil }),
		agentPod("foreign", "node-3", "192.0.2.4", func(p *corev1.Pod) { p.Namespace = "other" }),
		agentPod("starts", "node-4", "192.0.2.5", func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		}),
		agentPod("no-address", "node-4", "", nil),
		agentPod("no-condition", "node-7", "192.0.2.6", func(p *corev1.Pod) { p.Status.Conditions = nil }),
		agentPod("ready", "node-7", "192.0.2.9", nil),
		agentPod("ends", "node-5", "192.0.2.7", func(p *corev1.Pod) {
			p.Finalizers = []string{"example.com/x"}
			p.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
		}),
		agentPod("next", "node-5", "192.0.2.8", nil),
	).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
		list client.ObjectList, options ...client.ListOption) error {
		if listErr != nil {
			return listErr
		}
		return c.List(ctx, list, options...)
	}}).Build()
	for node, want := range map[string]string{"node-1": "192.0.2.1:8444", "node-2": "[2001:db8::1]:8444", "node-3": "",
		"node-4": "192.0.2.5:8444", "node-5": "192.0.2.8:8444", "node-6": "", "node-7": "192.0.2.9:8444"} {
		got, err := Address(t.Context(), live, "ns", node, 8444)
		if got != want || (want == "") != errors.Is(err, ErrNone) {
			t.Errorf("%s: got %q, %v", node, got, err)
		}
	}
	listErr = errors.New("the API server is away")
	if _, err := Address(t.Context(), live, "ns", "node-1", 8444); !errors.Is(err, listErr) || errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
}
