package volumegroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

const (
	nodeName  = "node1"
	namespace = "openshift-lvm-storage"
)

// fakeDevices are the disks of a lvmtest.Fake.
type fakeDevices struct {
	mu     sync.Mutex
	lists  int // how often the list was read
	list   []device.Device
	err    error
	probes int
	found  map[string][]device.Reason
	// content has the signatures on the devices.
	content map[string][]device.Signature
	// wiped are the names of the wiped devices. wipeErr makes a wipe fail.
	wiped   []string
	options device.WipeOptions // of the last wipe
	onWipe  func(path string)
	wipeErr error
	// below are the devices to which the kernel maps volumes.
	below    map[device.Number][]device.Number
	belowErr error
	// mapped are the devices that remain of a volume group.
	mapped    []string
	mappedErr error
	// mounts is when the file systems on devices were mounted last.
	mounts   map[string]time.Time
	mountErr error
}

func (f *fakeDevices) LastMount(_ context.Context, d device.Device) (time.Time, error) {
	if f.mountErr != nil {
		return time.Time{}, f.mountErr
	}
	return f.mounts[d.Name], nil
}

func (f *fakeDevices) Mapped(string) ([]string, error) { return f.mapped, f.mappedErr }

func (f *fakeDevices) Unmap(context.Context, ...string) error {
	f.mapped = nil
	return nil
}

func (f *fakeDevices) List(context.Context) ([]device.Device, error) {
	f.lists++
	return f.list, f.err
}

func (f *fakeDevices) Recent(context.Context, time.Duration) ([]device.Device, error) {
	return f.list, f.err
}

func (f *fakeDevices) Resolve(path string) (device.Number, error) {
	for _, d := range f.list {
		if d.Name == path {
			return d.Number, nil
		}
	}
	return "", fmt.Errorf("%s %w", path, device.ErrMissing)
}

func (f *fakeDevices) Probe(_ context.Context, d device.Device, _ ...string) []device.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probes++
	return f.found[d.Name]
}

func (f *fakeDevices) Content(_ context.Context, d device.Device) ([]device.Signature, []device.Reason) {
	return f.content[d.Name], f.found[d.Name]
}

func (f *fakeDevices) Below(number device.Number) ([]device.Number, error) {
	return f.below[number], f.belowErr
}

func (f *fakeDevices) Wipe(_ context.Context, o device.WipeOptions) (device.WipeResult, []device.Reason, error) {
	f.wiped = append(f.wiped, o.Device.Name)
	f.options = o
	if f.wipeErr != nil {
		return device.WipeResult{}, f.found[o.Device.Name], f.wipeErr
	}
	result := device.WipeResult{}
	if f.onWipe != nil {
		f.onWipe(o.Device.Name)
	}
	for i := range f.list {
		if f.list[i].Number == o.Device.Number {
			result.Found = []device.Signature{{Type: f.list[i].Signature, UUID: f.list[i].UUID}}
			f.list[i].Signature = ""
			f.list[i].UUID = ""
			f.list[i].Signatures = nil
		}
	}
	return result, nil, nil
}

// fakeHealth has the problems that a test sets.
type fakeHealth struct {
	failing   map[device.Number]error
	suspended map[device.Number]bool
	unknown   error
}

func (f *fakeHealth) Failing() map[device.Number]error  { return f.failing }
func (f *fakeHealth) Suspended() map[device.Number]bool { return f.suspended }
func (f *fakeHealth) Unknown(string) error              { return f.unknown }

// bench is a node with two blank disks, and an API server with the objects of the operator.
type bench struct {
	*testing.T
	client  client.Client
	lvm     *lvmtest.Fake
	devices *fakeDevices
	engine  *engine.Engine
	events  *events.FakeRecorder
	health  *fakeHealth
	files   *fakeFileSystems
	checker *fakeChecker
	eraser  *fakeEraser
	dir     string
	writes  int
	agent   *Reconciler
}

func newBench(t *testing.T, spec v1alpha1.LVMVolumeGroupSpec) *bench {
	t.Helper()
	b := &bench{T: t, lvm: lvmtest.New(), devices: &fakeDevices{found: map[string][]device.Reason{}},
		events: events.NewFakeRecorder(100), dir: t.TempDir(), health: &fakeHealth{},
		files: &fakeFileSystems{}, checker: &fakeChecker{}}
	b.eraser = newFakeEraser(b.lvm)
	b.addDisk("/dev/sdb", 16)
	b.addDisk("/dev/sdc", 32)
	counting := interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			b.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
	b.client = memory.Builder().
		WithInterceptorFuncs(counting).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"disks": "yes"}}},
		&v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: namespace, Generation: 3,
			UID: "uid", Finalizers: []string{wellknown.VolumeGroupFinalizer}}, Spec: spec},
		&v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: namespace,
			UID: "status-1"}},
	).Build()
	b.restart()
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) addDisk(path string, minor uint32) {
	b.lvm.AddDisk(path, 1<<30, minor)
	b.devices.list = append(b.devices.list,
		device.Device{Name: path, KernelName: path, Number: device.NewNumber(98, minor), Type: "disk", Size: 1 << 30,
			Serial: path, AppearedKnown: true, Appeared: time.Hour})
}

