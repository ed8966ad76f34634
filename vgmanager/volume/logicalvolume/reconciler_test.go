package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const mib = int64(1) << 20

// world is a node with a thick and a thin class, and an API server. Both outlive the agent process.
type world struct {
	*testing.T
	lvm  lvmtest.LVM
	fake *lvmtest.Fake // lvm, if it is a Fake
	api  client.Client
	// point is called before and after each changing command and each write to the API. An error ends the process.
	point func(what string) error
	uids  int
	// eraser is the Eraser of the agents. It outlives them.
	eraser engine.Eraser
	// copier is the Copier of the agents. It outlives them.
	copier *fakeCopier
	// forgotten has the logical volumes that were reported as removed. forgetErr is why that failed.
	forgotten []string
	forgetErr error
}

func newWorld(t *testing.T) *world {
	f := lvmtest.New()
	f.AddDisk("/dev/a", lvm.Bytes(1<<30), 16)
	f.AddDisk("/dev/b", lvm.Bytes(1<<30), 32)
	prepare(t, f, "/dev/a", "/dev/b")
	w := newWorldOn(t, f)
	w.fake = f
	return w
}

// prepare creates the volume groups of the classes on two blank disks.
func prepare(t *testing.T, l lvmtest.LVM, thick, thin string) {
	t.Helper()
	for _, err := range []error{
		l.Apply(t.Context(), lvm.VGCreate{Name: "thick", Devices: []string{thick}}),
		l.Apply(t.Context(), lvm.VGCreate{Name: "thin", Devices: []string{thin}}),
		l.Apply(t.Context(), lvm.LVCreateThinPool{VG: "thin", Name: "pool", PercentFree: 50}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// newWorldOn returns a world with the volume groups of prepare.
func newWorldOn(t *testing.T, l lvmtest.LVM) *world {
	w := &world{T: t, lvm: l}
	w.eraser = &fakeEraser{w: w}
	w.copier = &fakeCopier{w: w}
	w.api = memory.Builder().
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				options ...client.PatchOption) error {
				return w.around("patch", func() error { return c.Patch(ctx, o, p, options...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				options ...client.SubResourcePatchOption) error {
				return w.around("patch "+sub, func() error { return c.SubResource(sub).Patch(ctx, o, p, options...) })
			},
		}).Build()
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) around(what string, do func() error) error {
	if w.point == nil {
		return do()
	}
	if err := w.point("before " + what); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, w.point("after "+what))
}

// forget is what the reconciler calls for a logical volume that no longer exists.
func (w *world) forget(name string) error {
	w.forgotten = append(w.forgotten, name)
	return w.forgetErr
}

// agent returns a new process.
func (w *world) agent() *Reconciler {
	w.Helper()
	engine, err := engine.New(commands{w.lvm, w}, nil, "")
	w.must(err)
	w.must(errors.Join(
		engine.Publish(deviceclass.Class{Name: "thick", VolumeGroup: "thick", Type: types.TypeThick}),
		engine.Publish(deviceclass.Class{Name: "thin", VolumeGroup: "thin", Type: types.TypeThin,
			ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}})))
	return New(Options{Client: w.api, Live: w.api, Node: "node1", Cluster: "c1", Volumes: engine,
		Eraser: w.eraser, Copier: w.copier, SourceOn: w.copier.sourceOn, Removed: w.forget,
		Recorder: events.NewFakeRecorder(100)})
}

// commands calls point before and after each changing LVM command.
type commands struct {
	lvmtest.LVM
	w *world
}

func (c commands) Apply(ctx context.Context, change lvm.Change) error {
	name := commandOf(change)
	if name == "" {
		return c.LVM.Apply(ctx, change)
	}
	return c.w.around(name, func() error { return c.LVM.Apply(ctx, change) })
}

// commandOf returns the name of the command of a change, or "" if it has no point.
func commandOf(change lvm.Change) string {
	switch change.(type) {
	case lvm.LVCreateThick:
		return "lvcreate thick"
	case lvm.LVCreateThin:
		return "lvcreate thin"
	case lvm.LVCreateSnapshot:
		return "lvcreate snapshot"
	case lvm.LVExtend:
		return "lvextend"
	case lvm.LVRemove:
		return "lvremove"
	case lvm.LVActivate, lvm.LVChangeTags:
		return "lvchange"
	case lvm.LVRename:
		return "lvrename"
	}
	return ""
}

// ask creates an object like the CSI controller.
func (w *world) ask(name string, spec topolvmv1.LogicalVolumeSpec) {
	w.Helper()
	w.uids++
	spec.Name = name
	if spec.NodeName == "" {
		spec.NodeName = "node1"
	}
	w.must(w.api.Create(w.Context(), &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: k8stypes.UID(fmt.Sprintf("uid-%s-%d", name, w.uids)),
			Annotations: map[string]string{wellknown.ClaimAnnotation: "ns/" + name},
		},
		Spec: spec,
	}))
}

