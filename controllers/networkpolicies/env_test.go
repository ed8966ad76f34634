//go:build env

package networkpolicies

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// The operator creates the policies in its own namespace, for its own Pods, with an owner reference to its Deployment.
func TestThePoliciesAreTheOperators(t *testing.T) {
	const namespace = "shared"
	ctx := t.Context()
	api := server.Client
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	spy := server.OperatorSpy(t, namespace)
	c := New(spy, namespace)
	look := func(want ...string) {
		t.Helper()
		_, err := c.Reconcile(ctx, reconcile.Request{})
		must(err)
		if writes := spy.Writes(); !slices.Equal(writes, want) {
			t.Errorf("wrote %q, want %q", writes, want)
		}
	}
	look() // Without a Deployment nothing would delete the policies.
	operator := env.OperatorDeployment(namespace)
	must(api.Create(ctx, operator))
	look("apply NetworkPolicy lvms-operator-allow", "apply NetworkPolicy lvms-vg-manager-allow",
		"apply NetworkPolicy lvms-default-deny")
	look()

	list := &networkingv1.NetworkPolicyList{}
	must(api.List(ctx, list, client.InNamespace(namespace)))
	if len(list.Items) != 3 {
		t.Errorf("%d policies", len(list.Items))
	}
	for _, policy := range list.Items {
		if selector := policy.Spec.PodSelector; len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			t.Errorf("%s is for every Pod of the namespace", policy.Name)
		}
		if owners := policy.OwnerReferences; len(owners) != 1 || owners[0].UID != operator.UID {
			t.Errorf("%s has the owners %v", policy.Name, owners)
		}
	}
	must(api.Delete(ctx, &list.Items[0]))
	changed := &list.Items[1]
	changed.Spec.PodSelector = metav1.LabelSelector{}
	must(api.Update(ctx, changed))
	_, err := c.Reconcile(ctx, reconcile.Request{})
	must(err)
	if writes := spy.Writes(); len(writes) != 2 {
		t.Errorf("what was deleted and changed does not come back: %q", writes)
	}

	away := errors.New("the API server is away")
	spy.Fail = func(verb string, object any) error {
		if _, is := object.(*networkingv1.NetworkPolicy); is && verb == "get" {
			return away
		}
		return nil
	}
	if _, err := c.Reconcile(ctx, reconcile.Request{}); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	if writes := spy.Writes(); len(writes) != 0 {
		t.Errorf("policies that cannot be read are written: %q", writes)
	}
}
