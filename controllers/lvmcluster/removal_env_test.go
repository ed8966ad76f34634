//go:build env

package lvmcluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

func TestRemovedClassStaysWhileItIsUsed(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"), fixture.Thick("vg2"))
	w.settle()
	remove := w.volume("data", "vg2")
	w.cluster.Spec.Storage.DeviceClasses = w.cluster.Spec.Storage.DeviceClasses[:1]
	w.must(w.api.Update(w.Context(), w.cluster))

	result, err := w.reconcile()
	w.must(err)
	if result.RequeueAfter == 0 {
		t.Error("does not look again")
	}
	want := "False/ReconciliationInProgress: device class vg2 was removed from spec.storage.deviceClasses but is " +
		"still in use by " +
		"1 PersistentVolumeClaim: " + w.cluster.Namespace +
		"/data; 1 PersistentVolume: pvc-data; 1 LogicalVolume: pvc-data on node a; " +
		"delete them to remove the device class, or restore it in the spec"
	if diff := cmp.Diff(want, w.condition(lvmv1alpha1.ConditionResourcesAvailable)); diff != "" {
		t.Error(diff)
	}
	for _, write := range w.spy.Writes() {
		if strings.HasPrefix(write, "delete") {
			t.Error(write)
		}
	}

	remove()
	_, err = w.reconcile()
	w.must(err)
	deletes := slices.DeleteFunc(w.spy.Writes(), func(s string) bool { return !strings.HasPrefix(s, "delete") })
	if diff := cmp.Diff([]string{"delete StorageClass lvms-vg2", "delete LVMVolumeGroup vg2"}, deletes); diff != "" {
		t.Error(diff)
	}
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got,
		"LVMVolumeGroup vg2 is being deleted: its volume group is being removed from 2 nodes: a, b") {
		t.Error(got)
	}
	w.playRemoval("vg2")
	_, err = w.reconcile()
	w.must(err)
	if w.exists(&lvmv1alpha1.LVMVolumeGroup{}, "vg2") || !w.exists(&lvmv1alpha1.LVMVolumeGroup{}, "vg1") {
		t.Error("the wrong LVMVolumeGroups are left")
	}
}

func TestAgentsOfARemovedClassKeepRunning(t *testing.T) {
	w := newWorld(t, fixture.On(fixture.Thick("vg1"), "kubernetes.io/hostname"))
	_, err := w.reconcile()
	w.must(err)
	w.playAgents()
	w.cluster.Spec.Storage.DeviceClasses = nil
	w.must(w.api.Update(w.Context(), w.cluster))
	_, err = w.reconcile()
	w.must(err)
	if !w.exists(&appsv1.DaemonSet{}, operand.AgentName) {
		t.Fatal("the agents are gone before they have removed the volume group")
	}
	w.playRemoval("vg1")
	_, err = w.reconcile()
	w.must(err)
	if !w.exists(&appsv1.DaemonSet{}, operand.AgentName) || !w.exists(&lvmv1alpha1.LVMVolumeGroupNodeStatus{}, "a") {
		t.Error("nobody lists the devices")
	}
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); !strings.HasPrefix(got, "True/VGsUnmanaged") {
		t.Error(got)
	}
}

func TestDeletionWaitsForVolumesAndThenGoesInOrder(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	remove := w.volume("data", "vg1")
	w.must(w.api.Delete(w.Context(), w.cluster))
	w.spy.Writes()

	for range 2 {
		result, err := w.reconcile()
		w.must(err)
		if result.RequeueAfter == 0 {
			t.Error("does not look again")
		}
	}
	if diff := cmp.Diff([]string{"patch status LVMCluster my-lvmcluster"}, w.spy.Writes()); diff != "" {
		t.Errorf("writes while a volume is there:\n%s", diff)
	}
	want := "False/DeletionPending: the storage is still in use by 1 PersistentVolumeClaim: " + w.cluster.Namespace +
		"/data; 1 PersistentVolume: pvc-data; 1 LogicalVolume: pvc-data on node a; the deletion continues when " +
		"they are removed"
	if diff := cmp.Diff(want, w.condition(lvmv1alpha1.ConditionResourcesAvailable)); diff != "" {
		t.Error(diff)
	}
	if last := w.notes.said[len(w.notes.said)-1]; !strings.HasPrefix(last,
		"Warning DeletionPending the storage is still in use by 1 PersistentVolumeClaim") || len(w.notes.said) != 2 {
		t.Errorf("events %q", w.notes.said)
	}

	remove()
	_, err := w.reconcile()
	w.must(err)
	if diff := cmp.Diff(slices.Concat([]string{"delete StorageClass lvms-vg1", "delete VolumeSnapshotClass lvms-vg1"},
		ofDeletionPolicies("delete"),
		[]string{"delete LVMVolumeGroup vg1", "patch status LVMCluster my-lvmcluster"}), w.spy.Writes()); diff != "" {
		t.Error(diff)
	}
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got,
		"LVMVolumeGroup vg1 is being deleted: its volume group is being removed from 2 nodes: a, b") {
		t.Error(got)
	}
	w.playRemoval("vg1")
	_, err = w.reconcile()
	w.must(err)
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got,
		"CSI driver topolvm.io is still registered on 2 nodes: a, b") {
		t.Error(got)
	}
	if diff := cmp.Diff([]string{"patch LVMVolumeGroup vg1", "patch LVMVolumeGroupNodeStatus a",
		"patch LVMVolumeGroupNodeStatus b",
		"delete LVMVolumeGroupNodeStatus a", "delete LVMVolumeGroupNodeStatus b", "delete DaemonSet vg-manager",
		"patch status LVMCluster my-lvmcluster"}, w.spy.Writes()); diff != "" {
		t.Error(diff)
	}
	w.must(w.api.DeleteAllOf(w.Context(), &storagev1.CSINode{}))
	_, err = w.reconcile()
	w.must(err)
	rest := slices.DeleteFunc(ofPolicies("delete"),
		func(write string) bool { return slices.Contains(ofDeletionPolicies("delete"), write) })
	if diff := cmp.Diff(append(rest, "delete CSIDriver topolvm.io", "delete ConfigMap lvms-dashboard",
		"delete SecurityContextConstraints lvms-vgmanager",
		"patch LVMCluster my-lvmcluster"), w.spy.Writes()); diff != "" {
		t.Error(diff)
	}
	if w.exists(&lvmv1alpha1.LVMCluster{}, w.cluster.Name) {
		t.Error("the LVMCluster is still there")
	}
	_, err = w.reconcile()
	w.must(err)
	if writes := w.spy.Writes(); len(writes) != 0 {
		t.Errorf("a reconcile after the end wrote %q", writes)
	}
}
