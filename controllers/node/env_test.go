//go:build env

package node

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

const longName = "a-node-with-a-name-that-is-much-longer-than-the-last-part-of-a-finalizer-can-be.example.com"

func TestObjectsOfADeletedNodeAreReleasedAndNothingElse(t *testing.T) {
	ctx := t.Context()
	spy := server.OperatorSpy(t, env.Namespace)
	api := server.Client
	create := func(object client.Object) {
		t.Helper()
		if err := api.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	const namespace = env.Namespace
	for _, name := range []string{"here", longName} {
		create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	group := &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: namespace,
		Finalizers: []string{
			wellknown.NodeCleanupFinalizer("here"), wellknown.NodeCleanupFinalizer("gone"),
			wellknown.VolumeGroupFinalizer, "somebody.example.com/elses"}}}
	create(group)
	for _, name := range []string{"here", "gone"} {
		create(&lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
			Finalizers: []string{wellknown.NodeStatusFinalizer}}})
	}
	for name, node := range map[string]string{"on-here": "here", "on-gone": "gone", "deleted-on-here": "here",
		"deleted-on-gone": "gone"} {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name,
			Finalizers: []string{wellknown.LogicalVolumeFinalizer}},
			Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, DeviceClass: "vg1",
				Size: resource.MustParse("1Gi")}}
		create(lv)
		lv.Status.VolumeID = "volume-" + name
		if err := api.Status().Update(ctx, lv); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"deleted-on-here", "deleted-on-gone"} {
		if err := api.Delete(ctx, &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	controller := New(spy, spy, spy, namespace)

	away := errors.New("the API server is away")
	spy.Fail = func(verb string, object any) error {
		if _, is := object.(*metav1.PartialObjectMetadataList); is && verb == "list" {
			return away
		}
		return nil
	}
	if _, err := controller.Reconcile(ctx, reconcile.Request{}); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	if writes := spy.Writes(); len(writes) != 0 {
		t.Errorf("nodes could not be listed, and it wrote %q", writes)
	}
	spy.Fail = nil

	for range 2 {
		if _, err := controller.Reconcile(ctx, reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"patch LVMVolumeGroup vg1", "create ConfigMap lvms-deleted-volumes", "patch LogicalVolume deleted-on-gone",
		"patch LVMVolumeGroupNodeStatus gone", "delete LVMVolumeGroupNodeStatus gone"}
	if diff := cmp.Diff(want, spy.Writes()); diff != "" {
		t.Error(diff)
	}
	if err := api.Get(ctx, client.ObjectKeyFromObject(group), group); err != nil {
		t.Fatal(err)
	}
	left := []string{wellknown.NodeCleanupFinalizer("here"), wellknown.VolumeGroupFinalizer,
		"somebody.example.com/elses"}
	if diff := cmp.Diff(left, group.Finalizers); diff != "" {
		t.Error(diff)
	}
	for name, exists := range map[string]bool{"on-here": true, "on-gone": true, "deleted-on-here": true,
		"deleted-on-gone": false} {
		err := api.Get(ctx, client.ObjectKey{Name: name}, &topolvmv1.LogicalVolume{})
		if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == exists {
			t.Errorf("LogicalVolume %s: %v", name, err)
		}
	}
}

// TestARecordOfDeletedVolumesIsExtended runs with the operator's permissions.
func TestARecordOfDeletedVolumesIsExtended(t *testing.T) {
	spy := server.OperatorSpy(t, env.Namespace)
	controller := New(spy, spy, spy, env.Namespace)
	group := lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg9"}}
	now := metav1.Now()
	for _, name := range []string{"one", "two", "two"} {
		lv := topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", DeletionTimestamp: &now},
			Spec: topolvmv1.LogicalVolumeSpec{DeviceClass: "vg9"}, Status: topolvmv1.LogicalVolumeStatus{VolumeID: name}}
		if err := controller.recordDeleted(t.Context(), []topolvmv1.LogicalVolume{lv},
			[]lvmv1alpha1.LVMVolumeGroup{group}); err != nil {
			t.Fatal(err)
		}
	}
	writes := spy.Writes()
	if len(writes) != 2 || writes[1] != "update ConfigMap lvms-deleted-volumes" {
		t.Errorf("got the writes %q", writes)
	}
	records := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: removednode.DeletedVolumes,
		Namespace: env.Namespace}}
	if err := spy.Delete(t.Context(), records); err != nil {
		t.Error(err)
	}
}

