package copies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
)

const size = 4 << 20

// memoryDevice is a device in memory.
type memoryDevice struct {
	content []byte
	closed  bool
	failing error
	// sector is the size of the logical sectors, if it is not 512.
	sector    uint64
	sectorErr error
}

func (m *memoryDevice) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(m.content).ReadAt(p, at)
}

func (m *memoryDevice) WriteAt(p []byte, at int64) (int, error) {
	if m.failing != nil {
		return 0, m.failing
	}
	return copy(m.content[at:], p), nil
}

func (m *memoryDevice) Zero(offset, length uint64) error {
	clear(m.content[offset : offset+length])
	return nil
}

func (m *memoryDevice) Discard(offset, length uint64) error { return m.Zero(offset, length) }

func (m *memoryDevice) Flush() error { return nil }

func (m *memoryDevice) SectorSize() (uint64, error) { return max(512, m.sector), m.sectorErr }

func (m *memoryDevice) Close() error {
	m.closed = true
	return nil
}

// source sends content. sums is what it sends the checksums of. hold delays the data until it is closed.
type source struct {
	content, sums []byte
	// sector is the largest logical sector with which the content can be used.
	sector uint64
	hold   chan struct{}
	err    error

	mu   sync.Mutex
	from []uint64
	// baseSize is the size of the base in the answers. changed are the parts that are sent if a base is requested.
	baseSize, allocated uint64
	changed             []changedblocks.Range
	requests            []Request
}

func (s *source) Data(ctx context.Context, r Request) (*Stream, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.mu.Lock()
	s.from = append(s.from, r.From)
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	if r.Target != "object" {
		return nil, fmt.Errorf("target is %q", r.Target)
	}
	return s.stream(ctx, s.content, r, sendData)
}

func (s *source) Sums(ctx context.Context, r Request) (*Stream, error) {
	r.From = 0
	return s.stream(ctx, s.sums, r, sendSums)
}

// ranges sends the changed parts if a base is requested.
func (s *source) ranges(r Request) ranges {
	if r.Base == "" {
		return whole(uint64(len(s.content)))
	}
	return func(_ context.Context, _ uint64, yield func(changedblocks.Range, error) bool) {
		for _, part := range s.changed {
			if !yield(part, nil) {
				return
			}
		}
	}
}

func (s *source) stream(ctx context.Context, content []byte, r Request,
	send func(context.Context, io.Writer, *opened) error) (*Stream, error) {
	reader, writer := io.Pipe()
	go func() {
		if s.hold != nil {
			select {
			case <-s.hold:
			case <-ctx.Done():
			}
		}
		writer.CloseWithError(send(ctx, writer, &opened{description: description{Size: uint64(len(content))},
			device: bytes.NewReader(content), ranges: s.ranges(r), from: r.From}))
	}()
	return &Stream{ReadCloser: reader, description: description{Size: uint64(len(content)), BaseSize: s.baseSize,
		Allocated: s.allocated, MaxSector: s.sector, Content: []string{"lvms.formatted=xfs"}}}, nil
}

func newSource() *source {
	content := bytes.Repeat([]byte("data"), size/4)
	return &source{content: content, sums: content}
}

// newCopier returns a Copier whose target is a device.
func newCopier(t *testing.T, m *memoryDevice) *Copier {
	c := New(t.Context())
	c.open = func(blockdevice.Identity) (device, error) { return m, nil }
	return c
}

func target() Target {
	return Target{Key: "vg1/a", Name: "vg1/a", Object: "object",
		Device: blockdevice.Identity{Path: "/dev/vg1/a", Number: "253:1", Size: size}, Round: Round{Only: true}}
}

// records is a Record.
type records struct{ done []uint64 }

func (r *records) save(_ context.Context, done uint64) error {
	r.done = append(r.done, done)
	return nil
}

func TestAVolumeIsCopiedAndCompared(t *testing.T) {
	m := &memoryDevice{content: bytes.Repeat([]byte{7}, size)}
	s := newSource()
	var saved records
	got, err := newCopier(t, m).Copy(t.Context(), s, target(), saved.save)
	if err != nil {
		t.Fatal(err)
	}
	expect.Equal(t, "Finished", got.Finished, true)
	expect.Equal(t, "Copied", got.Copied, size)
	expect.Equal(t, "Compared", got.Compared, size)
	expect.Equal(t, "Size", got.Size, size)
	expect.Slice(t, "Content", got.Content, []string{"lvms.formatted=xfs"})
	if !bytes.Equal(m.content, s.content) || !m.closed || len(saved.done) > 0 {
		t.Errorf("closed %v, saved %v: a small volume is copied without a record", m.closed, saved.done)
	}
}

