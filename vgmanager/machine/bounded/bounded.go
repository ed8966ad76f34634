// Package bounded limits the wait for calls that may never return. A read of a device that does not answer cannot be
// interrupted, nor can a process that waits for one (state D). The caller receives the result or an error in time. The
// call itself continues, and until it returns, no second call starts for the same key.
package bounded

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// NoAnswerError is the error of a call that did not return in time.
type NoAnswerError struct {
	// Since is when the call began.
	Since time.Time
}

// Error has the start time. The text is the same for the same call.
func (e *NoAnswerError) Error() string {
	return "has not answered since " + e.Since.UTC().Format(time.RFC3339)
}

// TooManyError is returned if too many calls have not returned to start another one.
type TooManyError struct {
	// Keys are the keys of the calls, sorted.
	Keys []string
}

// Error has the number of calls that have not returned.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("not started: %d earlier calls have not returned", len(e.Keys))
}

// Calls are calls by key. Use New: the zero value is not ready for use.
type Calls struct {
	limit time.Duration
	most  int
	now   func() time.Time

	mu   sync.Mutex
	open map[string]*call
}

type call struct {
	since time.Time
	done  chan struct{}
}

// New returns Calls. limit is the maximum wait of a caller. most is the maximum number of calls that may exceed it.
func New(limit time.Duration, most int) *Calls {
	return &Calls{limit: limit, most: most, now: time.Now, open: map[string]*call{}}
}

// Do calls f and returns its result if f returns in time. The context of f has no deadline and is not canceled with the
// caller's. If a call with the same key is running, Do first waits for it; if that call has exceeded its limit, Do
// returns a *NoAnswerError at once.
func Do[T any](ctx context.Context, c *Calls, key string, f func(ctx context.Context) T) (T, error) {
	var none T
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	for {
		mine, other, err := c.enter(key)
		switch {
		case err != nil:
			return none, err
		case mine != nil:
			answer := make(chan T, 1)
			go func() {
				defer c.leave(key, mine)
				answer <- f(context.WithoutCancel(ctx))
			}()
			if got, ok := receive(ctx, limited, answer); ok {
				return got, nil
			}
			return none, giveUp(ctx, mine)
		case c.isLate(other):
			return none, &NoAnswerError{Since: other.since}
		}
		if _, ok := receive(ctx, limited, other.done); !ok {
			return none, giveUp(ctx, other)
		}
	}
}

// receive waits for a channel until limited ends, and returns false if it ends before. For liveness, this is a wait
// with a time limit; the wait for the lock of the calls is not.
func receive[T any](ctx, limited context.Context, from <-chan T) (got T, ok bool) {
	defer liveness.Busy(ctx)()
	select {
	case got = <-from:
		return got, true
	case <-limited.Done():
		return got, false
	}
}

// giveUp returns the error of the caller's context, or else a *NoAnswerError.
func giveUp(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return &NoAnswerError{Since: c.since}
}

// Late returns the keys of the calls that have exceeded the limit, sorted.
func (c *Calls) Late() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late()
}

func (c *Calls) late() []string {
	var keys []string
	for key, open := range c.open {
		if c.isLate(open) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (c *Calls) isLate(open *call) bool { return c.now().Sub(open.since) >= c.limit }

// enter returns a new call, or the running one for the key.
func (c *Calls) enter(key string) (mine, other *call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open := c.open[key]; open != nil {
		return nil, open, nil
	}
	if late := c.late(); len(late) >= c.most {
		return nil, nil, &TooManyError{Keys: late}
	}
	mine = &call{since: c.now(), done: make(chan struct{})}
	c.open[key] = mine
	return mine, nil, nil
}

func (c *Calls) leave(key string, mine *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, key)
	close(mine.done)
}
