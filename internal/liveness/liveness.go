// Package liveness ends a process that is stuck, so that the kubelet starts it again. A lock that is never released, or
// a goroutine that waits for nothing, does not heal by itself: all other parts of the process can go on, and its HTTP
// server answers.
//
// The process says when a unit of work begins and ends (Begin): a reconcile, a call of the CSI driver, a pass of a
// loop. In a unit of work, it says when it waits for something that has a time limit of its own (Busy). A unit that
// does neither for Limit is stuck, if the whole process was quiet meanwhile: work that computes, reads a device or
// waits for the commands of other work is not stuck. A part that must always answer is asked (Ask). The process is
// never ended while a command runs on the node, or while it waits for a device.
package liveness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Limit is after which time without an answer or progress a part of the process is stuck.
	Limit = 35 * time.Second
	// interval is that of the checks, and askLimit the time limit of an answer.
	interval = 5 * time.Second
	askLimit = 10 * time.Second
	// settled is how long no command must have run.
	settled = 15 * time.Second
	// pause is that between two looks whether a command runs.
	pause = 20 * time.Millisecond
)

// Monitor finds stuck parts of a process. Use New.
type Monitor struct {
	usage  func() (usage, error)
	report func(err error)
	exit   func(stuck []string)

	mu    sync.Mutex
	units map[*unit]struct{}
	parts map[*part]struct{}
	// commands are those on the node. started is how many there were at the last check, and commanded when it last
	// changed.
	commands  Commands
	started   uint64
	commanded time.Time
	// requests has when the requests to the API server that are not answered were sent.
	requests map[*time.Time]struct{}
	// checks is the number of checks that have ended. It is read without mu.
	checks atomic.Uint64
	// checked is when the last check was, and past has the usage at the checks before it, the oldest first.
	checked time.Time
	past    []sample
	// reported is the last error of usage.
	reported string
}

// unit is a unit of work.
type unit struct {
	name string
	// waits is the number of things with a time limit that it waits for, and last the time of its last progress.
	waits int
	last  time.Time
}

// part is a part of the process that must always answer.
type part struct {
	name     string
	answers  func(ctx context.Context) error
	asked    bool
	answered time.Time
	err      error
}

// New returns a Monitor. Its checks begin with Start. If something is stuck, it calls exit, which has to end the
// process. It calls report if the usage of the process cannot be read.
func New(report func(err error), exit func(stuck []string)) *Monitor {
	return &Monitor{usage: processUsage, report: report, exit: exit, units: map[*unit]struct{}{},
		parts: map[*part]struct{}{}, requests: map[*time.Time]struct{}{},
		commands: noCommands{}}
}

// Commands are the commands that the process runs on the node.
type Commands interface {
	// Running returns how many commands were started, and how many of them have not ended.
	Running() (started, running uint64)
	// Hold lets each command wait before it is started, until release is called.
	Hold() (release func())
}

// noCommands are those of a process that runs none.
type noCommands struct{}

func (noCommands) Running() (started, running uint64) { return 0, 0 }
func (noCommands) Hold() (release func())             { return func() {} }

// CountCommands sets the commands that the process runs on the node. Call it before Start.
func CountCommands(ctx context.Context, commands Commands) {
	if m := scopeOf(ctx).monitor; m != nil {
		m.commands = commands
	}
}

// scope is what a context has.
type scope struct {
	monitor *Monitor
	unit    *unit
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(scope)
	return s
}

// Context returns a context with the Monitor, for the functions of this package. Without a Monitor, they do nothing.
func (m *Monitor) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{monitor: m})
}

// Begin says that a unit of work begins, and returns its context. Call end when it ends.
func Begin(ctx context.Context, name string) (unitCtx context.Context, end func()) {
	m := scopeOf(ctx).monitor
	if m == nil {
		return ctx, func() {}
	}
	u := &unit{name: name, last: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units[u] = struct{}{}
	return context.WithValue(ctx, scopeKey{}, scope{monitor: m, unit: u}), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.units, u)
	}
}

// Busy says that the unit of work of ctx waits for something that has a time limit: a command, an answer of the API
// server or of a device, or its turn. Call end when the wait ends.
func Busy(ctx context.Context) (end func()) {
	s := scopeOf(ctx)
	if s.unit == nil {
		return func() {}
	}
	s.monitor.wait(s.unit, 1)
	return func() { s.monitor.wait(s.unit, -1) }
}

func (m *Monitor) wait(u *unit, waits int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.waits += waits
	u.last = time.Now()
}