// restart starts a new process on the node.
func (b *bench) restart() {
	b.Helper()
	engine, err := engine.New(b.lvm, nil, filepath.Join(b.dir, "lvmd.yaml"))
	b.ok(err)
	b.engine = engine
	b.agent = New(b.options(b.lvm, b.devices))
}

func (b *bench) options(l LVM, d Devices) Options {
	return Options{
		Client: b.client, Live: b.client, Recorder: b.events, Node: nodeName, Namespace: namespace, Cluster: "c1",
		LVM: l, Devices: d, Classes: b.engine, Health: b.health, StateDir: b.dir,
		Inspect: b.lvm.Inspect, Salvage: b.lvm.Salvage, IsBlank: b.lvm.IsBlank,
		FileSystems: b.files, Checker: b.checker, Eraser: b.eraser, Peers: alone,
	}
}

// alone is what ReadPeers returns on the only node of a cluster, after the inventory listed its devices.
func alone(_ context.Context, devices []device.Device) (*state.Peers, error) {
	own := &v1alpha1.LVMVolumeGroupNodeStatus{}
	for _, d := range devices {
		own.Status.Devices = append(own.Status.Devices, v1alpha1.DeviceStatus{WWN: d.WWN, ID: d.Identity()})
	}
	return state.NewPeers(devices, own), nil
}

func (b *bench) reconcile() (ctrl.Result, error) {
	return b.agent.Reconcile(b.Context(), ctrl.Request{
		NamespacedName: client.ObjectKey{Namespace: namespace, Name: "vg1"}})
}

// settle reconciles until no further change is due at once.
func (b *bench) settle() ctrl.Result {
	b.Helper()
	for range 20 {
		result, err := b.reconcile()
		b.ok(err)
		if result.RequeueAfter != afterChange {
			return result
		}
	}
	b.Fatal("there is no end of changes")
	return ctrl.Result{}
}

func (b *bench) entry() v1alpha1.VGStatus {
	b.Helper()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	b.ok(b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: nodeName}, status))
	return entryOf(status, "vg1")
}

func (b *bench) object() *v1alpha1.LVMVolumeGroup {
	b.Helper()
	object := &v1alpha1.LVMVolumeGroup{}
	b.ok(b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "vg1"}, object))
	return object
}

func (b *bench) wantState(state v1alpha1.VGState, says ...string) v1alpha1.VGStatus {
	b.Helper()
	entry := b.entry()
	if entry.Status != state {
		b.Fatalf("got the state %s (%s), want %s", entry.Status, entry.Reason, state)
	}
	for _, s := range says {
		if !strings.Contains(entry.Reason, s) {
			b.Errorf("the reason %q should say %q", entry.Reason, s)
		}
	}
	return entry
}

// drain returns the events since the last call.
func (b *bench) drain() []string {
	var list []string
	for {
		select {
		case e := <-b.events.Events:
			list = append(list, e)
		default:
			return list
		}
	}
}

func (b *bench) remove() {
	b.Helper()
	b.ok(b.client.Delete(b.Context(), b.object()))
}

// gone simulates the operator, and returns true if the LVMVolumeGroup no longer exists.
func (b *bench) gone() bool {
	b.Helper()
	object := &v1alpha1.LVMVolumeGroup{}
	err := b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "vg1"}, object)
	if apierrors.IsNotFound(err) {
		return true
	}
	b.ok(err)
	if object.DeletionTimestamp.IsZero() || b.isMember() || len(object.Finalizers) != 1 {
		return false
	}
	object.Finalizers = nil
	b.ok(b.client.Update(b.Context(), object))
	return true
}

// isMember returns true if the node status has an entry for the device class.
func (b *bench) isMember() bool {
	b.Helper()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	b.ok(client.IgnoreNotFound(b.client.Get(b.Context(),
		client.ObjectKey{Namespace: namespace, Name: nodeName}, status)))
	return hasEntry(status, "vg1")
}

func (b *bench) wantBlankDisks() {
	b.Helper()
	report, err := b.lvm.Report(b.Context())
	b.ok(err)
	if len(report.VGs) != 0 || len(report.Unassigned) != 0 {
		b.Errorf("the disks are not blank: %+v", report)
	}
	entries, err := os.ReadDir(b.dir)
	b.ok(err)
	if len(entries) != 0 {
		b.Errorf("files are left on the node: %v", entries)
	}
}

func thinOf(percent int) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: percent,
		OverprovisionRatio: 10}}
}
