// Package lvm is LVM with types: one report that is read whole, and one function for each change.
//
// Every function runs at most one process. Sizes are bytes. Errors name the object and wrap one of the sentinels of this
// package where LVM's message is a known one. No function passes --force or answers a question of LVM with yes, except
// where its comment says which question and why.
package lvm

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

const (
	// program is LVM on every distribution that ships it since /sbin became a link to /usr/sbin.
	program = "/usr/sbin/lvm"
	// readTimeout is the time limit of a report. LVM waits for its own locks without end, so a stuck command elsewhere on
	// the node would otherwise hold up the agent.
	readTimeout = 30 * time.Second
	// writeTimeout is the time limit of a change.
	writeTimeout = 2 * time.Minute
)

// LVM runs the node's LVM. It is safe for concurrent use: changes run one after another.
type LVM struct {
	runner host.Runner
	now    func() time.Time

	// changing is held while a change runs.
	changing sync.Mutex

	// reading is held while a report runs for Recent, so that several readers share it.
	reading sync.Mutex

	mu       sync.Mutex
	changes  uint64 // number of changes that began or ended
	recent   *Report
	recentAt time.Time
}

// New returns LVM behind a Runner.
func New(runner host.Runner) *LVM {
	return &LVM{runner: runner, now: time.Now}
}

// Report reads everything anew. The caller must not change what it gets.
func (l *LVM) Report(ctx context.Context) (*Report, error) {
	l.mu.Lock()
	begun := l.changes
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := l.runner.Run(ctx, program, reportArguments()...)
	if err != nil {
		return nil, classify("report of the node's volume groups", err)
	}
	report, err := decodeReport(out)
	if err != nil {
		return nil, err
	}
	l.keep(report, begun)
	return report, nil
}

// Recent returns a report that is not older than maxAge, and not older than the last change that went through this LVM.
// Changes by other programs may not be in it yet. The caller must not change what it gets.
func (l *LVM) Recent(ctx context.Context, maxAge time.Duration) (*Report, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	if report := l.kept(maxAge); report != nil {
		return report, nil
	}
	return l.Report(ctx)
}

func (l *LVM) kept(maxAge time.Duration) *Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recent == nil || l.now().Sub(l.recentAt) > maxAge {
		return nil
	}
	return l.recent
}

// keep stores a report unless a change began or ended since it was started: it may show either state.
func (l *LVM) keep(report *Report, begun uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == begun {
		l.recent, l.recentAt = report, l.now()
	}
}

func (l *LVM) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.recent = nil
}

// change runs one command that changes something. A caller that gives up before it began stops it; after that only the
// time limit does, since a half-done change is worse than a late one.
func (l *LVM) change(ctx context.Context, object string, args ...string) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if err := ctx.Err(); err != nil {
		return classify(object, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	l.forget()
	defer l.forget()
	_, err := l.runner.Run(ctx, program, args...)
	return classify(object, err)
}

// ignore returns nil for an error that wraps one of the sentinels.
func ignore(err error, sentinels ...error) error {
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return nil
		}
	}
	return err
}
