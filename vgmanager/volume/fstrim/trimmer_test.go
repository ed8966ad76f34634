package fstrim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

const plugins = "/var/lib/kubelet/plugins/kubernetes.io/csi"

// bench is a node with mounted volumes of the device class vg1, and the agent that trims them.
type bench struct {
	*testing.T
	agent    *Trimmer
	api      client.WithWatch
	recorder *events.FakeRecorder
	now      time.Time
	// states are the volumes of the node. statesErr and mountsErr are the errors of reads.
	states               []engine.VolumeState
	statesErr, mountsErr error
	// unmounted are devices that are not staged.
	unmounted []string
	// results has the error of a trim, by device. onTrim is called during each one.
	results map[string]error
	onTrim  func()
	// trimmed are the devices in the order of the trims.
	trimmed []string
	// getErr and patchErr are the errors of requests to the API server.
	getErr, patchErr error
	patches          int
}

func newBench(t *testing.T, config v1alpha1.TrimConfig, names ...string) *bench {
	t.Helper()
	b := &bench{T: t, now: start, results: map[string]error{}, onTrim: func() {}}
	b.api = memory.Builder().
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption) error {
				return errors.Join(b.getErr, c.Get(ctx, key, o, options...))
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				options ...client.PatchOption) error {
				if b.patchErr != nil {
					return b.patchErr
				}
				b.patches++
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
	group := &v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: "lvms"},
		Spec: v1alpha1.LVMVolumeGroupSpec{Trim: &config}}
	b.ok(b.api.Create(t.Context(), group))
	for _, name := range names {
		b.add(name)
	}
	b.restart()
	return b
}

// add adds a mounted volume that was created a year ago.
func (b *bench) add(name string) {
	b.Helper()
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "object-" + name,
			CreationTimestamp: metav1.NewTime(start.Add(-365 * day))},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "node1", DeviceClass: "vg1"}}
	b.ok(b.api.Create(b.Context(), lv))
	lv.Status.VolumeID = name
	b.ok(b.api.Status().Update(b.Context(), lv))
	percent, pool := 50.0, 40.0
	b.states = append(b.states, engine.VolumeState{Class: "vg1", VolumeGroup: "vg1", Name: name, Device: "254:" + name,
		Size: 1 << 30, DataPercent: &percent, PoolPercent: &pool})
}

// restart starts another agent.
func (b *bench) restart() {
	b.recorder = events.NewFakeRecorder(100)
	b.agent = New(Options{Client: b.api, Live: b.api, Node: "node1", Namespace: "lvms", Volumes: b, FileSystems: b,
		Plugins: plugins, NotSupported: func(err error) bool { return errors.Is(err, unix.EOPNOTSUPP) },
		Recorder: b.recorder})
	b.agent.now = func() time.Time { return b.now }
}

func (b *bench) Volumes(context.Context) ([]engine.VolumeState, map[string]error, error) {
	return b.states, nil, b.statesErr
}

func (b *bench) Staged(in string, devices []string) (map[string]string, error) {
	staged := map[string]string{}
	for _, d := range devices {
		if !slices.Contains(b.unmounted, d) {
			staged[d] = in + "/" + d
		}
	}
	return staged, b.mountsErr
}

func (b *bench) TrimStaged(_ context.Context, device, path string) (int64, error) {
	b.trimmed = append(b.trimmed, device)
	if path != plugins+"/"+device {
		b.Errorf("device %s is trimmed at %s", device, path)
	}
	b.onTrim()
	return 4096, b.results[device]
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// run calls pass until it trims nothing, at most 100 times, and returns the devices that it trimmed.
func (b *bench) run() ([]string, error) {
	b.trimmed = nil
	for range 100 {
		tried, err := b.agent.pass(b.Context())
		if err != nil || !tried {
			return b.trimmed, err
		}
	}
	b.Fatalf("it does not end: %q", b.trimmed)
	return nil, nil
}

func (b *bench) wantTrims(what string, want ...string) {
	b.Helper()
	got, err := b.run()
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		b.Errorf("%s: trimmed %q, %v, want %q", what, got, err, want)
	}
}

func (b *bench) object(volume string) *topolvmv1.LogicalVolume {
	b.Helper()
	lv := &topolvmv1.LogicalVolume{}
	b.ok(b.api.Get(b.Context(), client.ObjectKey{Name: "object-" + volume}, lv))
	return lv
}

// record returns the record of a volume, or nil.
func (b *bench) record(volume string) *Record {
	b.Helper()
	text := b.object(volume).Annotations[wellknown.TrimAnnotation]
	if text == "" {
		return nil
	}
	record, err := ParseRecord(text)
	b.ok(err)
	return &record
}

