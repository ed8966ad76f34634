package rescue

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is the time between two lines about the progress.
const progressInterval = 5 * time.Second

// progress prints how far the copy is. It is safe for concurrent use.
type progress struct {
	out   io.Writer
	begun time.Time

	mu sync.Mutex
	// first are the bytes that were saved before, saved, lost and pending those now.
	first, saved, lost, pending int64
	failures                    int
	last                        string // the last error of a read
}

func newProgress(out io.Writer, m *Map) *progress {
	p := &progress{out: out, begun: time.Now(), first: m.Bytes(Saved)}
	p.update(m)
	return p
}

// start prints a line every few seconds until the returned function is called.
func (p *progress) start(interval time.Duration) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintln(p.out, p.line(time.Since(p.begun)))
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

func (p *progress) update(m *Map) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved, p.lost, p.pending = m.Bytes(Saved), m.Bytes(Lost), m.Bytes(Pending)
}

func (p *progress) failed(r Range, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	p.last = fmt.Sprintf("at %d: %v", r.Start, err)
}

// line returns the state after a run time.
func (p *progress) line(took time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := p.saved + p.lost + p.pending
	rate := int64(float64(p.saved-p.first) / max(took.Seconds(), 0.001))
	left := "unknown"
	if rate > 0 {
		left = (time.Duration(p.pending/rate) * time.Second).String()
	}
	text := fmt.Sprintf("saved %s of %s (%.1f%%), %s/s, remaining time %s, lost %s", bytesText(p.saved),
		bytesText(size), 100*float64(p.saved)/float64(size), bytesText(rate), left, bytesText(p.lost))
	if p.failures > 0 {
		text += fmt.Sprintf(", %d reads failed, the last one %s", p.failures, p.last)
	}
	return text
}

// bytesText returns a number of bytes with a binary unit.
func bytesText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
