package lvm

import (
	"context"
	"fmt"
	"time"
)

// flight is one process that reads the report. All callers that wait for it share the result.
type flight struct {
	// begun is the value of LVM.changes when the process started.
	begun  uint64
	done   chan struct{}
	report *Report
	err    error
}

// Report reads a new report with a process that starts after the call. Several callers can share one process. The
// caller must not modify the report.
func (l *LVM) Report(ctx context.Context) (*Report, error) {
	return l.await(ctx, l.fresh())
}

// Recent returns a report that is not older than maxAge and includes the last change that this LVM made. It may not
// yet include changes by other programs. The caller must not modify the report.
func (l *LVM) Recent(ctx context.Context, maxAge time.Duration) (*Report, error) {
	if report := l.kept(maxAge); report != nil {
		return report, nil
	}
	return l.await(ctx, l.joined())
}

// fresh returns a flight whose process starts after the call. Only one process runs at a time, so that at most one
// report can hang.
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

// joined returns the running flight, or a new one if the running flight may not include the last change.
func (l *LVM) joined() *flight {
	l.mu.Lock()
	if f := l.running; f != nil && f.begun == l.changes {
		l.mu.Unlock()
		return f
	}
	l.mu.Unlock()
	return l.fresh()
}

// start starts the process of a flight. It does not depend on the contexts of the callers that wait. The caller holds
// mu.
func (l *LVM) start(f *flight) {
	f.begun = l.changes
	go func() {
		f.report, f.err = l.read()
		l.land(f)
	}()
}

// maxReads is how often a report is read while devices appear that are built on logical volumes.
const maxReads = 3

func (l *LVM) read() (*Report, error) {
	l.findSilent()
	var guest string
	for range maxReads {
		report, err := l.readOnce()
		if err != nil {
			return nil, err
		}
		if guest, err = l.appeared(report); err != nil {
			return nil, fmt.Errorf("%s: %w", theReport, err)
		}
		if guest == "" {
			return report, nil
		}
	}
	return nil, fmt.Errorf("%s: device %s, which is built on a logical volume, appeared while LVM read: %w", theReport,
		guest, ErrBusy)
}

func (l *LVM) readOnce() (*Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	args := reportArguments()
	if l.locksAreHeld() {
		args = append(args, "--nolocking")
	}
	out, err := l.execute(ctx, args...)
	if err != nil {
		return nil, classify(theReport, err)
	}
	return decodeReport(out)
}

// locksAreHeld returns true if a command of this process holds a lock of LVM for long. A report without locks may
// show the volume group of this command in an intermediate state. No other change of that group starts before the
// command has ended, and such a report is not cached.
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

// theReport is the name of the report in error messages.
const theReport = "read the volume groups of the node"

// land caches a report and starts the next flight. It does not cache the report if a change ran since the process
// started, because the report may show the state before or after that change.
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

// awaitTimeout is how long a caller waits for a report. It includes the report that runs before its own.
const awaitTimeout = 2 * readTimeout

func (l *LVM) await(ctx context.Context, f *flight) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	select {
	case <-f.done:
		return f.report, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: an earlier read is still running: %w: %s", theReport, ctx.Err(), lockHint)
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
