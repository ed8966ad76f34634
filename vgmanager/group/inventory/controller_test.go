package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host/lvmsource"
)

func ptr(t time.Time) *metav1.Time {
	m := metav1.NewTime(t)
	return &m
}

// node simulates the devices, LVM and the health for the reconciler.
type node struct {
	mu         sync.Mutex
	report     *lvm.Report
	reportErr  error
	devices    []device.Device
	devicesErr error
	hang       chan struct{} // if not nil, reads block until it is closed
	found      map[string][]device.Reason
	probes     int
	ages       []time.Duration
}

type reports struct{ *node }

func (r reports) Recent(_ context.Context, age time.Duration) (*lvm.Report, error) {
	r.ages = append(r.ages, age)
	return r.report, r.reportErr
}

type disks struct{ *node }

func (d disks) Recent(context.Context, time.Duration) ([]device.Device, error) {
	if d.hang != nil {
		<-d.hang
	}
	return d.devices, d.devicesErr
}
func (d disks) Resolve(string) (device.Number, error) { return "", device.ErrMissing }
func (d disks) Probe(_ context.Context, dev device.Device, _ ...string) []device.Reason {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes++
	return d.found[dev.Name]
}
func (n *node) Failing() map[device.Number]error { return nil }

type bench struct {
	*testing.T
	node   *node
	client client.Client
	writes int
	r      *Reconciler
	clock  time.Time
	// source is whose LVM is used, unless sourceErr is set.
	source    lvmsource.Source
	sourceErr error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, clock: noon, node: &node{report: &lvm.Report{}, devices: []device.Device{disk("b"), disk("c")},
		found: map[string][]device.Reason{}}}
	counting := interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string,
		o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		b.writes++
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}}
	b.client = memory.Builder().
		WithInterceptorFuncs(counting).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: "ns"}},
	).Build()
	b.r = New(Options{Client: b.client, Node: "n1", Namespace: "ns", Cluster: "c1", LVM: reports{b.node},
		Devices: disks{b.node}, Health: b.node, Source: func(context.Context) (lvmsource.Source, error) {
			return b.source, b.sourceErr
		}})
	b.r.now = func() time.Time { return b.clock }
	return b
}

func (b *bench) reconcile() error {
	_, err := b.r.Reconcile(b.Context(), ctrl.Request{})
	return err
}

func (b *bench) status() v1alpha1.LVMVolumeGroupNodeStatusStatus {
	b.Helper()
	s := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := b.client.Get(b.Context(), client.ObjectKey{Namespace: "ns", Name: "n1"}, s); err != nil {
		b.Fatal(err)
	}
	return s.Status
}

// TestDiscoveryListsTheDevices has an LVMCluster without device classes, so there is no LVMVolumeGroup.
func TestDiscoveryListsTheDevices(t *testing.T) {
	b := newBench(t)
	if err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	s := b.status()
	if len(s.Devices) != 2 || s.Devices[0].State != v1alpha1.DeviceAvailable ||
		!meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDevicesObserved) {
		t.Errorf("got %+v", s)
	}
}

func TestStatusSaysWhoseLVMIsUsed(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		source lvmsource.Source
		want   v1alpha1.NodeLVM
	}{
		{lvmsource.Source{Version: "2.03.16(2)"},
			v1alpha1.NodeLVM{Source: v1alpha1.LVMSourceHost, Version: "2.03.16(2)"}},
		{lvmsource.Source{Image: true, Version: "2.03.31(2)"},
			v1alpha1.NodeLVM{Source: v1alpha1.LVMSourceImage, Version: "2.03.31(2)"}},
	} {
		b.source = test.source
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		if got := b.status().LVM; got == nil || *got != test.want {
			t.Errorf("got %+v, want %+v", got, test.want)
		}
	}
	// A failed check changes nothing but the condition.
	b.sourceErr = errors.New("check whether the host has LVM: permission denied")
	if err := b.reconcile(); !errors.Is(err, b.sourceErr) {
		t.Errorf("got %v", err)
	}
	s := b.status()
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDevicesObserved)
	if s.LVM == nil || s.LVM.Source != v1alpha1.LVMSourceImage || c.Status != metav1.ConditionFalse ||
		!strings.Contains(c.Message, b.sourceErr.Error()) {
		t.Errorf("got %+v, %+v", s.LVM, c)
	}
}

func TestAtRestNothingIsWrittenOrProbed(t *testing.T) {
	b := newBench(t)
	for range 10 {
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		b.clock = b.clock.Add(time.Minute)
	}
	if b.writes != 1 || b.node.probes != 2 {
		t.Errorf("%d writes and %d probes, want 1 and 2", b.writes, b.node.probes)
	}
}

