package volumegroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

var errRead = errors.New("input/output error")

func forced(paths ...string) v1alpha1.LVMVolumeGroupSpec {
	yes := true
	s := &v1alpha1.DeviceSelector{ForceWipeDevicesAndDestroyAllData: &yes}
	for _, p := range paths {
		s.Paths = append(s.Paths, v1alpha1.DevicePath(p))
	}
	return v1alpha1.LVMVolumeGroupSpec{DeviceSelector: s}
}

// wipeBench is a node whose first disk has a file system and may be wiped.
func wipeBench(t *testing.T) *bench {
	b := newBench(t, forced("/dev/sdb"))
	b.devices.list[0].Signature = "ext4"
	b.devices.list[0].UUID = "fs-1"
	return b
}

func TestWipeIsDoneOnceAndRecorded(t *testing.T) {
	b := wipeBench(t)
	b.settle()
	entry := b.wantState(v1alpha1.VGStatusReady)
	if len(b.devices.wiped) != 1 || len(entry.WipedDevices) != 1 || entry.WipedDevices[0].ID != "serial:/dev/sdb" {
		t.Errorf("wiped %v, recorded %+v", b.devices.wiped, entry.WipedDevices)
	}
	if events := strings.Join(b.drain(), "\n"); !strings.Contains(events, "DeviceWiped") ||
		!strings.Contains(events, "ext4 fs-1") {
		t.Errorf("got the events %s", events)
	}
	b.restart()
	b.settle()
	if len(b.devices.wiped) != 1 {
		t.Errorf("wiped again: %v", b.devices.wiped)
	}
}

// TestWipeIsRecordedBeforeItBegins: a node that is installed again after a crash knows the wipe from its status.
func TestWipeIsRecordedBeforeItBegins(t *testing.T) {
	b := wipeBench(t)
	b.devices.onWipe = func(string) {
		entry := b.entry()
		if len(entry.WipedDevices) != 1 || entry.WipedDevices[0].ID != "serial:/dev/sdb" ||
			!slices.Contains(entry.WipedDevices[0].Names, "path:/dev/sdb") {
			t.Errorf("at the wipe the status has %+v", entry.WipedDevices)
		}
	}
	b.settle()
	if len(b.devices.wiped) != 1 {
		t.Fatalf("wiped %v", b.devices.wiped)
	}
	// It is used for something else, and the node is installed again: only the status has the record.
	b.ok(b.lvm.Apply(b.Context(), lvm.VGRemove{VG: "vg1"}))
	b.ok(b.lvm.Apply(b.Context(), lvm.PVRemove{Device: "/dev/sdb"}))
	b.devices.list[0].Signature, b.devices.list[0].UUID = "xfs", "fs-2"
	b.ok(b.agent.wiper.records.Forget("vg1"))
	b.restart()
	b.settle()
	b.wantState(v1alpha1.VGStatusDegraded, "nothing is wiped a second time")
	if entry := b.entry(); len(b.devices.wiped) != 1 || len(entry.WipedDevices) != 1 {
		t.Errorf("wiped %v, recorded %+v", b.devices.wiped, entry.WipedDevices)
	}
}

// TestWipeThatIsRefusedIsNotInTheStatus: the device itself shows why it must not be wiped.
func TestWipeThatIsRefusedIsNotInTheStatus(t *testing.T) {
	b := wipeBench(t)
	b.devices.wipeErr = errors.New("refused")
	b.devices.found["/dev/sdb"] = []device.Reason{{Code: device.Busy, Message: "is open"}}
	for range 4 {
		_, _ = b.reconcile()
	}
	if entry := b.entry(); len(b.devices.wiped) == 0 || len(entry.WipedDevices) != 0 {
		t.Errorf("tried %v, recorded %+v", b.devices.wiped, entry.WipedDevices)
	}
}