func (w *world) get(name string) *topolvmv1.LogicalVolume {
	w.Helper()
	lv := &topolvmv1.LogicalVolume{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name}, lv))
	return lv
}

// run reconciles until nothing changes, or until the process ends.
func (w *world) run(r *Reconciler, name string) error {
	var err error
	for range 6 {
		if _, err = r.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}}); errors.Is(
			err, errKilled) {
			return err
		}
	}
	return err
}

// volumes returns the logical volumes of the node, as "NAME SIZE-IN-MIB".
func (w *world) volumes() []string {
	w.Helper()
	report, err := w.lvm.Report(w.Context())
	w.must(err)
	var list []string
	for _, vg := range report.VGs {
		for _, lv := range vg.LVs {
			if !lv.Attr.IsThinPool() {
				list = append(list, fmt.Sprintf("%s/%s %d", vg.Name, lv.Name, int64(lv.Size)/mib))
			}
		}
	}
	slices.Sort(list)
	return list
}

func size(mibs int64) resource.Quantity { return *resource.NewQuantity(mibs*mib, resource.BinarySI) }

func thin(mibs int64) topolvmv1.LogicalVolumeSpec {
	return topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Size: size(mibs)}
}

func (w *world) see(what string, want ...string) {
	w.Helper()
	if got := w.volumes(); !slices.Equal(got, want) {
		w.Errorf("%s: the node has %q, want %q", what, got, want)
	}
}

var errKilled = errors.New("killed")

// operation is a request to the agent, with the preparation before it.
type operation struct {
	before, ask func(w *world)
	objects     []string
	want        []string // volumes after the operation
}

