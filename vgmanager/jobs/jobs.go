// Package jobs runs work in the background that takes longer than a call: one job for each key, and few at a time.
package jobs

import (
	"context"
	"fmt"
	"sync"
)

// Jobs are the jobs that run or have ended and were not asked for since. It is safe for concurrent use.
type Jobs struct {
	ctx   context.Context //nolint:containedctx // a job runs for longer than a call
	slots chan struct{}

	mu   sync.Mutex
	open map[string]*job
}

type job struct {
	cancel context.CancelFunc
	// ended is closed when the job has ended. err is its result then.
	ended chan struct{}
	err   error
}

// New returns Jobs that run until ctx ends, atOnce at a time. The others wait.
func New(ctx context.Context, atOnce int) *Jobs {
	return &Jobs{ctx: ctx, slots: make(chan struct{}, atOnce), open: map[string]*job{}}
}

// Running returns true if there is a job with this key.
func (j *Jobs) Running(key string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open[key] != nil
}

// Do starts the job with this key if there is none, and waits for it until ctx ends. It returns whether the job has
// ended, and its error. The next call starts another one then.
func (j *Jobs) Do(ctx context.Context, key string, work func(ctx context.Context) error) (ended bool, err error) {
	current := j.start(key, work)
	select {
	case <-current.ended:
		j.forget(key, current)
		return true, current.err
	case <-ctx.Done():
		return false, nil
	}
}

// Stop cancels the job with this key, and waits until it has ended, or until ctx ends. It does nothing if there is
// none.
func (j *Jobs) Stop(ctx context.Context, key string) error {
	j.mu.Lock()
	current := j.open[key]
	j.mu.Unlock()
	if current == nil {
		return nil
	}
	current.cancel()
	select {
	case <-current.ended:
		j.forget(key, current)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("has not stopped yet: %w", ctx.Err())
	}
}

func (j *Jobs) start(key string, work func(ctx context.Context) error) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current := j.open[key]; current != nil {
		return current
	}
	ctx, cancel := context.WithCancel(j.ctx)
	started := &job{cancel: cancel, ended: make(chan struct{})}
	j.open[key] = started
	go func() {
		defer cancel()
		defer close(started.ended)
		started.err = j.run(ctx, work)
	}()
	return started
}

// run does the work when fewer than atOnce others run.
func (j *Jobs) run(ctx context.Context, work func(ctx context.Context) error) error {
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return work(ctx)
}

func (j *Jobs) forget(key string, ended *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open[key] == ended {
		delete(j.open, key)
	}
}
