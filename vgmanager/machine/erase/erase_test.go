package erase

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

// disk is a device whose calls take time.
type disk struct {
	mu      sync.Mutex
	takes   time.Duration
	failAt  int64 // the first byte of the step that fails, or -1
	erased  []int64
	flushed int
	open    bool
	flush_  error
}

func (d *disk) erase(start, length int64, _ bool) error {
	time.Sleep(d.takes)
	d.mu.Lock()
	defer d.mu.Unlock()
	if start == d.failAt {
		return errors.New("input/output error")
	}
	d.erased = append(d.erased, start, length)
	return nil
}

func (d *disk) flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushed++
	return d.flush_
}

func (d *disk) close() error {
	d.setOpen(false)
	return nil
}

func (d *disk) setOpen(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = open
}

func (d *disk) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// steps returns the start and length of each range that was erased.
func (d *disk) steps() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.erased)
}

// bench is an Eraser with disks by path, and what it recorded.
type bench struct {
	*Eraser
	disks    map[string]*disk
	mu       sync.Mutex
	recorded []int64
	refuse   error
}

func newBench(ctx context.Context, disks map[string]*disk) *bench {
	b := &bench{Eraser: New(ctx), disks: disks}
	b.open = func(t Target) (device, error) {
		d := b.disks[t.Path]
		if d == nil {
			return nil, errors.New("no such device")
		}
		if d.isOpen() {
			return nil, errors.New(t.Path + " is in use")
		}
		d.setOpen(true)
		return d, nil
	}
	return b
}

func (b *bench) record(_ context.Context, done int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		return b.refuse
	}
	b.recorded = append(b.recorded, done)
	return nil
}

func target(path string, size int64) Target {
	return Target{Key: path, Name: "vg1/" + path, Path: path, Number: "253:1", Size: size}
}

func TestAVolumeIsErasedInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: time.Second, failAt: -1}
		b := newBench(t.Context(), map[string]*disk{"a": d})
		begun := time.Now()
		got, err := b.Erase(t.Context(), target("a", 2*step+512), b.record)
		if want := (Progress{Done: 2*step + 512, Size: 2*step + 512, Finished: true}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if want := []int64{0, step, step, step, 2 * step, 512}; !slices.Equal(d.erased, want) {
			t.Errorf("erased %v, want %v", d.erased, want)
		}
		if !slices.Equal(b.recorded, []int64{0}) || d.flushed != 1 || d.open || b.Running("a") {
			t.Errorf("recorded %v, flushed %d times, open: %t", b.recorded, d.flushed, d.open)
		}
		// The device is used for half of the time.
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestErasingContinuesFromARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{failAt: -1}
		b := newBench(t.Context(), map[string]*disk{"a": d})
		one := target("a", 2*recordEvery+step)
		one.Done = step
		if got, err := b.Erase(t.Context(), one, b.record); err != nil || !got.Finished {
			t.Fatalf("got %+v, %v", got, err)
		}
		if want := []int64{step, recordEvery + step}; !slices.Equal(b.recorded, want) || d.erased[0] != step ||
			d.flushed != 2 {
			t.Errorf("recorded %v, want %v; began at %d, flushed %d times", b.recorded, want, d.erased[0], d.flushed)
		}
	})
}

func TestASecondCallWaitsForTheSameWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: time.Second, failAt: -1}
		b := newBench(t.Context(), map[string]*disk{"a": d})
		for n := range int64(3) {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			got, err := b.Erase(ctx, target("a", 3*step), b.record)
			cancel()
			if finished := n == 3; err != nil || got.Finished != finished || got.Done == 0 || !b.Running("a") {
				t.Errorf("call %d: got %+v, %v", n, got, err)
			}
		}
		got, err := b.Erase(t.Context(), target("a", 3*step), b.record)
		if err != nil || !got.Finished || len(d.erased) != 6 {
			t.Errorf("got %+v, %v, erased %v", got, err, d.erased)
		}
	})
}