var operations = map[string]operation{
	"create thin": {ask: func(w *world) { w.ask("a", thin(10)) }, objects: []string{"a"},
		want: []string{"thin/uid-a-1 12"}},
	"create thick": {ask: func(w *world) {
		w.ask("a",
			topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(10)})
	}, objects: []string{"a"}, want: []string{"thick/uid-a-1 12"}},
	"expand": {
		before: func(w *world) { w.ask("a", thin(10)) },
		ask: func(w *world) {
			lv := w.get("a")
			lv.Spec.Size = size(21)
			w.must(w.api.Update(w.Context(), lv))
		},
		objects: []string{"a"}, want: []string{"thin/uid-a-1 24"},
	},
	"snapshot": {
		before: func(w *world) { w.ask("a", thin(10)) },
		ask: func(w *world) {
			spec := thin(12)
			spec.Source = "a"
			spec.AccessType = "ro"
			w.ask("b", spec)
		},
		objects: []string{"a", "b"}, want: []string{"thin/uid-a-1 12", "thin/uid-b-2 12"},
	},
	"clone into a larger size": {
		before: func(w *world) { w.ask("a", thin(10)) },
		ask: func(w *world) {
			spec := thin(40)
			spec.Source = "a"
			spec.AccessType = "rw"
			w.ask("b", spec)
		},
		objects: []string{"a", "b"}, want: []string{"thin/uid-a-1 12", "thin/uid-b-2 40"},
	},
	"delete": {
		before: func(w *world) { w.ask("a", thin(10)); w.ask("b", thin(10)) },
		ask: func(w *world) {
			w.must(w.api.Delete(w.Context(), w.get("a")))
		},
		objects: []string{"a", "b"}, want: []string{"thin/uid-b-2 12"},
	},
	"delete a thick volume that was used": {
		before: func(w *world) {
			w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(10)})
			w.must(w.run(w.agent(), "a"))
			w.use("thick", "uid-a-1")
		},
		ask:     func(w *world) { w.must(w.api.Delete(w.Context(), w.get("a"))) },
		objects: []string{"a"},
	},
	"delete before it was made": {
		ask: func(w *world) {
			w.ask("a", thin(10))
			lv := w.get("a")
			lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
			w.must(w.api.Update(w.Context(), lv))
			w.must(w.api.Delete(w.Context(), lv))
		},
		objects: []string{"a"},
	},
	"copy from another node": {
		before: func(w *world) { w.sourceElsewhere() },
		ask: func(w *world) {
			spec := thin(12)
			spec.Source = "source"
			spec.AccessType = "rw"
			w.ask("b", spec)
		},
		objects: []string{"b"}, want: []string{"thin/uid-b-2 12"},
	},
	"delete a copy that is not complete": {
		before: func(w *world) {
			w.sourceElsewhere()
			w.copier.at = &copies.Progress{Copied: 4 << 20, Size: 12 << 20}
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(12), Source: "source"})
			w.must(w.run(w.agent(), "b"))
		},
		ask:     func(w *world) { w.must(w.api.Delete(w.Context(), w.get("b"))) },
		objects: []string{"b"},
	},
	"a volume that was not finished": {
		before: func(w *world) { w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(10)}) },
		ask: func(w *world) {
			lv := w.get("a")
			lv.Status = topolvmv1.LogicalVolumeStatus{}
			w.must(w.api.Status().Update(w.Context(), lv))
		},
		objects: []string{"a"}, want: []string{"thick/uid-a-1 12"},
	},
}

// TestKilledAtEveryPoint ends the process before and after every LVM command and every write to the API. The points
// come from an uninterrupted run of the operation, so a new command adds new points.
func TestKilledAtEveryPoint(t *testing.T) {
	killAtEveryPoint(t, newWorld, func(string) bool { return true })
}

func killAtEveryPoint(t *testing.T, world func(*testing.T) *world, counts func(point string) bool) {
	for name, o := range operations {
		t.Run(name, func(t *testing.T) {
			points := o.count(world(t))
			if len(points) < 2 {
				t.Fatalf("only the points %q", points)
			}
			t.Logf("%d points: %q", len(points), points)
			for at, point := range points {
				if counts(point) {
					o.killedAt(world(t), at)
				}
			}
		})
	}
}

// start creates the world of an operation.
func (o operation) start(w *world) {
	if o.before != nil {
		o.before(w)
		for _, object := range o.objects {
			w.must(w.run(w.agent(), object))
		}
	}
	o.ask(w)
}

func (o operation) count(w *world) []string {
	o.start(w)
	var points []string
	w.point = func(what string) error {
		points = append(points, what)
		return nil
	}
	for _, object := range o.objects {
		w.must(w.run(w.agent(), object))
	}
	o.check(w, "undisturbed")
	return points
}

func (o operation) killedAt(w *world, at int) {
	o.start(w)
	passed := 0
	where := ""
	w.point = func(what string) error {
		passed++
		if passed <= at {
			return nil
		}
		// Nothing that this process does after this has an effect.
		if where == "" {
			where = what
		}
		return errKilled
	}
	for _, object := range o.objects {
		_ = w.run(w.agent(), object)
	}
	w.point = nil
	for _, object := range o.objects {
		if err := w.run(w.agent(), object); err != nil {
			w.Errorf("killed %s (point %d): the next process: %v", where, at, err)
		}
	}
	o.check(w, fmt.Sprintf("killed %s (point %d)", where, at))
}

