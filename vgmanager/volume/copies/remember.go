package copies

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
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
	// results are the complete pages by their query.
	results *cache.LRUExpireCache
}

// Remember returns a Remembered that reads from another one.
func Remember(from Allocations) *Remembered {
	return &Remembered{from: from, results: cache.NewLRUExpireCache(rememberedResults)}
}

// Read implements Allocations. Errors are not remembered.
func (m *Remembered) Read(ctx context.Context, q changedblocks.Query) (*changedblocks.Page, error) {
	whole := q
	whole.Offset = 0
	known, _ := m.results.Get(whole)
	if page, is := known.(changedblocks.Page); is {
		page.Ranges = slices.DeleteFunc(slices.Clone(page.Ranges),
			func(r changedblocks.Range) bool { return r.Offset+r.Length <= q.Offset })
		return &page, nil
	}
	page, err := m.from.Read(ctx, q)
	if err == nil && q.Offset == 0 && page.Next == 0 {
		m.results.Add(q, *page, rememberedFor)
	}
	return page, err
}