func TestAVolumeThatCannotBeErased(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(b *bench, d *disk)
		want    string
		open    bool
	}{
		"a write fails": {func(_ *bench, d *disk) { d.failAt = step },
			"erase logical volume vg1/a: bytes 67108864 to 134217727 of a: input/output error", false},
		"a write takes too long": {func(_ *bench, d *disk) { d.takes = 2 * stepTimeout },
			"bytes 0 to 67108863 of a: has not answered since", false},
		"the cache is not written": {func(_ *bench, d *disk) { d.flush_ = errors.New("input/output error") },
			"flush a: input/output error", false},
		"nothing can be recorded": {func(b *bench, _ *disk) { b.refuse = errors.New("locked") },
			"record that logical volume vg1/a is being erased: locked", false},
		"another program uses it": {func(_ *bench, d *disk) { d.open = true }, "a is in use", true},
		"the device does not exist": {func(b *bench, _ *disk) { delete(b.disks, "a") },
			"erase logical volume vg1/a: no such device", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{failAt: -1}
				b := newBench(t.Context(), map[string]*disk{"a": d})
				tt.prepare(b, d)
				for range 2 {
					got, err := b.Erase(t.Context(), target("a", 3*step), b.record)
					if err == nil {
						t.Fatalf("got %+v, %v, want %q; open: %t", got, err, tt.want, d.isOpen())
					}
					expect.Contains(t, "Error()", err.Error(), tt.want)
					expect.Equal(t, "Finished", got.Finished, false)
					expect.Equal(t, "isOpen()", d.isOpen(), tt.open)
					expect.Equal(t, `Running("a")`, b.Running("a"), false)
				}
				if b.refuse != nil && len(d.erased) > 0 {
					t.Errorf("it was erased without a record: %v", d.erased)
				}
				time.Sleep(time.Hour) // until the calls that took too long have returned
			})
		})
	}
}

func TestErasingIsStopped(t *testing.T) {
	for name, stop := range map[string]func(b *bench, cancel context.CancelFunc) error{
		"by a caller": func(b *bench, _ context.CancelFunc) error {
			return errors.Join(b.Stop(context.Background(), "a"), b.Stop(context.Background(), "a"))
		},
		"with the process": func(_ *bench, cancel context.CancelFunc) error { cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				process, cancel := context.WithCancel(t.Context())
				defer cancel()
				d := &disk{takes: time.Second, failAt: -1}
				b := newBench(process, map[string]*disk{"a": d})
				ctx, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer end()
				if got, err := b.Erase(ctx, target("a", 10*step), b.record); err != nil || got.Finished {
					t.Fatalf("got %+v, %v", got, err)
				}
				if err := stop(b, cancel); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if d.isOpen() || len(d.steps()) > 2 {
					t.Errorf("open: %t, erased %v", d.isOpen(), d.steps())
				}
			})
		})
	}
}

func TestAStopThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: time.Minute, failAt: -1}
		b := newBench(t.Context(), map[string]*disk{"a": d})
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		_, err := b.Erase(ctx, target("a", 10*step), b.record)
		if stopping := b.Stop(ctx, "a"); err != nil || stopping == nil || !b.Running("a") {
			t.Errorf("got %v, %v", err, stopping)
		}
		if err := b.Stop(t.Context(), "a"); err != nil || d.isOpen() {
			t.Errorf("got %v, open: %t", err, d.isOpen())
		}
	})
}

func TestFewVolumesAreErasedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := map[string]*disk{}
		b := newBench(t.Context(), disks)
		for _, name := range strings.Split("abcdefghij", "") {
			disks[name] = &disk{takes: time.Second, failAt: -1}
		}
		done, end := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer end()
		var all sync.WaitGroup
		for name := range disks {
			one := target(name, 2*step)
			one.Number = name
			all.Go(func() { _, _ = b.Erase(done, one, b.record) })
		}
		all.Wait()
		open := 0
		for _, d := range disks {
			if d.isOpen() {
				open++
			}
		}
		if open != atOnce {
			t.Errorf("%d volumes are erased at once, want %d", open, atOnce)
		}
		for name := range disks {
			one := target(name, 2*step)
			if got, err := b.Erase(t.Context(), one, b.record); err != nil || !got.Finished {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	})
}
