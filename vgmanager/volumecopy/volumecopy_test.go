package volumecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/copystream"
)

// memory is a target in memory. Like a thin volume, it has chunks, which are provided by the first write; garbage is
// what the rest of such a chunk has then, and what all of a thick volume has.
type memory struct {
	content  []byte
	chunk    int
	garbage  byte
	provided []bool
	// left is how many more calls succeed.
	left int
}

var errPower = errors.New("power failure")

func newMemory(size, chunk int, garbage byte) *memory {
	m := &memory{content: make([]byte, size), chunk: chunk, garbage: garbage, left: 1 << 30}
	if chunk == 0 {
		m.fill(0, size)
		return m
	}
	m.provided = make([]bool, (size+chunk-1)/chunk)
	return m
}

func (m *memory) fill(from, to int) {
	copy(m.content[from:to], bytes.Repeat([]byte{m.garbage}, to-from))
}

func (m *memory) provide(offset, length int) {
	if m.chunk == 0 || length == 0 {
		return
	}
	for c := offset / m.chunk; c*m.chunk < offset+length; c++ {
		if !m.provided[c] {
			m.provided[c] = true
			m.fill(c*m.chunk, min((c+1)*m.chunk, len(m.content)))
		}
	}
}

func (m *memory) call() error {
	if m.left--; m.left < 0 {
		return errPower
	}
	return nil
}

func (m *memory) ReadAt(p []byte, offset int64) (int, error) {
	return bytes.NewReader(m.content).ReadAt(p, offset)
}

func (m *memory) WriteAt(p []byte, offset int64) (int, error) {
	if err := m.call(); err != nil {
		return 0, err
	}
	m.provide(int(offset), len(p))
	return copy(m.content[offset:], p), nil
}

func (m *memory) Zero(offset, length uint64) error {
	if err := m.call(); err != nil {
		return err
	}
	m.provide(int(offset), int(length))
	clear(m.content[offset : offset+length])
	return nil
}

func (m *memory) Discard(offset, length uint64) error {
	if err := m.call(); err != nil {
		return err
	}
	if offset%uint64(m.chunk) != 0 || length%uint64(m.chunk) != 0 {
		return fmt.Errorf("discard of %d bytes at %d, chunks have %d", length, offset, m.chunk)
	}
	for c := int(offset) / m.chunk; c*m.chunk < int(offset+length); c++ {
		m.provided[c] = false
	}
	clear(m.content[offset : offset+length])
	return nil
}

func (m *memory) Flush() error { return m.call() }

// volume is the content of a source with its allocated ranges.
type volume struct {
	content []byte
	ranges  []Range
}

func (v volume) all() Ranges {
	return func(_ context.Context, from uint64, yield func(Range, error) bool) {
		for _, r := range v.ranges {
			if (from == 0 || r.Offset+r.Length > from) && !yield(r, nil) {
				return
			}
		}
	}
}

func (v volume) source(from uint64) Source {
	return Source{Device: bytes.NewReader(v.content), Size: uint64(len(v.content)), Ranges: v.all(), From: from}
}

// newVolume returns a volume of chunks that are allocated or not. Some blocks of those that are have zeros only.
func newVolume(r *rand.Rand, size, chunk int) volume {
	v := volume{content: make([]byte, size)}
	for at := 0; at < size; at += chunk {
		if r.IntN(3) == 0 {
			continue
		}
		end := min(at+chunk, size)
		v.ranges = append(v.ranges, Range{Offset: uint64(at), Length: uint64(end - at)})
		for b := at; b < end; b += block {
			if r.IntN(3) > 0 {
				v.content[b+r.IntN(min(block, end-b))] = byte(1 + r.IntN(255))
			}
		}
	}
	return v
}

