// Package fsjobs trims, checks and repairs the file systems of volumes in the background.
package fsjobs

import (
	"context"
	"sync"
	"time"
)

// MinRetry is the minimum delay before a run that stopped is started again.
const MinRetry = time.Minute

// Runs are runs of work that can take hours, and so do not run in a reconcile: at most one at a time on the node. The
// last run of each volume group is kept with its progress.
type Runs[P any] struct {
	mu   sync.Mutex
	list map[string]*Run[P]
}

// Run is one Run. Runs.mu guards its fields.
type Run[P any] struct {
	progress P
	// key identifies the request for the run, for example an approved plan.
	key          string
	running      bool
	err          error
	cancel       context.CancelFunc
	begun, ended time.Time
}

// NewRuns returns no runs.
func NewRuns[P any]() *Runs[P] { return &Runs[P]{list: map[string]*Run[P]{}} }

// runState is the state of a run at a moment.
type runState[P any] struct {
	progress P
	running  bool
	err      error
	// other is a volume group with a run for which this one must wait, or "". Then the other fields are not set.
	other string
}

// Of returns the state Of the run Of a volume group for a request, or nil if none was started. It cancels and forgets a
// run for another request, and forgets one that stopped with an error when it is due again. clone copies the progress.
func (all *Runs[P]) Of(group, key string, now time.Time, clone func(P) P) *runState[P] {
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.list[group]
	if r != nil && r.key != key {
		r.cancel()
		if r.running {
			return &runState[P]{other: group}
		}
		delete(all.list, group)
		r = nil
	}
	if r != nil && r.err != nil && now.Sub(r.ended) > max(MinRetry, r.ended.Sub(r.begun)) {
		delete(all.list, group)
		r = nil
	}
	if r != nil {
		return &runState[P]{progress: clone(r.progress), running: r.running, err: r.err}
	}
	if key == "" {
		return nil
	}
	for name, other := range all.list {
		if other.running {
			return &runState[P]{other: name}
		}
	}
	return nil
}

// Start runs work in the background. The context of work outlives ctx, and ends when the request does.
func (all *Runs[P]) Start(ctx context.Context, group string, r *Run[P], now func() time.Time, done func(),
	work func(context.Context) error) {
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.running, r.begun = true, now()
	all.set(group, r)
	go func() {
		defer r.cancel()
		err := work(ctx)
		all.end(r, err, now())
		done()
	}()
}

func (all *Runs[P]) set(group string, r *Run[P]) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list[group] = r
}

// IsRunning returns true if a run of a volume group has not ended.
func (all *Runs[P]) IsRunning(group string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.list[group]
	return r != nil && r.running
}

// forget forgets a run that has ended.
func (all *Runs[P]) forget(group string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if r := all.list[group]; r != nil && !r.running {
		delete(all.list, group)
	}
}

// update changes the progress of a run.
func (all *Runs[P]) update(r *Run[P], change func(p *P)) {
	all.mu.Lock()
	defer all.mu.Unlock()
	change(&r.progress)
}

func (all *Runs[P]) end(r *Run[P], err error, now time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	r.running, r.err, r.ended = false, err, now
}
