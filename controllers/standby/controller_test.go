package standby

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
)

func primary() *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "lvms-operator"}
	one := int32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: installed.Name, Namespace: "lvms", UID: "u", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": "lvms-operator",
					"app.kubernetes.io/part-of": "lvms"}},
				Spec: corev1.PodSpec{
					ServiceAccountName: "lvms-operator", NodeSelector: map[string]string{"os": "linux"},
					Tolerations: []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}},
					Containers:  []corev1.Container{{Name: "manager", Image: "x@sha256:1", Args: []string{"operator"}}},
				},
			},
		},
	}
}

// If one of two nodes is drained, the primary can only run on the node of the copy. Anti-affinity must not prevent
// that.
func TestTheCopyMakesRoomWhereThereAreTwoNodes(t *testing.T) {
	for nodes, required := range map[int]bool{2: false, 3: true, 4: true} {
		desired, err := copyOf(primary(), 1, nodes)
		if err != nil {
			t.Fatal(err)
		}
		apart := desired.Spec.Template.Spec.Affinity.PodAntiAffinity
		if got := len(apart.RequiredDuringSchedulingIgnoredDuringExecution) == 1; got != required {
			t.Errorf("%d nodes: required %v", nodes, got)
		}
		if got := len(apart.PreferredDuringSchedulingIgnoredDuringExecution) == 1; got == required {
			t.Errorf("%d nodes: preferred %v", nodes, got)
		}
	}
}

func TestTheCopyIsApart(t *testing.T) {
	original := primary()
	original.Labels = map[string]string{"app.kubernetes.io/name": "lvms-operator", "olm.owner": "lvms.v1",
		"operators.coreos.com/lvms.ns": ""}
	original.Spec.Template.Labels["olm.managed"] = "true"
	desired, err := copyOf(original, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(desired)
	if err != nil {
		t.Fatal(err)
	}
	copied := &appsv1.Deployment{}
	if err := json.Unmarshal(data, copied); err != nil {
		t.Fatal(err)
	}
	spec := copied.Spec
	pod := copied.Spec.Template
	if *spec.Replicas != 2 || copied.Name != Name || copied.OwnerReferences[0].UID != "u" ||
		spec.Strategy.RollingUpdate.MaxSurge.IntValue() != 0 {
		t.Errorf("got %s", data)
	}
	for key, value := range original.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value || spec.Selector.MatchLabels[key] != value {
			t.Errorf("the Service would not find it: %v", pod.Labels)
		}
	}
	if pod.Labels[Label] != "true" || spec.Selector.MatchLabels[Label] != "true" ||
		pod.Labels["app.kubernetes.io/part-of"] != "lvms" {
		t.Errorf("got the labels %v", pod.Labels)
	}
	if _, changed := original.Spec.Selector.MatchLabels[Label]; changed || original.Spec.Template.Spec.Affinity != nil {
		t.Error("the original was changed")
	}
	if len(copied.Labels) != 1 || len(pod.Labels) != 3 {
		t.Errorf("OLM would take it for its own: %v, %v", copied.Labels, pod.Labels)
	}
	terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].TopologyKey != corev1.LabelHostname ||
		terms[0].LabelSelector.MatchLabels["app.kubernetes.io/name"] != "lvms-operator" ||
		len(terms[0].LabelSelector.MatchLabels) != 1 {
		t.Errorf("got %+v", terms)
	}
	if pod.Spec.Containers[0].Image != "x@sha256:1" || pod.Spec.ServiceAccountName != "lvms-operator" ||
		len(pod.Spec.Tolerations) != 1 {
		t.Errorf("got %+v", pod.Spec)
	}
}
