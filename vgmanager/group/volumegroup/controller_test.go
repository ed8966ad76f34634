package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestReconcileMakesAThinClass(t *testing.T) {
	b := newBench(t, thinOf(90))
	if result := b.settle(); result.RequeueAfter < resync {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	entry := b.wantState(v1alpha1.VGStatusReady)
	if !slices.Equal(entry.Devices, []string{"/dev/sdb", "/dev/sdc"}) || entry.ObservedGeneration != 3 ||
		entry.Reason != "" {
		t.Errorf("got %+v", entry)
	}
	expect.NotZero(t, "Size", entry.Size)
	expect.NotZero(t, "Free", entry.Free)
	if entry.ThinPool == nil {
		t.Fatalf("got %+v", entry)
	}
	expect.Equal(t, "ThinPool.Name", entry.ThinPool.Name, "pool")
	expect.Equal(t, "ThinPool.MetadataPercent", entry.ThinPool.MetadataPercent, 10)
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	if !report.VG("vg1").HasTag("lvms") {
		t.Error("the group has no owner tag")
	}
	if class, ok := b.engine.Class("vg1"); !ok || class.ThinPoolConfig.OverprovisionRatio != 10 {
		t.Errorf("got the class %+v", class)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "lvmd.yaml")); err != nil {
		t.Error(err)
	}
	if got := b.object().Finalizers; !slices.Equal(got, []string{wellknown.VolumeGroupFinalizer}) {
		t.Errorf("an agent does not write what all nodes share: %v", got)
	}
	if b.devices.probes != 2 {
		t.Errorf("%d probes, want one of each disk", b.devices.probes)
	}
	if got := b.drain(); len(got) != 1 || !strings.Contains(got[0], "VolumeGroupReady") {
		t.Errorf("got the events %q", got)
	}
}

func TestReconcileAtRestChangesAndWritesNothing(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.drain()
	writes := b.writes
	before := b.lvm.Calls()
	for range 3 {
		b.settle()
	}
	after := b.lvm.Calls()
	before["Report"] = after["Report"]
	for command, n := range after {
		if before[command] != n {
			t.Errorf("%s was called", command)
		}
	}
	if b.writes != writes || len(b.drain()) != 0 {
		t.Errorf("%d writes of status, want none", b.writes-writes)
	}
}

func TestReconcileReadsTheDevicesAnewWhenTheSpecChanges(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	lists := b.devices.lists
	b.settle()
	if b.devices.lists != lists {
		t.Error("at rest the list that is known was not enough")
	}
	object := b.object()
	object.Generation++
	b.ok(b.client.Update(t.Context(), object))
	b.settle()
	if b.devices.lists == lists {
		t.Error("after a change of the spec an old list was taken: a disk that came since is not in it")
	}
}

func TestReconcileMakesOneChangeAtATime(t *testing.T) {
	b := newBench(t, thinOf(90))
	reads := map[string]bool{"Report": true}
	for range 10 {
		before := b.lvm.Calls()
		result, err := b.reconcile()
		b.ok(err)
		changes := 0
		for command, n := range b.lvm.Calls() {
			if !reads[command] {
				changes += n - before[command]
			}
		}
		if changes > 1 {
			t.Errorf("%d changes in one reconcile", changes)
		}
		if result.RequeueAfter != afterChange {
			return
		}
	}
}

func TestReconcileWaitsForTheNodeStatus(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.ok(b.client.Delete(t.Context(), &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName,
		Namespace: namespace}}))
	if result := b.settle(); result.RequeueAfter != whileWaiting {
		t.Errorf("got %v", result)
	}
	if b.lvm.Calls()["VGCreate"] != 0 {
		t.Error("a group was made that nobody can see")
	}
}

func TestReconcileLeavesOtherNodesAlone(t *testing.T) {
	b := newBench(t, selecting("disks", "no"))
	result := b.settle()
	if result.RequeueAfter != 0 || b.isMember() || len(b.lvm.Calls()) != 0 {
		t.Errorf("got %v, %+v, %v", result, b.entry(), b.lvm.Calls())
	}
}

func selecting(key, value string) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn,
			Values: []string{value}}},
	}}}}
}

func TestReconcileWhenTheReadFails(t *testing.T) {
	for name, fail := range map[string]func(*bench, error){
		"of LVM":     func(b *bench, err error) { b.lvm.Fail("Report", err) },
		"of devices": func(b *bench, err error) { b.devices.err = err },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
			fail(b, errors.New("input/output error"))
			if _, err := b.reconcile(); err == nil {
				t.Error("want an error, for the back-off")
			}
			b.wantState(v1alpha1.VGStatusFailed, "input/output error")
			if b.lvm.Calls()["VGCreate"] != 0 {
				t.Fatal("a group was made of what could not be read")
			}
			fail(b, nil)
			b.settle()
			ready := b.wantState(v1alpha1.VGStatusReady)

			fail(b, errors.New("input/output error"))
			if _, err := b.reconcile(); err == nil {
				t.Error("want an error, for the back-off")
			}
			// The last known state stays, and is marked as outdated.
			if now := b.wantState(v1alpha1.VGStatusDegraded,
				"input/output error"); !slices.Equal(now.Devices, ready.Devices) || now.Size == nil {
				t.Errorf("got %+v", now)
			}
		})
	}
}

