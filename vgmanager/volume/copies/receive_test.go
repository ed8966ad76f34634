package copies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
)

// chunked is a target in chunked. Like a thin volume, it has chunks, which are provided by the first write; garbage is
// what the rest of such a chunk has then, and what all of a thick volume has.
type chunked struct {
	content  []byte
	chunk    int
	garbage  byte
	provided []bool
	// left is how many more calls succeed.
	left int
}

var errPower = errors.New("power failure")

func newChunked(size, chunk int, garbage byte) *chunked {
	m := &chunked{content: make([]byte, size), chunk: chunk, garbage: garbage, left: 1 << 30}
	if chunk == 0 {
		m.fill(0, size)
		return m
	}
	m.provided = make([]bool, (size+chunk-1)/chunk)
	return m
}

func (m *chunked) fill(from, to int) {
	copy(m.content[from:to], bytes.Repeat([]byte{m.garbage}, to-from))
}

func (m *chunked) provide(offset, length int) {
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

func (m *chunked) call() error {
	if m.left--; m.left < 0 {
		return errPower
	}
	return nil
}

func (m *chunked) ReadAt(p []byte, offset int64) (int, error) {
	return bytes.NewReader(m.content).ReadAt(p, offset)
}

func (m *chunked) WriteAt(p []byte, offset int64) (int, error) {
	if err := m.call(); err != nil {
		return 0, err
	}
	m.provide(int(offset), len(p))
	return copy(m.content[offset:], p), nil
}

func (m *chunked) Zero(offset, length uint64) error {
	if err := m.call(); err != nil {
		return err
	}
	m.provide(int(offset), int(length))
	clear(m.content[offset : offset+length])
	return nil
}

func (m *chunked) Discard(offset, length uint64) error {
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

func (m *chunked) SectorSize() (uint64, error) { return 512, m.call() }

func (m *chunked) Flush() error { return m.call() }

func (m *chunked) Close() error { return nil }

// volume is the content of a source with its allocated ranges.
type diskImage struct {
	content []byte
	ranges  []changedblocks.Range
}

func (v diskImage) all() ranges {
	return func(_ context.Context, from uint64, yield func(changedblocks.Range, error) bool) {
		for _, r := range v.ranges {
			if (from == 0 || r.Offset+r.Length > from) && !yield(r, nil) {
				return
			}
		}
	}
}

func (v diskImage) source(from uint64) *opened {
	return &opened{description: description{Size: uint64(len(v.content))}, device: bytes.NewReader(v.content),
		ranges: v.all(), from: from}
}

// newVolume returns a volume of chunks that are allocated or not. Some blocks of those that are have zeros only.
func newVolume(r *rand.Rand, size, chunk int) diskImage {
	v := diskImage{content: make([]byte, size)}
	for at := 0; at < size; at += chunk {
		if r.IntN(3) == 0 {
			continue
		}
		end := min(at+chunk, size)
		v.ranges = append(v.ranges, changedblocks.Range{Offset: uint64(at), Length: uint64(end - at)})
		for b := at; b < end; b += block {
			if r.IntN(3) > 0 {
				v.content[b+r.IntN(min(block, end-b))] = byte(1 + r.IntN(255))
			}
		}
	}
	return v
}

// change returns a later state of a volume, with what differs as ranges.
func (v diskImage) change(r *rand.Rand, chunk int) diskImage {
	after := diskImage{content: bytes.Clone(v.content)}
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
		after.ranges = append(after.ranges, changedblocks.Range{Offset: uint64(at), Length: uint64(end - at)})
	}
	return after
}

// Rounds by what their target has where nothing was written yet. That with chunks that are not zeroed has such chunks.
var (
	zeroedRound    = Round{Sparse: true}
	notZeroedRound = Round{Only: true}
	unknownRound   = Round{}
	nextRound      = Round{Base: "s", Sparse: true}
	nextNotZeroed  = Round{Base: "s"}
)

// writingTo returns what writes a source of this size to a device, and records an offset as Done.
func writingTo(m *chunked, target Target, size int) *writing {
	w := &writing{Target: target, device: m, size: uint64(size), saveEvery: 1 << 30, progress: func(uint64) {}}
	w.saveOffset = func(_ context.Context, offset uint64) error {
		w.Done = offset
		return nil
	}
	return w
}

// copyOnce sends a volume from the offset on that is done, and stops to send when it is no longer received.
func copyOnce(ctx context.Context, v diskImage, w *writing) error {
	reader, writer := io.Pipe()
	defer func() { _ = reader.Close() }()
	go func() { _ = writer.CloseWithError(sendData(ctx, writer, v.source(w.Done))) }()
	return w.receive(ctx, reader)
}

// copyWithFailures copies a volume to a target, with a power failure after a few calls, again and again until it is
// done.
func copyWithFailures(t *testing.T, r *rand.Rand, v diskImage, w *writing) {
	t.Helper()
	w.saveEvery = 512 << 10
	device := w.device.(*chunked)
	for range 1000 {
		device.left = 5 + r.IntN(60)
		err := copyOnce(t.Context(), v, w)
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

func compare(v diskImage, device io.ReaderAt) error {
	var wire bytes.Buffer
	if err := sendSums(context.Background(), &wire, v.source(0)); err != nil {
		return err
	}
	return verify(context.Background(), &wire, device, uint64(len(v.content)), func(uint64) {})
}

// TestACopyIsLikeItsSource copies volumes to each kind of target, with failures on the way.
func TestACopyIsLikeItsSource(t *testing.T) {
	for name, c := range map[string]struct {
		round   Round
		chunk   int
		garbage byte
	}{
		"thick":                         {round: unknownRound, garbage: 7},
		"thin":                          {round: zeroedRound, chunk: 1 << 20},
		"thin, chunks not zeroed":       {round: notZeroedRound, chunk: 1 << 20, garbage: 7},
		"thin, small chunks not zeroed": {round: notZeroedRound, chunk: block, garbage: 7},
		"thin, chunks of 3 MiB":         {round: notZeroedRound, chunk: 3 << 20, garbage: 7},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(9) {
				r := rand.New(rand.NewPCG(seed, 0))
				v := newVolume(r, max(2<<20, c.chunk)+block*r.IntN(20), []int{block, 192 << 10, 2 << 20}[seed%3])
				device := newChunked(len(v.content), c.chunk, c.garbage)
				to := Target{Round: c.round, Chunk: uint64(c.chunk)}
				copyWithFailures(t, r, v, writingTo(device, to, len(v.content)))
				if !bytes.Equal(device.content, v.content) {
					t.Fatalf("seed %d: the copy differs at %d", seed, firstDifference(device.content, v.content))
				}
				if err := compare(v, device); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if c.round != notZeroedRound {
					copyChange(t, r, v, device, c.chunk)
				}
			}
		})
	}
}

// copyChange copies what changed since the copy was made.
func copyChange(t *testing.T, r *rand.Rand, v diskImage, device *chunked, chunk int) {
	t.Helper()
	after := v.change(r, 256<<10)
	target := Target{Round: nextRound, Chunk: uint64(chunk)}
	if chunk == 0 {
		target.Round = nextNotZeroed
	}
	w := writingTo(device, target, len(after.content))
	w.baseSize = w.size
	copyWithFailures(t, r, after, w)
	if !bytes.Equal(device.content, after.content) {
		t.Fatalf("after the change, the copy differs at %d", firstDifference(device.content, after.content))
	}
	if err := compare(after, device); err != nil {
		t.Fatal(err)
	}
}

// TestAChangeInAPoolWithoutZeros is what contentBase says about such a pool.
func TestAChangeInAPoolWithoutZeros(t *testing.T) {
	for seed := range uint64(9) {
		r := rand.New(rand.NewPCG(seed, 1))
		v := newVolume(r, 3<<20, 192<<10)
		device := newChunked(len(v.content), 1<<20, 7)
		copyWithFailures(t, r, v, writingTo(device, Target{Round: unknownRound}, len(v.content)))
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
	v := diskImage{content: make([]byte, 64<<20), ranges: []changedblocks.Range{{Offset: 8 << 20, Length: 4 << 20}}}
	v.content[9<<20] = 1
	for _, round := range []Round{zeroedRound, notZeroedRound} {
		device := newChunked(len(v.content), 1<<20, 0)
		copyWithFailures(t, rand.New(rand.NewPCG(1, 1)), v,
			writingTo(device, Target{Round: round, Chunk: 1 << 20}, len(v.content)))
		provided := 0
		for _, is := range device.provided {
			if is {
				provided++
			}
		}
		if provided != 1 {
			t.Errorf("%+v: %d chunks, want 1", round, provided)
		}
	}
}

func TestVerifyFindsEachDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	v := newVolume(r, 2<<20, 192<<10)
	device := newChunked(len(v.content), 0, 0)
	copy(device.content, v.content)
	for range 60 {
		allocated := v.ranges[r.IntN(len(v.ranges))]
		at := int(allocated.Offset) + r.IntN(int(allocated.Length))
		device.content[at] ^= 1
		if err := compare(v, device); !errors.Is(err, ErrDiffers) {
			t.Fatalf("%v, want ErrDiffers", err)
		}
		device.content[at] ^= 1
	}
}

// badMedium fails to read from an offset on.
type badMedium struct {
	io.ReaderAt
	from int64
}

var errMedium = errors.New("input/output error")

func (f badMedium) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > f.from {
		return 0, errMedium
	}
	return f.ReaderAt.ReadAt(p, at)
}

