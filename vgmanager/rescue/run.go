package rescue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// retryDelay is the wait before the first repetition. It doubles up to maxRetryDelay.
	retryDelay    = 5 * time.Second
	maxRetryDelay = time.Minute
)

// reader and writer are Source and Target. Tests replace them.
type reader interface {
	Read(ctx context.Context, r Range) (data []byte, ended bool, err error)
}

type writer interface {
	Write(data []byte, at int64) error
	Zero(r Range) error
	Sync() error
}

// copier copies what the planner names.
type copier struct {
	source reader
	target writer
	record *Record
	plan   *Planner
	path   string // of the map
	show   *progress
	// delay is the wait before the first repetition, and interval the time between two writes of the map.
	delay, interval time.Duration
	written         time.Time
	// unsure is true if the target failed to write data that was accepted before: the map must not call it saved.
	unsure bool
}

// errTooManyRanges is returned if the map would grow without limit.
var errTooManyRanges = fmt.Errorf("the map has %d ranges: run the same command with a larger --smallest-read",
	maxRanges)

// run copies until nothing is left to read, and saves the map in any case.
func (c *copier) run(ctx context.Context) error {
	c.written = time.Now()
	err := c.copy(ctx)
	return errors.Join(err, c.save())
}

func (c *copier) copy(ctx context.Context) error {
	m := c.record.Map
	for retry := 0; ; {
		next, found := c.plan.Next(m)
		if !found {
			return nil
		}
		if next.Retry > retry {
			retry = next.Retry
			sleep(ctx, min(c.delay<<min(retry-1, 10), maxRetryDelay))
		}
		if err := c.step(ctx, next); err != nil {
			return err
		}
		if len(m.entries) > maxRanges {
			return errTooManyRanges
		}
		c.show.update(m)
		if time.Since(c.written) > c.interval {
			if err := c.save(); err != nil {
				return err
			}
		}
	}
}

// step makes one read. A read that failed is an error only if the next ones cannot succeed either.
func (c *copier) step(ctx context.Context, next Read) error {
	data, ended, err := c.source.Read(ctx, next.Range)
	switch {
	case ended:
		return err
	case err != nil:
		c.show.failed(next.Range, err)
		if c.plan.Failed(c.record.Map, next.Range) && next.Retry == 0 {
			return c.target.Zero(next.Range)
		}
		return nil
	}
	if err := c.target.Write(data, next.Start); err != nil {
		return err
	}
	c.plan.Saved(c.record.Map, Range{next.Start, int64(len(data))})
	return nil
}

// save writes the map after everything that it calls saved is on the disk.
func (c *copier) save() error {
	if c.unsure {
		return nil
	}
	if err := c.target.Sync(); err != nil {
		c.unsure = true
		return err
	}
	c.written = time.Now()
	return c.record.Save(c.path)
}