// TestProgressIsRecorded after each recordEvery bytes, and at the end if much was received since the last time.
func TestProgressIsRecorded(t *testing.T) {
	c := newCopier(t, &memoryDevice{content: make([]byte, size)})
	c.recordEvery = size / 2
	var saved records
	if _, err := c.Copy(t.Context(), newSource(), target(), saved.save); err != nil {
		t.Fatal(err)
	}
	if len(saved.done) == 0 || saved.done[len(saved.done)-1] != size || !slices.IsSorted(saved.done) {
		t.Errorf("saved %v", saved.done)
	}
}

// TestACopyThatWasCopiedBeforeIsCompared: an agent was killed after it had recorded the end.
func TestACopyThatWasCopiedBeforeIsCompared(t *testing.T) {
	s := newSource()
	m := &memoryDevice{content: bytes.Clone(s.content)}
	again := target()
	again.Done = size
	got, err := newCopier(t, m).Copy(t.Context(), s, again, (&records{}).save)
	if err != nil || !got.Finished || len(got.Content) != 1 || !slices.Equal(s.from, []uint64{size}) {
		t.Errorf("%+v, %v, asked for %v", got, err, s.from)
	}
}

func TestACopyThatFails(t *testing.T) {
	broken := errors.New("connection reset by peer")
	for name, tt := range map[string]struct {
		change func(s *source, m *memoryDevice, c *Copier, target *Target)
		want   error
	}{
		"the source is gone": {func(s *source, _ *memoryDevice, _ *Copier, _ *Target) { s.err = ErrGone },
			ErrGone},
		"no connection": {func(s *source, _ *memoryDevice, _ *Copier, _ *Target) { s.err = broken }, broken},
		"larger sectors": {func(s *source, m *memoryDevice, _ *Copier, _ *Target) { s.sector, m.sector = 512, 4096 },
			ErrUnsuitable},
		"unknown sectors": {func(s *source, m *memoryDevice, _ *Copier, _ *Target) {
			s.sector, m.sectorErr = 512, broken
		}, broken},
		"the target is smaller": {func(_ *source, _ *memoryDevice, _ *Copier, t *Target) { t.Device.Size = size / 2 },
			ErrUnsuitable},
		"the data differs": {func(s *source, _ *memoryDevice, _ *Copier, _ *Target) {
			s.sums = bytes.Repeat([]byte("tada"), size/4)
		}, ErrDiffers},
		"the pool is full": {func(_ *source, m *memoryDevice, _ *Copier, _ *Target) { m.failing = unix.ENOSPC }, unix.ENOSPC},
		"in use": {func(_ *source, _ *memoryDevice, c *Copier, _ *Target) {
			c.open = func(blockdevice.Identity) (device, error) { return nil, unix.EBUSY }
		}, unix.EBUSY},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			m := &memoryDevice{content: make([]byte, size)}
			c := newCopier(t, m)
			to := target()
			tt.change(s, m, c, &to)
			got, err := c.Copy(t.Context(), s, to, (&records{}).save)
			if !errors.Is(err, tt.want) || got.Finished {
				t.Errorf("%+v, %v, want %v", got, err, tt.want)
			}
			if len(c.running) > 0 {
				t.Error("it still runs")
			}
		})
	}
}

// TestACopyContinuesInTheBackground: a second call waits for the same copy.
func TestACopyContinuesInTheBackground(t *testing.T) {
	m := &memoryDevice{content: make([]byte, size)}
	s := newSource()
	s.hold = make(chan struct{})
	c := newCopier(t, m)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if got, err := c.Copy(short, s, target(), (&records{}).save); err != nil || got.Finished || c.running["vg1/a"] == nil {
		t.Fatalf("%+v, %v, want a copy that runs", got, err)
	}
	close(s.hold)
	if got, err := c.Copy(t.Context(), s, target(), (&records{}).save); err != nil || !got.Finished {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(s.from) != 1 {
		t.Errorf("the data was requested from %v", s.from)
	}
}

// TestTheEndOfACopyIsReported: also of one that fails, if no call waits for it. The next call gets the result.
func TestTheEndOfACopyIsReported(t *testing.T) {
	for name, failure := range map[string]error{"copied": nil, "the data differs": ErrDiffers} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			s.hold = make(chan struct{})
			if failure != nil {
				s.sums = bytes.Repeat([]byte("tada"), size/4)
			}
			c := newCopier(t, &memoryDevice{content: make([]byte, size)})
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if got, err := c.Copy(short, s, target(), (&records{}).save); err != nil || got.Finished {
				t.Fatalf("%+v, %v, want a copy that runs", got, err)
			}
			if len(c.Ended()) > 0 {
				t.Error("the end is reported before it")
			}
			close(s.hold)
			if got := (<-c.Ended()).Object.GetName(); got != "object" {
				t.Errorf("the end of %q is reported", got)
			}
			got, err := c.Copy(t.Context(), s, target(), (&records{}).save)
			if !errors.Is(err, failure) || got.Finished != (failure == nil) {
				t.Errorf("%+v, %v, want %v", got, err, failure)
			}
			if _, err := c.Copy(t.Context(), s, target(), (&records{}).save); !errors.Is(err, failure) {
				t.Errorf("%v, want %v", err, failure)
			}
			if len(c.Ended()) > 0 {
				t.Error("the end is reported of a copy that a call waited for")
			}
		})
	}
}

