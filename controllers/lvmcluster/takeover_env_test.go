//go:build env

package lvmcluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-lib/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/olm"
	"github.com/lvm-storage/lvm-operator/test/upstream"
)

// leaveAsUpstream creates the objects of upstream LVMS in place of the world's own LVMCluster.
func (w *world) leaveAsUpstream(edit func(*unstructured.Unstructured)) {
	w.Helper()
	w.must(w.api.Delete(w.Context(), w.cluster))
	objects, err := upstream.Objects(upstream.Options{Namespace: w.cluster.Namespace, Node: "a", Disk: "/dev/sdb",
		Image: "quay.example/upstream:v4"})
	w.must(err)
	for _, object := range objects {
		if edit != nil {
			edit(object)
		}
		if kind := object.GetKind(); kind == "DaemonSet" || kind == "LVMVolumeGroup" {
			yes := true
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: lvmv1alpha1.GroupVersion.String(),
				Kind: kindLVMCluster,
				Name: w.cluster.Name, UID: w.cluster.UID, Controller: &yes, BlockOwnerDeletion: &yes}})
		}
		w.must(w.api.Create(w.Context(), object, client.FieldOwner(upstream.FieldManager)))
		if object.GetKind() == kindLVMCluster {
			w.cluster.UID = object.GetUID()
		}
	}
	w.cluster = &lvmv1alpha1.LVMCluster{ObjectMeta: w.cluster.ObjectMeta}
	w.must(w.get(w.cluster, w.cluster.Name))
}

func TestUpstreamIsTakenOver(t *testing.T) {
	w := newWorld(t, thin("vg1"))
	w.leaveAsUpstream(nil)
	if policy := w.cluster.Spec.Storage.DeviceClasses[0].StorageClassOptions.Reclaim(); policy !=
		corev1.PersistentVolumeReclaimRetain {
		t.Fatalf("the reclaim policy is %s now", policy)
	}
	before := &storagev1.StorageClass{}
	w.must(w.get(before, "lvms-vg1"))
	_, err := w.reconcile()
	w.must(err)
	if writes := slices.DeleteFunc(w.spy.Writes(),
		func(s string) bool { return !strings.HasPrefix(s, "delete") }); len(writes) != 0 {
		t.Errorf("something was deleted: %v", writes)
	}

	// The DaemonSet equals one that this version creates.
	daemonSet := &appsv1.DaemonSet{}
	fresh := newWorldDaemonSet(w)
	w.must(w.get(daemonSet, vgManagerName))
	if diff := cmp.Diff(fresh.Spec, daemonSet.Spec); diff != "" {
		t.Errorf("DaemonSet (-fresh +taken over):\n%s", diff)
	}

	// Fields that only the old version set are removed; those that the agents set remain.
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, "vg1"))
	if len(group.Spec.DeviceSelector.OptionalPaths) != 0 {
		t.Errorf("optional paths are left: %v", group.Spec.DeviceSelector)
	}
	if !slices.Equal(slices.Sorted(slices.Values(group.Finalizers)),
		[]string{"cleanup.vgmanager.node.topolvm.io/a", lvmv1alpha1.VolumeGroupFinalizer}) ||
		len(group.Annotations) == 0 {
		t.Errorf("finalizers %v, annotations %v", group.Finalizers, group.Annotations)
	}

	after := &storagev1.StorageClass{}
	w.must(w.get(after, "lvms-vg1"))
	if after.UID != before.UID || *after.ReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		after.Labels["tier"] != "fast" ||
		after.Labels[lvmv1alpha1.OwnerUIDLabel] != string(w.cluster.UID) ||
		after.Annotations[annotationDefaultClass] != "true" {
		t.Errorf("StorageClass %+v", after)
	}
	driver := &storagev1.CSIDriver{}
	w.must(w.get(driver, lvmv1alpha1.DriverName))
	if diff := cmp.Diff(newWorldDriver(w).Spec, driver.Spec); diff != "" {
		t.Errorf("CSIDriver (-fresh +taken over):\n%s", diff)
	}

	_, err = w.reconcile()
	w.must(err)
	if writes := w.spy.Writes(); len(writes) != 0 {
		t.Errorf("second reconcile wrote %q", writes)
	}
	w.settle()
	w.must(w.get(group, "vg1"))
	if !slices.Equal(group.Finalizers, []string{lvmv1alpha1.VolumeGroupFinalizer}) {
		t.Errorf("our agents have answered, and the finalizers are %v", group.Finalizers)
	}

	// The LVMCluster can be removed completely, including the finalizers of old versions.
	w.must(w.api.Delete(t.Context(), w.cluster))
	_, err = w.reconcile()
	w.must(err)
	w.playRemoval("vg1")
	w.must(w.api.DeleteAllOf(t.Context(), &storagev1.CSINode{}))
	for range 3 {
		_, err = w.reconcile()
		w.must(err)
	}
	for _, object := range []client.Object{&lvmv1alpha1.LVMCluster{}, &lvmv1alpha1.LVMVolumeGroup{},
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{}, &appsv1.DaemonSet{}} {
		for _, name := range []string{w.cluster.Name, "vg1", "a", vgManagerName} {
			if w.exists(object, name) {
				t.Errorf("%T %s is left, finalizers %v", object, name, object.GetFinalizers())
			}
		}
	}
}

