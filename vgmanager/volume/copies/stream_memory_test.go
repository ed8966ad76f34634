package copies

import (
	"bytes"
	"io"
	"runtime"
	"testing"
)

// held returns how many MiB each of ten objects holds. create returns one that has been used.
func held(t *testing.T, create func() any) float64 {
	t.Helper()
	const count = 10
	live := func() uint64 {
		runtime.GC()
		runtime.GC() // The first one only moves what is in pools.
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	var all []any
	for range count {
		all = append(all, create())
	}
	after := live()
	runtime.KeepAlive(all)
	return (float64(after) - float64(before)) / count / (1 << 20)
}

// TestAStreamHoldsLittleMemory: the agent sends and receives several streams at once, and each holds a few records.
func TestAStreamHoldsLittleMemory(t *testing.T) {
	for name, part := range map[string][]byte{"random": noise(maxData, 1), "text": textOf(maxData)} {
		t.Run(name, func(t *testing.T) {
			wire := streamOf(t, putData(0, part), putData(maxData, part), putEnd)
			writer := held(t, func() any {
				w, err := newStreamWriter(io.Discard, streamSize)
				if err != nil {
					t.Fatal(err)
				}
				for i := range uint64(3) {
					if err := w.Data(i*maxData, part); err != nil {
						t.Fatal(err)
					}
				}
				return w
			})
			reader := held(t, func() any {
				r, err := newStreamReader(bytes.NewReader(wire), streamSize)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if _, err := r.Next(); err != nil {
						t.Fatal(err)
					}
				}
				return r
			})
			t.Logf("a writer holds %.1f MiB, a reader %.1f MiB", writer, reader)
			if writer > 4 || reader > 3 {
				t.Errorf("a writer holds %.1f MiB, and a reader %.1f MiB", writer, reader)
			}
		})
	}
}
