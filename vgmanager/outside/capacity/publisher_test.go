package capacity

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

type classes struct {
	mu      sync.Mutex
	states  []engine.ClassState
	err     error
	changed func()
}

func (c *classes) States(context.Context) ([]engine.ClassState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states, c.err
}

func (c *classes) set(states ...engine.ClassState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states = states
}

func (c *classes) Subscribe(changed func()) { c.changed = changed }

type world struct {
	*testing.T
	classes *classes
	client  client.Client
	patches atomic.Int32
	*Publisher
}

func newWorld(t *testing.T, present map[string]string) *world {
	w := &world{T: t, classes: &classes{}}
	w.client = memory.Builder().
		WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Annotations: present}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				options ...client.PatchOption) error {
				w.patches.Add(1)
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
	w.Publisher = New(w.client, "node1", w.classes)
	return w
}

func (w *world) annotations() map[string]string {
	w.Helper()
	node := &corev1.Node{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: "node1"}, node); err != nil {
		w.Fatal(err)
	}
	return node.Annotations
}

func TestTheNodeHasWhatItsClassesOfferAndNothingElse(t *testing.T) {
	w := newWorld(t, map[string]string{"capacity.topolvm.io/old": "5",
		"capacity.topolvm.io/00default": "7", "other": "x"})
	w.classes.states = []engine.ClassState{{Name: "a", Capacity: 10}, {Name: "b", Capacity: 20, Default: true},
		{Name: "lost", Err: errors.New("no group")}}
	for range 2 {
		if err := w.publish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"capacity.topolvm.io/a": "10", "capacity.topolvm.io/b": "20", "capacity.topolvm.io/00default": "20",
		"capacity.topolvm.io/lost": "0", "other": "x",
	}
	if got := w.annotations(); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if w.patches.Load() != 1 {
		t.Errorf("%d writes, although nothing changed after the first", w.patches.Load())
	}
	w.classes.states = nil
	if err := w.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.annotations(); !maps.Equal(got, map[string]string{"other": "x"}) {
		t.Errorf("without classes: %v", got)
	}
}

// TestAReadThatFailsIsNotEmpty checks that the last known capacity stays for a while if LVM cannot be read. After
// that the capacity is 0.
func TestAReadThatFailsIsNotEmpty(t *testing.T) {
	w := newWorld(t, map[string]string{"capacity.topolvm.io/a": "1"})
	now := time.Now()
	w.now = func() time.Time { return now }
	w.observedAt = now
	w.classes.err = errors.New("LVM hangs")
	if err := w.publish(t.Context()); err == nil || w.annotations()["capacity.topolvm.io/a"] != "1" {
		t.Errorf("before anything was seen: %v, %v", err, w.annotations())
	}
	w.classes.states = []engine.ClassState{{Name: "a", Capacity: 10}}
	w.classes.err = nil
	if err := w.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.classes.err = errors.New("LVM hangs")
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "10"}, {maxAge - time.Second, "10"}, {2 * time.Second, "0"}, {time.Hour, "0"}} {
		now = now.Add(step.after)
		if err := w.publish(t.Context()); err == nil || w.annotations()["capacity.topolvm.io/a"] != step.want {
			t.Errorf("after %s: %v, %v", step.after, err, w.annotations())
		}
	}
	for _, f := range gather(t, w.Publisher) {
		switch value := f.GetMetric()[0].GetGauge().GetValue(); {
		case f.GetName() == "lvms_capacity_bytes" && value == 0:
		case f.GetName() == "lvms_capacity_observed_timestamp_seconds" && value < float64(now.Add(-time.Hour).Unix()):
		default:
			t.Errorf("%s is %v of what is not known", f.GetName(), value)
		}
	}
}

func TestChangesAreWrittenWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		time.Sleep(10 * time.Second)
		w.classes.set(engine.ClassState{Name: "a", Capacity: 10})
		w.classes.changed()
		time.Sleep(1100 * time.Millisecond)
		if got := w.annotations()["capacity.topolvm.io/a"]; got != "10" {
			t.Errorf("a second after a change: %q", got)
		}
		// Writes by Pods that fill a pool cause no notification.
		w.classes.set(engine.ClassState{Name: "a"})
		time.Sleep(4100 * time.Millisecond)
		if got := w.annotations()["capacity.topolvm.io/a"]; got != "0" {
			t.Errorf("seconds after a pool was full: %q", got)
		}
		before := w.patches.Load()
		time.Sleep(10 * time.Minute)
		if w.patches.Load() != before {
			t.Errorf("%d writes in ten minutes at rest", w.patches.Load()-before)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestMetrics(t *testing.T) {
	w := newWorld(t, nil)
	w.now = func() time.Time { return time.UnixMilli(12345678) }
	data := 12.5
	metadata := 3.0
	w.classes.states = []engine.ClassState{
		{Name: "thick", Capacity: 10, Size: 100, Free: 12},
		{Name: "thin", Capacity: 1000, Size: 200, Free: 20, Thin: true, PoolSize: 180, DataPercent: &data,
			MetadataPercent: &metadata},
		{Name: "lost", Err: errors.New("no group")},
	}
	if err := w.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range gather(t, w.Publisher) {
		for _, m := range f.GetMetric() {
			class := ""
			for _, l := range m.GetLabel() {
				switch l.GetName() {
				case "device_class":
					class = l.GetValue()
				case "node":
					if l.GetValue() != "node1" {
						t.Errorf("%s is of node %q", f.GetName(), l.GetValue())
					}
				}
			}
			got[f.GetName()+" "+class] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"lvms_capacity_bytes lost": 0, "lvms_capacity_bytes thick": 10, "lvms_capacity_bytes thin": 1000,
		"lvms_capacity_observed_timestamp_seconds ": 12345.678,
		"topolvm_thinpool_data_percent thin":        12.5, "topolvm_thinpool_metadata_percent thin": 3,
		"topolvm_thinpool_overprovisioned_available thin": 1000, "topolvm_thinpool_size_bytes thin": 180,
		"topolvm_volumegroup_available_bytes thick": 10, "topolvm_volumegroup_available_bytes thin": 20,
		"topolvm_volumegroup_size_bytes thick": 100, "topolvm_volumegroup_size_bytes thin": 200,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if problems, err := testutil.CollectAndLint(w.Publisher); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func gather(t *testing.T, c prometheus.Collector) []*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}
