// Package bounded calls what may never return: a read of a device that does not answer cannot be interrupted, and
// neither can a process that waits for one (state D). The caller gets its answer or an error in time; the call itself
// goes on, and as long as it does, no second one is begun for the same key.
package bounded

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// NoAnswerError is the error of a call that did not return in time.
type NoAnswerError struct {
	// Since is when the call began.
	Since time.Time
}

// Error says since when. It does not change while the call stays the same.
func (e *NoAnswerError) Error() string {
	return "has not answered since " + e.Since.UTC().Format(time.RFC3339)
}

// TooManyError: so many calls have not returned that no other one is begun.
type TooManyError struct {
	// Keys of the calls, sorted.
	Keys []string
}

// Error has the number of calls.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("not begun: %d calls have not returned", len(e.Keys))
}

// Calls are calls by key. The zero value is not ready: use New.
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

// New returns Calls whose callers wait no longer than limit, and of which no more than most may be past it.
func New(limit time.Duration, most int) *Calls {
	return &Calls{limit: limit, most: most, now: time.Now, open: map[string]*call{}}
}

// Do calls f and returns what it returns, if it does so in time. The context of f has no deadline and is not canceled
// with that of the caller. If a call with the same key is on its way, Do waits for its end first; one that is past its
// limit gives a *NoAnswerError at once.
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
			select {
			case got := <-answer:
				return got, nil
			case <-limited.Done():
				return none, giveUp(ctx, mine)
			}
		case c.isLate(other):
			return none, &NoAnswerError{Since: other.since}
		}
		select {
		case <-other.done:
		case <-limited.Done():
			return none, giveUp(ctx, other)
		}
	}
}

// giveUp prefers the caller's reason to stop.
func giveUp(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return &NoAnswerError{Since: c.since}
}

// Late returns the keys of the calls that are past the limit, sorted.
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

// enter returns a new call, or the one that is open.
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