func TestWipesAreSavedBeforeTheNodeStatusGoes(t *testing.T) {
	ctx := t.Context()
	const namespace = "wipes"
	api := server.Client
	create := func(object client.Object) {
		t.Helper()
		if err := api.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	spy := server.OperatorSpy(t, namespace)
	cluster := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "my-lvmcluster", Namespace: namespace}}
	create(cluster)
	group := &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: namespace}}
	create(group)
	goneStatus := func(node string, ids ...string) {
		t.Helper()
		status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: namespace,
			Labels: map[string]string{wellknown.OwnerNameLabel: cluster.Name, labelComponent: "node-status"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: lvmv1alpha1.GroupVersion.String(), Kind: "LVMCluster",
				Name: cluster.Name,
				UID:  cluster.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}}}
		create(status)
		entry := lvmv1alpha1.VGStatus{Name: group.Name}
		for _, id := range ids {
			entry.WipedDevices = append(entry.WipedDevices,
				lvmv1alpha1.WipedDevice{ID: id, Name: "/dev/sdb", Time: metav1.Now()})
		}
		status.Status.NodeStatus = []lvmv1alpha1.VGStatus{entry}
		if err := api.Status().Update(ctx, status); err != nil {
			t.Fatal(err)
		}
	}
	controller := New(spy, spy, spy, namespace)
	reconcileTwice := func(want ...string) {
		t.Helper()
		for range 2 {
			if _, err := controller.Reconcile(ctx, reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, spy.Writes()); diff != "" {
			t.Error(diff)
		}
	}
	goneStatus("gone-1", "wwn:1", "wwn:2")
	full := errors.New("etcd is full")
	spy.Fail = func(verb string, object any) error {
		if _, is := object.(*corev1.ConfigMap); is && verb == "create" {
			return full
		}
		return nil
	}
	if _, err := controller.Reconcile(ctx, reconcile.Request{}); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gone-1"},
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{}); err != nil {
		t.Errorf("the node status, whose records are not saved: %v", err)
	}
	spy.Fail = nil
	reconcileTwice("create ConfigMap lvms-wiped-devices", "delete LVMVolumeGroupNodeStatus gone-1")
	goneStatus("gone-2", "wwn:2", "wwn:3")
	goneStatus("gone-3")
	reconcileTwice("update ConfigMap lvms-wiped-devices", "delete LVMVolumeGroupNodeStatus gone-2",
		"delete LVMVolumeGroupNodeStatus gone-3")

	records := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: namespace, Name: removednode.WipedDevices}
	if err := api.Get(ctx, key, records); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for key, value := range records.Data {
		r := removednode.WipedDevice{}
		if err := json.Unmarshal([]byte(value), &r); err != nil || r.ClassUID != string(group.UID) || r.Time.IsZero() ||
			key != removednode.WipedDeviceKey("vg1", r.ID) {
			t.Errorf("%s: %s, %v", key, value, err)
		}
		got[r.ID] = r.DeviceClass + " " + r.Node
	}
	if diff := cmp.Diff(map[string]string{"wwn:1": "vg1 gone-1", "wwn:2": "vg1 gone-2", "wwn:3": "vg1 gone-2"},
		got); diff != "" {
		t.Error(diff)
	}
	if !metav1.IsControlledBy(records, cluster) || records.Labels[labelComponent] != "wiped-devices" ||
		records.Labels[wellknown.OwnerNameLabel] != cluster.Name {
		t.Errorf("%+v", records.ObjectMeta)
	}
}
