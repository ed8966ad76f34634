// Package erase erases logical volumes before they are removed, so that no later volume shows their data. It
// overwrites them with zeros, or discards their blocks. It works in the background, in steps, and uses a device for at
// most half of the time, so that other volumes on the same disks stay usable.
package erase

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const (
	// step is how much one call to the kernel erases, in bytes.
	step = 64 << 20
	// stepTimeout is the time in which the kernel must erase one step.
	stepTimeout = 2 * time.Minute
	// recordEvery is after how many bytes the progress is recorded. Recording starts an LVM command.
	recordEvery = 16 << 30
	// atOnce is the number of volumes that are erased at the same time. The others wait.
	atOnce = 4
	// maxSilent is the maximum number of calls to the kernel that have not returned in time. Each blocks a thread.
	maxSilent = 8
)

// Target is a logical volume to erase.
type Target struct {
	// Key identifies the volume on the node. Name is VG/LV.
	Key, Name string
	// Path is the device file. It must be the device with this Number (MAJOR:MINOR) and Size in bytes.
	Path, Number string
	Size         int64
	// Done is how much is erased already, from the beginning, in bytes.
	Done int64
	// Discard: discard the blocks. Otherwise overwrite them with zeros.
	Discard bool
}

// Record saves how much of a volume is erased, in bytes. After a restart, the volume is erased from there on.
type Record func(ctx context.Context, done int64) error

// Progress is how much of a volume is erased, in bytes.
type Progress struct {
	Done, Size int64
	Finished   bool
}

// device is an open block device that no other program uses.
type device interface {
	// erase erases a range, in bytes.
	erase(start, length int64, discard bool) error
	// flush writes the write cache of the device to the medium.
	flush() error
	close() error
}

// Eraser erases logical volumes. It is safe for concurrent use.
type Eraser struct {
	ctx   context.Context //nolint:containedctx // a volume is erased for longer than a call
	open  func(Target) (device, error)
	slots chan struct{}
	calls *bounded.Calls

	mu   sync.Mutex
	jobs map[string]*job
}

// job erases one volume.
type job struct {
	target Target
	record Record
	cancel context.CancelFunc
	// ended is closed when the job has ended. err is its result then.
	ended chan struct{}
	err   error

	mu   sync.Mutex
	done int64
}

// New returns an Eraser. It stops to erase when ctx ends.
func New(ctx context.Context) *Eraser {
	return &Eraser{ctx: ctx, open: openDevice, slots: make(chan struct{}, atOnce), jobs: map[string]*job{},
		calls: bounded.New(stepTimeout, maxSilent)}
}

// Running returns true if a volume is being erased, by the key of its target.
func (e *Eraser) Running(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.jobs[key] != nil
}

// Erase begins to erase a volume, or continues to, and waits until ctx ends. It returns the progress, or the error that
// ended the work. The next call begins again, from the Done of its target. Before the first byte is erased, and at
// intervals, it calls record.
func (e *Eraser) Erase(ctx context.Context, target Target, record Record) (Progress, error) {
	j := e.start(target, record)
	defer liveness.Busy(ctx)()
	select {
	case <-j.ended:
		e.forget(j)
		return j.progress(j.err == nil), j.err
	case <-ctx.Done():
		return j.progress(false), nil
	}
}

// Stop stops to erase a volume, and waits until its device is closed, or until ctx ends. It does nothing if the volume
// is not being erased.
func (e *Eraser) Stop(ctx context.Context, key string) error {
	e.mu.Lock()
	j := e.jobs[key]
	e.mu.Unlock()
	if j == nil {
		return nil
	}
	j.cancel()
	defer liveness.Busy(ctx)()
	select {
	case <-j.ended:
		e.forget(j)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("logical volume %s is still being erased: %w", j.target.Name, ctx.Err())
	}
}

func (e *Eraser) start(target Target, record Record) *job {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.jobs[target.Key]; j != nil {
		return j
	}
	ctx, cancel := context.WithCancel(e.ctx)
	j := &job{target: target, record: record, cancel: cancel, ended: make(chan struct{}), done: target.Done}
	e.jobs[target.Key] = j
	go func() {
		defer cancel()
		defer close(j.ended)
		j.err = e.run(ctx, j)
	}()
	return j
}

func (e *Eraser) forget(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.jobs[j.target.Key] == j {
		delete(e.jobs, j.target.Key)
	}
}

// run erases a volume when fewer than atOnce others are being erased.
func (e *Eraser) run(ctx context.Context, j *job) error {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := j.record(ctx, j.done); err != nil {
		return fmt.Errorf("record that logical volume %s is being erased: %w", j.target.Name, err)
	}
	d, err := e.open(j.target)
	if err != nil {
		return fmt.Errorf("erase logical volume %s: %w", j.target.Name, err)
	}
	err = e.steps(ctx, j, d)
	if closing := d.close(); err == nil && closing != nil {
		err = fmt.Errorf("erase logical volume %s: close %s: %w", j.target.Name, j.target.Path, closing)
	}
	return err
}

func (e *Eraser) steps(ctx context.Context, j *job, d device) error {
	recorded := j.done
	for at := j.done; at < j.target.Size; {
		length := min(step, j.target.Size-at)
		began := time.Now()
		err := e.call(ctx, j, func() error { return d.erase(at, length, j.target.Discard) })
		if err != nil {
			return fmt.Errorf("erase logical volume %s: bytes %d to %d of %s: %w", j.target.Name, at, at+length-1,
				j.target.Path, err)
		}
		at += length
		j.set(at)
		if at-recorded >= recordEvery && at < j.target.Size {
			if err := e.save(ctx, j, d, at); err != nil {
				return err
			}
			recorded = at
		}
		if at == j.target.Size {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Since(began)):
		}
	}
	return e.flush(ctx, j, d)
}

// save records the progress, after what was erased is on the medium.
func (e *Eraser) save(ctx context.Context, j *job, d device, done int64) error {
	if err := e.flush(ctx, j, d); err != nil {
		return err
	}
	if err := j.record(ctx, done); err != nil {
		return fmt.Errorf("record how much of logical volume %s is erased: %w", j.target.Name, err)
	}
	return nil
}

func (e *Eraser) flush(ctx context.Context, j *job, d device) error {
	if err := e.call(ctx, j, d.flush); err != nil {
		return fmt.Errorf("erase logical volume %s: flush %s: %w", j.target.Name, j.target.Path, err)
	}
	return nil
}

// call makes a call to the kernel, and waits for it even if ctx ends: until it returns, the device is open.
func (e *Eraser) call(ctx context.Context, j *job, f func() error) error {
	result, err := bounded.Do(context.WithoutCancel(ctx), e.calls, j.target.Number,
		func(context.Context) error { return f() })
	if err != nil {
		return err
	}
	return result
}

func (j *job) set(done int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done = done
}

func (j *job) progress(finished bool) Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Progress{Done: j.done, Size: j.target.Size, Finished: finished}
}