// change returns a later state of a volume, with what differs as ranges.
func (v volume) change(r *rand.Rand, chunk int) volume {
	after := volume{content: bytes.Clone(v.content)}
	for at := 0; at < len(v.content); at += chunk {
		end := min(at+chunk, len(v.content))
		switch r.IntN(4) {
		case 0:
			clear(after.content[at:end]) // It was discarded.
		case 1:
			after.content[at+r.IntN(end-at)] = byte(r.IntN(256))
		default:
			continue
		}
		after.ranges = append(after.ranges, Range{Offset: uint64(at), Length: uint64(end - at)})
	}
	return after
}

// copyTo copies a volume to a target, with a power failure after a few calls, again and again until it is done.
func copyTo(t *testing.T, r *rand.Rand, v volume, target Target, device *memory) {
	t.Helper()
	ctx := context.Background()
	target.Device = device
	target.Size = uint64(len(v.content))
	target.SaveInterval = 512 << 10
	target.Save = func(_ context.Context, offset uint64) error {
		target.From = offset
		return nil
	}
	for range 1000 {
		var wire bytes.Buffer
		if err := Send(ctx, &wire, v.source(target.From)); err != nil {
			t.Fatal(err)
		}
		device.left = 5 + r.IntN(60)
		err := Receive(ctx, &wire, target)
		device.left = 1 << 30
		if err == nil {
			return
		}
		if !errors.Is(err, errPower) {
			t.Fatal(err)
		}
	}
	t.Fatal("the copy does not end")
}

func verify(v volume, device io.ReaderAt) error {
	var wire bytes.Buffer
	if err := SendSums(context.Background(), &wire, v.source(0)); err != nil {
		return err
	}
	return Verify(context.Background(), &wire, device, uint64(len(v.content)), nil)
}

// TestACopyIsLikeItsSource copies volumes to each kind of target, with failures on the way.
func TestACopyIsLikeItsSource(t *testing.T) {
	for name, c := range map[string]struct {
		content Content
		chunk   int
		garbage byte
	}{
		"thick":                         {content: ContentUnknown, garbage: 7},
		"thin":                          {content: ContentZeros, chunk: 1 << 20},
		"thin, chunks not zeroed":       {content: ContentZeroChunks, chunk: 1 << 20, garbage: 7},
		"thin, small chunks not zeroed": {content: ContentZeroChunks, chunk: block, garbage: 7},
		"thin, chunks of 3 MiB":         {content: ContentZeroChunks, chunk: 3 << 20, garbage: 7},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				r := rand.New(rand.NewPCG(seed, 0))
				v := newVolume(r, 8<<20+block*r.IntN(20), []int{block, 192 << 10, 2 << 20}[seed%3])
				device := newMemory(len(v.content), c.chunk, c.garbage)
				copyTo(t, r, v, Target{Content: c.content, Chunk: uint64(c.chunk)}, device)
				if !bytes.Equal(device.content, v.content) {
					t.Fatalf("seed %d: the copy differs at %d", seed, firstDifference(device.content, v.content))
				}
				if err := verify(v, device); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if c.content != ContentZeroChunks {
					copyChange(t, r, v, device, c.chunk)
				}
			}
		})
	}
}

// copyChange copies what changed since the copy was made.
func copyChange(t *testing.T, r *rand.Rand, v volume, device *memory, chunk int) {
	t.Helper()
	after := v.change(r, 256<<10)
	copyTo(t, r, after, Target{Content: ContentBase, Chunk: uint64(chunk)}, device)
	if !bytes.Equal(device.content, after.content) {
		t.Fatalf("after the change, the copy differs at %d", firstDifference(device.content, after.content))
	}
	if err := verify(after, device); err != nil {
		t.Fatal(err)
	}
}

