package volumegroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// destroyBench is a node with the volume group vg1 of another cluster on both disks. It has the logical volume "data".
// wipeVolumeGroups lists its name.
func destroyBench(t *testing.T) *bench {
	selector := &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdb", "/dev/sdc"},
		WipeVolumeGroups: []v1alpha1.VolumeGroupReference{"vg1"}}
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector})
	b.ok(b.lvm.Apply(b.Context(), lvm.VGCreate{Name: "vg1", Devices: []string{"/dev/sdb", "/dev/sdc"},
		Tags: []string{"lvms", "lvms.cluster=elsewhere"}}))
	b.ok(b.lvm.Apply(b.Context(), lvm.LVCreateThick{VG: "vg1", Name: "data", Size: 64 << 20}))
	for i := range b.devices.list {
		b.devices.list[i].Signature = device.SignatureLVM
	}
	b.devices.onWipe = b.lvm.Wipe
	return b
}

func TestAVolumeGroupIsDestroyedWithConsent(t *testing.T) {
	b := destroyBench(t)
	b.settle()
	entry := b.wantState(v1alpha1.VGStatusReady)
	if !slices.Equal(b.devices.wiped, []string{"/dev/sdb", "/dev/sdc"}) || len(entry.WipedDevices) != 2 {
		t.Errorf("wiped %v, recorded %+v", b.devices.wiped, entry.WipedDevices)
	}
	if calls := b.lvm.Calls(); calls["GroupDeactivate"] != 1 || calls["GroupBackup"] != 2 {
		t.Errorf("called %v", calls)
	}
	events := strings.Join(b.drain(), "\n")
	if !strings.Contains(events, "as wipeVolumeGroups allows") ||
		!strings.Contains(events, "with the logical volumes data") {
		t.Errorf("got the events %s", events)
	}
	b.restart()
	b.settle()
	if len(b.devices.wiped) != 2 {
		t.Errorf("wiped again: %v", b.devices.wiped)
	}
}

// TestAVolumeGroupThatIsAliveIsNotDestroyed: whatever its tags say, its volume belongs to an object of this cluster, or
// that is not known.
func TestAVolumeGroupThatIsAliveIsNotDestroyed(t *testing.T) {
	for name, tt := range map[string]struct {
		object client.Object
		live   func(client.Reader) client.Reader
		fail   string
		says   string
	}{
		"a LogicalVolume": {object: &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"},
			Status: topolvmv1.LogicalVolumeStatus{VolumeID: "data"}}, says: "belongs to LogicalVolume pvc-1"},
		"a PersistentVolume": {object: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-2"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "data"}}}},
			says: "belongs to PersistentVolume pvc-2"},
		"the API server does not answer": {live: func(r client.Reader) client.Reader { return noLists{r} },
			says: "no answer"},
		"the devices cannot be read":   {fail: "ReadDevices", says: "input/output error"},
		"the backup cannot be written": {fail: "GroupBackup", says: "input/output error"},
	} {
		b := destroyBench(t)
		if tt.object != nil {
			b.ok(b.client.Create(b.Context(), tt.object))
		}
		if tt.live != nil {
			b.agent.objects.Live = tt.live(b.client)
		}
		if tt.fail != "" {
			b.lvm.Fail(tt.fail, errRead)
		}
		for range 5 {
			_, _ = b.reconcile()
		}
		b.wantState(v1alpha1.VGStatusFailed, tt.says)
		if len(b.devices.wiped) != 0 {
			t.Errorf("%s: wiped %v", name, b.devices.wiped)
		}
	}
}

// TestAWipeOfAKilledAgentIsRecorded: the agent is killed after the wipe, and before it marks the record as done.
func TestAWipeOfAKilledAgentIsRecorded(t *testing.T) {
	b := wipeBench(t)
	b.devices.wipeErr = errors.New("killed")
	for range 3 {
		_, _ = b.reconcile()
	}
	b.devices.wipeErr = nil
	b.devices.list[0].Signature, b.devices.list[0].UUID = "", ""
	b.restart()
	b.settle()
	entry := b.wantState(v1alpha1.VGStatusReady)
	if len(entry.WipedDevices) != 1 || entry.WipedDevices[0].Backup == "" {
		t.Errorf("recorded %+v", entry.WipedDevices)
	}
}

func TestAVolumeGroupThatIsAdoptedMeanwhileIsNotDestroyed(t *testing.T) {
	b := destroyBench(t)
	b.devices.onWipe = func(path string) {
		b.lvm.Wipe(path)
		b.lvm.Tag("vg1", "lvms", "lvms.cluster=c1", "lvms.node="+nodeName)
	}
	for range 5 {
		_, _ = b.reconcile()
	}
	if len(b.devices.wiped) != 1 {
		t.Errorf("wiped %v", b.devices.wiped)
	}
}

// noLists returns an error for lists.
type noLists struct{ client.Reader }

func (noLists) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}
