//go:build env

package lvmcluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

// newMembers returns a world in which the nodes have a volume group, and its LVMVolumeGroup.
func newMembers(t *testing.T) (*world, *lvmv1alpha1.LVMVolumeGroup) {
	t.Helper()
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, "vg1"))
	return w, group
}

// release removes the finalizers of a namespace without an LVMCluster.
func (w *world) release(cached client.Client) error {
	r := operand.Reconciler{Client: cached, Live: w.spy, Applier: w.controller.applier}
	return r.ReleaseOrphans(w.Context(), w.cluster.Namespace)
}

// staleCache is a cache that has an LVMVolumeGroup as it was, and no node status yet.
type staleCache struct {
	client.Client
	group lvmv1alpha1.LVMVolumeGroup
}

func (c staleCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch l := list.(type) {
	case *lvmv1alpha1.LVMVolumeGroupNodeStatusList:
		return nil
	case *lvmv1alpha1.LVMVolumeGroupList:
		l.Items = []lvmv1alpha1.LVMVolumeGroup{*c.group.DeepCopy()}
		return nil
	}
	return c.Client.List(ctx, list, options...)
}

func (w *world) report(node string, entries ...lvmv1alpha1.VGStatus) {
	w.Helper()
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, node))
	status.Status.NodeStatus = entries
	w.must(w.api.Status().Update(w.Context(), status))
}

// A node may have become a member a moment ago, and the cache does not have it yet.
func TestAVolumeGroupIsLetGoOnlyByTheAPIServersAnswer(t *testing.T) {
	w, group := newMembers(t)
	w.must(w.asServiceAccount("lvms-operator").Delete(t.Context(), group))
	w.must(w.get(group, "vg1"))
	cache := staleCache{w.spy, *group}
	w.must(w.release(cache))
	if !w.exists(group, "vg1") {
		t.Fatal("two nodes have something of it")
	}
	w.playRemoval("vg1")
	away := errors.New("the API server is away")
	w.spy.Fail = func(verb string, object any) error {
		if _, is := object.(*lvmv1alpha1.LVMVolumeGroupNodeStatusList); is && verb == "list" {
			return away
		}
		return nil
	}
	if err := w.release(cache); !errors.Is(err, away) || !w.exists(group, "vg1") {
		t.Errorf("error %v", err)
	}
	w.spy.Fail = nil
	for range 2 {
		w.must(w.release(cache))
	}
	if w.exists(group, "vg1") {
		t.Errorf("nobody has anything of it, and it has %v", group.Finalizers)
	}
}

// A user deletes the node status on which the LVMVolumeGroup depends.
func TestANodeStatusThatTellsOfAVolumeGroupStays(t *testing.T) {
	w, _ := newMembers(t)
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	was := status.UID
	w.must(w.asServiceAccount("lvms-operator").Delete(t.Context(), status))
	w.cluster.Labels = map[string]string{"some": "change"}
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
	}
	if w.must(w.get(status, "a")); status.UID != was || len(status.Status.NodeStatus) != 1 {
		t.Fatalf("got %+v", status)
	}
	w.report("a")
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	if w.must(w.get(status, "a")); status.UID == was ||
		!slices.Contains(status.Finalizers, wellknown.NodeStatusFinalizer) {
		t.Errorf("it should have been recreated: %+v", status.ObjectMeta)
	}
}

// A user removes finalizers.
func TestFinalizersComeBack(t *testing.T) {
	w, group := newMembers(t)
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	for _, object := range []client.Object{group, status} {
		object.SetFinalizers(nil)
		w.must(w.api.Update(t.Context(), object))
	}
	_, err := w.reconcile()
	w.must(err)
	w.must(w.get(group, "vg1"))
	w.must(w.get(status, "a"))
	if len(group.Finalizers) != 1 || len(status.Finalizers) != 1 {
		t.Errorf("got %v and %v", group.Finalizers, status.Finalizers)
	}
	w.spy.Writes()
	_, err = w.reconcile()
	w.must(err)
	if writes := w.spy.Writes(); len(writes) != 0 {
		t.Errorf("at rest it wrote %q", writes)
	}
}

