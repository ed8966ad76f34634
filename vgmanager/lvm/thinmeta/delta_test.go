package thinmeta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

// collect returns what a walk visits, and checks that the ranges are in order and joined.
func collect(t testing.TB, walk func(visit func(Range) error) error) ([]Range, error) {
	t.Helper()
	var list []Range
	err := walk(func(r Range) error {
		n := len(list)
		expect.NotZero(t, "Count", r.Count)
		if r.Count > maxRun {
			t.Errorf("range %+v follows %+v", r, list)
		}
		if n > 0 && (r.First < list[n-1].End() || r.First == list[n-1].End() && list[n-1].Count < maxRun) {
			t.Errorf("range %+v follows %+v", r, list)
		}
		list = append(list, r)
		return nil
	})
	return list, err
}

func (s *Snapshot) allocated(t testing.TB, device, from uint64) ([]Range, error) {
	return collect(t, func(visit func(Range) error) error { return s.Allocated(t.Context(), device, from, visit) })
}

func (s *Snapshot) delta(t testing.TB, base, target, from uint64) ([]Range, error) {
	return collect(t, func(visit func(Range) error) error { return s.Delta(t.Context(), base, target, from, visit) })
}

func TestAllocatedAndDelta(t *testing.T) {
	for name, test := range map[string]struct {
		base, target     mappings
		extra            int
		from             uint64
		allocated, delta []Range
	}{
		"nothing": {},
		"the same": {base: mappings{1: 10, 2: 11}, target: mappings{1: 10, 2: 11},
			allocated: []Range{{1, 2}}},
		"the same below one more level": {base: mappings{1: 10, 40: 11}, target: mappings{1: 10, 40: 11}, extra: 1,
			allocated: []Range{{1, 1}, {40, 1}}},
		"everything is new": {target: mappings{0: 9, 3: 1, 4: 7, 5: 2}, allocated: []Range{{0, 1}, {3, 3}},
			delta: []Range{{0, 1}, {3, 3}}},
		"everything was discarded": {base: mappings{0: 9, 3: 1, 4: 7}, delta: []Range{{0, 1}, {3, 2}}},
		"overwritten": {base: mappings{7: 1, 8: 2}, target: mappings{7: 3, 8: 2}, allocated: []Range{{7, 2}},
			delta: []Range{{7, 1}}},
		"one discarded, one new": {base: mappings{7: 1, 8: 2}, target: mappings{8: 2, 9: 3}, allocated: []Range{{8, 2}},
			delta: []Range{{7, 1}, {9, 1}}},
		"a block of the data at another chunk": {base: mappings{7: 1}, target: mappings{8: 1},
			allocated: []Range{{8, 1}}, delta: []Range{{7, 2}}},
		"a range over nodes": {base: mappings{2: 1, 3: 2, 4: 3}, target: mappings{2: 5, 3: 6, 4: 7},
			allocated: []Range{{2, 3}}, delta: []Range{{2, 3}}},
		"from the middle of a range": {base: mappings{2: 1, 3: 2, 4: 3, 90: 4},
			target: mappings{2: 5, 3: 6, 4: 7, 90: 5},
			from:   3, allocated: []Range{{3, 2}, {90, 1}}, delta: []Range{{3, 2}, {90, 1}}},
		"from behind the end": {base: mappings{2: 1}, target: mappings{2: 2}, from: 3},
		"at the end of the numbers": {base: mappings{1<<64 - 2: 1}, target: mappings{1<<64 - 2: 2, 1<<64 - 3: 3},
			allocated: []Range{{1<<64 - 3, 2}}, delta: []Range{{1<<64 - 3, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForest(4)
			f.add(1, test.base, 0)
			f.add(7, test.target, test.extra)
			s := f.open(t)
			for range 2 {
				got, err := s.allocated(t, 7, test.from)
				if diff := cmp.Diff(test.allocated, got); err != nil || diff != "" {
					t.Errorf("allocated: %v, %s", err, diff)
				}
				got, err = s.delta(t, 1, 7, test.from)
				if diff := cmp.Diff(test.delta, got); err != nil || diff != "" {
					t.Errorf("delta: %v, %s", err, diff)
				}
				got, err = s.delta(t, 7, 1, test.from)
				if diff := cmp.Diff(test.delta, got); err != nil || diff != "" {
					t.Errorf("delta in the other direction: %v, %s", err, diff)
				}
			}
		})
	}
}

// TestDeltaOfRandomTrees compares with the mappings themselves.
func TestDeltaOfRandomTrees(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		size := 1 + random.Uint64N(600)
		base := mappings{}
		for chunk := range size {
			if random.IntN(4) > 0 {
				base[chunk] = chunk
			}
		}
		target := maps.Clone(base)
		for range random.IntN(20) {
			chunk := random.Uint64N(size)
			if _, has := target[chunk]; has && random.IntN(2) == 0 {
				delete(target, chunk)
			} else {
				target[chunk] = 1000 + random.Uint64N(1000)
			}
		}
		f := newForest(2 + random.Uint64N(8))
		f.add(3, base, random.IntN(3))
		f.add(4, target, random.IntN(3))
		s := f.open(t)
		from := random.Uint64N(size)
		got, err := s.delta(t, 3, 4, from)
		if diff := cmp.Diff(differing(base, target, from), chunksOf(got)); err != nil || diff != "" {
			t.Fatalf("seed %d: %v, %s", seed, err, diff)
		}
		got, err = s.allocated(t, 4, from)
		if diff := cmp.Diff(differing(nil, target, from), chunksOf(got)); err != nil || diff != "" {
			t.Fatalf("seed %d: allocated: %v, %s", seed, err, diff)
		}
	}
}

