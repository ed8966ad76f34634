//go:build env

package metricsaccess

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/monitoring/access"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }, env.MonitoringCRDs()...) }

// notes records events.
type notes struct{ said []string }

func (n *notes) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	n.said = append(n.said, eventType+" "+reason+" "+fmt.Sprintf(note, args...))
}

func monitorIn(t *testing.T, namespace string) *monitoringv1.ServiceMonitor {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(alertrules.Monitor().GroupVersionKind())
	key := client.ObjectKey{Namespace: namespace, Name: access.MonitorName}
	if err := server.Client.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
	monitor := &monitoringv1.ServiceMonitor{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, monitor); err != nil {
		t.Fatal(err)
	}
	return monitor
}

// The bundles up to now contain a ServiceMonitor for the namespace openshift-lvm-storage, which OLM creates with the
// ClusterServiceVersion as its owner.
func TestServiceMonitorOfAnEarlierBundleIsCorrected(t *testing.T) {
	const namespace = "openshift-storage"
	ctx := t.Context()
	operator := env.OperatorDeployment(namespace)
	earlier := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(access.Monitor, earlier); err != nil {
		t.Fatal(err)
	}
	earlier.SetNamespace(namespace)
	earlier.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1",
		Kind: "ClusterServiceVersion", Name: "lvms-operator.v0.1.0", UID: "csv"}})
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, operator,
		earlier} {
		if err := server.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	spy := server.OperatorSpy(t, namespace)
	for range 2 { // the second time, nothing is left to do
		if _, err := New(spy, &notes{}, namespace).Reconcile(ctx, reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	monitor := monitorIn(t, namespace)
	if got := *monitor.Spec.Endpoints[0].TLSConfig.ServerName; got != "lvms-operator-metrics-service.openshift-storage.svc" {
		t.Errorf("Prometheus expects a certificate for %s", got)
	}
	if owners := monitor.GetOwnerReferences(); len(owners) != 2 || owners[1].UID != operator.UID {
		t.Errorf("got the owners %v: the ServiceMonitor has to stay when OLM deletes the earlier version", owners)
	}
}

// The operator can grant these permissions because it has them. It creates the objects in its own namespace, and they
// are deleted with it.
func TestPrometheusMayFindTheMetrics(t *testing.T) {
	const namespace = "elsewhere"
	ctx := t.Context()
	api := server.Client
	said := &notes{}
	operator := env.OperatorDeployment(namespace)
	if err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	spy := server.OperatorSpy(t, namespace)
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
	look(3, false)
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
	monitor := monitorIn(t, namespace)
	for i, want := range []string{"lvms-operator-metrics-service.elsewhere.svc", "vg-manager-metrics-service.elsewhere.svc"} {
		if got := *monitor.Spec.Endpoints[i].TLSConfig.ServerName; got != want {
			t.Errorf("Prometheus expects a certificate for %s, and the service CA issues one for %s", got, want)
		}
	}
	if owners := monitor.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != operator.UID {
		t.Errorf("the ServiceMonitor has the owners %v", owners)
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
