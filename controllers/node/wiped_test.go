package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// goneNode is a cluster without the node n1, which had wiped a disk.
func goneNode(t *testing.T, funcs interceptor.Funcs) (client.Client, *Controller) {
	t.Helper()
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: "ns"}}
	status.Status.NodeStatus = []lvmv1alpha1.VGStatus{{Name: "vg1",
		WipedDevices: []lvmv1alpha1.WipedDevice{{ID: "wwn:1", Name: "/dev/sdb", Time: metav1.Now()}}}}
	c := memory.Builder().WithInterceptorFuncs(funcs).WithObjects(
		&lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: "ns", UID: "u1"}}, status,
	).Build()
	return c, New(c, c, c, "ns")
}

func TestWipesOutliveTheNode(t *testing.T) {
	c, controller := goneNode(t, interceptor.Funcs{})
	for range 2 {
		if _, err := controller.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	object := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: removednode.WipedDevices}, object); err != nil {
		t.Fatal(err)
	}
	got := removednode.WipedDevice{}
	if err := json.Unmarshal([]byte(object.Data[removednode.WipedDeviceKey("vg1", "wwn:1")]), &got); err != nil ||
		got.ClassUID != "u1" || got.Node != "n1" || len(object.Data) != 1 {
		t.Errorf("got %v, %v", object.Data, err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "n1"},
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{}); !apierrors.IsNotFound(err) {
		t.Errorf("the node status: %v", err)
	}
}

func TestNodeStatusStaysWhileItsRecordsAreNotSaved(t *testing.T) {
	noSpace := errors.New("no space")
	for name, funcs := range map[string]interceptor.Funcs{
		"not written": {Create: func(context.Context, client.WithWatch, client.Object,
			...client.CreateOption) error {
			return noSpace
		}},
		"not read": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if _, is := object.(*corev1.ConfigMap); is {
				return noSpace
			}
			return c.Get(ctx, key, object, options...)
		}},
	} {
		c, controller := goneNode(t, funcs)
		if _, err := controller.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, noSpace) {
			t.Errorf("%s: error %v, so no other try", name, err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "n1"},
			&lvmv1alpha1.LVMVolumeGroupNodeStatus{}); err != nil {
			t.Errorf("%s: the node status: %v", name, err)
		}
	}
}

func TestRecordsHaveALimitInBytes(t *testing.T) {
	data := map[string]string{}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3000 {
		value, err := json.Marshal(removednode.WipedDevice{Node: strings.Repeat("n", 253),
			DeviceClass: strings.Repeat("c", 63), Time: begin.Add(time.Duration(i) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		data[fmt.Sprintf("%032d", i)] = string(value)
	}
	dropped := dropOldest(data)
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	expect.NotZero(t, "dropped", dropped)
	if size > maxRecordBytes {
		t.Errorf("dropped %d, %d bytes are left", dropped, size)
	}
	if size < maxRecordBytes-1000 {
		t.Errorf("dropped %d, %d bytes are left", dropped, size)
	}
	expect.NotZero(t, `data[fmt.Sprintf("%032d", 2999)]`, data[fmt.Sprintf("%032d", 2999)])
	expect.Equal(t, `data[fmt.Sprintf("%032d", dropped-1)]`, data[fmt.Sprintf("%032d", dropped-1)], "")
	if again := dropOldest(data); again != 0 {
		t.Errorf("dropped %d more the second time", again)
	}
}

func TestRecordsHaveALimit(t *testing.T) {
	data := map[string]string{"broken": "{"}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range maxRecords + 1 {
		value, err := json.Marshal(removednode.WipedDevice{Time: begin.Add(time.Duration(i) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		data[fmt.Sprint(i)] = string(value)
	}
	dropped := dropOldest(data)
	expect.Equal(t, "dropped", dropped, 2)
	if len(data) != maxRecords {
		t.Fatalf("dropped %d, %d are left", dropped, len(data))
	}
	expect.Equal(t, `data["broken"]`, data["broken"], "")
	expect.Equal(t, `data["0"]`, data["0"], "")
	expect.NotZero(t, `data["1"]`, data["1"])
}