// TestDaemonSetThatSelectsOtherPods checks that the operator recreates a DaemonSet with a different selector.
func TestDaemonSetThatSelectsOtherPods(t *testing.T) {
	w := newWorld(t, thin("vg1"))
	w.leaveAsUpstream(func(object *unstructured.Unstructured) {
		if object.GetKind() == "DaemonSet" {
			old := map[string]any{"app": "vg-manager"}
			w.must(unstructured.SetNestedMap(object.Object, map[string]any{"matchLabels": old}, "spec", "selector"))
			w.must(unstructured.SetNestedMap(object.Object, old, "spec", "template", "metadata", "labels"))
		}
	})
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	daemonSet := &appsv1.DaemonSet{}
	w.must(w.get(daemonSet, vgManagerName))
	if diff := cmp.Diff(newWorldDaemonSet(w).Spec, daemonSet.Spec); diff != "" {
		t.Errorf("DaemonSet (-fresh +recreated):\n%s", diff)
	}
}

// newWorldDaemonSet returns a new DaemonSet with the API server's defaults.
func newWorldDaemonSet(w *world) *appsv1.DaemonSet {
	w.Helper()
	other := w.cluster.DeepCopy()
	other.Namespace = "default"
	return fresh(w, newDaemonSet(other, Observation{}.placement(w.cluster), w.account(), w.controller.options),
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: vgManagerName, Namespace: "default"}})
}

func newWorldDriver(w *world) *storagev1.CSIDriver {
	w.Helper()
	wanted := newCSIDriver(w.cluster)
	name := "fresh"
	wanted.Name = &name
	return fresh(w, wanted, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// fresh returns what the API server would create for a new object.
func fresh[T client.Object](w *world, wanted any, into T) T {
	w.Helper()
	applied, ok := wanted.(interface{ IsApplyConfiguration() })
	if !ok {
		w.Fatalf("%T is not to be applied", wanted)
	}
	w.must(w.api.Apply(w.Context(), applied, client.FieldOwner(fieldOwner)))
	w.must(w.api.Get(w.Context(), client.ObjectKeyFromObject(into), into))
	w.must(w.api.Delete(w.Context(), into))
	return into
}

// upgradeable stands in for the OperatorCondition of OLM.
type upgradeable struct {
	conditions.Condition
	last metav1.Condition
}

func (u *upgradeable) Set(_ context.Context, status metav1.ConditionStatus, options ...conditions.Option) error {
	u.last.Status = status
	for _, option := range options {
		option(&u.last)
	}
	return nil
}

func TestUpgradeWaitsForWhatGoesOn(t *testing.T) {
	w := newWorld(t, thin("vg1"))
	condition := &upgradeable{}
	w.controller.options.UpgradeGate = olm.NewGate(condition)
	says := func(want metav1.ConditionStatus, message string) {
		t.Helper()
		if condition.last.Status != want || !strings.Contains(condition.last.Message, message) {
			t.Errorf("got %v, want %s %q", condition.last, want, message)
		}
	}
	w.settle()
	says(metav1.ConditionTrue, "")
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	status.Status.NodeStatus[0].Status = lvmv1alpha1.VGStatusDegraded
	status.Status.NodeStatus[0].Reason = "disk x is gone"
	w.must(w.api.Status().Update(t.Context(), status))
	_, err := w.reconcile()
	w.must(err)
	says(metav1.ConditionTrue, "")
	status.Status.NodeStatus[0].PhysicalVolumes = []lvmv1alpha1.PhysicalVolumeStatus{{Name: "/dev/sdb",
		State: lvmv1alpha1.PhysicalVolumeDraining}}
	w.must(w.api.Status().Update(t.Context(), status))
	_, err = w.reconcile()
	w.must(err)
	says(metav1.ConditionFalse, "device class vg1 on node a: device /dev/sdb is being drained")
	w.must(w.api.Delete(t.Context(), w.cluster))
	w.must(w.get(w.cluster, w.cluster.Name))
	w.cluster.Finalizers = nil
	w.must(w.api.Update(t.Context(), w.cluster))
	_, err = w.reconcile()
	w.must(err)
	says(metav1.ConditionTrue, "")
}