// TestASourceThatCannotBeReadIsNeverCopied: the stream has no end, so the target is not taken for a copy.
func TestASourceThatCannotBeReadIsNeverCopied(t *testing.T) {
	ctx := context.Background()
	v := diskImage{content: bytes.Repeat([]byte{1}, 8<<20), ranges: []changedblocks.Range{{Length: 8 << 20}}}
	source := v.source(0)
	source.device = badMedium{ReaderAt: source.device, from: 5 << 20}
	var wire bytes.Buffer
	if err := sendData(ctx, &wire, source); !errors.Is(err, errMedium) {
		t.Fatalf("send: %v, want %v", err, errMedium)
	}
	w := writingTo(newChunked(8<<20, 0, 0), Target{}, 8<<20)
	if err := w.receive(ctx, &wire); !errors.Is(err, errDamaged) || w.Done > 5<<20 {
		t.Fatalf("receive: %v, saved %d, want errDamaged", err, w.Done)
	}
	source.ranges = func(_ context.Context, _ uint64, yield func(changedblocks.Range, error) bool) {
		yield(changedblocks.Range{}, errMedium)
	}
	if err := sendData(ctx, io.Discard, source); !errors.Is(err, errMedium) {
		t.Errorf("ranges that cannot be read: %v", err)
	}
	if err := compare(v, badMedium{ReaderAt: newChunked(8<<20, 0, 1)}); !errors.Is(err, errMedium) ||
		errors.Is(err, ErrDiffers) {
		t.Errorf("verify: %v, want %v", err, errMedium)
	}
}