// TestAChangeInAPoolWithoutZeros is what ContentBase says about such a pool.
func TestAChangeInAPoolWithoutZeros(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		v := newVolume(r, 12<<20, 192<<10)
		device := newMemory(len(v.content), 1<<20, 7)
		copyTo(t, r, v, Target{Content: ContentUnknown}, device)
		copyChange(t, r, v, device, 0)
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// TestOnlyWhatIsAllocatedTakesSpace: a copy of a thin volume has no more chunks than its source has blocks.
func TestOnlyWhatIsAllocatedTakesSpace(t *testing.T) {
	v := volume{content: make([]byte, 64<<20), ranges: []Range{{Offset: 8 << 20, Length: 4 << 20}}}
	v.content[9<<20] = 1
	for _, content := range []Content{ContentZeros, ContentZeroChunks} {
		device := newMemory(len(v.content), 1<<20, 0)
		copyTo(t, rand.New(rand.NewPCG(1, 1)), v, Target{Content: content, Chunk: 1 << 20}, device)
		provided := 0
		for _, is := range device.provided {
			if is {
				provided++
			}
		}
		if provided != 1 {
			t.Errorf("content %d: %d chunks, want 1", content, provided)
		}
	}
}

func TestVerifyFindsEachDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	v := newVolume(r, 4<<20, 192<<10)
	device := newMemory(len(v.content), 0, 0)
	copy(device.content, v.content)
	for range 200 {
		allocated := v.ranges[r.IntN(len(v.ranges))]
		at := int(allocated.Offset) + r.IntN(int(allocated.Length))
		device.content[at] ^= 1
		if err := verify(v, device); !errors.Is(err, ErrDiffers) {
			t.Fatalf("%v, want ErrDiffers", err)
		}
		device.content[at] ^= 1
	}
}

// failing fails to read from an offset on.
type failing struct {
	io.ReaderAt
	from int64
}

var errMedium = errors.New("input/output error")

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > f.from {
		return 0, errMedium
	}
	return f.ReaderAt.ReadAt(p, at)
}

// TestASourceThatCannotBeReadIsNeverCopied: the stream has no end, so the target is not taken for a copy.
func TestASourceThatCannotBeReadIsNeverCopied(t *testing.T) {
	ctx := context.Background()
	v := volume{content: bytes.Repeat([]byte{1}, 8<<20), ranges: []Range{{Length: 8 << 20}}}
	source := v.source(0)
	source.Device = failing{ReaderAt: source.Device, from: 5 << 20}
	var wire bytes.Buffer
	if err := Send(ctx, &wire, source); !errors.Is(err, errMedium) {
		t.Fatalf("send: %v, want %v", err, errMedium)
	}
	saved := uint64(0)
	err := Receive(ctx, &wire, Target{Device: newMemory(8<<20, 0, 0), Size: 8 << 20,
		SaveInterval: 1 << 30, Save: func(_ context.Context, offset uint64) error { saved = offset; return nil }})
	if !errors.Is(err, copystream.ErrDamaged) || saved > 5<<20 {
		t.Fatalf("receive: %v, saved %d, want ErrDamaged", err, saved)
	}
	source.Ranges = func(_ context.Context, _ uint64, yield func(Range, error) bool) { yield(Range{}, errMedium) }
	if err := Send(ctx, io.Discard, source); !errors.Is(err, errMedium) {
		t.Errorf("ranges that cannot be read: %v", err)
	}
	if err := verify(v, failing{ReaderAt: newMemory(8<<20, 0, 1)}); !errors.Is(err, errMedium) ||
		errors.Is(err, ErrDiffers) {
		t.Errorf("verify: %v, want %v", err, errMedium)
	}
}

func TestRangesOutsideOfTheVolume(t *testing.T) {
	for _, r := range []Range{{Offset: 100, Length: 1 << 40}, {Offset: 1 << 40, Length: 1},
		{Offset: 1, Length: 1<<64 - 1}} {
		v := volume{content: make([]byte, 1<<20), ranges: []Range{r}}
		if err := Send(context.Background(), io.Discard, v.source(0)); err == nil {
			t.Errorf("range %+v: no error", r)
		}
	}
}

