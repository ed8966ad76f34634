//go:build env

package alertrules

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/monitoring/access"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }, env.MonitoringCRDs()...) }

// world is an operator in its own namespace.
type world struct {
	*testing.T
	spy       *env.Spy
	namespace string
}

func newWorld(t *testing.T, namespace string) *world {
	t.Helper()
	w := &world{T: t, namespace: namespace}
	w.must(server.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	w.spy = server.OperatorSpy(w, namespace)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) reconcile(runbooks string, want ...string) {
	w.Helper()
	c := New(w.spy, w.namespace, runbooks)
	// The second reconcile changes nothing.
	for _, want := range [][]string{want, nil} {
		_, err := c.Reconcile(w.Context(), reconcile.Request{})
		w.must(err)
		if writes := w.spy.Writes(); !slices.Equal(writes, want) {
			w.Errorf("wrote %q, want %q", writes, want)
		}
	}
}

// monitor creates the ServiceMonitor, which owns the rules.
func (w *world) monitor() client.Object {
	w.Helper()
	monitor := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": map[string]any{},
		"endpoints": []any{}}}}
	monitor.SetGroupVersionKind(monitorKind)
	monitor.SetNamespace(w.namespace)
	monitor.SetName(access.MonitorName)
	w.must(server.Client.Create(w.Context(), monitor))
	return monitor
}

func (w *world) rule() *unstructured.Unstructured {
	w.Helper()
	rule := &unstructured.Unstructured{}
	rule.SetGroupVersionKind(ruleKind)
	w.must(server.Client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: Name}, rule))
	return rule
}

// runbooks returns the runbook addresses in the PrometheusRule, by alert.
func (w *world) runbooks() map[string]string {
	w.Helper()
	found := map[string]string{}
	groups, _, err := unstructured.NestedSlice(w.rule().Object, "spec", "groups")
	w.must(err)
	for _, group := range groups {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			if alert, is := rule.(map[string]any)["alert"].(string); is {
				found[alert], _, err = unstructured.NestedString(rule.(map[string]any), "annotations", "runbook_url")
				w.must(err)
			}
		}
	}
	return found
}

const applied = "apply PrometheusRule prometheus-lvmo-rules"

// Without a ServiceMonitor nothing scrapes the metrics, and the alert for an operator that does not answer would be
// false.
func TestTheRulesComeAndGoWithTheServiceMonitor(t *testing.T) {
	w := newWorld(t, "monitored")
	w.reconcile(DefaultRunbooks)
	monitor := w.monitor()
	w.reconcile(DefaultRunbooks, applied)
	if owners := w.rule().GetOwnerReferences(); len(owners) != 1 || owners[0].UID != monitor.GetUID() ||
		owners[0].Kind != "ServiceMonitor" {
		t.Errorf("owners %v, want the ServiceMonitor: the garbage collector removes the rules with it", owners)
	}
	if labels := w.rule().GetLabels(); labels["prometheus"] != "k8s" || labels["role"] != "alert-rules" {
		t.Errorf("labels %v", labels)
	}
	changed := w.rule()
	w.must(unstructured.SetNestedSlice(changed.Object, nil, "spec", "groups"))
	w.must(server.Client.Update(t.Context(), changed))
	w.reconcile(DefaultRunbooks, applied)
	if len(w.runbooks()) < 30 {
		t.Errorf("what was changed does not come back: %v", w.runbooks())
	}

	away := errors.New("the API server is away")
	w.spy.Fail = func(verb string, _ any) error {
		if verb == "get" {
			return away
		}
		return nil
	}
	if _, err := New(w.spy, w.namespace, DefaultRunbooks).Reconcile(t.Context(),
		reconcile.Request{}); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
}

// The address of the runbooks is an option that can be set, changed and unset.
func TestRunbookURLsBeginWithTheOption(t *testing.T) {
	w := newWorld(t, "mirrored")
	w.monitor()
	for _, base := range []string{DefaultRunbooks, "https://git.example.com/lvms/runbooks/", DefaultRunbooks} {
		w.reconcile(base, applied)
		for alert, address := range w.runbooks() {
			if address != base+alert+".md" {
				t.Errorf("runbook_url of %s is %q, want it below %s", alert, address, base)
			}
		}
	}
}

// Up to 0.1.0, OLM or kubectl created the PrometheusRule. The operator takes it over and removes every field that it
// does not set.
func TestAnEarlierPrometheusRuleIsTakenOver(t *testing.T) {
	w := newWorld(t, "upgraded")
	w.monitor()
	earlier := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"groups": []any{
		map[string]any{"name": "lvms-service", "rules": []any{map[string]any{"alert": "Old", "expr": "up"}}},
	}}}}
	earlier.SetGroupVersionKind(ruleKind)
	earlier.SetNamespace(w.namespace)
	earlier.SetName(Name)
	earlier.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1",
		Kind: "ClusterServiceVersion", Name: "lvms-operator.v0.1.0", UID: "1"}})
	w.must(server.Client.Create(t.Context(), earlier, client.FieldOwner("catalog")))
	w.reconcile(DefaultRunbooks, applied)
	found := w.runbooks()
	if _, old := found["Old"]; old || len(found) < 30 {
		t.Errorf("alerts %v", found)
	}
	names := ""
	for _, owner := range w.rule().GetOwnerReferences() {
		names += owner.Kind + " "
	}
	if !strings.Contains(names, "ServiceMonitor") {
		t.Errorf("owners %s", names)
	}
}