// check checks that each object has exactly one volume, and that there are no other volumes.
func (o operation) check(w *world, what string) {
	w.Helper()
	w.see(what, o.want...)
	list := &topolvmv1.LogicalVolumeList{}
	w.must(w.api.List(w.Context(), list))
	list.Items = slices.DeleteFunc(list.Items,
		func(lv topolvmv1.LogicalVolume) bool { return lv.Spec.NodeName != "node1" })
	if len(list.Items) != len(o.want) {
		w.Errorf("%s: %d objects for %d volumes", what, len(list.Items), len(o.want))
	}
	for _, lv := range list.Items {
		volume := fmt.Sprintf("%s/%s %d", lv.Spec.DeviceClass, lv.Status.VolumeID, lv.Status.CurrentSize.Value()/mib)
		if !slices.Contains(o.want, volume) || lv.Status.Code != codes.OK || lv.Status.Message != "" {
			w.Errorf("%s: the status of %s is %+v", what, lv.Name, lv.Status)
		}
	}
}

// TestAnEncryptedVolumeIsTagged also checks a snapshot, which is encrypted as its source.
func TestAnEncryptedVolumeIsTagged(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.ask(name, thin(4))
		lv := w.get(name)
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.EncryptionAnnotation, wellknown.EncryptionLUKS2)
		if name == "b" {
			lv.Spec.Source = "a"
			lv.Spec.AccessType = "ro"
		}
		w.must(w.api.Update(t.Context(), lv))
		w.must(w.run(w.agent(), name))
		report, err := w.lvm.Report(t.Context())
		w.must(err)
		if got := report.VG("thin").LV(string(lv.UID)); got == nil || !slices.Contains(got.Tags, "lvms.encryption=luks2") {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestAnObjectWithTheFinalizerNeedsOneWrite creates the volume of an object that the CSI controller created with the
// finalizer and the label. Because the cache may be outdated, the agent reads the object first.
func TestAnObjectWithTheFinalizerNeedsOneWrite(t *testing.T) {
	w := newWorld(t)
	w.ask("a", thin(4))
	object := w.get("a")
	object.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
	object.Labels = map[string]string{wellknown.CreatedByLabel: wellknown.CreatedByController}
	w.must(w.api.Update(t.Context(), object))
	var did []string
	w.point = func(what string) error {
		if after, is := strings.CutPrefix(what, "after "); is {
			did = append(did, after)
		}
		return nil
	}
	agent := w.agent()
	live := agent.Live
	agent.Live = unreadable{live}
	if err := w.run(agent, "a"); err == nil || len(did) > 0 {
		t.Errorf("the object cannot be read: got %v, did %q", err, did)
	}
	agent.Live = live
	w.must(w.run(agent, "a"))
	if want := []string{"lvcreate thin", "patch status"}; !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
}

func TestTagsSayWhoseAVolumeIs(t *testing.T) {
	w := newWorld(t)
	w.ask("a", thin(4))
	w.must(w.run(w.agent(), "a"))
	report, err := w.lvm.Report(t.Context())
	w.must(err)
	got := report.VG("thin").LV("uid-a-1").Tags
	slices.Sort(got)
	if want := []string{"lvms.cluster=c1", "lvms.new", "lvms.pv=a", "lvms.pvc=ns/a",
		"lvms.uid=uid-a-1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if label := w.get("a").Labels[wellknown.CreatedByLabel]; label != wellknown.CreatedByController {
		t.Errorf("got the label %q", label)
	}
}

func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	spec := thin(4)
	spec.NodeName = "node2"
	w.ask("elsewhere", spec)
	w.ask("pending", thin(4))
	lv := w.get("pending")
	lv.Annotations[wellknown.PendingDeletionAnnotation] = "true"
	w.must(w.api.Update(t.Context(), lv))
	r := w.agent()
	w.must(errors.Join(w.run(r, "elsewhere"), w.run(r, "pending"), w.run(r, "nosuch")))
	w.see("others")
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		spec topolvmv1.LogicalVolumeSpec
		code codes.Code
	}{
		"too large": {thin(100_000), codes.ResourceExhausted},
		"no such class": {topolvmv1.LogicalVolumeSpec{DeviceClass: "nosuch", Size: size(4)},
			codes.ResourceExhausted},
		"no such options": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", LvcreateOptionClass: "nosuch",
			Size: size(4)}, codes.InvalidArgument},
		"no such source": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Source: "nosuch", AccessType: "rw",
			Size: size(4)}, codes.NotFound},
		"unknown access": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Source: "there", AccessType: "x",
			Size: size(8)}, codes.InvalidArgument},
		"smaller than": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Source: "there", AccessType: "rw",
			Size: size(4)}, codes.OutOfRange},
		"copy in thick": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Source: "there", AccessType: "rw",
			Size: size(8)}, codes.FailedPrecondition},
		"source not made": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Source: "notyet", AccessType: "rw",
			Size: size(8)}, codes.FailedPrecondition},
		"source on another": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Source: "elsewhere", AccessType: "rw",
			Size: size(8)}, codes.FailedPrecondition},
		"nothing at all": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin"}, codes.InvalidArgument},
		"larger than source": {topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Source: "there", AccessType: "rw",
			Size: size(100_000)}, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.agent()
			w.ask("there", thin(8))
			w.must(w.run(r, "there"))
			w.ask("notyet", thin(8))
			other := thin(8)
			other.NodeName = "node2"
			w.ask("elsewhere", other)
			w.ask("a", tt.spec)
			w.must(w.run(r, "a"))
			if lv := w.get("a"); lv.Status.Code != tt.code || lv.Status.Message == "" || lv.Status.VolumeID != "" {
				t.Errorf("got %+v, want %s", lv.Status, tt.code)
			}
			w.see("refused", "thin/uid-there-1 8")
			w.must(w.api.Delete(t.Context(), w.get("a")))
			w.must(w.run(r, "a"))
			if err := w.api.Get(t.Context(), client.ObjectKey{Name: "a"}, &topolvmv1.LogicalVolume{}); err == nil {
				t.Error("a refused object cannot be deleted")
			}
		})
	}
}

