package apply

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errAway = errors.New("the API server is away")

// counting counts applies, and fails reads on demand.
type counting struct {
	applies   int
	failReads bool
}

func newClient(t *testing.T, c *counting, objects ...client.Object) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, inner client.WithWatch, desired runtime.ApplyConfiguration,
			options ...client.ApplyOption) error {
			c.applies++
			return inner.Apply(ctx, desired, options...)
		},
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if c.failReads {
				return errAway
			}
			return inner.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if c.failReads {
				return errAway
			}
			return inner.List(ctx, list, options...)
		},
	}).Build()
}

func configMap(data map[string]string) *applycorev1.ConfigMapApplyConfiguration {
	return applycorev1.ConfigMap("c", "ns").WithData(data)
}

func read(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "c"}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestApplySendsOnlyWhatChanged(t *testing.T) {
	count := &counting{}
	c := newClient(t, count)
	applier := New(c, "me")
	step := func(name string, wantApplies int, data map[string]string) {
		t.Helper()
		if err := applier.Apply(t.Context(), configMap(data)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if count.applies != wantApplies {
			t.Errorf("%s: %d applies, want %d", name, count.applies, wantApplies)
		}
		if diff := cmp.Diff(data, read(t, c).Data); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	step("new", 1, map[string]string{"a": "1", "b": "2"})
	step("again", 1, map[string]string{"a": "1", "b": "2"})
	step("a field is given up", 2, map[string]string{"a": "1"})

	drifted := read(t, c)
	drifted.Data["a"] = "someone else's"
	if err := c.Update(t.Context(), drifted); err != nil {
		t.Fatal(err)
	}
	step("drift", 3, map[string]string{"a": "1"})
	step("after drift", 3, map[string]string{"a": "1"})

	if err := c.Delete(t.Context(), read(t, c)); err != nil {
		t.Fatal(err)
	}
	step("deleted by somebody", 4, map[string]string{"a": "1"})
}

func TestFailedReadIsNotAbsence(t *testing.T) {
	count := &counting{failReads: true}
	c := newClient(t, count, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	applier := New(c, "me")
	if err := applier.Apply(t.Context(), configMap(nil)); !errors.Is(err, errAway) || count.applies != 0 {
		t.Errorf("apply: %v, %d applies", err, count.applies)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	if err := applier.Delete(t.Context(), c, object); !errors.Is(err, errAway) {
		t.Errorf("delete: %v", err)
	}
	if err := applier.Prune(t.Context(), c, &corev1.ConfigMapList{},
		func(client.Object) bool { return false }); !errors.Is(err, errAway) {
		t.Errorf("prune: %v", err)
	}
}

func TestDeleteWaitsUntilGone(t *testing.T) {
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c",
		Finalizers: []string{"x/y", "z/z"}}}
	c := newClient(t, &counting{}, held)
	applier := New(c, "me")
	object := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	}
	for range 2 {
		err := applier.Delete(t.Context(), c, object())
		remaining := &RemainingError{}
		if !errors.As(err, &remaining) || err.Error() != "still being deleted: ConfigMap ns/c (held by x/y, z/z)" {
			t.Fatalf("error %v", err)
		}
		if ignored := IgnoreRemaining(err); ignored != nil {
			t.Fatalf("not ignored: %v", ignored)
		}
	}
	if failed := errors.New("failed"); !errors.Is(IgnoreRemaining(failed), failed) {
		t.Fatal("another error is ignored")
	}
	released, err := applier.Release(t.Context(), read(t, c), func(f string) bool { return f == "x/y" })
	if err != nil || !released || !cmp.Equal(read(t, c).Finalizers, []string{"z/z"}) {
		t.Fatalf("released %v, %v", released, err)
	}
	if released, err = applier.Release(t.Context(), read(t, c),
		func(f string) bool { return f == "x/y" }); err != nil || released {
		t.Errorf("released twice: %v, %v", released, err)
	}
	if _, err = applier.Release(t.Context(), read(t, c), func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := applier.Delete(t.Context(), c, object()); err != nil {
			t.Errorf("gone, but %v", err)
		}
	}
}

func TestReleaseDoesNotOverwriteAFinalizerAddedMeanwhile(t *testing.T) {
	c := newClient(t, &counting{}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c",
		Finalizers: []string{"x/y"}}})
	stale := read(t, c)
	fresh := read(t, c)
	fresh.Finalizers = append(fresh.Finalizers, "new/one")
	if err := c.Update(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, "me").Release(t.Context(), stale,
		func(f string) bool { return f == "x/y" }); !apierrors.IsConflict(err) {
		t.Errorf("error %v", err)
	}
}

func TestPruneDeletesWhatIsNotKept(t *testing.T) {
	named := func(name, owner string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u",
			Labels: map[string]string{"owner": owner}}}
	}
	c := newClient(t, &counting{}, named("keep", "me"), named("drop", "me"), named("foreign", "you"))
	keep := func(object client.Object) bool { return object.GetName() == "keep" }
	if err := New(c, "me").Prune(t.Context(), c, &corev1.ConfigMapList{}, keep,
		client.MatchingLabels{"owner": "me"}); err != nil {
		t.Fatal(err)
	}
	left := &corev1.ConfigMapList{}
	if err := c.List(t.Context(), left); err != nil || len(left.Items) != 2 || left.Items[0].Name != "foreign" ||
		left.Items[1].Name != "keep" {
		t.Errorf("left %v, %v", left.Items, err)
	}
}
