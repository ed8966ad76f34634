package volumegroup

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// ofTier returns a device class that selects devices by the label tier, and uses those that are labeled later.
func ofTier(value string) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic,
		DeviceSelector: &v1alpha1.DeviceSelector{Labels: map[string]string{"tier": value}}}
}

// setTier labels devices, each with its identity, as kubectl lvms label does. Without devices, no device has a label.
func (b *bench) setTier(value string, ids ...string) {
	b.Helper()
	nodeStatus := &v1alpha1.LVMVolumeGroupNodeStatus{}
	b.ok(b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: nodeName}, nodeStatus))
	nodeStatus.Spec.DeviceLabels = nil
	for _, id := range ids {
		nodeStatus.Spec.DeviceLabels = append(nodeStatus.Spec.DeviceLabels, v1alpha1.DeviceLabels{ID: id,
			Labels: v1alpha1.DeviceLabelSet{"tier": v1alpha1.DeviceLabelValue(value)}})
	}
	b.ok(b.client.Update(b.Context(), nodeStatus))
}

func TestADeviceWithTheLabelIsUsed(t *testing.T) {
	b := newBench(t, ofTier("fast"))
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	if b.lvm.Calls()["VGCreate"] != 0 {
		t.Fatal("a device without the label was used")
	}
	b.setTier("fast", "serial:/dev/sdb")
	for range 2 {
		b.settle()
		if got := b.wantState(v1alpha1.VGStatusReady); !slices.Equal(got.Devices, []string{"/dev/sdb"}) {
			t.Errorf("got %v", got.Devices)
		}
	}
	b.setTier("fast", "serial:/dev/sdc") // the first device has lost its label
	b.agent.Wake()
	b.settle()
	got := b.wantState(v1alpha1.VGStatusReady)
	if !slices.Equal(got.Devices, []string{"/dev/sdb", "/dev/sdc"}) || b.lvm.Calls()["VGReduce"] != 0 ||
		len(b.devices.wiped) != 0 {
		t.Errorf("got %v, %v", got.Devices, b.lvm.Calls())
	}
}

// TestLabelsThatCannotBeReadSelectNothing checks that no device is used, and none is removed, when the labels are not
// known, and that the status says so.
func TestLabelsThatCannotBeReadSelectNothing(t *testing.T) {
	b := newBench(t, ofTier("fast"))
	b.settle()
	b.setTier("fast", "serial:/dev/sdb")
	works := b.client
	b.agent.objects.Live = interceptor.NewClient(b.watching(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if _, is := object.(*v1alpha1.LVMVolumeGroupNodeStatus); is {
				return errAway
			}
			return c.Get(ctx, key, object, options...)
		}})
	before := b.changes()
	b.agent.Wake()
	for range 3 {
		if _, err := b.reconcile(); !errors.Is(err, errAway) {
			t.Errorf("got %v", err)
		}
	}
	b.wantState(v1alpha1.VGStatusFailed, "the labels of devices are not known, so no device is selected")
	if b.changes() != before {
		t.Errorf("got %v", b.lvm.Calls())
	}
	b.agent.objects.Live = works
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	if b.lvm.Calls()["VGCreate"] != 1 {
		t.Errorf("got %v", b.lvm.Calls())
	}
}

// TestALabelThatWasJustRemovedSelectsNothing checks that a change does not depend on the labels in a cache.
func TestALabelThatWasJustRemovedSelectsNothing(t *testing.T) {
	b := newBench(t, ofTier("fast"))
	b.settle()
	b.setTier("fast", "serial:/dev/sdb")
	stale := &v1alpha1.LVMVolumeGroupNodeStatus{}
	b.ok(b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: nodeName}, stale))
	b.setTier("")
	b.agent.objects.Client = interceptor.NewClient(b.watching(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if nodeStatus, is := object.(*v1alpha1.LVMVolumeGroupNodeStatus); is {
				stale.DeepCopyInto(nodeStatus)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		}})
	for range 3 {
		_, err := b.reconcile()
		b.ok(err)
	}
	if b.lvm.Calls()["VGCreate"] != 0 {
		t.Error("a device was used by a label that it no longer has")
	}
}

// TestADeletedNodeStatusIsNotANodeWithoutLabels checks the moment before the operator recreates the node status.
func TestADeletedNodeStatusIsNotANodeWithoutLabels(t *testing.T) {
	b := newBench(t, ofTier("fast"))
	b.settle()
	b.ok(b.client.Delete(t.Context(), &v1alpha1.LVMVolumeGroupNodeStatus{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: namespace}}))
	d, err := b.agent.desired(t.Context(), b.object())
	b.ok(err)
	for _, age := range []time.Duration{0, maxAge} {
		if err := b.agent.labeled(t.Context(), d, &state.NodeState{}, age); err == nil {
			t.Errorf("%s: the labels are not known", age)
		}
	}
}
