package smart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// node simulates the cache with the node's devices, and smartctl.
type node struct {
	client.Reader
	devices  []v1alpha1.DeviceStatus
	unlisted bool
	err      error

	mu     sync.Mutex
	asked  []string
	answer func(path string) (string, int, error)
}

func (n *node) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	status := object.(*v1alpha1.LVMVolumeGroupNodeStatus)
	status.Status = *statusOf(n.devices)
	if !n.unlisted {
		status.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDevicesObserved,
			Status: metav1.ConditionTrue}}
	}
	return n.err
}

func (n *node) RunAccepting(_ context.Context, accepted func(int) bool, name string,
	args ...string) ([]byte, int, error) {
	path := args[len(args)-1]
	n.mu.Lock()
	n.asked = append(n.asked, name+" "+strings.Join(args, " "))
	n.mu.Unlock()
	text, code, err := n.answer(path)
	if code != 0 && !accepted(code) {
		return nil, code, fmt.Errorf("exit status %d", code)
	}
	return []byte(text), code, err
}

func newMonitor(t *testing.T, n *node) *Monitor {
	m := New(Options{Client: n, Node: "node1", Namespace: "ns", Runner: n, Interval: time.Hour})
	m.sysfs, m.now = newSysfs(t), func() time.Time { return time.Unix(1000, 0) }
	return m
}

func (m *Monitor) series(t *testing.T) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range gathered {
		for _, s := range f.GetMetric() {
			device := ""
			for _, l := range s.GetLabel() {
				if strings.HasPrefix(l.GetName(), "device") {
					device += " " + l.GetValue()
				}
			}
			all = append(all, fmt.Sprintf("%s%s %g", strings.TrimPrefix(f.GetName(), "lvms_device_smart_"), device,
				s.GetGauge().GetValue()))
		}
	}
	slices.Sort(all)
	return all
}

func inUse(names ...string) []v1alpha1.DeviceStatus {
	var list []v1alpha1.DeviceStatus
	for _, name := range names {
		list = append(list, v1alpha1.DeviceStatus{Name: "/dev/" + name, ID: "serial:" + name,
			State: v1alpha1.DeviceInUse, VolumeGroup: "vg1"})
	}
	return list
}

