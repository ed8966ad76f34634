//go:build env

package metricsaccess

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// notes records events.
type notes struct{ said []string }

func (n *notes) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	n.said = append(n.said, eventType+" "+reason+" "+fmt.Sprintf(note, args...))
}

// The operator can grant these permissions because it has them. It creates the objects in its own namespace, and they
// are deleted with it.
func TestPrometheusMayFindTheMetrics(t *testing.T) {
	const namespace = "elsewhere"
	ctx := t.Context()
	api := server.Client
	said := &notes{}
	labels := map[string]string{"app.kubernetes.io/name": installed.Name}
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: installed.Name,
		Labels: labels}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "x"}}}},
	}}
	if err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	config, err := server.AsOperator(namespace)
	if err != nil {
		t.Fatal(err)
	}
	spy, err := env.NewSpy(config)
	if err != nil {
		t.Fatal(err)
	}
	c := New(spy, said, namespace)
	look := func(want int, fails bool) {
		t.Helper()
		_, err := c.Reconcile(ctx, reconcile.Request{})
		if writes := spy.Writes(); len(writes) != want || (err != nil) != fails {
			t.Errorf("wrote %q, %v, want %d", writes, err, want)
		}
	}
	look(0, false) // the operator's Deployment does not exist
	if err := api.Create(ctx, operator); err != nil {
		t.Fatal(err)
	}
	look(2, false)
	look(0, false)
	role := &rbacv1.Role{}
	binding := &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: namespace, Name: Name}
	if err := errors.Join(api.Get(ctx, key, role), api.Get(ctx, key, binding)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{role, binding} {
		if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != operator.UID {
			t.Errorf("%T has the owners %v", o, owners)
		}
	}
	if s := binding.Subjects; len(s) != 1 || s[0].Namespace != "openshift-monitoring" ||
		s[0].Name != "prometheus-k8s" || binding.RoleRef.Name != Name {
		t.Errorf("got %+v", binding)
	}
	// The operator reverts changes and recreates deleted objects.
	role.Rules = role.Rules[:1]
	if err := errors.Join(api.Update(ctx, role), api.Delete(ctx, binding)); err != nil {
		t.Fatal(err)
	}
	look(2, false)
	if err := errors.Join(api.Get(ctx, key, role), api.Get(ctx, key, binding)); err != nil || len(role.Rules) != 2 {
		t.Errorf("got %+v, %v", role.Rules, err)
	}
	spy.Fail = func(verb string, object any) error {
		if _, is := object.(*rbacv1.Role); is && verb == "get" {
			return errors.New("away")
		}
		return nil
	}
	for range 2 {
		look(0, true)
	}
	if len(said.said) != 1 || !strings.Contains(said.said[0], "Warning MetricsAccessIncomplete") ||
		!strings.Contains(said.said[0], "away") {
		t.Errorf("said %q", said.said)
	}
}
