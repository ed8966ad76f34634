//go:build !env

package volumeimport

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// mutable returns a client of an API server with the feature gate MutablePVNodeAffinity. Updates are not checked.
func mutable(inner client.WithWatch) client.WithWatch {
	return interceptor.NewClient(inner, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch,
		object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if _, is := object.(*corev1.PersistentVolume); is {
			return c.Update(ctx, object)
		}
		return c.Patch(ctx, object, patch, options...)
	}})
}

// TestAPersistentVolumeIsMovedInPlace: if the API server permits it, the claim never lacks its PersistentVolume, even
// if the operator is killed at any write.
func TestAPersistentVolumeIsMovedInPlace(t *testing.T) {
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		w := newWorld(t, unique("inplace"))
		w.operator = mutable(w.operator)
		before := w.switched()
		w.guard(p)
		_ = w.reconcileMove(before.Name)
		p.Restart()
		w.restart()
		for range 2 {
			w.must(w.reconcileMove(before.Name))
		}
		w.isMoved(before)
	})
}

// TestAReplacementThatHasBegunIsCompleted: the feature gate was enabled while a PersistentVolume was being replaced.
func TestAReplacementThatHasBegunIsCompleted(t *testing.T) {
	w := newWorld(t, unique("begun"))
	w.operator = mutable(w.operator)
	before := w.switched()
	kept := before.DeepCopy()
	kept.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	w.must(w.api.Patch(t.Context(), kept, client.MergeFrom(before)))
	w.guard(nil)
	w.must(w.reconcileMove(before.Name))
	w.isMoved(before)
}

// switched has the LogicalVolume of a claim on the new node, with the annotation that the PersistentVolume follows. It
// returns the PersistentVolume on the old node.
func (w *world) switched() *corev1.PersistentVolume {
	w.Helper()
	_, before := w.moved("data")
	lv := w.logicalVolume(before.Name)
	lv.Spec.NodeName = w.node()
	data, err := json.Marshal(relocate.PersistentVolume(before, w.node()))
	w.must(err)
	lv.Annotations = map[string]string{wellknown.MovedVolumeAnnotation: string(data)}
	w.must(w.api.Update(w.Context(), lv))
	return w.persistentVolume(before.Name)
}

// isMoved fails unless a PersistentVolume is the same one on the new node, with its reclaim policy, and nothing is left
// to do.
func (w *world) isMoved(before *corev1.PersistentVolume) {
	w.Helper()
	got := w.persistentVolume(before.Name)
	if got.UID != before.UID || !isOn(got, w.node()) || got.Labels[corev1.LabelHostname] != w.node() {
		w.Errorf("got %s on another node, or recreated: %+v", got.Name, got)
	}
	if policy := got.Spec.PersistentVolumeReclaimPolicy; policy != corev1.PersistentVolumeReclaimDelete {
		w.Errorf("got the reclaim policy %s", policy)
	}
	if lv := w.logicalVolume(before.Name); len(lv.Annotations) > 0 {
		w.Errorf("got the annotations %v", lv.Annotations)
	}
	w.spy.Writes()
	w.must(w.reconcileMove(before.Name))
	if writes := w.spy.Writes(); len(writes) > 0 {
		w.Errorf("once more: %v", writes)
	}
}
