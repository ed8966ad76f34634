package lvm

import (
	"context"
	"fmt"
	"time"
)

// flight is one process that reads the report, for all who wait for it.
type flight struct {
	// begun is the number of changes that had begun or ended when the process was started.
	begun  uint64
	done   chan struct{}
	report *Report
	err    error
}

// Report reads everything again, with a process that is started after the call; several callers share one. The caller
// must not change what it gets.
func (l *LVM) Report(ctx context.Context) (*Report, error) {
	return l.await(ctx, l.fresh())
}

// Recent returns a report that is not older than maxAge, and not older than the last change that went through this LVM.
// Changes by other programs may not be in it yet. The caller must not change what it gets.
func (l *LVM) Recent(ctx context.Context, maxAge time.Duration) (*Report, error) {
	if report := l.kept(maxAge); report != nil {
		return report, nil
	}
	return l.await(ctx, l.joined())
}

// fresh returns a flight whose process has not been started before the call. There is at most one process at a time, so
// that a report that hangs does not have others hang beside it.
func (l *LVM) fresh() *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		l.running = &flight{done: make(chan struct{})}
		l.start(l.running)
		return l.running
	}
	if l.next == nil {
		l.next = &flight{done: make(chan struct{})}
	}
	return l.next
}

// joined returns the flight on its way, unless it may not show the last change.
func (l *LVM) joined() *flight {
	l.mu.Lock()
	if f := l.running; f != nil && f.begun == l.changes {
		l.mu.Unlock()
		return f
	}
	l.mu.Unlock()
	return l.fresh()
}

// start reads for all who wait, whoever of them gives up. The caller holds mu.
func (l *LVM) start(f *flight) {
	f.begun = l.changes
	go func() {
		f.report, f.err = l.read()
		l.land(f)
	}()
}

func (l *LVM) read() (*Report, error) {
	if err := l.updateFilter(); err != nil {
		return nil, fmt.Errorf("%s: %w", theReport, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	args := reportArguments(l.currentFilter())
	if l.locksAreHeld() {
		args = append(args, "--nolocking")
	}
	out, err := l.runner.Run(ctx, program, args...)
	if err != nil {
		return nil, classify(theReport, err)
	}
	return decodeReport(out)
}

// locksAreHeld tells whether a command of this process keeps a lock of LVM for long. Without locks a report may show
// its volume group in between two states; nothing else is changed there before the command has ended, and no such
// report is kept.
func (l *LVM) locksAreHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.slots {
		if s.holdsLocks(l.now()) {
			return true
		}
	}
	return false
}

// theReport is what errors call it.
const theReport = "report of the node's volume groups"

// land keeps a report, unless a change ran since it was started: it may show either state. Then it starts the next.
func (l *LVM) land(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.err == nil {
		l.remember(f.report)
	}
	if f.err == nil && l.changes == f.begun && l.inProgress == 0 {
		l.recent, l.recentAt = f.report, l.now()
	}
	close(f.done)
	l.running = l.next
	l.next = nil
	if l.running != nil {
		l.start(l.running)
	}
}

// awaitTimeout is how long a caller waits for a report: for the one before, and for its own.
const awaitTimeout = 2 * readTimeout

func (l *LVM) await(ctx context.Context, f *flight) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	select {
	case <-f.done:
		return f.report, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: a process that reads it still runs: %w: %s", theReport, ctx.Err(), lockHint)
	}
}

func (l *LVM) kept(maxAge time.Duration) *Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recent == nil || l.now().Sub(l.recentAt) > maxAge {
		return nil
	}
	return l.recent
}
