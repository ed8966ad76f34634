package copies

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
)

// grow gives a device more space: unprovided chunks, and the rest of the last chunk.
func (m *chunked) grow(more int) {
	before := len(m.content)
	m.content = append(m.content, make([]byte, more)...)
	for len(m.provided)*m.chunk < len(m.content) {
		m.provided = append(m.provided, false)
	}
	if c := before / m.chunk; before%m.chunk > 0 && m.provided[c] {
		m.fill(before, min((c+1)*m.chunk, len(m.content)))
	}
}

// grown returns a later state of a volume that is larger: what changed, and some data in the new part.
func (v diskImage) grown(r *rand.Rand, more, chunk int) diskImage {
	after := v.change(r, chunk)
	for at := len(after.content); at < len(v.content)+more; at += block {
		after.content = append(after.content, make([]byte, block)...)
		if r.IntN(3) > 0 {
			continue
		}
		after.content[at+r.IntN(block)] = byte(r.IntN(256))
		after.ranges = append(after.ranges, changedblocks.Range{Offset: uint64(at), Length: block})
	}
	return after
}

// TestRoundsOfAVolumeThatGrows: each round brings the copy to the next state, with power failures, in pools that set
// new chunks to zero and in others, and whether or not chunks can be freed.
func TestRoundsOfAVolumeThatGrows(t *testing.T) {
	for name, tt := range map[string]struct {
		garbage byte
		first   Round
		next    Round
	}{
		"zeroes": {0, zeroedRound, nextRound},
		"zeroes, ignores discards": {0, Round{Sparse: true, KeepChunks: true},
			Round{Base: "s", Sparse: true, KeepChunks: true}},
		"does not zero": {7, unknownRound, nextNotZeroed},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				r := rand.New(rand.NewPCG(seed, 2))
				v := newVolume(r, 2<<20+block*r.IntN(20), 192<<10)
				device := newChunked(len(v.content), 1<<20, tt.garbage)
				to := func(round Round) *writing {
					return writingTo(device, Target{Round: round, Chunk: 1 << 20}, len(v.content))
				}
				copyWithFailures(t, r, v, to(tt.first))
				for round := range 3 {
					baseSize := uint64(len(v.content))
					more := block * r.IntN(40) * (round % 2)
					v = v.grown(r, more, 192<<10)
					device.grow(more)
					w := to(tt.next)
					w.baseSize = baseSize
					copyWithFailures(t, r, v, w)
					if !bytes.Equal(device.content, v.content) {
						t.Fatalf("seed %d, round %d: the copy differs at %d of %d", seed, round,
							firstDifference(device.content, v.content), len(v.content))
					}
					if err := compare(v, device); err != nil {
						t.Fatalf("seed %d, round %d: %v", seed, round, err)
					}
				}
			}
		})
	}
}

// TestAnOffsetIsSavedAfterWhatWasWritten: a few changes all over a large volume are not saved one by one, because each
// save takes longer than the changes. What was set to zero counts like data.
func TestAnOffsetIsSavedAfterWhatWasWritten(t *testing.T) {
	const size = 8 << 20
	sparse := diskImage{content: make([]byte, size)}
	for at := 0; at < size; at += 1 << 20 {
		sparse.content[at] = 1
		sparse.ranges = append(sparse.ranges, changedblocks.Range{Offset: uint64(at), Length: block})
	}
	cleared := diskImage{content: make([]byte, size), ranges: []changedblocks.Range{{Length: size}}}
	full := diskImage{content: bytes.Repeat([]byte{1}, size), ranges: []changedblocks.Range{{Length: size}}}
	for name, c := range map[string]struct {
		v     diskImage
		round Round
		want  int
	}{
		"few changes":                       {sparse, nextRound, 0},
		"new volume with little data":       {sparse, zeroedRound, 0},
		"the rest is set to zero":           {sparse, unknownRound, 7},
		"no data":                           {diskImage{content: make([]byte, size)}, unknownRound, 1},
		"all data changed":                  {full, nextRound, 8},
		"all data was discarded":            {cleared, nextRound, 8},
		"zeros that the new volume has too": {cleared, zeroedRound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			saves := 0
			w := writingTo(newChunked(size, 0, 0), Target{Round: c.round}, size)
			w.saveEvery = 1 << 20
			w.saveOffset = func(context.Context, uint64) error { saves++; return nil }
			if err := copyOnce(t.Context(), c.v, w); err != nil {
				t.Fatal(err)
			}
			if saves != c.want {
				t.Errorf("%d saves, want %d", saves, c.want)
			}
		})
	}
}
