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
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/internal/cluster/olm"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/test/expect"
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
				Kind: "LVMCluster",
				Name: w.cluster.Name, UID: w.cluster.UID, Controller: &yes, BlockOwnerDeletion: &yes}})
		}
		w.must(w.api.Create(w.Context(), object, client.FieldOwner(upstream.FieldManager)))
		if object.GetKind() == "LVMCluster" {
			w.cluster.UID = object.GetUID()
		}
	}
	w.cluster = &lvmv1alpha1.LVMCluster{ObjectMeta: w.cluster.ObjectMeta}
	w.must(w.get(w.cluster, w.cluster.Name))
}

func TestUpstreamIsTakenOver(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.leaveAsUpstream(nil)
	if policy := classspec.Reclaim(w.cluster.Spec.Storage.DeviceClasses[0].StorageClassOptions); policy !=
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

	// Fields that only the old version set are removed; those that the agents set remain.
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, "vg1"))
	if len(group.Spec.DeviceSelector.OptionalPaths) != 0 {
		t.Errorf("optional paths are left: %v", group.Spec.DeviceSelector)
	}
	if !slices.Equal(slices.Sorted(slices.Values(group.Finalizers)),
		[]string{"cleanup.vgmanager.node.topolvm.io/a", wellknown.VolumeGroupFinalizer}) ||
		len(group.Annotations) == 0 {
		t.Errorf("finalizers %v, annotations %v", group.Finalizers, group.Annotations)
	}

	after := &storagev1.StorageClass{}
	w.must(w.get(after, "lvms-vg1"))
	expect.Equal(t, "UID", after.UID, before.UID)
	expect.Equal(t, "ReclaimPolicy", *after.ReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	expect.Equal(t, `Labels["tier"]`, after.Labels["tier"], "fast")
	expect.Equal(t, "Labels[wellknown.OwnerUIDLabel]", after.Labels[wellknown.OwnerUIDLabel], string(w.cluster.UID))
	expect.Equal(t, "Annotations[defaultClassAnnotation]", after.Annotations[defaultClassAnnotation], "true")

	_, err = w.reconcile()
	w.must(err)
	if writes := w.spy.Writes(); len(writes) != 0 {
		t.Errorf("second reconcile wrote %q", writes)
	}

	// The DaemonSet and the CSIDriver equal those that this version creates.
	daemonSet := &appsv1.DaemonSet{}
	w.must(w.get(daemonSet, operand.AgentName))
	driver := &storagev1.CSIDriver{}
	w.must(w.get(driver, wellknown.DriverName))
	newSet, newDriver := w.recreated()
	if diff := cmp.Diff(newSet.Spec, daemonSet.Spec); diff != "" {
		t.Errorf("DaemonSet (-new +taken over):\n%s", diff)
	}
	if diff := cmp.Diff(newDriver.Spec, driver.Spec); diff != "" {
		t.Errorf("CSIDriver (-new +taken over):\n%s", diff)
	}
	w.settle()
	w.must(w.get(group, "vg1"))
	if !slices.Equal(group.Finalizers, []string{wellknown.VolumeGroupFinalizer}) {
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
		for _, name := range []string{w.cluster.Name, "vg1", "a", operand.AgentName} {
			if w.exists(object, name) {
				t.Errorf("%T %s is left, finalizers %v", object, name, object.GetFinalizers())
			}
		}
	}
}

// TestDaemonSetThatSelectsOtherPods checks that the operator recreates a DaemonSet with a different selector.
func TestDaemonSetThatSelectsOtherPods(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
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
	w.must(w.get(daemonSet, operand.AgentName))
	if newSet, _ := w.recreated(); !cmp.Equal(newSet.Spec, daemonSet.Spec) {
		t.Errorf("DaemonSet (-new +recreated):\n%s", cmp.Diff(newSet.Spec, daemonSet.Spec))
	}
}

// recreated deletes the DaemonSet and the CSIDriver, and returns those that the operator then creates.
func (w *world) recreated() (*appsv1.DaemonSet, *storagev1.CSIDriver) {
	w.Helper()
	daemonSet := &appsv1.DaemonSet{}
	driver := &storagev1.CSIDriver{}
	for name, object := range map[string]client.Object{operand.AgentName: daemonSet, wellknown.DriverName: driver} {
		w.must(w.get(object, name))
		w.must(w.api.Delete(w.Context(), object))
	}
	before := daemonSet.UID
	_, err := w.reconcile()
	w.must(err)
	w.must(w.get(daemonSet, operand.AgentName))
	w.must(w.get(driver, wellknown.DriverName))
	if daemonSet.UID == before {
		w.Fatal("the DaemonSet was not recreated")
	}
	return daemonSet, driver
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
	w := newWorld(t, fixture.Thin("vg1"))
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