func TestRangesOutsideOfTheVolume(t *testing.T) {
	for _, r := range []changedblocks.Range{{Offset: 100, Length: 1 << 40}, {Offset: 1 << 40, Length: 1},
		{Offset: 1, Length: 1<<64 - 1}} {
		v := diskImage{content: make([]byte, 1<<20), ranges: []changedblocks.Range{r}}
		if err := sendData(context.Background(), io.Discard, v.source(0)); err == nil {
			t.Errorf("range %+v: no error", r)
		}
	}
}

// TestAStreamThatAlwaysEndsEarly is received nevertheless: each time, what was written is saved, however little it is.
func TestAStreamThatAlwaysEndsEarly(t *testing.T) {
	v := diskImage{content: bytes.Repeat([]byte{1}, 8<<20),
		ranges: []changedblocks.Range{{Length: 3 << 20}, {Offset: 6 << 20, Length: 2 << 20}}}
	clear(v.content[3<<20 : 6<<20])
	for name, target := range map[string]Target{"thick": {},
		"thin, chunks not zeroed": {Round: notZeroedRound, Chunk: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			device := newChunked(len(v.content), int(target.Chunk), 7)
			w := writingTo(device, target, len(v.content))
			for attempt := 0; ; attempt++ {
				var wire bytes.Buffer
				if err := sendData(t.Context(), &wire, v.source(w.Done)); err != nil {
					t.Fatal(err)
				}
				err := w.receive(t.Context(), io.LimitReader(&wire, 1200))
				if err == nil {
					break
				}
				if !errors.Is(err, errDamaged) || attempt > 1000 {
					t.Fatalf("attempt %d: %v", attempt, err)
				}
			}
			if err := compare(v, device); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAPoolWithoutRoom gets no more data, and the copy continues later from there. A thick target asks for none.
func TestAPoolWithoutRoom(t *testing.T) {
	const size = 64 << 20
	full := diskImage{content: bytes.Repeat([]byte{1}, size), ranges: []changedblocks.Range{{Length: size}}}
	empty := diskImage{content: make([]byte, size)}
	errRoom := errors.New("full")
	for name, c := range map[string]struct {
		v     diskImage
		round Round
	}{"data": {full, zeroedRound}, "zeros": {empty, unknownRound}} {
		t.Run(name, func(t *testing.T) {
			device := newChunked(size, 0, 0)
			asked := 0
			w := writingTo(device, Target{Round: c.round}, size)
			w.Room = func(context.Context, uint64) error {
				if asked++; asked == 3 {
					return errRoom
				}
				return nil
			}
			for _, want := range []struct {
				err   error
				saved uint64
				asked int
			}{{errRoom, 32 << 20, 3}, {nil, 32 << 20, 5}} {
				if err := copyOnce(t.Context(), c.v, w); !errors.Is(err, want.err) {
					t.Fatalf("%v, want %v", err, want.err)
				}
				if w.Done != want.saved || asked != want.asked {
					t.Errorf("saved %d, asked %d times, want %+v", w.Done, asked, want)
				}
			}
			if err := compare(c.v, device); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnOffsetThatIsNotSaved: what could not be recorded is written again, and nothing counts as done.
func TestAnOffsetThatIsNotSaved(t *testing.T) {
	v := diskImage{content: bytes.Repeat([]byte{1}, 1<<20), ranges: []changedblocks.Range{{Length: 1 << 20}}}
	w := writingTo(newChunked(1<<20, 0, 0), Target{}, 1<<20)
	w.saveEvery = 0
	w.saveOffset = func(context.Context, uint64) error { return errMedium }
	if err := copyOnce(t.Context(), v, w); !errors.Is(err, errMedium) {
		t.Fatalf("%v, want %v", err, errMedium)
	}
}

func TestACopyIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v := diskImage{content: make([]byte, 1<<20), ranges: []changedblocks.Range{{Length: 1 << 20}}}
	if err := sendData(ctx, io.Discard, v.source(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("send: %v", err)
	}
	if err := writingTo(nil, Target{}, 1).receive(ctx, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("receive: %v", err)
	}
	if err := verify(ctx, &bytes.Buffer{}, bytes.NewReader(nil), 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("verify: %v", err)
	}
}
