package nodes

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// withPods returns a Cluster whose Pods have this status when they are created.
func withPods(status corev1.PodStatus) (*Cluster, *fake.Clientset) {
	core := fake.NewClientset()
	core.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		pod.Name = pod.GenerateName + "x"
		pod.Status = status
		return false, pod, nil
	})
	return &Cluster{core: core, helper: &Helper{Namespace: "ns", Image: "example.com/a:1",
		Command: []string{"/lvms", "collect"}}}, core
}

func TestAPodThatDoesNotServeIsToldOfAndDeleted(t *testing.T) {
	tests := map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"it ended": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeAffinity", Message: "no room"},
			"ended before it was used: NodeAffinity no room"},
		"it does not start": {corev1.PodStatus{Phase: corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}},
			"does not run: Pending, ImagePullBackOff no such image"},
	}
	for name, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			c, core := withPods(test.status)
			for range 2 {
				err := c.byPod(t.Context(), "node1", io.Discard)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: got %v, want %q", name, err, test.want)
				}
			}
			left, err := core.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(left.Items) != 0 {
				t.Errorf("%s: %d Pods are left, %v", name, len(left.Items), err)
			}
		})
	}
}

func TestAPodThatIsRefusedIsToldOf(t *testing.T) {
	c, core := withPods(corev1.PodStatus{})
	core.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("violates PodSecurity")
	})
	if err := c.byPod(t.Context(), "node1", io.Discard); err == nil ||
		!strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyTheBeginningOfStderrIsKept(t *testing.T) {
	var kept bytes.Buffer
	w := &limited{&kept, 5}
	for range 3 {
		if n, err := w.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if kept.String() != "abcab" {
		t.Errorf("kept %q", kept.String())
	}
}

func TestTheAgentIsTheFirstWay(t *testing.T) {
	c := &Cluster{agents: map[string]Agent{"node1": {}}, helper: &Helper{}}
	if ways := c.Ways("node1"); len(ways) != 2 || ways[0].Name != "its agent" {
		t.Errorf("got %+v", ways)
	}
	if ways := c.Ways("node2"); len(ways) != 1 || ways[0].Name != "a Pod for the read" {
		t.Errorf("got %+v", ways)
	}
	c.helper = nil
	if ways := c.Ways("node2"); len(ways) != 0 {
		t.Errorf("got %+v", ways)
	}
}