func TestWakeReadsAnew(t *testing.T) {
	b := newBench(t)
	_ = b.reconcile()
	b.node.found["/dev/sdb"] = []device.Reason{{Code: device.Busy, Message: "is in use"}}
	b.clock = b.clock.Add(time.Second)
	b.r.Wake()
	b.r.Wake()
	if len(b.r.wake) != 1 {
		t.Error("two calls are one look")
	}
	if err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	if age := b.node.ages[len(b.node.ages)-1]; age != 0 {
		t.Errorf("a look of up to %s was good enough", age)
	}
	if s := find(t, b.status().Devices, "/dev/sdb"); s.State != v1alpha1.DeviceInUse {
		t.Errorf("got %+v", s)
	}
}

func TestWhenTheReadFails(t *testing.T) {
	for name, fail := range map[string]func(*node){
		"LVM":   func(n *node) { n.reportErr = errors.New("vgs hangs") },
		"lsblk": func(n *node) { n.devicesErr = errors.New("lsblk hangs") },
	} {
		b := newBench(t)
		_ = b.reconcile()
		before := b.status().Devices
		fail(b.node)
		if err := b.reconcile(); err == nil {
			t.Errorf("%s: no error, so no back-off", name)
		}
		s := b.status()
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDevicesObserved)
		if len(s.Devices) != len(before) || c.Status != metav1.ConditionFalse ||
			!strings.Contains(c.Message, "hangs") || !strings.Contains(c.Message, "n1") {
			t.Errorf("%s: got %d devices, %+v", name, len(s.Devices), c)
		}
		b.node.reportErr = nil
		b.node.devicesErr = nil
		if err := b.reconcile(); err != nil ||
			!meta.IsStatusConditionTrue(b.status().Conditions, v1alpha1.ConditionDevicesObserved) {
			t.Errorf("%s: it does not recover: %v", name, err)
		}
	}
}

// manyDisks returns blank disks, sorted by name.
func manyDisks(count int) []device.Device {
	var all []device.Device
	for i := range count {
		all = append(all, edit(disk("b"), func(d *device.Device) {
			d.Number, d.Serial = device.NewNumber(65, uint32(i)), fmt.Sprintf("%03d", i)
			d.Name = "/dev/x" + d.Serial
		}))
	}
	return all
}

func TestManyNewDevicesAreReadInTurns(t *testing.T) {
	b := newBench(t)
	b.node.devices = manyDisks(100)
	for range 4 {
		before := b.node.probes
		if err := b.reconcile(); err != nil || b.node.probes-before > maxProbes {
			t.Fatalf("%d probes, %v", b.node.probes-before, err)
		}
	}
	for _, d := range b.status().Devices {
		if d.State != v1alpha1.DeviceAvailable {
			t.Errorf("%s is %s", d.Name, d.State)
		}
	}
}

