//go:build env

package lvmcluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
)

func (w *world) policyOf(class string) lvmv1alpha1.DeviceDiscoveryPolicy {
	w.Helper()
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, class))
	return group.Spec.DeviceDiscoveryPolicy
}

// Upstream has no deviceDiscoveryPolicy in the spec and adds every unused device. A cluster that is taken over
// continues to do so.
func TestTakenOverDiscoveryStaysDynamic(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.leaveAsUpstream(func(object *unstructured.Unstructured) {
		switch object.GetKind() {
		case "LVMCluster":
			classes, _, err := unstructured.NestedSlice(object.Object, "spec", "storage", "deviceClasses")
			w.must(err)
			for _, class := range classes {
				delete(class.(map[string]any), "deviceSelector")
				delete(class.(map[string]any), "deviceDiscoveryPolicy")
			}
			w.must(unstructured.SetNestedSlice(object.Object, classes, "spec", "storage", "deviceClasses"))
		case "LVMVolumeGroup":
			unstructured.RemoveNestedField(object.Object, "spec", "deviceSelector")
			unstructured.RemoveNestedField(object.Object, "spec", "deviceDiscoveryPolicy")
		}
	})
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
		if got := w.policyOf("vg1"); got != lvmv1alpha1.DeviceDiscoveryDynamic {
			t.Errorf("deviceDiscoveryPolicy of the LVMVolumeGroup is %q", got)
		}
		if got := w.cluster.Spec.Storage.DeviceClasses[0].DeviceDiscoveryPolicy; got != "" {
			t.Errorf("the LVMCluster, in which it is not set, now says %q", got)
		}
	}

	// An added device class is new: it does not use devices that appear later.
	classes := &w.cluster.Spec.Storage.DeviceClasses
	added := fixture.Thick("vg2")
	added.DeviceDiscoveryPolicy = ""
	*classes = append(*classes, added)
	w.must(w.api.Update(t.Context(), w.cluster))
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
		if got := w.policyOf("vg2"); got != lvmv1alpha1.DeviceDiscoveryStatic {
			t.Errorf("deviceDiscoveryPolicy of a new class is %q", got)
		}
	}

	// A policy that the administrator sets applies, and remains when the field is removed.
	for _, set := range []lvmv1alpha1.DeviceDiscoveryPolicy{lvmv1alpha1.DeviceDiscoveryStatic, ""} {
		w.cluster.Spec.Storage.DeviceClasses[0].DeviceDiscoveryPolicy = set
		w.must(w.api.Update(t.Context(), w.cluster))
		_, err := w.reconcile()
		w.must(err)
		if got := w.policyOf("vg1"); got != lvmv1alpha1.DeviceDiscoveryStatic {
			t.Errorf("deviceDiscoveryPolicy after %q was set: %q", set, got)
		}
	}
}

// A stored object without the field is read without it.
func TestUnsetDiscoveryPolicyIsReadAsUnset(t *testing.T) {
	class := fixture.Thick("vg1")
	class.DeviceDiscoveryPolicy = ""
	w := newWorld(t, class)
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(w.cluster), w.cluster))
	if got := w.cluster.Spec.Storage.DeviceClasses[0].DeviceDiscoveryPolicy; got != "" {
		t.Errorf("got %q", got)
	}
}