// differing returns the chunks in which two devices differ.
func differing(base, target mappings, from uint64) []uint64 {
	changed := map[uint64]bool{}
	for _, pair := range [][2]mappings{{base, target}, {target, base}} {
		for chunk, data := range pair[0] {
			if other, has := pair[1][chunk]; chunk >= from && (!has || other != data) {
				changed[chunk] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

func chunksOf(list []Range) []uint64 {
	var chunks []uint64
	for _, r := range list {
		for i := range r.Count {
			chunks = append(chunks, r.First+i)
		}
	}
	return chunks
}

// TestReadsOfADeltaGrowWithTheChanges: a chunk has 64 KiB and a node 126 entries, as in the kernel.
func TestReadsOfADeltaGrowWithTheChanges(t *testing.T) {
	const perNode, gib = 126, 1 << 30 >> 16
	reads := map[string]int{}
	for _, size := range []uint64{1 * gib, 4 * gib, 16 * gib} {
		base := mappings{}
		for chunk := range size {
			base[chunk] = chunk
		}
		for _, changes := range []uint64{0, 1, 100} {
			f := newForest(perNode)
			f.add(1, base, 0)
			target := maps.Clone(base)
			for i := range changes {
				target[i*(size/max(changes, 1))] = size + i
			}
			f.add(2, target, 0)
			s := f.open(t)
			s.reads = 0
			got, err := s.delta(t, 1, 2, 0)
			if err != nil || uint64(len(got)) != changes {
				t.Fatalf("%d GiB with %d changes: %d ranges, %v", size/gib, changes, len(got), err)
			}
			// The list of devices twice, and on both sides a leaf and at most three nodes above it for each change.
			if most := 2 + 2*4*int(changes); s.reads > most {
				t.Errorf("%d GiB with %d changes: %d reads, want at most %d", size/gib, changes, s.reads, most)
			}
			reads[fmt.Sprint(size/gib, " ", changes)] = s.reads
			if whole := len(f.image) / blockSize; size == 16*gib && s.reads > whole/5 {
				t.Errorf("%d GiB: %d reads of %d blocks", size/gib, s.reads, whole)
			}
		}
	}
	t.Log("reads by GiB and changed chunks:", reads)
}

// TestALongRunIsSplit: a caller that stops in the middle of a large volume can continue there.
func TestALongRunIsSplit(t *testing.T) {
	whole := mappings{}
	for chunk := range uint64(2*maxRun + 1) {
		whole[chunk] = chunk
	}
	f := newForest(126)
	f.add(1, whole, 0)
	f.add(2, nil, 0)
	s := f.open(t)
	want := []Range{{0, maxRun}, {maxRun, maxRun}, {2 * maxRun, 1}}
	got, err := s.allocated(t, 1, 0)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("allocated: %v, %s", err, diff)
	}
	got, err = s.delta(t, 1, 2, 0)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("delta: %v, %s", err, diff)
	}
}

func TestAnErrorEndsTheWalk(t *testing.T) {
	f := newForest(4)
	f.add(1, mappings{1: 1, 5: 2}, 0)
	f.add(2, mappings{1: 3, 5: 4}, 0)
	s := f.open(t)
	failure := errors.New("the client is gone")
	calls := 0
	visit := func(Range) error { calls++; return failure }
	if err := s.Delta(t.Context(), 1, 2, 0, visit); !errors.Is(err, failure) || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	if err := s.Allocated(t.Context(), 1, 0, visit); !errors.Is(err, failure) || calls != 2 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Delta(ctx, 1, 2, 0, visit); !errors.Is(err, context.Canceled) || calls != 2 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}

func TestADeviceThatThePoolDoesNotHave(t *testing.T) {
	f := newForest(4)
	f.add(3, mappings{1: 1}, 0)
	f.add(5, mappings{1: 1}, 0)
	s := f.open(t)
	for _, device := range []uint64{0, 1, 4, 6, 1<<64 - 1} {
		if got, err := s.allocated(t, device, 0); !errors.Is(err, ErrNoDevice) || got != nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("thin device %d:", device)) {
			t.Errorf("%d: got %v, %v", device, got, err)
		}
		for _, pair := range [][2]uint64{{device, 3}, {3, device}} {
			if got, err := s.delta(t, pair[0], pair[1], 0); !errors.Is(err, ErrNoDevice) || got != nil {
				t.Errorf("%v: got %v, %v", pair, got, err)
			}
		}
	}
}

// TestDevicesInATreeOfSeveralLevels: a pool with many volumes.
func TestDevicesInATreeOfSeveralLevels(t *testing.T) {
	f := newForest(4)
	for device := range uint64(100) {
		f.add(2*device+1, mappings{device: device}, 0)
	}
	nodes := mappings(f.roots)
	flags := uint32(flagLeaf)
	width := f.perNode
	for first := true; first || len(nodes) > 1; first = false {
		nodes = f.level(flags, nodes, width)
		flags = flagInternal
		width *= f.perNode
	}
	s := f.open(t)
	s.super.mappingRoot = nodes[1]
	for device := range uint64(100) {
		got, err := s.allocated(t, 2*device+1, 0)
		if diff := cmp.Diff([]Range{{device, 1}}, got); err != nil || diff != "" {
			t.Errorf("%d: %v, %s", device, err, diff)
		}
		if got, err := s.allocated(t, 2*device, 0); !errors.Is(err, ErrNoDevice) {
			t.Errorf("%d: got %v, %v", 2*device, got, err)
		}
	}
}

// TestDamageIsAnError: in contrast to the prediction of a repair, nothing is left out.
func TestDamageIsAnError(t *testing.T) {
	base, target := mappings{1: 1, 5: 2, 20: 3}, mappings{1: 1, 5: 9, 20: 3}
	damages := map[string]func(f *forest, leaf, root uint64){
		"a leaf":              func(f *forest, leaf, _ uint64) { f.block(leaf)[100]++ },
		"a root":              func(f *forest, _, root uint64) { clear(f.block(root)) },
		"the list of devices": func(f *forest, _, _ uint64) { clear(f.block(topBlock)) },
		"a leaf of the details": func(f *forest, leaf, _ uint64) {
			f.node(leaf, flagLeaf, detailsSize, []uint64{5}, []uint64{1, 1, 1})
		},
		"a leaf with other keys": func(f *forest, leaf, _ uint64) {
			f.node(leaf, flagLeaf, mappingSize, []uint64{900}, []uint64{9 << timeBits})
		},
		"a block of the data that the pool does not have": func(f *forest, leaf, _ uint64) {
			f.node(leaf, flagLeaf, mappingSize, []uint64{5}, []uint64{forestChunks << timeBits})
		},
		"a block of the metadata that the pool does not have": func(f *forest, _, root uint64) {
			f.node(root, flagInternal, mappingSize, []uint64{1, 5}, []uint64{1 << 40, 0})
		},
		"a node below itself": func(f *forest, _, root uint64) {
			f.node(root, flagInternal, mappingSize, []uint64{1}, []uint64{root})
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			f := newForest(4)
			f.add(1, base, 0)
			f.add(2, target, 0)
			// The node that only the target has, with its chunk 5.
			leaf := f.put(flagLeaf, []uint64{5}, []uint64{9 << timeBits})
			s := f.open(t)
			damage(f, leaf, f.roots[2])
			if _, err := s.file.WriteAt(f.image, 0); err == nil {
				t.Fatal("the metadata is writable")
			}
			if err := os.WriteFile(s.file.Name(), f.image, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := s.delta(t, 1, 2, 0); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, %v", got, err)
			}
			if got, err := s.allocated(t, 2, 0); !errors.Is(err, ErrDamaged) {
				t.Errorf("allocated: got %v, %v", got, err)
			}
		})
	}
}