// TestFailuresThatPassAreTriedAgain checks that temporary failures are reported and retried.
func TestFailuresThatPassAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	r := w.agent()
	w.fake.Fail("LVCreateThin", lvm.ErrBusy)
	w.ask("a", thin(8))
	if err := w.run(r, "a"); err == nil || w.get("a").Status.Code != codes.Unavailable {
		t.Errorf("got %v and %+v", err, w.get("a").Status)
	}
	w.fake.Fail("LVCreateThin", nil)
	w.must(w.run(r, "a"))
	if lv := w.get("a"); lv.Status.Code != codes.OK || lv.Status.Message != "" || lv.Status.VolumeID == "" {
		t.Errorf("got %+v", lv.Status)
	}
}

// TestNothingIsRemovedOrForgottenWhenTheReadFails: a failed read does not show which volumes exist.
func TestNothingIsRemovedOrForgottenWhenTheReadFails(t *testing.T) {
	w := newWorld(t)
	r := w.agent()
	w.ask("a", thin(8))
	w.must(w.run(r, "a"))
	w.must(w.api.Delete(t.Context(), w.get("a")))
	w.fake.Fail("Report", errors.New("exit status 5"))
	if err := w.run(r, "a"); err == nil {
		t.Error("no error")
	}
	if lv := w.get("a"); len(lv.Finalizers) != 1 || lv.Status.Code == codes.OK {
		t.Errorf("got %+v", lv)
	}
	w.fake.Fail("Report", nil)
	w.see("the read failed", "thin/uid-a-1 8")
	w.fake.Open("thin", "uid-a-1", true)
	if err := w.run(r, "a"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
	w.fake.Open("thin", "uid-a-1", false)
	w.must(w.run(r, "a"))
	w.see("removed")
}

// TestAVolumeOfAnotherObjectIsNotRemoved: a status that was edited or restored from a backup names the volume of
// another object.
func TestAVolumeOfAnotherObjectIsNotRemoved(t *testing.T) {
	w := newWorld(t)
	r := w.agent()
	w.ask("a", thin(8))
	w.ask("b", thin(8))
	w.must(errors.Join(w.run(r, "a"), w.run(r, "b")))
	lv := w.get("b")
	lv.Status.VolumeID = "uid-a-1"
	w.must(w.api.Status().Update(t.Context(), lv))
	w.must(w.api.Delete(t.Context(), lv))
	if err := w.run(r, "b"); err == nil || !strings.Contains(err.Error(), "LogicalVolume a") {
		t.Errorf("got %v", err)
	}
	w.see("both are there", "thin/uid-a-1 8", "thin/uid-b-2 8")
}

func TestASizeThatIsNotKnownIsFoundOut(t *testing.T) {
	w := newWorld(t)
	r := w.agent()
	w.ask("a", thin(10))
	w.must(w.run(r, "a"))
	lv := w.get("a")
	lv.Status.CurrentSize = nil
	w.must(w.api.Status().Update(t.Context(), lv))
	w.must(w.run(r, "a"))
	if got := w.get("a").Status.CurrentSize; got == nil || got.Value() != 12*mib {
		t.Errorf("got %v", got)
	}
}

// late is an outdated cache that returns an earlier state of an object.
type late struct {
	client.Client
	object *topolvmv1.LogicalVolume
}

func (l late) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if lv, ok := object.(*topolvmv1.LogicalVolume); ok && key.Name == l.object.Name {
		l.object.DeepCopyInto(lv)
		return nil
	}
	return l.Client.Get(ctx, key, object, options...)
}