// change changes the object of a volume.
func (b *bench) change(volume string, do func(*topolvmv1.LogicalVolume)) {
	b.Helper()
	lv := b.object(volume)
	if lv.Annotations == nil {
		lv.Annotations = map[string]string{}
	}
	do(lv)
	b.ok(b.api.Update(b.Context(), lv))
}

func (b *bench) setPool(percent float64) {
	for i := range b.states {
		b.states[i].PoolPercent = &percent
	}
}

func (b *bench) events() []string {
	var list []string
	for len(b.recorder.Events) > 0 {
		list = append(list, <-b.recorder.Events)
	}
	return list
}

var weekly = v1alpha1.TrimConfig{Schedule: v1alpha1.TrimWeekly}

// TestVolumesAreTrimmedOnceAWeek: each volume once, one after the other, with one write each. Neither a second pass nor
// another agent repeats it.
func TestVolumesAreTrimmedOnceAWeek(t *testing.T) {
	b := newBench(t, weekly, "1", "2", "3")
	b.wantTrims("at the start")
	b.now = start.Add(week)
	b.wantTrims("after a week", "254:1", "254:2", "254:3")
	b.wantTrims("again")
	got := b.record("2")
	if got == nil {
		t.Fatalf("got %+v, %d writes", got, b.patches)
	}
	expect.Equal(t, "Time.Equal(b.now)", got.Time.Equal(b.now), true)
	expect.Equal(t, "Result", got.Result, Trimmed)
	expect.Equal(t, "TrimmedBytes", got.TrimmedBytes, 4096)
	expect.Equal(t, "patches", b.patches, 3)
	b.restart()
	b.wantTrims("another agent")
	b.now = b.now.Add(week)
	b.restart()
	b.wantTrims("another agent, after a week", "254:1", "254:2", "254:3")
	if got := b.events(); len(got) > 0 {
		t.Errorf("events: %q", got)
	}
}

func TestVolumesThatAreNotTrimmed(t *testing.T) {
	full := 97.0
	for name, test := range map[string]struct {
		state  func(*engine.VolumeState)
		object func(*topolvmv1.LogicalVolume)
		mount  bool
		want   bool
	}{
		"well":           {mount: true, want: true},
		"in a full pool": {mount: true, want: true, state: func(s *engine.VolumeState) { s.PoolPercent = &full }},
		"not mounted":    {},
		"not active":     {mount: true, state: func(s *engine.VolumeState) { s.Device = "" }},
		"read-only":      {mount: true, state: func(s *engine.VolumeState) { s.ReadOnly = true }},
		"damaged":        {mount: true, state: func(s *engine.VolumeState) { s.Damaged = true }},
		"on a suspended device": {mount: true,
			state: func(s *engine.VolumeState) { s.SuspendedDevices = []string{"/dev/a"} }},
		"being erased": {mount: true,
			state: func(s *engine.VolumeState) { s.Tags = []string{wellknown.ErasedTagPrefix + "0"} }},
		"of another device class": {mount: true, state: func(s *engine.VolumeState) { s.Class = "vg2" }},
		"without an object":       {mount: true, state: func(s *engine.VolumeState) { s.Name = "orphan" }},
		"suspended": {mount: true, object: func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations[wellknown.SuspendedAnnotation] = ""
		}},
		"pending deletion": {mount: true, object: func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations[wellknown.PendingDeletionAnnotation] = "true"
		}},
		"of another node": {mount: true, object: func(lv *topolvmv1.LogicalVolume) { lv.Spec.NodeName = "node2" }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, v1alpha1.TrimConfig{Schedule: v1alpha1.TrimWeekly, PoolUsageThresholdPercent: 10}, "1")
			if test.state != nil {
				test.state(&b.states[0])
			}
			if test.object != nil {
				b.change("1", test.object)
			}
			if !test.mount {
				b.unmounted = []string{"254:1"}
			}
			var want []string
			if test.want {
				want = []string{"254:1"}
			}
			b.wantTrims(name, want...)
		})
	}
}

