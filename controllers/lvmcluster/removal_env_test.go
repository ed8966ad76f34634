//go:build env

package lvmcluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
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

// TestCopiesOfClassesAreTheUsers creates a StorageClass, a VolumeSnapshotClass and a VolumeGroupSnapshotClass from
// those of the operator, with their labels, as `kubectl get --output yaml` prints them.
func TestCopiesOfClassesAreTheUsers(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	storage := &storagev1.StorageClass{}
	snapshot := &snapshotv1.VolumeSnapshotClass{}
	w.must(w.get(storage, "lvms-vg1"))
	w.must(w.get(snapshot, "lvms-vg1"))
	group := &groupsnapshotv1.VolumeGroupSnapshotClass{}
	w.must(w.get(group, "lvms-vg1"))
	for _, object := range []client.Object{storage, snapshot, group} {
		object.SetName("copy-" + object.GetName())
		object.SetResourceVersion("")
		object.SetUID("")
		object.SetManagedFields(nil)
		w.make(object)
	}
	w.must(w.api.Delete(w.Context(), w.cluster))
	for range 2 {
		_, err = w.reconcile()
		w.must(err)
		for _, object := range []client.Object{storage, snapshot, group} {
			if !w.exists(object, object.GetName()) {
				t.Errorf("the operator deleted %T %s", object, object.GetName())
			}
		}
	}
	if w.exists(&storagev1.StorageClass{}, "lvms-vg1") || w.exists(&snapshotv1.VolumeSnapshotClass{}, "lvms-vg1") ||
		w.exists(&groupsnapshotv1.VolumeGroupSnapshotClass{}, "lvms-vg1") {
		t.Error("the operator's own are left")
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
	if diff := cmp.Diff(slices.Concat([]string{"delete StorageClass lvms-vg1", "delete VolumeSnapshotClass lvms-vg1",
		"delete VolumeGroupSnapshotClass lvms-vg1"},
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
	// The policies that restrict permissions stay: the permissions do, too.
	if diff := cmp.Diff([]string{"delete CSIDriver topolvm.io", "delete ConfigMap lvms-dashboard",
		"delete SecurityContextConstraints lvms-vgmanager",
		"patch LVMCluster my-lvmcluster"}, w.spy.Writes()); diff != "" {
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

// retainedVolume creates a LogicalVolume and its PersistentVolume whose claim was deleted, as with the reclaim policy
// Retain.
func (w *world) retainedVolume(name, class string) (*corev1.PersistentVolume, *topolvmv1.LogicalVolume) {
	w.Helper()
	w.volume(name, class)
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.get(claim, name))
	w.must(w.api.Delete(w.Context(), claim))
	w.must(w.get(claim, name))
	claim.Finalizers = nil // The controller-manager removes kubernetes.io/pvc-protection.
	w.must(w.api.Update(w.Context(), claim))
	persistent := &corev1.PersistentVolume{}
	logical := &topolvmv1.LogicalVolume{}
	w.must(w.get(persistent, "pvc-"+name))
	persistent.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	w.must(w.api.Update(w.Context(), persistent))
	persistent.Status.Phase = corev1.VolumeReleased
	w.must(w.api.Status().Update(w.Context(), persistent))
	w.must(w.get(logical, "pvc-"+name))
	return persistent, logical
}

// manualCleanups returns the events that ask for a manual cleanup.
func (n *notes) manualCleanups() []string {
	return slices.DeleteFunc(slices.Clone(n.said),
		func(said string) bool { return !strings.HasPrefix(said, "Warning ManualCleanupRequired ") })
}

// beginCleanup is the beginning of what an administrator must do.
const beginCleanup = "volumes that no claim or snapshot uses must be deleted manually; if you need their data, copy " +
	"it first; then run, for the objects of each volume, `"

func TestDeletionNamesRetainedVolumesAndTheirCommands(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	remove := w.volume("used", "vg1")
	persistent, logical := w.retainedVolume("kept", "vg1")
	w.must(w.api.Delete(w.Context(), w.cluster))

	const ofLogical = "kubectl delete logicalvolume pvc-kept`: 1 volume: "
	var want []string
	expect := func(message string) {
		t.Helper()
		if message != "" {
			want = append(want, "Warning ManualCleanupRequired "+message)
		}
		for range 2 {
			_, err := w.reconcile()
			w.must(err)
		}
		if diff := cmp.Diff(want, w.notes.manualCleanups(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		if len(want) == 0 {
			return
		}
		said := strings.TrimPrefix(want[len(want)-1], "Warning ManualCleanupRequired ")
		for _, condition := range []string{lvmv1alpha1.ConditionReady, lvmv1alpha1.ConditionResourcesAvailable} {
			got := w.condition(condition)
			if !strings.HasPrefix(got, "False/DeletionPending: ") || !strings.HasSuffix(got, "; "+said) {
				t.Errorf("%s: %s", condition, got)
			}
		}
	}
	expect(beginCleanup + "kubectl delete persistentvolume pvc-kept && " + ofLogical +
		"LogicalVolume and PersistentVolume pvc-kept on node a")

	// While a read fails, it is unknown what is left. The event is not repeated afterward.
	w.later()
	w.spy.Fail = func(verb string, object any) error {
		if _, is := object.(*unstructured.UnstructuredList); is && verb == "list" {
			return errors.New("the API server is away")
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "the API server is away") {
		t.Errorf("error %v", err)
	}
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got, "pvc-kept on node a") ||
		!strings.Contains(got, "the API server is away") {
		t.Error(got)
	}
	w.spy.Fail = nil
	expect("")

	// The command for the PersistentVolume.
	w.must(w.api.Delete(w.Context(), persistent))
	w.must(w.get(persistent, persistent.Name))
	persistent.Finalizers = nil // The controller-manager removes kubernetes.io/pv-protection.
	w.must(w.api.Update(w.Context(), persistent))
	w.later()
	expect(beginCleanup + ofLogical + "LogicalVolume pvc-kept on node a")

	// The commands for the LogicalVolume.
	w.annotate(logical, wellknown.AllowDeletionAnnotation, "true")
	w.must(w.api.Delete(w.Context(), logical))
	w.later()
	_, err := w.reconcile()
	w.must(err)
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); strings.Contains(got, "pvc-kept") ||
		!strings.Contains(got, "pvc-used") {
		t.Error(got)
	}
	remove()
	_, err = w.reconcile()
	w.must(err)
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got,
		"LVMVolumeGroup vg1 is being deleted") {
		t.Error(got)
	}
}

// retainedSnapshot creates a snapshot and its LogicalVolume, with the deletion policy Retain, and returns its objects.
func (w *world) retainedSnapshot(class string) (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent,
	*topolvmv1.LogicalVolume) {
	w.Helper()
	const handle = "id-snapshot"
	snapshot := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "snap", Namespace: w.cluster.Namespace},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{
			PersistentVolumeClaimName: ptr.To("data")}}}
	w.make(snapshot)
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: wellknown.DriverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
			Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: ptr.To(handle)},
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: snapshot.Namespace, Name: snapshot.Name,
				UID: snapshot.UID}}}
	w.make(content)
	w.Cleanup(func() { _ = w.api.Delete(context.Background(), content) })
	logical := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "snapshot-" + string(snapshot.UID)},
		Spec: topolvmv1.LogicalVolumeSpec{Name: "snap", NodeName: "a", DeviceClass: class,
			Size: resource.MustParse("1Gi")}}
	w.make(logical)
	logical.Status.VolumeID = handle
	w.must(w.api.Status().Update(w.Context(), logical))
	return snapshot, content, logical
}

