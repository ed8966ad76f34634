package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// Rate is how often something may happen: Burst times at once, and then once in each Interval.
type Rate struct {
	Interval time.Duration
	Burst    int
}

func (r Rate) limiter() *rate.Limiter { return rate.NewLimiter(rate.Every(r.Interval), r.Burst) }

// Rates limit events by key, for example a peer. They remember a maximum number of keys, and drop the one that was used
// least recently. They are safe for concurrent use.
type Rates struct {
	each Rate
	mu   sync.Mutex
	keys *lru.Cache
}

// NewRates returns Rates with a Rate for each key.
func NewRates(each Rate, maxKeys int) *Rates {
	return &Rates{each: each, keys: lru.New(maxKeys)}
}

func (r *Rates) of(key string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.keys.Get(key); ok {
		return known.(*rate.Limiter)
	}
	added := r.each.limiter()
	r.keys.Add(key, added)
	return added
}

// Allow reports whether an event may happen now, and counts it if so.
func (r *Rates) Allow(key string) bool { return r.of(key).Allow() }

// Wait waits until an event may happen, and counts it. The error wraps ErrTooMany if ctx ends first.
func (r *Rates) Wait(ctx context.Context, key string) error { return wait(ctx, r.of(key)) }

// Delay returns how long it takes until an event may happen, without counting one.
func (r *Rates) Delay(key string) time.Duration {
	missing := 1 - r.of(key).Tokens()
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing * float64(r.each.Interval))
}

// Forget forgets a key.
func (r *Rates) Forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys.Remove(key)
}

// wait waits for an event. If one may happen now, it does so even if ctx has ended.
func wait(ctx context.Context, limiter *rate.Limiter) error {
	if limiter.Allow() {
		return nil
	}
	if err := limiter.Wait(ctx); err != nil {
		return fmt.Errorf("%w: more than %d, and then one in %s", ErrTooMany, limiter.Burst(),
			time.Duration(float64(time.Second)/float64(limiter.Limit())).Round(time.Millisecond))
	}
	return nil
}