// TestTheObjectIsReadBeforeATrim: the cache is outdated. The volume is tried again when it must have the change.
func TestTheObjectIsReadBeforeATrim(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"suspended": func(b *bench) {
			b.change("1", func(lv *topolvmv1.LogicalVolume) { lv.Annotations[wellknown.SuspendedAnnotation] = "me" })
		},
		"deleted": func(b *bench) {
			b.change("1", func(lv *topolvmv1.LogicalVolume) {
				lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
			})
			b.ok(b.api.Delete(b.Context(), b.object("1")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, weekly, "1")
			b.wantTrims("at the start")
			b.now = start.Add(week)
			outdated := memory.Builder().WithObjects(b.object("1"),
				&v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: "lvms"},
					Spec: v1alpha1.LVMVolumeGroupSpec{Trim: &weekly}}).Build()
			change(b)
			b.agent.Client = outdated
			b.wantTrims(name)
			b.getErr = errors.New("timeout")
			b.now = b.now.Add(2 * interval)
			if got, err := b.run(); len(got) > 0 || err == nil || !strings.Contains(err.Error(), "object-1") {
				t.Errorf("trimmed %q, %v, without a read of the object", got, err)
			}
		})
	}
}

// TestNothingIsTrimmedAfterAFailedRead: what cannot be read is not absent.
func TestNothingIsTrimmedAfterAFailedRead(t *testing.T) {
	b := newBench(t, weekly, "1")
	b.wantTrims("at the start")
	b.now = start.Add(week)
	b.mountsErr = errors.New("mountinfo: permission denied")
	if got, err := b.run(); len(got) > 0 || !errors.Is(err, b.mountsErr) {
		t.Errorf("without the mounts: trimmed %q, %v", got, err)
	}
	b.mountsErr, b.statesErr = nil, errors.New("lvm fullreport: timeout")
	if got, err := b.run(); len(got) > 0 || !errors.Is(err, b.statesErr) {
		t.Errorf("without a report of LVM: trimmed %q, %v", got, err)
	}
	b.statesErr = nil
	b.wantTrims("afterwards", "254:1")
}

// TestARecordThatCannotBeWritten is written by a later pass. The volume is not trimmed again.
func TestARecordThatCannotBeWritten(t *testing.T) {
	b := newBench(t, weekly, "1", "2")
	b.wantTrims("at the start")
	b.now = start.Add(week)
	b.patchErr = errors.New("the server is not available")
	for range 3 {
		if _, err := b.run(); !errors.Is(err, b.patchErr) {
			t.Fatalf("got %v", err)
		}
	}
	if b.record("1") != nil || b.record("2") != nil {
		t.Error("a record was written")
	}
	trimmed := b.now
	b.patchErr, b.now = nil, b.now.Add(time.Minute)
	b.wantTrims("afterwards")
	for _, volume := range []string{"1", "2"} {
		if got := b.record(volume); got == nil || !got.Time.Equal(trimmed) {
			t.Errorf("volume %s: got %+v", volume, got)
		}
	}
}

func TestThePoolIsAboveItsThreshold(t *testing.T) {
	b := newBench(t, v1alpha1.TrimConfig{Schedule: v1alpha1.TrimNone, PoolUsageThresholdPercent: 80}, "1", "2")
	b.setPool(79.9)
	b.wantTrims("below")
	b.setPool(80)
	b.wantTrims("at the threshold", "254:1", "254:2")
	b.now = b.now.Add(30 * time.Minute)
	b.wantTrims("half an hour later")
	b.restart()
	b.wantTrims("another agent")
	b.now = b.now.Add(30 * time.Minute)
	b.wantTrims("an hour later", "254:1", "254:2")
	b.now = b.now.Add(week)
	// The first trim is sufficient.
	b.onTrim = func() { b.setPool(60) }
	if got, err := b.run(); err != nil || len(got) != 1 {
		t.Errorf("got %q, %v", got, err)
	}
	b.setPool(90)
	b.states[0].PoolPercent, b.states[1].PoolPercent = nil, nil
	b.now = b.now.Add(week)
	b.wantTrims("the usage is not known")
}

func TestFailures(t *testing.T) {
	b := newBench(t, weekly, "1", "2")
	b.wantTrims("at the start")
	b.now = start.Add(week)
	b.results["254:1"] = errors.New("has not answered since yesterday")
	b.wantTrims("the first failure", "254:1", "254:2")
	for failures, hours := range []int{1, 2, 4} {
		b.now = b.now.Add(time.Duration(hours)*time.Hour - time.Second)
		b.wantTrims("too early")
		b.now = b.now.Add(time.Second)
		b.restart() // It has no memory of the failures.
		b.wantTrims("a retry", "254:1")
		if got := b.record("1"); got.Failures != failures+2 || got.Result != Failed {
			t.Errorf("got %+v", got)
		}
		said := b.events()
		if len(said) != min(failures, 1) {
			t.Fatalf("%d failures: events %q", failures, said)
		}
		for _, event := range said {
			expect.Contains(t, "the event", event, fmt.Sprintf("TrimFailed node node1 cannot trim the file system "+
				"(%d attempts in a row failed): has not answered since yesterday", failures+2))
		}
	}
	delete(b.results, "254:1")
	b.now = b.now.Add(8 * time.Hour)
	b.wantTrims("it responds", "254:1")
	if got := b.record("1"); got.Failures != 0 || got.Result != Trimmed {
		t.Errorf("got %+v", got)
	}
}

