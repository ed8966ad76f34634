package lvmexec

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
)

// reports is the last report, the process that reads one, and the changes since.
type reports struct {
	now func() time.Time
	// read reads a report.
	read func() (*lvm.Report, error)

	mu sync.Mutex
	// changes is the number of changes that began or ended. inProgress is the number of those that have not ended.
	changes    uint64
	inProgress int
	recent     *lvm.Report
	recentAt   time.Time
	// running is the report that is being read. next starts when running ends.
	running, next *flight
}

// flight is one process that reads the report. All callers that wait for it share the result.
type flight struct {
	// begun is the value of reports.changes when the process started.
	begun  uint64
	done   chan struct{}
	report *lvm.Report
	err    error
}

// Report reads a new report with a process that starts after the call. Several callers can share one process. The
// caller must not modify the report.
func (l *LVM) Report(ctx context.Context) (*lvm.Report, error) {
	return l.reports.fresh().await(ctx)
}

// Recent returns a report that is not older than maxAge and includes the last change that this LVM made. It may not
// yet include changes by other programs. The caller must not modify the report.
func (l *LVM) Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error) {
	if report := l.reports.kept(maxAge); report != nil {
		return report, nil
	}
	return l.reports.joined().await(ctx)
}

// fresh returns a flight whose process starts after the call. Only one process runs at a time, so that at most one
// report can hang.
func (r *reports) fresh() *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running = &flight{done: make(chan struct{})}
		r.start(r.running)
		return r.running
	}
	if r.next == nil {
		r.next = &flight{done: make(chan struct{})}
	}
	return r.next
}

// joined returns the running flight, or a new one if the running flight may not include the last change.
func (r *reports) joined() *flight {
	r.mu.Lock()
	if f := r.running; f != nil && f.begun == r.changes {
		r.mu.Unlock()
		return f
	}
	r.mu.Unlock()
	return r.fresh()
}

// start starts the process of a flight. It does not depend on the contexts of the callers that wait. The caller holds
// mu.
func (r *reports) start(f *flight) {
	f.begun = r.changes
	go func() {
		f.report, f.err = r.read()
		r.land(f)
	}()
}

// maxReads is how often a report is read while devices appear that are built on logical volumes.
const maxReads = 3

func (l *LVM) read() (*lvm.Report, error) {
	l.executor.findSilent()
	var guest string
	for range maxReads {
		report, err := l.executor.report(l.slots.locksAreHeld())
		if err != nil {
			return nil, err
		}
		if guest, err = l.executor.appeared(report); err != nil {
			return nil, fmt.Errorf("%s: %w", theReport, err)
		}
		if guest == "" {
			l.executor.remember(report)
			l.flusher.remember(report)
			return report, nil
		}
	}
	return nil, fmt.Errorf("%s: device %s, which is built on a logical volume, appeared while LVM read: %w", theReport,
		guest, lvm.ErrBusy)
}

// report reads a report once, without waiting for LVM's locks if they are held for long.
func (x *executor) report(locksAreHeld bool) (*lvm.Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	args := output.ReportArguments()
	if locksAreHeld {
		args = append(args, "--nolocking")
	}
	out, err := x.execute(ctx, args...)
	if err != nil {
		return nil, output.Classify(theReport, err)
	}
	return output.DecodeReport(out)
}

// theReport is the name of the report in error messages.
const theReport = "read the volume groups of the node"

// land caches a report and starts the next flight. It does not cache the report if a change ran since the process
// started, because the report may show the state before or after that change.
func (r *reports) land(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.err == nil && r.changes == f.begun && r.inProgress == 0 {
		r.recent = f.report
		r.recentAt = r.now()
	}
	close(f.done)
	r.running = r.next
	r.next = nil
	if r.running != nil {
		r.start(r.running)
	}
}

// awaitTimeout is how long a caller waits for a report. It includes the report that runs before its own.
const awaitTimeout = 2 * readTimeout

func (f *flight) await(ctx context.Context) (*lvm.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	select {
	case <-f.done:
		return f.report, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: an earlier read is still running: %w: %s", theReport, ctx.Err(), output.LockHint)
	}
}

func (r *reports) kept(maxAge time.Duration) *lvm.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent == nil || r.now().Sub(r.recentAt) > maxAge {
		return nil
	}
	return r.recent
}

// Changes returns the number of changes that have begun or ended, and whether one is running.
func (l *LVM) Changes() (number uint64, running bool) {
	l.reports.mu.Lock()
	defer l.reports.mu.Unlock()
	return l.reports.changes, l.reports.inProgress > 0
}

// begin records that a change runs. Until the change ends, an older cached report can be as correct as a new one.
func (r *reports) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.inProgress++
}

// end records that a change has ended. It applies the effect to the cached report, or drops the report if the effect
// is not known.
func (r *reports) end(vg string, e effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.inProgress--
	if e == nil {
		r.recent = nil
		return
	}
	r.recent = amended(r.recent, vg, e)
}