// An LVMVolumeGroup that was being deleted when this operator replaced upstream accepts no new finalizers.
func TestAVolumeGroupThatUpstreamWasDeleting(t *testing.T) {
	w, group := newMembers(t)
	ofA := wellknown.NodeCleanupFinalizer("a")
	ofB := wellknown.NodeCleanupFinalizer("b")
	group.Finalizers = []string{ofA, ofB}
	w.must(w.api.Update(t.Context(), group))
	w.must(w.asServiceAccount("lvms-operator").Delete(t.Context(), group))
	release := func(want ...string) {
		t.Helper()
		w.must(w.release(w.spy))
		got := &lvmv1alpha1.LVMVolumeGroup{}
		w.must(client.IgnoreNotFound(w.get(got, "vg1")))
		if !slices.Equal(got.Finalizers, want) {
			t.Errorf("got %v, want %v", got.Finalizers, want)
		}
	}
	release(ofA, ofB)
	w.report("a", lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusRemoved, ObservedGeneration: 2})
	release(ofB)
	w.report("b") // This status does not answer.
	release(ofB)
	w.report("b", lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusRemoved})
	release(ofB)
	// The class is still in the spec: the operator writes only the LVMVolumeGroup meanwhile.
	_, err := w.reconcile()
	w.must(err)
	w.report("b", lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusRemoved, ObservedGeneration: 2})
	release()
	_, err = w.reconcile()
	w.must(err)
	w.must(w.get(group, "vg1"))
	if !slices.Equal(group.Finalizers, []string{wellknown.VolumeGroupFinalizer}) {
		t.Errorf("the new one has %v", group.Finalizers)
	}
}

// A device class that was removed from upstream's LVMCluster is still in use.
func TestAClassThatWasLeavingUnderUpstreamIsKeptForItsNodes(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"), fixture.Thick("vg2"))
	w.settle()
	defer w.volume("data", "vg2")()
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, "vg2"))
	group.Finalizers = []string{wellknown.NodeCleanupFinalizer("a")}
	w.must(w.api.Update(t.Context(), group))
	w.cluster.Spec.Storage.DeviceClasses = w.cluster.Spec.Storage.DeviceClasses[:1]
	w.must(w.api.Update(t.Context(), w.cluster))
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	if w.must(w.get(group, "vg2")); !slices.Equal(group.Finalizers, []string{wellknown.VolumeGroupFinalizer}) ||
		group.Spec.DeviceSelector == nil {
		t.Errorf("got %v, %+v", group.Finalizers, group.Spec)
	}
}

// A user removed the finalizer of the LVMCluster, and the garbage collector deleted its dependents.
func TestWithoutAnLVMClusterNothingStaysThatTellsOfNothing(t *testing.T) {
	w, group := newMembers(t)
	w.cluster.Finalizers = nil
	w.must(w.api.Update(t.Context(), w.cluster))
	w.must(w.api.Delete(t.Context(), w.cluster))
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	for _, object := range []client.Object{group, status} {
		w.must(w.asServiceAccount("lvms-operator").Delete(t.Context(), object))
	}
	left := func() string {
		t.Helper()
		_, err := w.reconcile()
		w.must(err)
		var names []string
		for name, object := range map[string]client.Object{"vg1": &lvmv1alpha1.LVMVolumeGroup{},
			"a": &lvmv1alpha1.LVMVolumeGroupNodeStatus{}, "b": &lvmv1alpha1.LVMVolumeGroupNodeStatus{}} {
			if w.exists(object, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := left(); got != "a b vg1" {
		t.Errorf("left are %s", got)
	}
	w.playRemoval("vg1")
	if got := left(); got != "b" {
		t.Errorf("left are %s", got)
	}
}
