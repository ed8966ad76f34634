package volumecopy

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
)

// grow gives a device more space: unprovided chunks, and the rest of the last chunk.
func (m *memory) grow(more int) {
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
func (v volume) grown(r *rand.Rand, more, chunk int) volume {
	after := v.change(r, chunk)
	for at := len(after.content); at < len(v.content)+more; at += block {
		after.content = append(after.content, make([]byte, block)...)
		if r.IntN(3) > 0 {
			continue
		}
		after.content[at+r.IntN(block)] = byte(r.IntN(256))
		after.ranges = append(after.ranges, Range{Offset: uint64(at), Length: block})
	}
	return after
}

// TestRoundsOfAVolumeThatGrows: each round brings the copy to the next state, with power failures, in pools that set
// new chunks to zero and in others, and whether or not chunks can be freed.
func TestRoundsOfAVolumeThatGrows(t *testing.T) {
	for name, tt := range map[string]struct {
		garbage byte
		first   Target
		free    bool
	}{
		"zeroes":                   {0, Target{Content: ContentZeros, Chunk: 1 << 20}, true},
		"zeroes, ignores discards": {0, Target{Content: ContentZeros, Chunk: 1 << 20}, false},
		"does not zero":            {7, Target{Content: ContentUnknown}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(6) {
				r := rand.New(rand.NewPCG(seed, 2))
				v := newVolume(r, 3<<20+block*r.IntN(20), 192<<10)
				device := newMemory(len(v.content), 1<<20, tt.garbage)
				copyTo(t, r, v, tt.first, device)
				for round := range 3 {
					next := Target{Content: ContentBase}
					if tt.free {
						next.Chunk = 1 << 20
					}
					if tt.garbage != 0 {
						next.NewFrom = uint64(len(v.content))
					}
					more := block * r.IntN(40) * (round % 2)
					v = v.grown(r, more, 192<<10)
					device.grow(more)
					copyTo(t, r, v, next, device)
					if !bytes.Equal(device.content, v.content) {
						t.Fatalf("seed %d, round %d: the copy differs at %d of %d", seed, round,
							firstDifference(device.content, v.content), len(v.content))
					}
					if err := verify(v, device); err != nil {
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
	const size = 32 << 20
	sparse := volume{content: make([]byte, size)}
	for at := 0; at < size; at += 4 << 20 {
		sparse.content[at] = 1
		sparse.ranges = append(sparse.ranges, Range{Offset: uint64(at), Length: block})
	}
	cleared := volume{content: make([]byte, size), ranges: []Range{{Length: size}}}
	full := volume{content: bytes.Repeat([]byte{1}, size), ranges: []Range{{Length: size}}}
	for name, c := range map[string]struct {
		v       volume
		content Content
		want    int
	}{
		"few changes":                       {sparse, ContentBase, 0},
		"new volume with little data":       {sparse, ContentZeros, 0},
		"the rest is set to zero":           {sparse, ContentUnknown, 7},
		"no data":                           {volume{content: make([]byte, size)}, ContentUnknown, 1},
		"all data changed":                  {full, ContentBase, 8},
		"all data was discarded":            {cleared, ContentBase, 8},
		"zeros that the new volume has too": {cleared, ContentZeros, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var wire bytes.Buffer
			if err := Send(t.Context(), &wire, c.v.source(0)); err != nil {
				t.Fatal(err)
			}
			saves := 0
			if err := Receive(t.Context(), &wire, Target{Device: newMemory(size, 0, 0), Size: size, Content: c.content,
				SaveInterval: 4 << 20, Save: func(context.Context, uint64) error { saves++; return nil }}); err != nil {
				t.Fatal(err)
			}
			if saves != c.want {
				t.Errorf("%d saves, want %d", saves, c.want)
			}
		})
	}
}
