package node

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

var deletedAt = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// deletedVolume is a LogicalVolume of the node that is being deleted.
func deletedVolume(name, node, class, volume string) *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), DeletionTimestamp: &deletedAt,
			Finalizers: []string{wellknown.LogicalVolumeFinalizer}},
		Spec:   topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, DeviceClass: class},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: volume},
	}
}

// clusterOf is a cluster with the node n2 and the device class vg1.
func clusterOf(t *testing.T, funcs interceptor.Funcs, volumes ...client.Object) (client.Client, *Controller) {
	t.Helper()
	owner := metav1.OwnerReference{APIVersion: "lvm.topolvm.io/v1alpha1", Kind: "LVMCluster", Name: "cluster", UID: "c"}
	c := memory.Builder().WithInterceptorFuncs(funcs).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: "ns",
			Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{owner}}},
	).WithObjects(volumes...).Build()
	return c, New(c, c, c, "ns")
}

func recordsOfDeleted(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: "ns", Name: removednode.DeletedVolumes}
	if err := client.IgnoreNotFound(c.Get(t.Context(), key, object)); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestVolumesThatAreDeletedWithoutTheirNodeAreRecorded: only those of a node that does not exist, of a device class
// that exists, and with a logical volume.
func TestVolumesThatAreDeletedWithoutTheirNodeAreRecorded(t *testing.T) {
	c, controller := clusterOf(t, interceptor.Funcs{}, deletedVolume("a", "n1", "vg1", "vol-a"),
		deletedVolume("b", "n1", "vg1", "vol-b"), deletedVolume("alive", "n2", "vg1", "vol-c"),
		deletedVolume("no-class", "n1", "vg2", "vol-d"), deletedVolume("no-volume", "n1", "vg1", ""))
	for range 2 {
		if _, err := controller.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	object := recordsOfDeleted(t, c)
	got := map[string]removednode.DeletedVolume{}
	for key, value := range object.Data {
		d := removednode.DeletedVolume{}
		if err := json.Unmarshal([]byte(value), &d); err != nil || key != removednode.DeletedVolumeKey(d.Volume) {
			t.Errorf("%s: %s: %v", key, value, err)
		}
		got[d.LogicalVolume] = d
	}
	want := func(name string) removednode.DeletedVolume {
		return removednode.DeletedVolume{Volume: "vol-" + name, UID: types.UID("uid-" + name), LogicalVolume: name,
			Node: "n1", DeviceClass: "vg1", Time: deletedAt.UTC()}
	}
	if diff := cmp.Diff(map[string]removednode.DeletedVolume{"a": want("a"), "b": want("b")}, got); diff != "" {
		t.Error(diff)
	}
	if len(object.OwnerReferences) != 1 || object.OwnerReferences[0].Name != "cluster" || object.Labels["a"] != "b" ||
		object.Labels[labelComponent] != "deleted-volumes" {
		t.Errorf("got the ConfigMap %+v", object.ObjectMeta)
	}
	for name, gone := range map[string]bool{"a": true, "b": true, "no-class": true, "no-volume": true, "alive": false} {
		err := c.Get(t.Context(), client.ObjectKey{Name: name}, &topolvmv1.LogicalVolume{})
		if apierrors.IsNotFound(err) != gone {
			t.Errorf("LogicalVolume %s: %v", name, err)
		}
	}
}

// TestAVolumeIsNotReleasedUntilItsDeletionIsRecorded: the record can be neither read nor written.
func TestAVolumeIsNotReleasedUntilItsDeletionIsRecorded(t *testing.T) {
	full := errors.New("etcd is full")
	for name, funcs := range map[string]interceptor.Funcs{
		"not written": {Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return full
		}},
		"not read": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if _, is := object.(*corev1.ConfigMap); is {
				return full
			}
			return c.Get(ctx, key, object, options...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, controller := clusterOf(t, funcs, deletedVolume("a", "n1", "vg1", "vol-a"))
			if _, err := controller.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, full) {
				t.Errorf("got the error %v", err)
			}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &topolvmv1.LogicalVolume{}); err != nil {
				t.Errorf("LogicalVolume: %v", err)
			}
		})
	}
}
