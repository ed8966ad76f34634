package volumegroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

const lun = "0x6001405a1b2c3d4e5f60718293a4b5c6"

// lunBench is a node whose first disk is a LUN. The class names both of its disks. It reads node statuses through live.
func lunBench(t *testing.T, live func(*bench) client.Reader) *bench {
	t.Helper()
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{DeviceSelector: byName("/dev/sdb", "/dev/sdc")})
	b.devices.list[0].WWN = lun
	b.agent.Peers = func(ctx context.Context, devices []device.Device) (*state.Peers, error) {
		return clusterobjects.ReadPeers(ctx, live(b), namespace, nodeName, b.agent.now, devices)
	}
	return b
}

func byName(names ...v1alpha1.DevicePath) *v1alpha1.DeviceSelector {
	return &v1alpha1.DeviceSelector{Paths: names}
}

// list writes devices to the node status of a node.
func (b *bench) list(node string, devices ...v1alpha1.DeviceStatus) {
	b.Helper()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: namespace}}
	b.ok(client.IgnoreAlreadyExists(b.client.Create(b.Context(), status.DeepCopy())))
	b.ok(b.client.Get(b.Context(), client.ObjectKeyFromObject(status), status))
	status.Status.Devices = devices
	b.ok(b.client.Status().Update(b.Context(), status))
}

func TestADiskIsTakenAfterTheNodeStatusListsIt(t *testing.T) {
	b := lunBench(t, func(b *bench) client.Reader { return b.client })
	asked := 0
	b.agent.Changed = func() { asked++ }
	for range 2 {
		if result := b.settle(); result.RequeueAfter != whileWaiting {
			t.Errorf("reconciles again after %s", result.RequeueAfter)
		}
		b.wantState(v1alpha1.VGStatusProgressing, "until the node status of node node1 lists /dev/sdb")
	}
	if b.lvm.Calls()["VGCreate"] != 0 || asked != 2 {
		t.Errorf("%d groups were created, and %d lists of devices requested", b.lvm.Calls()["VGCreate"], asked)
	}
	b.list(nodeName, v1alpha1.DeviceStatus{Name: "/dev/sdb", WWN: lun})
	b.settle()
	if entry := b.wantState(v1alpha1.VGStatusReady); !slices.Equal(entry.Devices, []string{"/dev/sdb", "/dev/sdc"}) {
		t.Errorf("got %v", entry.Devices)
	}
}

func TestADiskOfAnotherNodeIsHeldBackUntilOnlyOneSeesIt(t *testing.T) {
	b := lunBench(t, func(b *bench) client.Reader { return b.client })
	b.list(nodeName, v1alpha1.DeviceStatus{Name: "/dev/sdb", WWN: lun})
	b.list("node2", v1alpha1.DeviceStatus{Name: "/dev/sdq", WWN: lun})
	for range 2 {
		b.settle()
		entry := b.wantState(v1alpha1.VGStatusFailed, "node2 (/dev/sdq)", "one node only")
		if len(entry.Excluded) != 1 || !strings.HasPrefix(entry.Excluded[0].Reasons[0],
			string(device.SharedWithNode)+": ") {
			t.Errorf("excluded are %+v", entry.Excluded)
		}
	}
	if b.lvm.Calls()["VGCreate"] != 0 {
		t.Fatal("a group was created")
	}
	b.list("node2")
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	// A group keeps a disk that another node begins to see.
	b.list("node2", v1alpha1.DeviceStatus{Name: "/dev/sdq", WWN: lun})
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
}

type noGet struct {
	client.Reader
	err error
}

func (r noGet) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.err
}

type noList struct {
	client.Reader
	err error
}

func (r noList) List(context.Context, client.ObjectList, ...client.ListOption) error { return r.err }

func TestNoDiskIsTakenIfNodeStatusesCannotBeRead(t *testing.T) {
	fault := errors.New("the server is currently unable to handle the request")
	for name, fails := range map[string]func(client.Reader) client.Reader{
		"its own":    func(r client.Reader) client.Reader { return noGet{r, fault} },
		"the others": func(r client.Reader) client.Reader { return noList{r, fault} },
	} {
		t.Run(name, func(t *testing.T) {
			broken := true
			b := lunBench(t, func(b *bench) client.Reader {
				if broken {
					return fails(b.client)
				}
				return b.client
			})
			b.list(nodeName, v1alpha1.DeviceStatus{Name: "/dev/sdb", WWN: lun})
			for range 2 {
				if _, err := b.reconcile(); !errors.Is(err, fault) {
					t.Errorf("got %v", err)
				}
				b.wantState(v1alpha1.VGStatusFailed, "no new device of node node1 is used")
			}
			if b.lvm.Calls()["VGCreate"] != 0 {
				t.Fatal("a group was created")
			}
			broken = false
			b.settle()
			b.wantState(v1alpha1.VGStatusReady)
		})
	}
}

func TestASharedDiskIsNotWiped(t *testing.T) {
	b := wipeBench(t)
	b.devices.list[0].WWN = lun
	b.agent.Peers = func(ctx context.Context, devices []device.Device) (*state.Peers, error) {
		return clusterobjects.ReadPeers(ctx, b.client, namespace, nodeName, b.agent.now, devices)
	}
	b.list(nodeName, v1alpha1.DeviceStatus{Name: "/dev/sdb", WWN: lun})
	b.list("node2", v1alpha1.DeviceStatus{Name: "/dev/sdq", WWN: lun})
	b.settle()
	b.wantState(v1alpha1.VGStatusFailed, "node2 (/dev/sdq)")
	if len(b.devices.wiped) != 0 {
		t.Errorf("wiped %v", b.devices.wiped)
	}
}