// Request says that a request is sent to the API server. Call end when it is answered, with the error if it is not.
// While the API server is away, no work is stuck: much of it waits for a cache.
func (m *Monitor) Request() (end func(err error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent := time.Now()
	m.requests[&sent] = struct{}{}
	return func(err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.requests, &sent)
		if err != nil {
			m.past = nil
		}
	}
}

// Ask has a part of the process asked at each check until the returned function is called. answers returns an error if
// the part does not work. It may block: the part is stuck if there is no answer without an error for Limit.
func Ask(ctx context.Context, name string, answers func(ctx context.Context) error) (stop func()) {
	m := scopeOf(ctx).monitor
	if m == nil {
		return func() {}
	}
	p := &part{name: name, answers: answers, answered: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts[p] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.parts, p)
	}
}

// NeedLeaderElection returns false: a process on standby can be stuck, too.
func (m *Monitor) NeedLeaderElection() bool { return false }

// Start checks until ctx ends, and ends the process if a part of it is stuck.
func (m *Monitor) Start(ctx context.Context) error {
	go m.guard(ctx)
	m.begin()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			stuck := m.check(ctx)
			m.checks.Add(1)
			if len(stuck) > 0 && m.awaitCommands() {
				m.exit(stuck)
			}
		}
	}
}

// guard ends the process if the checks have stopped, which need locks. It needs none but that of the commands: if that
// is never released, no command can be started, and the kubelet ends the process.
func (m *Monitor) guard(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last uint64
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if checks := m.checks.Load(); checks != last {
			last, missed = checks, 0
			continue
		}
		if missed++; missed >= int(Limit/interval) && m.awaitCommands() {
			m.exit([]string{fmt.Sprintf("liveness: no check for %s", time.Duration(missed)*interval)})
		}
	}
}

// begin takes the time before the first check as time in which nothing was due.
func (m *Monitor) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for u := range m.units {
		u.last = time.Now()
	}
	for p := range m.parts {
		p.answered = time.Now()
	}
}

// awaitCommands waits until no command runs, at most half an interval. Then no other one is started: the process is to
// end. It returns false if one still runs.
func (m *Monitor) awaitCommands() bool {
	for end := time.Now().Add(interval / 2); time.Now().Before(end); time.Sleep(pause) {
		release := m.commands.Hold()
		if _, running := m.commands.Running(); running == 0 {
			return true
		}
		release()
	}
	return false
}

// Check is a health check: it returns an error if the checks have stopped.
func (m *Monitor) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since := time.Since(m.checked); !m.checked.IsZero() && since > Limit {
		return fmt.Errorf("the process has not checked itself for %s", since.Round(time.Second))
	}
	return nil
}

// check returns what is stuck, with the time since when, and asks the parts again.
func (m *Monitor) check(ctx context.Context) []string {
	used, err := m.usage()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.forgive(now)
	quiet := m.isQuiet(sample{now, used}, err)
	var stuck []string
	for u := range m.units {
		if quiet && u.isStuck(now) {
			stuck = append(stuck, fmt.Sprintf("%s: no progress since %s", u.name, u.last.UTC().Format(time.RFC3339)))
		}
	}
	for p := range m.parts {
		if now.Sub(p.answered) >= Limit && !used.blocked {
			stuck = append(stuck, fmt.Sprintf("%s: no answer since %s (last error: %v)", p.name,
				p.answered.UTC().Format(time.RFC3339), p.err))
		}
		m.ask(ctx, p)
	}
	slices.Sort(stuck)
	return stuck
}

// forgive takes the time in which the process did not run, because it or the machine was suspended or had no processor
// time, as time in which nothing was due.
func (m *Monitor) forgive(now time.Time) {
	if late := now.Sub(m.checked) - interval; !m.checked.IsZero() && late > interval {
		for u := range m.units {
			u.last = u.last.Add(late)
		}
		for p := range m.parts {
			p.answered = p.answered.Add(late)
		}
		m.past = nil
	}
	m.checked = now
}

func (u *unit) isStuck(now time.Time) bool {
	return u.waits == 0 && now.Sub(u.last) >= Limit
}

// ask asks a part, unless it has not answered the last time. The caller has locked mu.
func (m *Monitor) ask(ctx context.Context, p *part) {
	if p.asked {
		return
	}
	p.asked = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		err := p.answers(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		p.asked, p.err = false, err
		if err == nil {
			p.answered = time.Now()
		}
	}()
}