func TestRemovalOfADeviceClassNamesRetainedVolumesAndTheirCommands(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"), fixture.Thick("vg2"))
	w.settle()
	snapshot, content, logical := w.retainedSnapshot("vg2")
	w.retainedVolume("kept", "vg1")
	w.cluster.Spec.Storage.DeviceClasses = w.cluster.Spec.Storage.DeviceClasses[:1]
	w.must(w.api.Update(w.Context(), w.cluster))

	var events []string
	expect := func(cleanup string) {
		t.Helper()
		if cleanup != "" {
			events = append(events, "Warning ManualCleanupRequired device class vg2: "+cleanup)
		}
		for range 2 {
			_, err := w.reconcile()
			w.must(err)
		}
		if diff := cmp.Diff(events, w.notes.manualCleanups(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		want := "False/ReconciliationInProgress: device class vg2 was removed from spec.storage.deviceClasses but is " +
			"still in use by 1 LogicalVolume: " + logical.Name + " on node a; delete them to remove the device " +
			"class, or restore it in the spec"
		if cleanup != "" {
			want += "; " + cleanup
		}
		if diff := cmp.Diff(want, w.condition(lvmv1alpha1.ConditionResourcesAvailable)); diff != "" {
			t.Error(diff)
		}
	}
	expect("") // The VolumeSnapshot exists.

	w.must(w.api.Delete(w.Context(), snapshot))
	w.later()
	w.spy.Fail = func(verb string, object any) error {
		if list, is := object.(*unstructured.UnstructuredList); is && verb == "list" &&
			list.GetKind() == "VolumeSnapshotList" {
			return errors.New("the API server is away")
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "read VolumeSnapshots: ") {
		t.Errorf("error %v", err)
	}
	if got := w.notes.manualCleanups(); len(got) > 0 {
		t.Errorf("events before everything was read: %q", got)
	}
	w.spy.Fail = nil
	commands := "kubectl delete logicalvolume " + logical.Name + "`: 1 volume: LogicalVolume " + logical.Name +
		" on node a"
	expect(beginCleanup + "kubectl delete volumesnapshotcontent snapcontent && " + commands +
		" with VolumeSnapshotContent snapcontent")

	w.must(w.api.Delete(w.Context(), content))
	w.later()
	expect(beginCleanup + commands)

	w.annotate(logical, wellknown.AllowDeletionAnnotation, "true")
	w.must(w.api.Delete(w.Context(), logical))
	w.later()
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got,
		"LVMVolumeGroup vg2 is being deleted") {
		t.Error(got)
	}
}
