package volumecopy

import (
	"bytes"
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
