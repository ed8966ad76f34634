package volumegroup

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

// approve creates the approval of a device with its present fingerprint.
func (b *bench) approve(name string, d device.Device) *v1alpha1.LVMDeviceApproval {
	b.Helper()
	f := device.NewFingerprints(b.devices.list, nil)
	approval := &v1alpha1.LVMDeviceApproval{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.LVMDeviceApprovalSpec{NodeName: nodeName, DeviceClassName: "vg1", Device: d.Name,
			Fingerprint: f.Of(d, nil), ApprovedBy: "ann"}}
	b.ok(b.client.Create(b.Context(), approval))
	return approval
}

func (b *bench) reasonsOf(name string) []string {
	b.Helper()
	for _, e := range b.entry().Excluded {
		if e.Name == name {
			return e.Reasons
		}
	}
	return nil
}

func TestADeviceWaitsForItsApproval(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Approval: v1alpha1.ApprovalRequired})
	b.settle()
	b.settle() // again: the event is emitted once
	b.wantState(v1alpha1.VGStatusProgressing, "before its devices are approved: /dev/sdb, /dev/sdc")
	if events := b.drain(); len(events) != 1 || !strings.Contains(events[0], "DeviceAwaitsApproval") {
		t.Errorf("got the events %q", events)
	}
	if b.devices.probes > 0 {
		t.Errorf("%d devices were read", b.devices.probes)
	}
	b.approve("b", b.devices.list[0])
	b.settle()
	if entry := b.wantState(v1alpha1.VGStatusReady); !slices.Equal(entry.Devices, []string{"/dev/sdb"}) {
		t.Errorf("got %v", entry.Devices)
	}
	if got := b.reasonsOf("/dev/sdc"); len(got) != 1 || !strings.HasPrefix(got[0], "AwaitingApproval: ") {
		t.Errorf("got %v", got)
	}
	b.approve("c", b.devices.list[1])
	b.settle()
	if entry := b.wantState(v1alpha1.VGStatusReady); !slices.Equal(entry.Devices, []string{"/dev/sdb", "/dev/sdc"}) {
		t.Errorf("got %v", entry.Devices)
	}
	for _, name := range []string{"b", "c"} { // members need no approval
		b.ok(b.client.Delete(t.Context(), &v1alpha1.LVMDeviceApproval{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}))
	}
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
}

func TestADeviceThatChangedSinceItsReviewIsLeftAlone(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Approval: v1alpha1.ApprovalRequired})
	b.approve("b", b.devices.list[0])
	b.devices.list[0].Size++
	b.settle()
	b.wantState(v1alpha1.VGStatusProgressing)
	if got := b.reasonsOf("/dev/sdb"); len(got) != 1 || !strings.HasPrefix(got[0],
		"ChangedSinceReview: has changed since ann") {
		t.Errorf("got %v", got)
	}
	if events := strings.Join(b.drain(), "\n"); !strings.Contains(events, "DeviceChangedSinceReview") {
		t.Errorf("got the events %s", events)
	}
	if b.devices.probes != 1 {
		t.Errorf("%d reads, want one of the device that seems to have changed", b.devices.probes)
	}
}

func TestContentThatOnlyAReadFindsIsNotWhatWasApproved(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Approval: v1alpha1.ApprovalRequired})
	b.approve("b", b.devices.list[0])
	signature := device.Signature{Type: "ext4"}
	b.devices.found["/dev/sdb"] = []device.Reason{{Code: device.HasSignature, Message: "x", Signature: &signature}}
	b.settle()
	if got := strings.Join(b.reasonsOf("/dev/sdb"), "\n"); !strings.Contains(got, "ChangedSinceReview") {
		t.Errorf("got %s", got)
	}
	if entry := b.entry(); len(entry.Devices) > 0 {
		t.Errorf("used: %v", entry.Devices)
	}
}

// withdrawn is an API server on which approvals were deleted, recreated or cannot be read, and the cache does not know.
type withdrawn struct {
	client.Reader
	err error
	uid string
}