// TestAStreamThatAlwaysEndsEarly is received nevertheless: each time, what was written is saved, however little it is.
func TestAStreamThatAlwaysEndsEarly(t *testing.T) {
	v := volume{content: bytes.Repeat([]byte{1}, 8<<20), ranges: []Range{{Length: 3 << 20}, {Offset: 6 << 20, Length: 2 << 20}}}
	clear(v.content[3<<20 : 6<<20])
	for name, target := range map[string]Target{"thick": {Content: ContentUnknown},
		"thin, chunks not zeroed": {Content: ContentZeroChunks, Chunk: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			device := newMemory(len(v.content), int(target.Chunk), 7)
			target.Device, target.Size, target.SaveInterval = device, uint64(len(v.content)), 1<<30
			target.Save = func(_ context.Context, offset uint64) error {
				target.From = offset
				return nil
			}
			for attempt := 0; ; attempt++ {
				var wire bytes.Buffer
				if err := Send(t.Context(), &wire, v.source(target.From)); err != nil {
					t.Fatal(err)
				}
				err := Receive(t.Context(), io.LimitReader(&wire, 1200), target)
				if err == nil {
					break
				}
				if !errors.Is(err, copystream.ErrDamaged) || attempt > 1000 {
					t.Fatalf("attempt %d: %v", attempt, err)
				}
			}
			if err := verify(v, device); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAPoolWithoutRoom gets no more data, and the copy continues later from there. A thick target asks for none.
func TestAPoolWithoutRoom(t *testing.T) {
	const size = 64 << 20
	full := volume{content: bytes.Repeat([]byte{1}, size), ranges: []Range{{Length: size}}}
	empty := volume{content: make([]byte, size)}
	errRoom := errors.New("full")
	for name, c := range map[string]struct {
		v       volume
		content Content
	}{"data": {full, ContentZeros}, "zeros": {empty, ContentUnknown}} {
		t.Run(name, func(t *testing.T) {
			device := newMemory(size, 0, 0)
			saved, asked := uint64(0), 0
			target := Target{Device: device, Size: size, Content: c.content, SaveInterval: 1 << 30,
				Save: func(_ context.Context, offset uint64) error { saved = offset; return nil },
				Room: func(context.Context) error {
					if asked++; asked == 3 {
						return errRoom
					}
					return nil
				}}
			for _, want := range []struct {
				err   error
				saved uint64
				asked int
			}{{errRoom, 32 << 20, 3}, {nil, 32 << 20, 5}} {
				var wire bytes.Buffer
				if err := Send(t.Context(), &wire, c.v.source(target.From)); err != nil {
					t.Fatal(err)
				}
				if err := Receive(t.Context(), &wire, target); !errors.Is(err, want.err) {
					t.Fatalf("%v, want %v", err, want.err)
				}
				if saved != want.saved || asked != want.asked {
					t.Errorf("saved %d, asked %d times, want %+v", saved, asked, want)
				}
				target.From = saved
			}
			if err := verify(c.v, device); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnOffsetThatIsNotSaved: what could not be recorded is written again, and nothing counts as done.
func TestAnOffsetThatIsNotSaved(t *testing.T) {
	v := volume{content: bytes.Repeat([]byte{1}, 1<<20), ranges: []Range{{Length: 1 << 20}}}
	var wire bytes.Buffer
	if err := Send(context.Background(), &wire, v.source(0)); err != nil {
		t.Fatal(err)
	}
	err := Receive(context.Background(), &wire, Target{Device: newMemory(1<<20, 0, 0), Size: 1 << 20,
		Save: func(context.Context, uint64) error { return errMedium }})
	if !errors.Is(err, errMedium) {
		t.Fatalf("%v, want %v", err, errMedium)
	}
}

func TestACopyIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v := volume{content: make([]byte, 1<<20), ranges: []Range{{Length: 1 << 20}}}
	if err := Send(ctx, io.Discard, v.source(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("send: %v", err)
	}
	if err := Receive(ctx, &bytes.Buffer{}, Target{Size: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("receive: %v", err)
	}
	if err := Verify(ctx, &bytes.Buffer{}, bytes.NewReader(nil), 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("verify: %v", err)
	}
}
