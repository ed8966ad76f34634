package thinmeta

import (
	"context"
	"fmt"
)

// Range is a run of chunks of a thin device, at least one and at most 65,536. A chunk is a block of the thin pool.
type Range struct {
	First, Count uint64
}

// End returns the first chunk behind the range.
func (r Range) End() uint64 { return r.First + r.Count }

// Allocated calls visit with the chunks of a thin device that the pool has allocated, from the chunk from on, in their
// order. It returns the first error of visit. It returns ErrNoDevice if the pool does not have the device, and
// ErrDamaged if a node cannot be read; visit was then called with a part of the chunks.
func (s *Snapshot) Allocated(ctx context.Context, device, from uint64, visit func(Range) error) error {
	c, err := s.cursorAt(ctx, device, from)
	if err != nil {
		return fmt.Errorf("read the allocated chunks: %w", err)
	}
	found := runs{visit: visit}
	for e, more := c.peek(); more; e, more = c.peek() {
		if err := found.only(ctx, c, e); err != nil {
			return fmt.Errorf("read the allocated chunks of thin device %d: %w", device, err)
		}
	}
	return found.flush()
}

// Delta calls visit with the chunks in which the thin device target differs from base, from the chunk from on, in their
// order: those that only one of them has, and those that the pool has stored in different places. A chunk that both
// have in the same place is the same, because the kernel writes a shared block to another place. Both devices must be
// read-only, so that this does not change.
//
// Devices share subtrees, which Delta skips without a read: so the number of blocks that it reads grows with the
// changes, not with the size of the devices. The errors are those of Allocated.
func (s *Snapshot) Delta(ctx context.Context, base, target, from uint64, visit func(Range) error) error {
	d := delta{runs: runs{visit: visit}}
	var err error
	if d.base, err = s.cursorAt(ctx, base, from); err != nil {
		return fmt.Errorf("compare thin devices: %w", err)
	}
	if d.target, err = s.cursorAt(ctx, target, from); err != nil {
		return fmt.Errorf("compare thin devices: %w", err)
	}
	for more := true; more; {
		if more, err = d.step(ctx); err != nil {
			return fmt.Errorf("compare thin device %d with %d: %w", target, base, err)
		}
	}
	return d.flush()
}

// delta compares two trees.
type delta struct {
	runs
	base, target *cursor
}

// step compares the entries at which the two cursors are, and moves at least one of them. It returns false at the end
// of both.
func (d *delta) step(ctx context.Context) (more bool, err error) {
	b, inBase := d.base.peek()
	t, inTarget := d.target.peek()
	switch {
	case !inBase && !inTarget:
		return false, nil
	case !inTarget || inBase && b.isBefore(t):
		return true, d.only(ctx, d.base, b)
	case !inBase || t.isBefore(b):
		return true, d.only(ctx, d.target, t)
	}
	return true, d.both(ctx, b, t)
}

// isBefore returns true if e has to be read or skipped before other is compared. It is false for the same subtree.
func (e entry) isBefore(other entry) bool {
	return e.low < other.low && !e.isSame(other)
}

// isSame returns true for two entries with the same content.
func (e entry) isSame(other entry) bool {
	return e.mapping == other.mapping && e.block == other.block && (!e.mapping || e.low == other.low)
}

// both compares two entries that begin with the same chunk, or that are the same subtree.
func (d *delta) both(ctx context.Context, b, t entry) error {
	switch {
	case b.mapping && t.mapping || b.isSame(t):
		d.base.skip()
		d.target.skip()
		if b.isSame(t) {
			return nil
		}
		return d.add(b.low)
	case t.mapping || !b.mapping && b.high >= t.high:
		// The wider one, since the other can be a part of it: trees of different sizes have different depths.
		return d.base.expand(ctx, b)
	}
	return d.target.expand(ctx, t)
}

// maxRun is the maximum number of chunks of a range. Without a limit, a reader of a large volume would not know for
// long that it advances.
const maxRun = 1 << 16

// runs joins consecutive chunks.
type runs struct {
	visit   func(Range) error
	pending Range
}

// only adds an entry of one device, or reads it if it is a subtree.
func (r *runs) only(ctx context.Context, c *cursor, e entry) error {
	if !e.mapping {
		return c.expand(ctx, e)
	}
	c.skip()
	return r.add(e.low)
}

func (r *runs) add(chunk uint64) error {
	if r.pending.Count > 0 && r.pending.Count < maxRun && chunk == r.pending.End() {
		r.pending.Count++
		return nil
	}
	err := r.flush()
	r.pending = Range{First: chunk, Count: 1}
	return err
}

// flush passes on the last range.
func (r *runs) flush() error {
	if r.pending.Count == 0 {
		return nil
	}
	return r.visit(r.pending)
}