func TestReconcileTellsOfAPathInTheWay(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.lvm.Fail("VGCreate", fmt.Errorf("create volume group vg1: %w", lvm.ErrPathExists))
	for range 2 {
		if _, err := b.reconcile(); !errors.Is(err, lvm.ErrPathExists) {
			t.Errorf("got %v", err)
		}
		b.wantState(v1alpha1.VGStatusFailed, "the path /dev/vg1 exists on node "+nodeName+",",
			"run on the node: find /dev/vg1 -xtype l -delete && rmdir /dev/vg1;")
	}
	b.lvm.Fail("VGCreate", nil)
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
}

func TestReconcileTellsOfACommandThatFails(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.lvm.Fail("VGCreate", lvm.ErrSignature)
	if _, err := b.reconcile(); !errors.Is(err, lvm.ErrSignature) || !strings.Contains(err.Error(), nodeName) {
		t.Errorf("got %v", err)
	}
	b.wantState(v1alpha1.VGStatusFailed, "signature")
	if got := b.drain(); len(got) != 1 || !strings.Contains(got[0], "Warning VGCreateOrExtendFailed") {
		t.Errorf("got the events %q", got)
	}
	b.lvm.Fail("VGCreate", nil)
	b.lvm.Fail("LVCreateThinPool", lvm.ErrNoSpace)
	for range 2 { // the group, and the tag before the pool
		_, err := b.reconcile()
		b.ok(err)
	}
	if _, err := b.reconcile(); !errors.Is(err, lvm.ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	b.wantState(v1alpha1.VGStatusDegraded, "not enough free space")
	b.lvm.Fail("LVCreateThinPool", nil)
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
}

func TestReconcileUsesNoDiskThatIsNotBlankAfterAll(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.devices.found["/dev/sdb"] = []device.Reason{{Code: device.HasSignature, Message: "carries ext4"}}
	b.settle()
	entry := b.wantState(v1alpha1.VGStatusReady)
	if !slices.Equal(entry.Devices, []string{"/dev/sdc"}) {
		t.Errorf("got %v", entry.Devices)
	}
}

func TestReconcileTellsOfALostDiskAndOfItsReturn(t *testing.T) {
	b := newBench(t, thinOf(50))
	b.settle()
	b.drain()
	b.lvm.Detach("/dev/sdc")
	b.settle()
	entry := b.wantState(v1alpha1.VGStatusDegraded, "last seen as /dev/sdc", "node node1")
	if !slices.Contains(entry.Devices, "/dev/sdc (missing)") {
		t.Errorf("got %v", entry.Devices)
	}
	if got := b.drain(); len(got) != 1 || !strings.Contains(got[0], "Warning InconsistentLVs") {
		t.Errorf("got the events %q", got)
	}
	b.lvm.Attach("/dev/sdc")
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
}

func TestReconcileActivatesVolumesAfterABoot(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: "a", VirtualSize: 1 << 20}))
	b.lvm.Reboot()
	b.restart()
	b.settle()
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	if !report.VG("vg1").LV("a").Attr.Active() {
		t.Error("the volume is inactive")
	}
	b.wantState(v1alpha1.VGStatusReady)
}

func TestReconcileExtendsTheGroupAndItsPool(t *testing.T) {
	spec := thinOf(90)
	spec.DeviceDiscoveryPolicy = v1alpha1.DeviceDiscoveryDynamic
	b := newBench(t, spec)
	b.settle()
	before := b.entry()
	b.addDisk("/dev/sdd", 48)
	b.settle()
	after := b.wantState(v1alpha1.VGStatusReady)
	if len(after.Devices) != 3 || after.ThinPool.Size.Cmp(before.ThinPool.Size) <= 0 {
		t.Errorf("got %+v, was %+v", after, before)
	}
	if n := b.lvm.Calls()["LVExtend"]; n != 1 {
		t.Errorf("the pool was extended %d times", n)
	}
}

func TestReconcileNeverAdoptsAForeignGroup(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.ok(b.lvm.Apply(t.Context(), lvm.VGCreate{Name: "vg1", Devices: []string{"/dev/sdb"}}))
	b.settle()
	b.wantState(v1alpha1.VGStatusFailed, "without the tag")
	if calls := b.lvm.Calls(); calls["VGExtend"]+calls["LVCreateThinPool"] != 0 {
		t.Errorf("the group was changed: %v", calls)
	}
	b.remove()
	b.settle()
	if !b.gone() {
		t.Error("the entry stays")
	}
	if b.lvm.Calls()["VGRemove"] != 0 {
		t.Error("a foreign group was removed")
	}
}