// TestWipeThatTheStatusDoesNotHaveIsNotDone: the API server refuses the record.
func TestWipeThatTheStatusDoesNotHaveIsNotDone(t *testing.T) {
	b := wipeBench(t)
	b.agent.objects.Client = interceptor.NewClient(b.watching(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, p client.Patch,
			options ...client.SubResourcePatchOption) error {
			if status, is := object.(*v1alpha1.LVMVolumeGroupNodeStatus); is &&
				len(entryOf(status, "vg1").WipedDevices) > 0 {
				return errRead
			}
			return c.SubResource(sub).Patch(ctx, object, p, options...)
		}})
	var said []string
	for range 4 {
		if _, err := b.reconcile(); err != nil {
			said = append(said, err.Error())
		}
	}
	if len(b.devices.wiped) != 0 || !strings.Contains(strings.Join(said, "\n"),
		"device /dev/sdb of node node1 was not wiped: record the wipe for device class vg1: input/output error") {
		t.Errorf("wiped %v, said %v", b.devices.wiped, said)
	}
}

// TestWipeAfterTheNodeWasRegisteredAnew recreates the node status. The record on the node must prevent a second wipe,
// so that new data stays.
func TestWipeAfterTheNodeWasRegisteredAnew(t *testing.T) {
	b := wipeBench(t)
	b.settle()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: namespace}}
	b.ok(b.client.Delete(b.Context(), status))
	status.ResourceVersion = ""
	b.ok(b.client.Create(b.Context(), status))
	// The disk is used for something else, without LVM.
	b.ok(b.lvm.Apply(b.Context(), lvm.VGRemove{VG: "vg1"}))
	b.ok(b.lvm.Apply(b.Context(), lvm.PVRemove{Device: "/dev/sdb"}))
	b.devices.list[0].Signature = "xfs"
	b.devices.list[0].UUID = "fs-2"
	b.restart()
	b.settle()
	b.wantState(v1alpha1.VGStatusDegraded, "nothing is wiped a second time")
	if len(b.devices.wiped) != 1 {
		t.Errorf("wiped %v", b.devices.wiped)
	}
}

func TestWipeAsksTheRecordThatOutlivesTheNode(t *testing.T) {
	b := wipeBench(t)
	key := removednode.WipedDeviceKey("vg1", "serial:/dev/sdb")
	b.ok(b.client.Create(b.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: removednode.WipedDevices, Namespace: namespace},
		Data:       map[string]string{key: `{"deviceClass":"vg1","classUID":"uid","id":"serial:/dev/sdb"}`},
	}))
	for range 5 {
		if _, err := b.reconcile(); err != nil && !strings.Contains(err.Error(), "nothing is wiped a second time") {
			t.Fatal(err)
		}
	}
	if len(b.devices.wiped) != 0 {
		t.Errorf("wiped %v", b.devices.wiped)
	}
	b.wantState(v1alpha1.VGStatusFailed, "before its Node was registered again")
}

func TestWipeThatCannotBeRecordedIsNotDone(t *testing.T) {
	b := wipeBench(t)
	b.agent.objects.Live = failingReader{b.client}
	for range 5 {
		_, _ = b.reconcile()
	}
	if len(b.devices.wiped) != 0 {
		t.Errorf("wiped %v without knowing whether that was done before", b.devices.wiped)
	}
	b.wantState(v1alpha1.VGStatusFailed, "ConfigMap")
}

func TestWipeThatFailsIsTriedAgain(t *testing.T) {
	b := wipeBench(t)
	b.devices.wipeErr = errors.New("wipefs: no answer")
	var said []string
	for range 5 {
		if _, err := b.reconcile(); err != nil {
			said = append(said, err.Error())
		}
	}
	if !slices.ContainsFunc(said, func(s string) bool {
		return strings.Contains(s,
			"wipe device /dev/sdb of node node1")
	}) {
		t.Errorf("got %v", said)
	}
	b.devices.wipeErr = nil
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
}

// failingReader returns an error for ConfigMaps.
type failingReader struct{ client.Reader }

func (f failingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	if _, is := object.(*corev1.ConfigMap); !is {
		return f.Reader.Get(ctx, key, object, options...)
	}
	return errors.New("no answer for " + key.String())
}