func TestARoundAsksEachDiskOnce(t *testing.T) {
	n := &node{devices: inUse("sda", "sdb", "sdd"), answer: func(path string) (string, int, error) {
		switch path {
		case "/dev/sda":
			return failingSCSI, 8, nil
		case "/dev/sdb":
			return virtual, 1, nil
		}
		return nvme, 8, nil
	}}
	m := newMonitor(t, n)
	if err := m.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"answer_timestamp_seconds /dev/sda serial:sda 1000", "answer_timestamp_seconds /dev/sdd serial:sdd 1000",
		"answered /dev/sda serial:sda 1", "answered /dev/sdb serial:sdb 0", "answered /dev/sdd serial:sdd 1",
		"healthy /dev/sda serial:sda 0", "healthy /dev/sdd serial:sdd 0",
		"temperature_celsius /dev/sda serial:sda 38", "temperature_celsius /dev/sdd serial:sdd 41",
		"used_percent /dev/sdd serial:sdd 103",
	}
	if diff := cmp.Diff(want, m.series(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("/usr/sbin/smartctl --json=c --nocheck=standby,3 --health --attributes /dev/sda",
		n.asked[0]); diff != "" || len(n.asked) != 3 {
		t.Errorf("%d questions %s", len(n.asked), diff)
	}
}

// TestARoundKeepsWhatWasSaid checks that the last data of a disk stays if the disk is in standby or has no result,
// and is removed with the disk.
func TestARoundKeepsWhatWasSaid(t *testing.T) {
	said := []string{"answer_timestamp_seconds /dev/sda serial:sda 1000", "answered /dev/sda serial:sda 1",
		"healthy /dev/sda serial:sda 0", "temperature_celsius /dev/sda serial:sda 38"}
	silent := slices.Clone(said)
	silent[1] = "answered /dev/sda serial:sda 0"
	for name, c := range map[string]struct {
		answer  func(string) (string, int, error)
		devices []v1alpha1.DeviceStatus
		err     error
		want    []string
	}{
		"sleeps": {answer: func(string) (string, int, error) { return "", 3, nil },
			devices: inUse("sda"), want: said},
		"read failed": {answer: func(string) (string, int, error) {
			return "", -1,
				errors.New("time is up")
		}, devices: inUse("sda"), want: silent},
		"list cannot be read": {devices: inUse("sda"), err: errors.New("no cache"), want: said},
		"gone":                {devices: nil},
		"another with its name": {answer: func(string) (string, int, error) { return virtual, 1, nil },
			devices: []v1alpha1.DeviceStatus{{Name: "/dev/sda", ID: "serial:new", State: v1alpha1.DeviceInUse,
				VolumeGroup: "vg1"}}, want: []string{"answered /dev/sda serial:new 0"}},
		"well again, says it so": {answer: func(string) (string, int, error) { return wornSCSI, 0, nil },
			devices: inUse("sda"), want: []string{said[0], said[1], "healthy /dev/sda serial:sda 1",
				"used_percent /dev/sda serial:sda 12"}},
	} {
		n := &node{devices: inUse("sda"), answer: func(string) (string, int, error) { return failingSCSI, 8, nil }}
		m := newMonitor(t, n)
		if err := m.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.answer = c.answer
		n.devices = c.devices
		n.err = c.err
		if err := m.round(t.Context()); (err != nil) != (c.err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, m.series(t)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestARoundWaitsForTheListOfDevices(t *testing.T) {
	n := &node{unlisted: true}
	if err := newMonitor(t, n).round(t.Context()); !errors.Is(err, errNotListed) {
		t.Error(err)
	}
}

// TestAHungDiskIsAskedOnce checks that a disk that hangs blocks neither the other disks nor the end of the monitor,
// and is not read again while the read is pending.
func TestAHungDiskIsAskedOnce(t *testing.T) {
	release := make(chan struct{})
	n := &node{devices: inUse("sda", "sdb"), answer: func(path string) (string, int, error) {
		if path == "/dev/sda" {
			<-release
		}
		return wellSCSI, 0, nil
	}}
	m := newMonitor(t, n)
	m.reads = bounded.New(100*time.Millisecond, 3)
	for range 3 {
		if err := m.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	count := func(path string) int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(slices.DeleteFunc(slices.Clone(n.asked), func(s string) bool { return !strings.HasSuffix(s, path) }))
	}
	if a, b := count("/dev/sda"), count("/dev/sdb"); a != 1 || b != 3 {
		t.Errorf("asked %d and %d times", a, b)
	}
	if all := m.series(t); !slices.Contains(all, "answered /dev/sda serial:sda 0") ||
		!slices.Contains(all, "healthy /dev/sdb serial:sdb 1") {
		t.Error(all)
	}
	close(release)
	for len(m.reads.Late()) > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := m.round(t.Context()); err != nil || count("/dev/sda") != 2 {
		t.Errorf("asked %d times: %v", count("/dev/sda"), err)
	}
}

// TestStart checks that Start reads at once and after each interval, retries a failed list with increasing delays,
// and ends.
func TestStart(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{"well": {nil, 3}, "the read failed": {errors.New("no cache"), 9}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Minute)
			defer cancel()
			reads := 0
			n := &counting{node: &node{err: c.err}, reads: &reads}
			m := New(Options{Client: n, Node: "node1", Namespace: "ns", Runner: n, Interval: time.Hour})
			if err := m.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if reads < c.want || reads > c.want+2 {
				t.Errorf("%s: %d looks in 150 minutes, want about %d", name, reads, c.want)
			}
		})
	}
}

type counting struct {
	*node
	reads *int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
	*c.reads++
	return c.node.Get(ctx, key, object, o...)
}
