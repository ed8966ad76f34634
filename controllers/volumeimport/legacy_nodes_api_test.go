package volumeimport

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// newMarkedWorld has a Node with what TopoLVM and others wrote to it. Its volumes are served.
func newMarkedWorld(t *testing.T, name string) *deletedWorld {
	t.Helper()
	w := &deletedWorld{servedWorld: newServedWorld(t, name)}
	w.pass()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node(),
		Labels:     map[string]string{wellknown.EarlierTopologyNodeKey: w.node()},
		Finalizers: []string{"mine/kept", wellknown.EarlierNodeFinalizer},
		Annotations: map[string]string{"mine": "kept", "capacity.topolvm.cybozu.com/ssd": "1",
			"capacity.topolvm.io/ssd": "2"}}}
	w.create(node)
	t.Cleanup(func() {
		now := &corev1.Node{}
		ctx := context.WithoutCancel(t.Context())
		err := w.api.Get(ctx, client.ObjectKeyFromObject(node), now)
		w.must(client.IgnoreNotFound(err))
		if err != nil {
			return
		}
		now.Finalizers = nil
		w.must(w.api.Update(ctx, now))
		w.must(client.IgnoreNotFound(w.api.Delete(ctx, now)))
	})
	w.spy.Writes()
	return w
}

func (w *deletedWorld) markedNode() *corev1.Node {
	w.Helper()
	node := &corev1.Node{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: w.node()}, node))
	return node
}

// wantReleased checks that only TopoLVM's finalizer and annotation were removed.
func (w *deletedWorld) wantReleased() {
	w.Helper()
	node := w.markedNode()
	want := map[string]string{"mine": "kept", "capacity.topolvm.io/ssd": "2"}
	if !slices.Equal(node.Finalizers, []string{"mine/kept"}) || !cmp.Equal(node.Annotations, want) ||
		node.Labels[wellknown.EarlierTopologyNodeKey] != w.node() {
		w.Errorf("got %v, %v, %v", node.Finalizers, node.Annotations, node.Labels)
	}
}

func (w *deletedWorld) wantMarked() {
	w.Helper()
	if node := w.markedNode(); !slices.Contains(node.Finalizers, wellknown.EarlierNodeFinalizer) ||
		node.Annotations["capacity.topolvm.cybozu.com/ssd"] == "" {
		w.Errorf("got %v, %v", node.Finalizers, node.Annotations)
	}
}

// TestANodeIsReleased: what TopoLVM wrote is removed when it no longer runs. A second pass changes nothing.
func TestANodeIsReleased(t *testing.T) {
	w := newMarkedWorld(t, "marked")
	w.pass()
	w.wantReleased()
	if writes := w.spy.Writes(); !slices.Equal(writes, []string{"patch Node marked-new"}) {
		t.Errorf("got %v", writes)
	}
	w.wantServed()
}

// TestANodeIsReleasedWithoutVolumes: the finalizer blocks a Node also if nothing else of TopoLVM is left.
func TestANodeIsReleasedWithoutVolumes(t *testing.T) {
	w := newMarkedWorld(t, "marked-alone")
	w.removeEarlier()
	if _, err := w.runner.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantReleased()
}

// TestADeletedNodeIsReleased: nothing of TopoLVM is left that would remove the finalizer.
func TestADeletedNodeIsReleased(t *testing.T) {
	w := newMarkedWorld(t, "marked-deleted")
	w.must(w.api.Delete(t.Context(), w.markedNode()))
	w.pass()
	w.wantReleased()
}

// TestANodeIsLeftToTopoLVM: its controller or its node service runs, or it is not known whether they do.
func TestANodeIsLeftToTopoLVM(t *testing.T) {
	w := newMarkedWorld(t, "marked-left")
	for name, matches := range map[string]func(object any) bool{
		"Pods":    func(o any) bool { _, is := o.(*corev1.PodList); return is },
		"Nodes":   func(o any) bool { _, is := o.(*corev1.NodeList); return is },
		"CSINode": func(o any) bool { _, is := o.(*storagev1.CSINode); return is },
	} {
		w.spy.Fail = func(_ string, object any) error {
			if matches(object) {
				return errors.New("no answer")
			}
			return nil
		}
		if _, err := w.runner.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: got %v", name, err)
		}
		w.wantMarked()
	}
	w.spy.Fail = nil
	w.drivers(wellknown.DriverName, wellknown.EarlierDriverName)
	w.pass()
	w.wantMarked()
	w.drivers(wellknown.DriverName)
	w.topolvmControllerPod()
	w.pass()
	w.wantMarked()
}

// TestANodeThatChangesIsReleasedLater: the list of finalizers is replaced, so somebody else's must not be lost.
func TestANodeThatChangesIsReleasedLater(t *testing.T) {
	w := newMarkedWorld(t, "marked-changed")
	w.spy.Fail = func(verb string, object any) error {
		if _, is := object.(*corev1.Node); is && verb == "patch" {
			node := w.markedNode()
			node.Finalizers = append(node.Finalizers, "mine/late")
			return w.api.Update(t.Context(), node)
		}
		return nil
	}
	if _, err := w.runner.pass(t.Context()); err != nil {
		t.Error(err)
	}
	w.wantMarked()
	w.spy.Fail = nil
	w.pass()
	if node := w.markedNode(); !slices.Equal(node.Finalizers, []string{"mine/kept", "mine/late"}) {
		t.Errorf("got %v", node.Finalizers)
	}
}
