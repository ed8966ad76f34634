package volumegroup

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// claimedVolume is the name of a logical volume of TopoLVM.
const claimedVolume = "11111111-2222-3333-4444-555555555555"

// newExisting returns a bench with a volume group that an administrator made, with a logical volume of the host.
func newExisting(t *testing.T, spec v1alpha1.LVMVolumeGroupSpec) *bench {
	t.Helper()
	spec.ExistingVolumeGroup = "data"
	b := newBench(t, spec)
	b.ok(b.lvm.Apply(t.Context(), lvm.VGCreate{Name: "data", Devices: []string{"/dev/sdb"}}))
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "data", Name: "root", Size: 64 << 20}))
	return b
}

// commands returns the commands that change LVM, with the number of calls.
func (b *bench) commands() map[string]int {
	calls := b.lvm.Calls()
	for _, read := range []string{"Report", "Recent"} {
		delete(calls, read)
	}
	return calls
}

func TestAnExistingVolumeGroupIsUsedAndNotChanged(t *testing.T) {
	b := newExisting(t, v1alpha1.LVMVolumeGroupSpec{})
	before := b.commands()
	if result := b.settle(); result.RequeueAfter < resync {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	entry := b.wantState(v1alpha1.VGStatusReady)
	if entry.VolumeGroup != "data" || !slices.Equal(entry.Devices, []string{"/dev/sdb"}) || entry.UUID == "" {
		t.Errorf("got %+v", entry)
	}
	class, ok := b.engine.Class("vg1")
	if !ok || class.VolumeGroup != "data" || !class.ExistingVolumeGroup {
		t.Errorf("got the class %+v", class)
	}
	b.restart()
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)

	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "data", Name: claimedVolume, Size: 64 << 20}))
	before["LVCreateThick"]++
	b.remove()
	b.settle()
	b.wantState(v1alpha1.VGStatusDegraded, "has logical volumes of it: "+claimedVolume)
	if b.gone() {
		t.Fatal("the device class ended with a volume")
	}
	b.ok(b.lvm.Apply(t.Context(), lvm.LVRemove{VG: "data", Names: []string{claimedVolume}}))
	before["LVRemove"]++
	for range 2 {
		b.settle()
	}
	if !b.gone() {
		t.Errorf("the device class does not end: %+v", b.entry())
	}
	if _, published := b.engine.Class("vg1"); published {
		t.Error("the class is still published")
	}
	if after := b.commands(); !maps.Equal(before, after) {
		t.Errorf("the agent changed LVM: %v, before %v", after, before)
	}
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	if vg := report.VG("data"); vg == nil || len(vg.Tags) > 0 || vg.LV("root") == nil {
		t.Errorf("the volume group was changed: %+v", vg)
	}
}

func TestAnExistingThinPoolIsNeverCreated(t *testing.T) {
	b := newExisting(t, thinOf(50))
	b.settle()
	b.wantState(v1alpha1.VGStatusFailed, "has no thin pool pool", "lvcreate --type thin-pool")
	if _, published := b.engine.Class("vg1"); published {
		t.Error("the class is published without its pool")
	}
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThinPool{VG: "data", Name: "pool", PercentFree: 20}))
	b.settle()
	if entry := b.wantState(v1alpha1.VGStatusReady); entry.ThinPool == nil {
		t.Errorf("got %+v", entry)
	}
	if n := b.commands()["LVExtend"]; n != 0 {
		t.Errorf("the pool was extended %d times", n)
	}
}

func TestAnExistingVolumeGroupThatCannotBeRead(t *testing.T) {
	b := newExisting(t, v1alpha1.LVMVolumeGroupSpec{})
	b.settle()
	before := b.entry()
	b.lvm.Fail("Report", errors.New("lvm hangs"))
	b.agent.Wake()
	if _, err := b.reconcile(); err == nil {
		t.Error("the failed read is not an error")
	}
	after := b.wantState(v1alpha1.VGStatusDegraded, "lvm hangs")
	if after.UUID != before.UUID || after.VolumeGroup != "data" || len(after.PhysicalVolumes) != 1 {
		t.Errorf("a failed read is taken for a missing group: %+v", after)
	}
	b.remove()
	if _, err := b.reconcile(); err == nil || b.gone() {
		t.Errorf("the device class ended although its volumes could not be read: %v", err)
	}
	if _, published := b.engine.Class("vg1"); !published {
		t.Error("the class was withdrawn after a failed read")
	}
}

func TestRecoveriesDoNotApplyToAnExistingVolumeGroup(t *testing.T) {
	b := newExisting(t, v1alpha1.LVMVolumeGroupSpec{})
	recovery := &v1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: namespace},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: nodeName, DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryDeleteOrphans, Volumes: []string{"root"}}}
	b.ok(b.client.Create(t.Context(), recovery))
	for range 2 {
		b.settle()
	}
	b.ok(b.client.Get(t.Context(), client.ObjectKeyFromObject(recovery), recovery))
	if recovery.Status.Plan != nil || !strings.Contains(recovery.Status.Message, "created by an administrator") {
		t.Errorf("got %+v", recovery.Status)
	}
	b.wantState(v1alpha1.VGStatusReady)
}