func (w withdrawn) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	if _, is := object.(*v1alpha1.LVMDeviceApproval); is && w.err != nil {
		return w.err
	}
	err := w.Reader.Get(ctx, key, object, options...)
	if approval, is := object.(*v1alpha1.LVMDeviceApproval); is && w.uid != "" {
		approval.SetUID("other")
	}
	return err
}

func TestAnApprovalIsReadAgainBeforeADeviceIsUsed(t *testing.T) {
	for name, live := range map[string]struct {
		withdrawn
		says string
	}{
		"the read fails": {withdrawn{err: errRead}, "input/output error"},
		"another object": {withdrawn{uid: "other"}, "was deleted"},
	} {
		b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Approval: v1alpha1.ApprovalRequired})
		b.approve("b", b.devices.list[0])
		live.Reader = b.client
		b.agent.objects.Live = live.withdrawn
		_, err := b.reconcile()
		if err == nil || !strings.Contains(err.Error(), live.says) {
			t.Errorf("%s: got %v", name, err)
		}
		b.wantState(v1alpha1.VGStatusFailed, live.says)
		b.agent.objects.Live = b.client
		b.settle()
		b.wantState(v1alpha1.VGStatusReady)
	}
}

func TestAWipeNeedsConsentAndApproval(t *testing.T) {
	b := wipeBench(t)
	object := b.object()
	object.Spec.Approval = v1alpha1.ApprovalRequired
	b.ok(b.client.Update(t.Context(), object))
	b.settle()
	b.wantState(v1alpha1.VGStatusProgressing, "approved")
	if len(b.devices.wiped) > 0 {
		t.Fatalf("wiped %v", b.devices.wiped)
	}
	approval := b.approve("b", b.devices.list[0])
	b.settle()
	entry := b.wantState(v1alpha1.VGStatusReady)
	if len(b.devices.wiped) != 1 || !slices.Equal(entry.Devices, []string{"/dev/sdb"}) {
		t.Errorf("wiped %v, used %v", b.devices.wiped, entry.Devices)
	}
	if o := b.devices.options; o.Fingerprint != approval.Spec.Fingerprint || len(o.Reasons) == 0 {
		t.Errorf("wiped as %q with %v", o.Fingerprint, o.Reasons)
	}
	records, err := b.agent.wiper.records.Read("vg1")
	if err != nil || len(records) != 1 || records[0].Approved != approval.Spec.Fingerprint || records[0].Blank == "" {
		t.Errorf("got %+v, %v", records, err)
	}
}

// A failed list of approvals is not "nothing is approved".
func TestApprovalsThatCannotBeReadChangeNothing(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Approval: v1alpha1.ApprovalRequired})
	b.settle()
	b.drain()
	b.agent.objects.Client = failingList{b.client}
	if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "LVMDeviceApprovals") {
		t.Errorf("got %v", err)
	}
}

type failingList struct{ client.Client }

func (f failingList) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*v1alpha1.LVMDeviceApprovalList); is {
		return errRead
	}
	return f.Client.List(ctx, list, options...)
}

func TestTheDeviceClassOfAnApproval(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	approval := b.approve("b", b.devices.list[0])
	if got := b.agent.objects.Approved(t.Context(), approval); len(got) != 1 || got[0].Name != "vg1" {
		t.Errorf("got %v", got)
	}
	approval.Spec.NodeName = "other"
	if got := b.agent.objects.Approved(t.Context(), approval); len(got) > 0 {
		t.Errorf("of another node: got %v", got)
	}
}

// A device that seems to have changed is judged by what is there now, not by an observation that is a minute old.
func TestADoubtfulDeviceIsObservedAgain(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Approval: v1alpha1.ApprovalRequired})
	b.approve("b", b.devices.list[0])
	b.devices.list[0].Size++
	b.settle()
	lists := b.devices.lists
	b.settle()
	if b.devices.lists == lists {
		t.Error("the node is not observed again")
	}
}