// TestAFailedReadIsNotAnEmptyDevice: nothing is said about chunks that could not be read.
func TestAFailedReadIsNotAnEmptyDevice(t *testing.T) {
	f := newForest(4)
	f.add(1, mappings{1: 1}, 0)
	s := f.open(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.allocated(t, 1, 0); !errors.Is(err, os.ErrClosed) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.delta(t, 1, 1, 0); !errors.Is(err, os.ErrClosed) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestWhatIsNotAMetadataSnapshot(t *testing.T) {
	for name, change := range map[string]func(image){
		"a damaged root":            func(m image) { m.block(heldRoot)[100]++ },
		"a root with other chunks":  func(m image) { m.block(heldRoot)[336]++; m.seal(heldRoot, superblockXor) },
		"a root of another version": func(m image) { m.block(heldRoot)[40] = 1; m.seal(heldRoot, superblockXor) },
		"a node of a tree":          func(m image) { m.node(heldRoot, flagLeaf, mappingSize, nil, nil) },
		"a superblock of another block": func(m image) {
			// In another image: Go 1.26 compiles a copy for s390x with an endless loop if its source begins where its
			// destination ends.
			other := slices.Clone(m)
			copy(other.block(3), m.block(heldRoot))
			other.seal(3, superblockXor)
			copy(m.block(heldRoot), other.block(3))
		},
		"zeros": func(m image) { clear(m.block(heldRoot)) },
	} {
		f := newForest(4)
		f.add(1, mappings{1: 1}, 0)
		f.open(t)
		change(f.image)
		if _, err := openImage(t, f.image); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	f := newForest(4)
	f.add(1, mappings{1: 1}, 0)
	s := f.open(t)
	for root, want := range map[uint64]string{0: "no metadata snapshot is reserved", 1 << 50: "is not one of its"} {
		if err := s.readRoot(t.Context(), forestPool, root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("root %d: got %v, want %q", root, err, want)
		}
	}
	if s, err := OpenSnapshot(t.Context(), Pool{Device: "/nosuch"}, 1); !errors.Is(err, os.ErrNotExist) || s != nil {
		t.Errorf("got %v, %v", s, err)
	}
}

// FuzzDelta: no metadata may end the agent, or keep it busy forever. A result without an error is in order.
func FuzzDelta(f *testing.F) {
	f.Add(uint16(heldRoot), uint16(320), uint64(1))
	f.Add(uint16(6), uint16(nodeHeader), uint64(1))
	f.Add(uint16(8), uint16(4), uint64(1))
	f.Fuzz(func(t *testing.T, at, offset uint16, value uint64) {
		trees := newForest(4)
		base := mappings{}
		for chunk := range uint64(60) {
			base[chunk] = chunk
		}
		target := maps.Clone(base)
		target[30] = 99
		trees.add(1, base, 1)
		trees.add(2, target, 0)
		s := trees.open(t)
		block := uint64(at) % uint64(len(trees.image)/blockSize)
		binary.LittleEndian.PutUint64(trees.block(block)[offset%(blockSize-8):], value)
		xor := uint32(nodeXor)
		if block == heldRoot {
			xor = superblockXor
		}
		trees.seal(block, xor)
		if err := os.WriteFile(s.file.Name(), trees.image, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.readRoot(t.Context(), forestPool, heldRoot); err != nil {
			return
		}
		_, _ = s.delta(t, 1, 2, 0)
		_, _ = s.allocated(t, 2, 10)
	})
}
