package volumegroup

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// hiddenBench is a node whose first disk may be wiped and has a volume group that LVM does not list.
func hiddenBench(t *testing.T, name string, tags ...string) *bench {
	b := newBench(t, forced("/dev/sdb"))
	b.ok(b.lvm.Apply(b.Context(), lvm.VGCreate{Name: name, Devices: []string{"/dev/sdb"}, Tags: tags}))
	b.lvm.Hide("/dev/sdb")
	b.devices.list[0].Signature = device.SignatureLVM
	b.devices.list[0].UUID = "uuid-000001"
	return b
}

func TestHiddenGroupIsAdopted(t *testing.T) {
	b := hiddenBench(t, "vg1", "lvms", "lvms.cluster=c1", "lvms.node=node9")
	b.settle()
	b.wantState(v1alpha1.VGStatusFailed, "VGMoved")
	pvs, err := b.lvm.ReadLabels(b.Context(), "/dev/sdb")
	b.ok(err)
	object := b.object()
	object.Generation++
	object.Spec.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: nodeName, VolumeGroupUUID: pvs[0].VGUUID}}
	b.ok(b.client.Update(b.Context(), object))
	b.lvm.Fail("DevicesFileAdd", lvm.ErrNotEnabled)
	if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "something else hides volume group vg1") {
		t.Errorf("got %v", err)
	}
	b.lvm.Fail("DevicesFileAdd", nil)
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.settle()
	if len(b.devices.wiped) != 0 || b.lvm.Calls()["VGCreate"] != 1 || b.lvm.Calls()["DevicesFileAdd"] != 2 {
		t.Errorf("wiped %v, called %v", b.devices.wiped, b.lvm.Calls())
	}
}

func TestHiddenGroupThatCannotBeReadIsNotWiped(t *testing.T) {
	b := hiddenBench(t, "old")
	b.lvm.Fail("ReadLabels", errRead)
	for range 3 {
		b.settle()
	}
	b.wantState(v1alpha1.VGStatusFailed, "input/output error")
	if len(b.devices.wiped) != 0 {
		t.Errorf("wiped %v", b.devices.wiped)
	}
	b.lvm.Fail("ReadLabels", nil)
	for range 3 {
		_, _ = b.reconcile()
	}
	if !slices.Equal(b.devices.wiped, []string{"/dev/sdb"}) {
		t.Errorf("the disk of somebody else is not wiped: %v", b.devices.wiped)
	}
}

// TestWipeReadsTheDeviceItself checks changes since the plan was computed.
func TestWipeReadsTheDeviceItself(t *testing.T) {
	b := hiddenBench(t, "vg9", "lvms")
	carried := b.agent.wiper.carried(state.Desired{Name: "vg1", Node: nodeName, Spec: forced("/dev/sdb")}, state.WipeTarget{})
	ask := func(d device.Device, labeled bool) string {
		t.Helper()
		why, err := carried(b.Context(), d, labeled)
		b.ok(err)
		return why
	}
	const unknownGroup = "LVM cannot determine its volume group"
	sdb := b.devices.list[0]
	sdc := b.devices.list[1]
	other := sdb
	other.Number = "8:99"
	for name, tt := range map[string]struct {
		got, want string
	}{
		"ours":                     {ask(sdb, true), "belongs to this product"},
		"its label was not found":  {ask(sdb, false), "belongs to this product"},
		"blank":                    {ask(sdc, false), ""},
		"a label that LVM ignores": {ask(sdc, true), unknownGroup},
		"another device now":       {ask(other, true), unknownGroup},
	} {
		if !strings.Contains(tt.got, tt.want) || tt.want == "" && tt.got != "" {
			t.Errorf("%s: got %q, want %q", name, tt.got, tt.want)
		}
	}
	b.lvm.Fail("ReadLabels", errRead)
	for range 2 {
		if _, err := carried(b.Context(), sdb, true); err == nil {
			t.Error("a read that failed is taken for an answer")
		}
	}
}

// TestHiddenDevicesAreReadOnlyWhereItMatters checks that no process is started for hidden devices in the steady
// state.
func TestHiddenDevicesAreReadOnlyWhereItMatters(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.settle()
	b.ok(b.lvm.Apply(b.Context(), lvm.VGCreate{Name: "old", Devices: nil}))
	b.addDisk("/dev/sdd", 48)
	b.devices.list[2].Signature = device.SignatureLVM
	b.devices.list[2].UUID = "hidden"
	b.settle()
	if n := b.lvm.Calls()["ReadLabels"]; n != 0 {
		t.Errorf("%d reads for a volume group that is well", n)
	}
}