// TestACacheThatIsBehindMakesNothingTwice: the status is written and the volume is in use, but the cache has neither
// change.
func TestACacheThatIsBehindMakesNothingTwice(t *testing.T) {
	for _, class := range []string{"thick", "thin"} {
		w := newWorld(t)
		w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: class, Size: size(8)})
		r := w.agent()
		var versions []*topolvmv1.LogicalVolume
		versions = append(versions, w.get("a"))
		w.point = func(string) error { versions = append(versions, w.get("a")); return nil }
		w.must(w.run(r, "a"))
		w.point = func(what string) error { w.Errorf("%s: %s", class, what); return nil }
		made := w.get("a")
		for _, old := range versions {
			if old.ResourceVersion == made.ResourceVersion {
				continue
			}
			r.Client = late{w.api, old}
			if len(old.Finalizers) == 0 {
				w.point = nil // it tries to add the finalizer, which fails
			}
			w.must(w.run(r, "a"))
		}
		if now := w.get("a"); now.ResourceVersion != made.ResourceVersion {
			t.Errorf("%s: the object was changed: %+v", class, now)
		}
		w.point = nil
		w.see("made once", class+"/uid-a-1 8")

		w.must(w.api.Delete(t.Context(), made))
		r.Client = w.api
		w.must(w.run(r, "a"))
		for _, old := range versions {
			r.Client = late{w.api, old}
			_ = w.run(r, "a") // a write to a deleted object can fail
		}
		w.see("an object that is gone is not served")
	}
}

// TestAnAnswerThatComesLateIsNotTaken: a write of the previous process arrives at the API server after the new
// process has read the object.
func TestAnAnswerThatComesLateIsNotTaken(t *testing.T) {
	w := newWorld(t)
	w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(8)})
	var before, after *topolvmv1.LogicalVolume
	dead := false
	w.point = func(what string) error {
		if dead = dead || what == "after lvcreate thick"; dead {
			return errKilled
		}
		return nil
	}
	if err := w.run(w.agent(), "a"); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	before = w.get("a")
	after = before.DeepCopy()
	after.Status.VolumeID = string(after.UID)
	told := false
	w.point = func(what string) error {
		if what == "before lvremove" {
			err := w.api.Status().Patch(t.Context(), after,
				client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
			if told = true; !apierrors.IsConflict(err) {
				t.Errorf("the volume that is being removed is announced: %v", err)
			}
		}
		return nil
	}
	w.must(w.run(w.agent(), "a"))
	if !told || w.get("a").Status.VolumeID == "" || w.get("a").Status.Code != codes.OK {
		t.Errorf("got %v and %+v", told, w.get("a").Status)
	}
	w.point = nil
	w.see("recreated", "thick/uid-a-1 8")
}

// unreadable is an API server that does not respond.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}
