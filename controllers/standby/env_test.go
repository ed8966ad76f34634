//go:build env

package standby

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// The operator's own permissions are sufficient, a second reconcile writes nothing, and the operator reverts changes.
func TestACopyForEachOtherNode(t *testing.T) {
	ctx := t.Context()
	config, err := server.AsOperator(env.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := New(operator, operator, env.Namespace, 2)
	look := func() {
		t.Helper()
		if _, err := c.Reconcile(ctx, reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	copied := &appsv1.Deployment{}
	budget := &policyv1.PodDisruptionBudget{}
	key := client.ObjectKey{Namespace: env.Namespace, Name: Name}
	replicas := func() string {
		t.Helper()
		one := server.Client.Get(ctx, key, copied)
		other := server.Client.Get(ctx, key, budget)
		switch {
		case apierrors.IsNotFound(one) && apierrors.IsNotFound(other):
			return "none"
		case one != nil || other != nil:
			t.Fatal(one, other)
		}
		return fmt.Sprint(*copied.Spec.Replicas)
	}
	look()
	if got := replicas(); got != "none" {
		t.Errorf("without a Deployment to copy: %s", got)
	}
	first := primary()
	first.Namespace = env.Namespace
	first.UID = ""
	first.Spec.Template.Spec.NodeSelector = nil
	if err := server.Client.Create(ctx, first); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"none", "1", "2", "2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
		if err := server.Client.Create(ctx, node); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Client.Delete(context.Background(), node) })
		look()
		if got := replicas(); got != want {
			t.Errorf("%d nodes: got %s, want %s", i+1, got, want)
		}
	}
	versions := func() string { replicas(); return copied.ResourceVersion + " " + budget.ResourceVersion }
	before := versions()
	look()
	if after := versions(); after != before {
		t.Errorf("a second look wrote: %s after %s", after, before)
	}

	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"replicas":0,"template":{"spec":{"serviceAccountName":"other"}}}}`))
	if err := server.Client.Patch(ctx, copied, patch); err != nil {
		t.Fatal(err)
	}
	look()
	if got := replicas(); got != "2" || copied.Spec.Template.Spec.ServiceAccountName != "lvms-operator" {
		t.Errorf("what somebody changed stays: %s, %+v", got, copied.Spec.Template.Spec)
	}
	image := client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"manager","image":"new"}]}}}}`))
	if err := server.Client.Patch(ctx, first, image); err != nil {
		t.Fatal(err)
	}
	look()
	if replicas(); copied.Spec.Template.Spec.Containers[0].Image != "new" ||
		len(copied.Spec.Template.Spec.Containers[0].Args) != 0 {
		t.Errorf("the copy is behind: %+v", copied.Spec.Template.Spec.Containers)
	}

	c.most = 0
	for range 2 {
		look()
	}
	if got := replicas(); got != "none" {
		t.Errorf("no longer wanted: %s", got)
	}
}