func TestACopyIsStopped(t *testing.T) {
	m := &memoryDevice{content: make([]byte, size)}
	s := newSource()
	s.hold = make(chan struct{})
	c := newCopier(t, m)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Copy(short, s, target(), (&records{}).save); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Stop(t.Context(), "vg1/a"); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.running) > 0 || m.content[0] != 0 {
		t.Error("the copy still runs, or has written")
	}
}

// TestARecordThatCannotBeWritten: the copy fails, so that nothing counts as done that is not recorded.
func TestARecordThatCannotBeWritten(t *testing.T) {
	refused := errors.New("the volume group is locked")
	c := newCopier(t, &memoryDevice{content: make([]byte, size)})
	c.recordEvery = size
	got, err := c.Copy(t.Context(), newSource(), target(),
		func(context.Context, uint64) error { return refused })
	if !errors.Is(err, refused) || got.Finished {
		t.Errorf("%+v, %v", got, err)
	}
}

// blocking is a Source whose answer takes some time, and then is an error.
type blocking func(ctx context.Context) error

func (b blocking) Data(ctx context.Context, _ Request) (*Stream, error) { return nil, b(ctx) }

func (b blocking) Sums(ctx context.Context, _ Request) (*Stream, error) { return nil, b(ctx) }

// of copies to the target with a key.
func (b blocking) of(ctx context.Context, c *Copier, key string) (Progress, error) {
	to := target()
	to.Key = key
	return c.Copy(ctx, b, to, (&records{}).save)
}

// withoutData returns a Copier that opens a device for each target.
func withoutData(ctx context.Context) *Copier {
	c := New(ctx)
	c.open = func(blockdevice.Identity) (device, error) { return &memoryDevice{}, nil }
	return c
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestFewVolumesAreCopiedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withoutData(t.Context())
		var mu sync.Mutex
		running, most := 0, 0
		count := func(change int) {
			mu.Lock()
			defer mu.Unlock()
			running += change
			most = max(most, running)
		}
		slow := blocking(func(context.Context) error {
			count(1)
			defer count(-1)
			time.Sleep(time.Minute)
			return ErrGone
		})
		keys := []string{"a", "b", "c", "d", "e"}
		for _, key := range keys {
			if _, err := slow.of(canceled(t), c, key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		for _, key := range keys {
			if got, err := slow.of(t.Context(), c, key); !errors.Is(err, ErrGone) || got.Took > time.Minute {
				t.Errorf("%s: %+v, %v", key, got, err)
			}
		}
		if most != atOnce {
			t.Errorf("%d volumes were copied at once, want %d", most, atOnce)
		}
	})
}

// TestACopyThatDoesNotStop is waited for, and one that has not begun stops.
func TestACopyThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withoutData(t.Context())
		slow := blocking(func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		for _, key := range []string{"a", "b", "waiting"} {
			_, _ = slow.of(canceled(t), c, key)
			synctest.Wait()
		}
		if err := c.Stop(canceled(t), "a"); !errors.Is(err, context.Canceled) || c.running["a"] == nil {
			t.Errorf("a copy that does not end: %v", err)
		}
		for _, key := range []string{"waiting", "a", "b"} {
			if err := c.Stop(t.Context(), key); err != nil || c.running[key] != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

func TestCopiesEndWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program, end := context.WithCancel(t.Context())
		c := withoutData(program)
		go func() {
			time.Sleep(time.Minute)
			end()
		}()
		wait := blocking(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if got, err := wait.of(t.Context(), c, "a"); got.Finished || !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
