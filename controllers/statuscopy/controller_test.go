package statuscopy

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

var node1 = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "node1"}}

func class(name string, spec v1alpha1.LVMVolumeGroupSpec) *v1alpha1.LVMVolumeGroup {
	return &v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
}

func nodeStatus(entries ...v1alpha1.VGStatus) *v1alpha1.LVMVolumeGroupNodeStatus {
	return &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "node1"},
		Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{NodeStatus: entries}}
}

// api is a fake API server. writes counts the patches, and err makes them fail.
type api struct {
	client.Client
	writes int
	err    error
}

func newAPI(t *testing.T, objects ...client.Object) *api {
	t.Helper()
	a := &api{}
	a.Client = memory.Builder().WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object,
			p client.Patch, options ...client.PatchOption) error {
			if a.err != nil {
				return a.err
			}
			a.writes++
			return c.Patch(ctx, o, p, options...)
		}}).Build()
	return a
}

func (a *api) read(t *testing.T) *v1alpha1.LVMVolumeGroupNodeStatus {
	t.Helper()
	got := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := a.Get(t.Context(), node1.NamespacedName, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTheStatusIsCopiedToTheSpec(t *testing.T) {
	raid := &v1alpha1.RAIDStatus{Status: v1alpha1.RAIDHealthy, MemberCount: 2}
	excluded := []v1alpha1.ExcludedDevice{{Name: "/dev/sda", Reasons: []string{"is mounted", "has partitions"}}}
	entries := []v1alpha1.VGStatus{
		{Name: "named", Status: v1alpha1.VGStatusReady, Devices: []string{"/dev/sdb"}, UUID: "u", RAIDStatus: raid},
		{Name: "found", Status: v1alpha1.VGStatusFailed, Reason: "there were no available devices", Excluded: excluded},
		{Name: "grows", Status: v1alpha1.VGStatusProgressing}, {Name: "old", Status: v1alpha1.VGStatusRemoved},
		{Name: "each", Status: v1alpha1.VGStatusReady},
	}
	a := newAPI(t, nodeStatus(entries...),
		class("named", v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic,
			DeviceSelector: &v1alpha1.DeviceSelector{OptionalPaths: []v1alpha1.DevicePath{"/dev/sdb"}}}),
		class("found", v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryStatic}),
		class("grows", v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic,
			DeviceSelector: &v1alpha1.DeviceSelector{Models: []v1alpha1.DeviceProperty{"x"}}}),
		class("each", v1alpha1.LVMVolumeGroupSpec{DeviceSelectors: []v1alpha1.NodeDeviceSelector{{
			DeviceSelector: v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdc"}}}}}))
	c := New(a, "ns")
	for range 2 {
		if _, err := c.Reconcile(t.Context(), node1); err != nil {
			t.Fatal(err)
		}
	}
	got := a.read(t)
	want := []v1alpha1.VGSummary{
		{Name: "each", Status: "Ready", DeviceDiscoveryPolicy: "Preconfigured"},
		{Name: "found", Status: "Failed", Reason: "there were no available devices", Excluded: excluded,
			DeviceDiscoveryPolicy: "RuntimeStatic"},
		{Name: "grows", Status: "Progressing", DeviceDiscoveryPolicy: "RuntimeDynamic"},
		{Name: "named", Status: "Ready", Devices: []string{"/dev/sdb"}, RAIDStatus: raid,
			DeviceDiscoveryPolicy: "Preconfigured"},
		{Name: "old", Status: "Removed"},
	}
	if diff := cmp.Diff(want, got.Spec.NodeStatus); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(entries, got.Status.NodeStatus); diff != "" || a.writes != 1 {
		t.Errorf("the status has changed, or %d writes: %s", a.writes, diff)
	}
}

func TestACopyThatCannotBeWrittenIsRepeated(t *testing.T) {
	a := newAPI(t, nodeStatus(v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusReady}))
	a.err = errors.New("etcd is full")
	c := New(a, "ns")
	if _, err := c.Reconcile(t.Context(), node1); !errors.Is(err, a.err) {
		t.Errorf("got the error %v", err)
	}
	a.err = nil
	if _, err := c.Reconcile(t.Context(), node1); err != nil || len(a.read(t).Spec.NodeStatus) != 1 {
		t.Errorf("got %+v, %v", a.read(t).Spec, err)
	}
	if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns",
		Name: "gone"}}); err != nil {
		t.Errorf("a node that is gone: %v", err)
	}
}

// TestOnlyChangesOfVolumeGroupsAreCopied: the list of devices and the time of the last observation change more often.
func TestOnlyChangesOfVolumeGroupsAreCopied(t *testing.T) {
	before := nodeStatus(v1alpha1.VGStatus{Name: "vg1"})
	for name, test := range map[string]struct {
		edit func(*v1alpha1.LVMVolumeGroupNodeStatus)
		want bool
	}{
		"nothing":  {func(*v1alpha1.LVMVolumeGroupNodeStatus) {}, false},
		"observed": {func(s *v1alpha1.LVMVolumeGroupNodeStatus) { now := metav1.Now(); s.Status.LastObserved = &now }, false},
		"devices": {func(s *v1alpha1.LVMVolumeGroupNodeStatus) {
			s.Status.Devices = []v1alpha1.DeviceStatus{{Name: "/dev/sdb"}}
		}, false},
		"state": {func(s *v1alpha1.LVMVolumeGroupNodeStatus) { s.Status.NodeStatus[0].Status = "Ready" }, true},
		"spec": {func(s *v1alpha1.LVMVolumeGroupNodeStatus) {
			s.Spec.NodeStatus = []v1alpha1.VGSummary{{Name: "by hand"}}
		}, true},
	} {
		after := before.DeepCopy()
		test.edit(after)
		if got := entriesChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
