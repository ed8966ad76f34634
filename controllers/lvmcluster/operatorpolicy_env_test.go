//go:build env

package lvmcluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

// asServiceAccount returns a client for a ServiceAccount of the namespace with all permissions: only policies restrict
// it.
func (w *world) asServiceAccount(name string) client.Client {
	w.Helper()
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.cluster.Namespace + ":" + name, Groups: []string{"system:masters"},
	}
	c, err := client.New(config, client.Options{Scheme: w.api.Scheme()})
	w.must(err)
	return c
}

// The operator may update Pods in all namespaces to set the annotation that makes a kubelet grow a file system at once.
// It may change nothing else.
func TestTheOperatorChangesOneAnnotationOfPodsOnly(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "victim", Namespace: w.cluster.Namespace,
		Labels:      map[string]string{"a": "1"},
		Annotations: map[string]string{"b": "2"}},
		Spec: corev1.PodSpec{ServiceAccountName: operand.AgentName,
			Containers: []corev1.Container{{Name: "c", Image: "good"}}}}
	w.make(pod)
	operator := w.asServiceAccount("lvms-operator")
	change := func(c client.Client, edit func(*corev1.Pod)) error {
		changed := &corev1.Pod{}
		w.must(w.get(changed, pod.Name))
		edit(changed)
		return c.Update(t.Context(), changed, client.DryRunAll)
	}
	for name, edit := range map[string]func(*corev1.Pod){
		"image": func(p *corev1.Pod) { p.Spec.Containers[0].Image = "evil" },
		"toleration": func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: "Exists"})
		},
		"label":              func(p *corev1.Pod) { p.Labels["a"] = "2" },
		"annotation":         func(p *corev1.Pod) { p.Annotations["b"] = "3" },
		"annotation taken":   func(p *corev1.Pod) { delete(p.Annotations, "b") },
		"another annotation": func(p *corev1.Pod) { p.Annotations["c"] = "3" },
		"finalizer":          func(p *corev1.Pod) { p.Finalizers = []string{"example.com/x"} },
	} {
		w.refusedSoon(name, "the operator can change of a Pod only", func() error { return change(operator, edit) })
		w.must(change(w.api, edit))
	}
	w.must(change(operator, func(p *corev1.Pod) { p.Annotations["topolvm.io/last-resizefs-requested-at"] = "now" }))
	w.must(change(operator, func(p *corev1.Pod) {
		p.Annotations = map[string]string{"b": "2", "topolvm.io/last-resizefs-requested-at": "now"}
	}))
}
