package smart

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const (
	// MinInterval is the minimum time between two reads of the same disk, because some disks pause I/O to respond.
	MinInterval = time.Minute
	// askLimit is the time limit of smartctl for one disk.
	askLimit = 30 * time.Second
	// patience is how long the other disks wait for one. A process that hangs in the kernel cannot be ended.
	patience = 45 * time.Second
	// retry is the delay before the list of devices is read again if it cannot be read or does not exist yet. The
	// delay doubles with each attempt.
	retry = 15 * time.Second
)

var (
	answered = metric.NewGauge("lvms_device_smart_answered",
		"1 if the last read of the disk's SMART data succeeded, or was skipped because the disk was in standby; 0 if "+
			"it failed. No series while SMART is disabled.", "node", "device", "device_id")
	healthy = metric.NewGauge("lvms_device_smart_healthy",
		"Health that the disk reported at the last successful read: 1 if it is healthy, 0 if it predicts its own "+
			"failure or has a critical warning.", "node", "device", "device_id")
	celsius = metric.NewGauge("lvms_device_smart_temperature_celsius",
		"Temperature of the disk at the last successful read, in degrees Celsius. No series if the disk does not "+
			"report it.", "node", "device", "device_id")
	used = metric.NewGauge("lvms_device_smart_used_percent",
		"Part of the lifetime expected by the vendor that the disk had used at the last successful read, in percent. "+
			"It can exceed 100. No series if the disk does not report it.", "node", "device", "device_id")
	answeredAt = metric.NewGauge("lvms_device_smart_answer_timestamp_seconds",
		"Time of the last successful read of the disk's SMART data, in seconds since 1970. A disk in standby is not "+
			"read.", "node", "device", "device_id")
)

// Families are all metrics of the Monitor.
var Families = []metric.Family{answered, healthy, celsius, used, answeredAt}

// Runner runs smartctl. host.Local implements it.
type Runner interface {
	RunAccepting(ctx context.Context, accepted func(code int) bool, name string, args ...string) ([]byte, int, error)
}

// Options configures a Monitor.
type Options struct {
	// Client reads the node's list of devices, from a cache.
	Client          client.Reader
	Node, Namespace string
	Runner          Runner
	// Interval is the time between two reads of the same disk.
	Interval time.Duration
}

// errNotListed: this process has not listed the devices yet. It does so when it starts.
var errNotListed = errors.New("the devices of the node are not listed yet")

// reading is the last known data of a disk.
type reading struct {
	err    error // error of the last read; nil for a disk in standby
	answer *Answer
	at     time.Time
}

// Monitor reads the disks one after the other. It implements manager.Runnable and prometheus.Collector.
type Monitor struct {
	Options
	sysfs string
	reads *bounded.Calls // by path
	now   func() time.Time

	mu       sync.Mutex
	readings map[Disk]reading
}

// New returns a Monitor.
func New(o Options) *Monitor {
	return &Monitor{Options: o, sysfs: "/sys", reads: bounded.New(patience, math.MaxInt), now: time.Now,
		readings: map[Disk]reading{}}
}

// Start reads the disks until ctx ends. It implements manager.Runnable.
func (m *Monitor) Start(ctx context.Context) error {
	delay := retry
	for ctx.Err() == nil {
		wait := m.Interval
		if err := m.round(ctx); err != nil {
			if !errors.Is(err, errNotListed) {
				log.FromContext(ctx).Error(err, "cannot read the health (S.M.A.R.T.) of all disks", "node",
					m.Node)
			}
			wait = min(delay, m.Interval)
			delay = wait * 2
		} else {
			delay = retry
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait + time.Duration(rand.Int64N(int64(wait/10)+1))):
		}
	}
	return nil
}

// round reads each disk once. It forgets disks that no longer exist.
func (m *Monitor) round(ctx context.Context) error {
	ctx, end := liveness.Begin(ctx, "round of the SMART health of disks")
	defer end()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := m.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Node}, status); err != nil {
		return fmt.Errorf("read the list of devices of node %s: %w", m.Node, err)
	}
	if meta.FindStatusCondition(status.Status.Conditions, v1alpha1.ConditionDevicesObserved) == nil {
		return errNotListed
	}
	list, err := disks(&status.Status, m.sysfs)
	for _, disk := range list {
		m.ask(ctx, disk)
	}
	if err == nil {
		m.forgetOthers(list)
	}
	return err
}

// ask reads one disk, unless a read of it is pending, and waits at most patience for the result.
func (m *Monitor) ask(ctx context.Context, disk Disk) {
	type result struct {
		answer *Answer
		err    error
	}
	got, err := bounded.Do(ctx, m.reads, disk.Path, func(context.Context) result {
		answer, err := m.read(ctx, disk.Path) // The end of the monitor ends smartctl.
		return result{answer, err}
	})
	late := (*bounded.NoAnswerError)(nil)
	switch {
	case errors.As(err, &late):
		err = fmt.Errorf("%s has not ended", program)
	case err == nil:
		err = got.err
	}
	m.keep(ctx, disk, got.answer, err)
}

// read runs smartctl for one disk.
func (m *Monitor) read(ctx context.Context, path string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	text, code, err := m.Runner.RunAccepting(ctx, ends, program, arguments(path)...)
	if err != nil {
		return nil, err
	}
	answer, err := decode(text, code)
	return &answer, err
}

// keep stores a result. Without a result, the last data stays with its time. keep only logs changes.
func (m *Monitor) keep(ctx context.Context, disk Disk, answer *Answer, err error) {
	if ctx.Err() != nil {
		return // The monitor stops, so the result may be incomplete.
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.readings[disk]
	now := reading{answer: last.answer, at: last.at}
	switch {
	case errors.Is(err, errAsleep):
	case err != nil:
		now.err = err
	default:
		now.answer, now.at = answer, m.now()
	}
	m.readings[disk] = now
	logger := log.FromContext(ctx).WithValues("node", m.Node, "device", disk.Path, "id", disk.ID)
	switch {
	case now.err != nil && (!known || last.err == nil || last.err.Error() != now.err.Error()):
		logger.Info("cannot read the health (S.M.A.R.T.) of the disk", "cause", now.err.Error())
	case now.answer != nil && !now.answer.Healthy && (last.answer == nil || last.answer.Healthy):
		logger.Info("the disk is predicted to fail (S.M.A.R.T.): save the data on it and replace it")
	}
}

func (m *Monitor) forgetOthers(list []Disk) {
	there := map[Disk]bool{}
	for _, disk := range list {
		there[disk] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for disk := range m.readings {
		if !there[disk] {
			delete(m.readings, disk)
		}
	}
}

// Describe implements prometheus.Collector.
func (m *Monitor) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector. It does not read a disk.
func (m *Monitor) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for disk, r := range m.readings {
		labels := []string{m.Node, disk.Path, disk.ID}
		answered.Send(to, number(r.err == nil), labels...)
		if r.answer == nil {
			continue
		}
		healthy.Send(to, number(r.answer.Healthy), labels...)
		answeredAt.Send(to, float64(r.at.Unix()), labels...)
		if r.answer.Celsius != nil {
			celsius.Send(to, float64(*r.answer.Celsius), labels...)
		}
		if r.answer.UsedPercent != nil {
			used.Send(to, float64(*r.answer.UsedPercent), labels...)
		}
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
