package copies

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/changedblocks"
)

const (
	// rememberedResults is the maximum number of results that a Remembered has. Each has at most
	// changedblocks.MaxRanges ranges.
	rememberedResults = 8
	// rememberedFor is how long a result is used.
	rememberedFor = 10 * time.Minute
)

// Remembered reads what is allocated in a snapshot, or differs from its base, only once, unless the list is long. A
// snapshot is read-only, so the list does not change. Each read takes three processes, because it reserves the metadata
// snapshot of the pool. It is safe for concurrent use.
type Remembered struct {
	from Allocations
	now  func() time.Time

	mu      sync.Mutex
	results []result
}

// result is a complete list of ranges.
type result struct {
	query changedblocks.Query
	page  *changedblocks.Page
	until time.Time
}

// Remember returns a Remembered that reads from another one.
func Remember(from Allocations) *Remembered { return &Remembered{from: from, now: time.Now} }

// Read implements Allocations. Errors are not remembered.
func (m *Remembered) Read(ctx context.Context, q changedblocks.Query) (*changedblocks.Page, error) {
	if page := m.find(q); page != nil {
		return page, nil
	}
	page, err := m.from.Read(ctx, q)
	if err == nil && q.Offset == 0 && page.Next == 0 {
		m.add(q, page)
	}
	return page, err
}

// find returns what is remembered of a query, from its offset on, or nil.
func (m *Remembered) find(q changedblocks.Query) *changedblocks.Page {
	m.mu.Lock()
	defer m.mu.Unlock()
	offset := q.Offset
	q.Offset = 0
	for _, r := range m.results {
		if r.query != q || !m.now().Before(r.until) {
			continue
		}
		page := *r.page
		page.Ranges = slices.DeleteFunc(slices.Clone(page.Ranges),
			func(r changedblocks.Range) bool { return r.Offset+r.Length <= offset })
		return &page
	}
	return nil
}

// add remembers a result, and forgets the oldest one if there are too many.
func (m *Remembered) add(q changedblocks.Query, page *changedblocks.Page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.results = slices.DeleteFunc(m.results, func(r result) bool { return r.query == q || !now.Before(r.until) })
	if len(m.results) == rememberedResults {
		m.results = slices.Delete(m.results, 0, 1)
	}
	m.results = append(m.results, result{q, page, now.Add(rememberedFor)})
}