func TestDiscardsAreNotSupported(t *testing.T) {
	b := newBench(t, v1alpha1.TrimConfig{Schedule: v1alpha1.TrimDaily}, "1")
	b.wantTrims("at the start")
	b.results["254:1"] = fmt.Errorf("trim the file system: %w", unix.EOPNOTSUPP)
	said := 0
	for range 5 {
		b.now = b.now.Add(day)
		b.wantTrims("each day", "254:1")
		said += len(b.events())
		b.restart()
	}
	if got := b.record("1"); said != 1 || got.Result != NotSupported || got.Failures != 0 ||
		!strings.Contains(got.Message, "operation not supported") {
		t.Errorf("got %+v, %d events", got, said)
	}
}

// TestATrimThatIsInterrupted by an unmount is not recorded, and repeated later.
func TestATrimThatIsInterrupted(t *testing.T) {
	b := newBench(t, weekly, "1")
	b.wantTrims("at the start")
	b.now = start.Add(week)
	b.results["254:1"] = fmt.Errorf("trim: %w", context.Canceled)
	b.wantTrims("interrupted", "254:1")
	if b.record("1") != nil {
		t.Error("there is a record")
	}
	delete(b.results, "254:1")
	b.now = b.now.Add(interruptedDelay - time.Second)
	b.wantTrims("too early")
	b.now = b.now.Add(time.Second)
	b.wantTrims("repeated", "254:1")
}

func TestARecordThatWasEdited(t *testing.T) {
	for _, text := range []string{"yesterday", "{}", `{"time":"never"}`} {
		b := newBench(t, weekly, "1")
		b.change("1", func(lv *topolvmv1.LogicalVolume) { lv.Annotations[wellknown.TrimAnnotation] = text })
		b.wantTrims("at the start")
		b.now = start.Add(week)
		b.wantTrims("after a week", "254:1")
		if got := b.record("1"); !got.Time.Equal(b.now) {
			t.Errorf("got %+v", got)
		}
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t, weekly, "1", "2", "3")
	b.wantTrims("at the start")
	if n := testutil.CollectAndCount(b.agent); n != 4 {
		t.Errorf("%d series before the first trim", n)
	}
	b.now = start.Add(week)
	b.results["254:2"], b.results["254:3"] = unix.EIO, unix.EOPNOTSUPP
	b.wantTrims("after a week", "254:1", "254:2", "254:3")
	want := fmt.Sprintf(`
# HELP lvms_last_trim_timestamp_seconds %s
# TYPE lvms_last_trim_timestamp_seconds gauge
lvms_last_trim_timestamp_seconds{device_class="vg1",node="node1"} %d
# HELP lvms_trimmed_bytes_total %s
# TYPE lvms_trimmed_bytes_total counter
lvms_trimmed_bytes_total{device_class="vg1",node="node1"} 4096
# HELP lvms_trims_total %s
# TYPE lvms_trims_total counter
lvms_trims_total{device_class="vg1",node="node1",result="Failed"} 1
lvms_trims_total{device_class="vg1",node="node1",result="NotSupported"} 1
lvms_trims_total{device_class="vg1",node="node1",result="Trimmed"} 1
`, timeFamily.Help, b.now.Unix(), bytesFamily.Help, countFamily.Help)
	if err := testutil.CollectAndCompare(b.agent, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	trimmed := b.now
	b.now = b.now.Add(time.Minute)
	b.restart()
	b.wantTrims("another agent")
	if got := b.agent.totals["vg1"]; !got.last.Equal(trimmed) || got.bytes != 0 {
		t.Errorf("another agent: got %+v", got)
	}
	group := &v1alpha1.LVMVolumeGroup{}
	b.ok(b.api.Get(t.Context(), client.ObjectKey{Namespace: "lvms", Name: "vg1"}, group))
	group.Spec.Trim = nil
	b.ok(b.api.Update(t.Context(), group))
	b.statesErr = errors.New("nothing is read without a device class with trim")
	b.wantTrims("no trim")
	if n := testutil.CollectAndCount(b.agent); n != 0 {
		t.Errorf("%d series without a device class with trim", n)
	}
}
