package operand

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

func annotatedNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node1",
		Annotations: map[string]string{"capacity.topolvm.io/vg1": "1", "capacity.topolvm.io/00default": "1",
			"mine": "kept"},
		Finalizers: []string{"mine/kept", "topolvm.io/node"},
	}}
}

func TestNodeCleanupRemovesWhatTheAgentsWroteAndNothingElse(t *testing.T) {
	writes := 0
	c := memory.Builder().WithObjects(annotatedNode(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2"}}).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object,
			p client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		}}).Build()
	for range 2 {
		if err := (nodeCleanup{}).EnsureDeleted(Reconciler{Client: c, Live: c}, t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "node1"}, node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "kept"}, node.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"mine/kept"}, node.Finalizers); diff != "" {
		t.Error(diff)
	}
	if writes != 1 {
		t.Errorf("%d writes, want one, however often it is called", writes)
	}
}

func TestNodeCleanupDoesNotTakeAFailedListForNoNodes(t *testing.T) {
	failure := errors.New("the API server is away")
	c := memory.Builder().WithObjects(annotatedNode()).
		WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList,
			...client.ListOption) error {
			return failure
		}}).Build()
	err := (nodeCleanup{}).EnsureDeleted(Reconciler{Client: c, Live: c}, t.Context(), nil)
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
