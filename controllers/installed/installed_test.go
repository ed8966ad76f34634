package installed

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

func TestPlaces(t *testing.T) {
	node := func(os string, taints ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"os": os}}}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
		return n
	}
	cordoned := node("linux", corev1.TaintNodeUnschedulable)
	cordoned.Spec.Unschedulable = true
	avoided := node("linux")
	avoided.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"os": "linux"},
		Tolerations:  []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}},
	}}
	for name, tt := range map[string]struct {
		nodes []corev1.Node
		want  int
	}{
		"none":                      {nil, 0},
		"one":                       {[]corev1.Node{node("linux")}, 1},
		"another system":            {[]corev1.Node{node("linux"), node("windows")}, 1},
		"a taint":                   {[]corev1.Node{node("linux"), node("linux", "gpu")}, 1},
		"a taint that is tolerated": {[]corev1.Node{node("linux"), node("linux", "infra")}, 2},
		"away for a while": {[]corev1.Node{node("linux", corev1.TaintNodeUnreachable,
			corev1.TaintNodeNotReady), cordoned, avoided}, 3},
	} {
		if got, err := Places(template, tt.nodes); err != nil || got != tt.want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, tt.want)
		}
	}
}

func deployment(labels map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: Name, Labels: labels}}
}

func role(name string, labels map[string]string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name),
		Labels: labels}}
}

// Each installer marks the objects of one installation in a different way.
func TestClusterOwner(t *testing.T) {
	olm := func(version string) map[string]string {
		return map[string]string{"olm.owner": "lvms-operator." + version, "olm.owner.namespace": "ns",
			"olm.owner.kind": "ClusterServiceVersion"}
	}
	olmV1 := map[string]string{"olm.operatorframework.io/owner-kind": "ClusterExtension",
		"olm.operatorframework.io/owner-name": "lvms-operator"}
	beingDeleted := role("a", olm("v1"))
	beingDeleted.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
	beingDeleted.Finalizers = []string{"x/y"}
	for name, tt := range map[string]struct {
		labels map[string]string
		roles  []client.Object
		want   string
	}{
		"without an installer": {nil, []client.Object{role(Name, nil), role("a", olm("v1"))}, Name},
		"OLM": {olm("v1"),
			[]client.Object{role("z", olm("v1")), role("b", olm("v1")), role("a", olm("v2")), role(Name, nil)}, "b"},
		"OLM, one that is leaving": {olm("v1"), []client.Object{beingDeleted, role("b", olm("v1"))}, "b"},
		"OLM, of another namespace": {olm("v1"),
			[]client.Object{role("a", map[string]string{"olm.owner": "lvms-operator.v1", "olm.owner.namespace": "other",
				"olm.owner.kind": "ClusterServiceVersion"})}, ""},
		"OLM v1":                       {olmV1, []client.Object{role("a", olm("v1")), role("b", olmV1)}, "b"},
		"without an installer, nobody": {nil, nil, ""},
	} {
		c := memory.Builder().WithObjects(tt.roles...).Build()
		got, err := ClusterOwner(t.Context(), c, deployment(tt.labels))
		switch {
		case tt.want == "" && (err == nil || !strings.Contains(err.Error(), "ClusterRole")):
			t.Errorf("%s: got %v, %v", name, got, err)
		case tt.want != "" && (err != nil || *got.Name != tt.want || *got.UID != types.UID("uid of "+tt.want) ||
			*got.Kind != "ClusterRole"):
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// A failed read returns neither an owner nor a Deployment.
func TestAFailedReadIsAnError(t *testing.T) {
	away := errors.New("away")
	c := memory.Builder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away },
	}).Build()
	for _, labels := range []map[string]string{nil,
		{"olm.owner": "a", "olm.owner.namespace": "b", "olm.owner.kind": "c"}} {
		if got, err := ClusterOwner(t.Context(), c, deployment(labels)); got != nil || !errors.Is(err, away) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if got, err := Deployment(t.Context(), c, "ns"); got != nil || !errors.Is(err, away) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Deployment(t.Context(), memory.Builder().Build(), "ns"); got != nil || err != nil {
		t.Errorf("got %v, %v where it is gone", got, err)
	}
}
