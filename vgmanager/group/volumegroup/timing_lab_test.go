//go:build lab

package volumegroup

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/uevent"
)

// incident measures how long after a disaster the status names it, and how long the action takes.
type incident struct {
	// began is when the disaster began, and approved is when the action was approved.
	began, approved time.Time
	// measured is true from the disaster until the status names it. named is the time between them.
	measured bool
	named    time.Duration
	// rounds are the rounds that the health monitor has begun.
	rounds *atomic.Int64
	// waited is how long the agent waited before it reconciled, with each round of the health monitor as long as on a
	// node. It does not depend on the speed of the machine.
	waited time.Duration
	// woken is what woke the agent first, and events are what wakes it.
	woken  string
	events chan wakeup
	stop   context.CancelFunc
}

// wakeup wakes the agent. rounds are those of the health monitor until then.
type wakeup struct {
	source string
	rounds int64
}

const (
	kernelEvent   = "an event of the kernel"
	healthMonitor = "the health monitor"
)

const (
	// statusLimit is the time within which the status names a disaster (docs/reference/disasters.md).
	statusLimit = 30 * time.Second
	// longestRound is the longest time between two rounds of the health monitor on a node.
	longestRound = health.Interval + health.Interval/10
)

// measures returns true if the tests measure times as on a node. If not, the health monitor does not wait for long.
func measures() bool { return os.Getenv("LVMS_MEASURE") != "" }

// disaster starts the measurement. Until named is called, the agent reconciles only when a node would make it: after an
// event of the kernel, after a change that the health monitor found, or when its own delay has passed.
func (s *scene) disaster() {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	i := incident{measured: true, rounds: &atomic.Int64{}, events: make(chan wakeup, 1), stop: stop}
	wake := func(source string) func() {
		return func() {
			select {
			case i.events <- wakeup{source, i.rounds.Load()}:
			default:
			}
		}
	}
	listener := uevent.New()
	listener.Subscribe(wake(kernelEvent))
	beats, pulse := s.beats(), direct.NewPulse()
	interval := time.Second
	if measures() {
		interval = health.Interval
	}
	monitor := health.New(health.Options{Mapper: devicemapper.New(), Interval: interval,
		Failing: func(ctx context.Context) map[string]error {
			i.rounds.Add(1)
			failing := map[string]error{}
			for number, err := range pulse.Check(ctx, attached(beats)) {
				failing[string(number)] = err
			}
			return failing
		}, Metadata: pulse.Starts, Own: s.real.Changes})
	monitor.Subscribe(wake(healthMonitor))
	go func() { _ = listener.Start(ctx) }()
	go func() { _ = monitor.Start(ctx) }()
	for monitor.Snapshot().Time.IsZero() {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second) // the listener has read the devices
	i.began = time.Now()
	s.incident = i
	s.Cleanup(stop)
}

// beats returns the devices of the physical volumes.
func (s *scene) beats() []direct.Beat {
	s.Helper()
	report, err := lvmexec.New(s.runner).Report(s.Context())
	s.ok(err)
	var list []direct.Beat
	for _, pv := range report.VG("vg1").PVs {
		list = append(list, direct.Beat{Number: device.NewNumber(pv.Major, pv.Minor), Path: pv.Name})
	}
	return list
}

func attached(beats []direct.Beat) []direct.Beat {
	var list []direct.Beat
	for _, b := range beats {
		if _, err := os.Stat("/sys/dev/block/" + string(b.Number)); err == nil {
			list = append(list, b)
		}
	}
	return list
}

// pause waits before the next reconcile. result and err are from the last one.
func (s *scene) pause(result ctrl.Result, err error) {
	i := &s.incident
	if !i.measured {
		time.Sleep(200 * time.Millisecond)
		s.agent.Wake()
		return
	}
	delay := result.RequeueAfter
	if err != nil {
		delay = time.Second
	}
	rounds := i.rounds.Load()
	var woken string
	select {
	case e := <-i.events:
		s.agent.Wake()
		woken = e.source
		if woken == healthMonitor {
			i.waited += time.Duration(max(e.rounds-rounds, 0)) * longestRound
		}
	case <-time.After(delay):
		woken = fmt.Sprintf("a delay of %s", delay.Round(time.Second))
		i.waited += delay
	}
	if i.woken == "" {
		i.woken = woken
	}
}

// happened marks the moment of a disaster that takes some time after disaster was called.
func (s *scene) happened() { s.incident.began = time.Now() }

// named ends the first part of the measurement: the status names the disaster, and in time.
func (s *scene) named() {
	s.Helper()
	i := &s.incident
	i.measured, i.named = false, time.Since(i.began)
	i.stop()
	s.Logf("the agent was first woken by %s, and waited %s", i.woken, i.waited)
	if i.waited > statusLimit {
		s.Errorf("the status names the disaster only after %s, want at most %s", i.waited, statusLimit)
	}
	if measures() {
		s.logTime(i.named, "reported")
	}
}

// recovered logs the measurement of an action. kills is how often the agent was killed during it.
func (s *scene) recovered(kills int) {
	s.Helper()
	s.Logf("the agent was killed %d times during the action", kills)
	s.logTime(time.Since(s.incident.approved), "recovered")
}

// logTime writes a time of docs/reference/disasters.md: LVMS-TIME SCENARIO SECONDS reported|recovered. The scenario is
// the name of the test.
func (s *scene) logTime(took time.Duration, what string) {
	s.Helper()
	s.Logf("LVMS-TIME %s %.1f %s", s.Name(), took.Seconds(), what)
}