// TestANewDeviceIsReadFirst adds a device to more devices than one observation reads. Each event makes all of them
// due again.
func TestANewDeviceIsReadFirst(t *testing.T) {
	b := newBench(t)
	b.node.devices = manyDisks(3 * maxProbes)
	again := 0
	for ; again < 10; again++ {
		result, err := b.r.Reconcile(t.Context(), ctrl.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter == resync {
			break
		}
		if result.RequeueAfter != settling {
			t.Fatalf("devices are left, and the next observation is in %s", result.RequeueAfter)
		}
	}
	if again != 2 {
		t.Errorf("%d observations follow soon, want 2", again)
	}
	b.node.devices = append(b.node.devices, edit(disk("new"), func(d *device.Device) {
		d.Number, d.Name, d.Serial = device.NewNumber(66, 0), "/dev/zz", "new"
	}))
	b.clock = b.clock.Add(time.Second)
	b.r.Wake()
	if err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	devices := b.status().Devices
	if last := devices[len(devices)-1]; last.Name != "/dev/zz" || last.State != v1alpha1.DeviceAvailable {
		t.Errorf("the new device: %+v", last)
	}
}

// TestAChangedDeviceIsUnknownUntilItIsRead replaces devices by others, more than are read in one observation.
func TestAChangedDeviceIsUnknownUntilItIsRead(t *testing.T) {
	b := newBench(t)
	b.node.devices = manyDisks(maxProbes + 1)
	for range 2 {
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range b.node.devices {
		b.node.devices[i].Serial += "-other"
	}
	for _, want := range []v1alpha1.DeviceState{v1alpha1.DeviceUnknown, v1alpha1.DeviceAvailable} {
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		if last := b.status().Devices[maxProbes]; last.State != want {
			t.Errorf("the last device: %+v, want %s", last, want)
		}
	}
}

// TestSilentDevicesDoNotKeepOthersWaiting has more devices that do not respond than are read in one observation.
func TestSilentDevicesDoNotKeepOthersWaiting(t *testing.T) {
	b := newBench(t)
	b.node.devices = manyDisks(2 * maxProbes)
	for _, d := range b.node.devices[:maxProbes+1] {
		b.node.found[d.Name] = []device.Reason{{Code: device.Unreadable, Message: "silent", Transient: true}}
	}
	for range 3 {
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range b.status().Devices {
		want := v1alpha1.DeviceAvailable
		if i <= maxProbes {
			want = v1alpha1.DeviceUnknown
		}
		if d.State != want {
			t.Errorf("%s is %s, want %s", d.Name, d.State, want)
		}
		if want == v1alpha1.DeviceUnknown && d.Reasons[0].Message != "silent" {
			t.Errorf("%s: %+v", d.Name, d.Reasons)
		}
	}
}

// TestADeviceThatDoesNotAnswerIsUnknownAndAskedAgain has one device that temporarily does not respond, and others
// that do.
func TestADeviceThatDoesNotAnswerIsUnknownAndAskedAgain(t *testing.T) {
	b := newBench(t)
	const silent = "has not answered since 2026-01-01T00:00:00Z, and is neither used nor wiped until it does"
	b.node.found["/dev/sdb"] = []device.Reason{{Code: device.Unreadable, Message: silent, Transient: true}}
	for range 2 {
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		s := b.status()
		if s.Devices[0].State != v1alpha1.DeviceUnknown || s.Devices[0].Reasons[0].Message != silent ||
			s.Devices[1].State != v1alpha1.DeviceAvailable {
			t.Errorf("got %+v", s.Devices)
		}
		if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDevicesObserved) {
			t.Errorf("got the conditions %+v", s.Conditions)
		}
	}
	if b.writes != 1 {
		t.Errorf("%d writes while nothing changed", b.writes)
	}
	b.node.found["/dev/sdb"] = nil
	if err := b.reconcile(); err != nil || b.status().Devices[0].State != v1alpha1.DeviceAvailable {
		t.Errorf("it answers again: got %+v, %v", b.status().Devices[0], err)
	}
	// The other device was read once. The one that did not respond was read each time.
	if b.node.probes != 4 {
		t.Errorf("%d probes, want 4", b.node.probes)
	}
}

// TestTheTimeOfALookIsWrittenNowAndThen checks that the time is written with each change and otherwise every ten
// minutes, but never after a failed observation.
func TestTheTimeOfALookIsWrittenNowAndThen(t *testing.T) {
	b := newBench(t)
	at := func(what string, later time.Duration, want time.Time, writes int) {
		t.Helper()
		b.clock = b.clock.Add(later)
		_ = b.reconcile()
		if got := b.status().LastObserved; got == nil || !got.Time.Equal(want) || b.writes != writes {
			t.Errorf("%s: got %v after %d writes, want %s after %d", what, got, b.writes, want, writes)
		}
	}
	at("first", 0, noon, 1)
	at("nothing new", time.Minute, noon, 1)
	at("nothing new for long", 9*time.Minute, noon.Add(10*time.Minute), 2)
	b.node.devices = append(b.node.devices, disk("d"))
	at("a new disk", time.Minute, noon.Add(11*time.Minute), 3)
	b.node.devicesErr = errors.New("lsblk hangs")
	at("a look that fails", 20*time.Minute, noon.Add(11*time.Minute), 4)
	at("and again", time.Minute, noon.Add(11*time.Minute), 4)
	b.node.devicesErr = nil
	at("well again", time.Minute, noon.Add(33*time.Minute), 5)
}

// TestALookThatDoesNotEndIsTold blocks the list of devices beyond its time limits.
func TestALookThatDoesNotEndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		b.node.hang = make(chan struct{})
		begun := time.Now()
		for range 3 {
			err := b.reconcile()
			c := meta.FindStatusCondition(b.status().Conditions, v1alpha1.ConditionDevicesObserved)
			if err == nil || c.Status != metav1.ConditionFalse ||
				!strings.Contains(c.Message, "has not answered since") || time.Since(begun) != updateTimeout {
				t.Errorf("after %s: got %v, %+v", time.Since(begun), err, c)
			}
		}
		if len(b.status().Devices) != 2 || b.writes != 2 {
			t.Errorf("%d writes, devices %+v", b.writes, b.status().Devices)
		}
		close(b.node.hang)
		synctest.Wait()
		b.node.hang = nil
		if err := b.reconcile(); err != nil ||
			!meta.IsStatusConditionTrue(b.status().Conditions, v1alpha1.ConditionDevicesObserved) {
			t.Errorf("it ended: got %v, %+v", err, b.status().Conditions)
		}
	})
}
