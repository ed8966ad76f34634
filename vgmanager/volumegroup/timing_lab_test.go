//go:build lab

package volumegroup

import (
	"context"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/uevent"
)

// incident measures how long after a disaster the status names it, and how long the action takes.
type incident struct {
	// began is when the disaster began, and approved is when the action was approved.
	began, approved time.Time
	// measured is true from the disaster until the status names it. named is the time between them.
	measured bool
	named    time.Duration
	// woken is what woke the agent first, and events are what wakes it.
	woken  string
	events chan string
	stop   context.CancelFunc
}

// disaster starts the measurement. Until named is called, the agent reconciles only when a node would make it: after an
// event of the kernel, after a change that the health monitor found, or when its own delay has passed.
func (s *scene) disaster() {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	i := incident{measured: true, events: make(chan string, 1), stop: stop}
	wake := func(source string) func() {
		return func() {
			select {
			case i.events <- source:
			default:
			}
		}
	}
	listener := uevent.New()
	listener.Subscribe(wake("an event of the kernel"))
	beats, pulse := s.beats(), device.NewPulse()
	monitor := health.New(health.Options{Mapper: devicemapper.New(),
		Failing: func(ctx context.Context) map[string]error {
			failing := map[string]error{}
			for number, err := range pulse.Check(ctx, attached(beats)) {
				failing[string(number)] = err
			}
			return failing
		}, Metadata: pulse.Starts, Own: s.real.Changes})
	monitor.Subscribe(wake("the health monitor"))
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
func (s *scene) beats() []device.Beat {
	s.Helper()
	report, err := lvm.New(s.runner).Report(s.Context())
	s.ok(err)
	var list []device.Beat
	for _, pv := range report.VG("vg1").PVs {
		list = append(list, device.Beat{Number: device.NewNumber(pv.Major, pv.Minor), Path: pv.Name})
	}
	return list
}

func attached(beats []device.Beat) []device.Beat {
	var list []device.Beat
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
	var woken string
	select {
	case woken = <-i.events:
		s.agent.Wake()
	case <-time.After(delay):
		woken = fmt.Sprintf("a delay of %s", delay.Round(time.Second))
	}
	if i.woken == "" {
		i.woken = woken
	}
}

// happened marks the moment of a disaster that takes some time after disaster was called.
func (s *scene) happened() { s.incident.began = time.Now() }

// named ends the first part of the measurement: the status names the disaster.
func (s *scene) named() {
	s.Helper()
	i := &s.incident
	i.measured, i.named = false, time.Since(i.began)
	i.stop()
	s.Logf("the agent was first woken by %s", i.woken)
}

// recovered logs the measurement of a disaster. kills is how often the agent was killed during the action.
func (s *scene) recovered(kills int) {
	s.Helper()
	i := s.incident
	status := "status not measured"
	if i.named != 0 {
		status = fmt.Sprintf("status after %.1f s", i.named.Seconds())
	}
	s.Logf("disaster: %s, action took %.1f s, in which the agent was killed %d times", status,
		time.Since(i.approved).Seconds(), kills)
}
