//go:build env

package statuscopy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// TestTheCopyIsStored: the schema of the CRD has all fields, and the operator may write them. The labels of devices,
// which an administrator writes, stay.
func TestTheCopyIsStored(t *testing.T) {
	spy := server.OperatorSpy(t, env.Namespace)
	key := types.NamespacedName{Namespace: env.Namespace, Name: "node-copy"}
	status := &v1alpha1.LVMVolumeGroupNodeStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	labels := []v1alpha1.DeviceLabels{{ID: "wwn:0x1", Labels: v1alpha1.DeviceLabelSet{"example.com/tier": "fast"}}}
	status.Spec.DeviceLabels = labels
	group := &v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "copied"}}
	for _, object := range []client.Object{status, group} {
		if err := server.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "copied", Status: v1alpha1.VGStatusDegraded, Reason: "why",
		Devices: []string{"/dev/sdb"}, Excluded: []v1alpha1.ExcludedDevice{{Name: "/dev/sda", Reasons: []string{"in use"}}},
		RAIDStatus: &v1alpha1.RAIDStatus{Status: v1alpha1.RAIDDegraded, MemberCount: 2, DegradedMemberCount: 1}}}
	if err := server.Client.Status().Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	c := New(spy, env.Namespace)
	for range 2 {
		if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"patch LVMVolumeGroupNodeStatus node-copy"}, spy.Writes()); diff != "" {
		t.Error(diff)
	}
	got := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := server.Client.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	entry := status.Status.NodeStatus[0]
	want := []v1alpha1.VGSummary{{Name: "copied", Status: entry.Status, Reason: entry.Reason, Devices: entry.Devices,
		Excluded: entry.Excluded, RAIDStatus: entry.RAIDStatus, DeviceDiscoveryPolicy: v1alpha1.DiscoveryRuntimeStatic}}
	if diff := cmp.Diff(want, got.Spec.NodeStatus); diff != "" || len(got.Status.NodeStatus) != 1 {
		t.Errorf("got the status %+v, and the spec: %s", got.Status, diff)
	}
	if diff := cmp.Diff(labels, got.Spec.DeviceLabels); diff != "" {
		t.Errorf("the labels of devices have changed: %s", diff)
	}
}