func TestStatusOfTwoGroupsIsSorted(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	b.ok(b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: nodeName}, status))
	status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "zzz", Status: v1alpha1.VGStatusReady},
		{Name: "aaa", Status: v1alpha1.VGStatusReady}}
	b.ok(b.client.Status().Update(t.Context(), status))
	b.settle()
	b.ok(b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: nodeName}, status))
	var names []string
	for _, e := range status.Status.NodeStatus {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"aaa", "vg1", "zzz"}) {
		t.Errorf("got %v", names)
	}
}

// TestAStaleCacheLosesNothing: the list of devices and the entries of device classes are in one object, and the
// agent's cache may not have the agent's own last write.
func TestAStaleCacheLosesNothing(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	stale := &v1alpha1.LVMVolumeGroupNodeStatus{}
	b.ok(b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: nodeName}, stale))
	latest := stale.DeepCopy()
	latest.Status.Devices = []v1alpha1.DeviceStatus{{Name: "/dev/other", ID: "other", State: v1alpha1.DeviceAvailable}}
	b.ok(b.client.Status().Update(t.Context(), latest))
	b.agent.objects.Client = interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if status, ok := object.(*v1alpha1.LVMVolumeGroupNodeStatus); ok {
				stale.DeepCopyInto(status)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	b.settle()
	b.wantState(v1alpha1.VGStatusReady)
	b.ok(b.client.Get(t.Context(), client.ObjectKeyFromObject(stale), latest))
	if len(latest.Status.Devices) != 1 {
		t.Errorf("the list of devices is lost: %+v", latest.Status)
	}
}

func TestConflictIsTriedAgainWithoutAnError(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("x").GroupResource(), "x",
		errors.New("changed"))
	b.agent.objects.Client = interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
			...client.SubResourcePatchOption) error {
			return conflict
		},
	})
	if result, err := b.reconcile(); err != nil || result.RequeueAfter != afterConflict {
		t.Errorf("got %v, %v", result, err)
	}
}

// TestReconcileSetsTheDiscardsOfAPool once, also after a failure.
func TestReconcileSetsTheDiscardsOfAPool(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	group := &v1alpha1.LVMVolumeGroup{}
	b.ok(b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "vg1"}, group))
	group.Spec.ThinPoolConfig.Discards = v1alpha1.DiscardsNoPassDown
	b.ok(b.client.Update(t.Context(), group))
	refused := errors.New("lvchange: timeout")
	b.lvm.Fail("ThinPoolSetDiscards", refused)
	if _, err := b.reconcile(); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	b.lvm.Fail("ThinPoolSetDiscards", nil)
	before := b.lvm.Calls()["ThinPoolSetDiscards"]
	for range 2 {
		b.settle()
	}
	b.wantState(v1alpha1.VGStatusReady)
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	if pool := report.VG("vg1").ThinPool("pool"); pool.Discards != lvm.DiscardsNoPassDown ||
		b.lvm.Calls()["ThinPoolSetDiscards"] != before+1 {
		t.Errorf("got the discards %q after %d calls", pool.Discards, b.lvm.Calls()["ThinPoolSetDiscards"]-before)
	}
}

// TestAChangeThatFailsDoesNotStarveTheOthers has a device that LVM does not add, and a request for another one.
func TestAChangeThatFailsDoesNotStarveTheOthers(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{
		DeviceSelector: &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdb"}}})
	b.settle()
	b.lvm.Fail("VGExtend", errors.New("no space for metadata"))
	b.changeSpec(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceSelector.Paths = append(spec.DeviceSelector.Paths, "/dev/sdc")
		spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: nodeName, Device: "/dev/sdb",
			Action: v1alpha1.DeviceActionCordon}}
	})
	said := false
	for range 6 {
		b.agent.Wake()
		_, err := b.reconcile()
		said = said || err != nil && strings.Contains(err.Error(), "no space for metadata")
	}
	entry := b.wantState(v1alpha1.VGStatusDegraded, "no space for metadata")
	if len(entry.PhysicalVolumes) != 1 || entry.PhysicalVolumes[0].State != v1alpha1.PhysicalVolumeCordoned || !said {
		t.Errorf("reported %t, got %+v", said, entry.PhysicalVolumes)
	}
	b.lvm.Fail("VGExtend", nil)
	b.settle()
	if entry = b.wantState(v1alpha1.VGStatusReady); len(entry.PhysicalVolumes) != 2 {
		t.Errorf("got %+v", entry.PhysicalVolumes)
	}
}
