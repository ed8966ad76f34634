package rescue

// Planner decides which range to read next. It depends on the map and on the reads before, and does no I/O.
//
// The first passes read large blocks. After failed reads they skip an increasing distance, forward and then backward,
// to save what is behind a bad region first. The next passes read what failed in smaller blocks, down to the smallest
// read. The last passes repeat the smallest reads.
type Planner struct {
	passes          []pass
	block, smallest int64
	// position is where the pass continues, skip the distance of the next skip.
	position, skip, maxSkip int64
}

// pass is one walk over the source.
type pass struct {
	size              int64
	backward, skipped bool
	// retry is 0, or the number of the repetition.
	retry int
}

// Read is a planned read. Retry is the number of the repetition, 0 for none.
type Read struct {
	Range
	Retry int
}

const (
	// narrowBy is the ratio of the read sizes of two passes.
	narrowBy = 16
	// mostSkip limits a skip, in bytes.
	mostSkip = 1 << 30
)

// NewPlanner returns a planner. block is the size of the first reads, and smallest that of the smallest ones; block is
// smallest multiplied by a power of two.
func NewPlanner(size, block, smallest int64, retries int) *Planner {
	p := &Planner{block: block, smallest: smallest, maxSkip: max(block, min(mostSkip, size/100/block*block))}
	p.passes = []pass{{size: block, skipped: true}, {size: block, skipped: true, backward: true}, {size: block}}
	for size := block; size > smallest; {
		size = max(size/narrowBy, smallest)
		p.passes = append(p.passes, pass{size: size})
	}
	for i := range retries {
		p.passes = append(p.passes, pass{size: smallest, retry: i + 1})
	}
	return p
}

// Next returns the next read, or false if nothing is left to read.
func (p *Planner) Next(m *Map) (Read, bool) {
	for len(p.passes) > 0 {
		if r, found := p.find(m); found {
			return Read{r, p.passes[0].retry}, true
		}
		p.passes = p.passes[1:]
		p.position, p.skip = 0, 0
		if len(p.passes) > 0 && p.passes[0].backward {
			p.position = m.Size()
		}
	}
	return Read{}, false
}

// find returns the next read of the current pass.
func (p *Planner) find(m *Map) (Range, bool) {
	now := p.passes[0]
	if !now.backward {
		for i := m.at(p.position); i < len(m.entries); i++ {
			if e := m.entries[i]; p.wants(e) {
				start := max(e.Start, p.position)
				return Range{start, min(e.End(), (start/now.size+1)*now.size) - start}, true
			}
		}
		return Range{}, false
	}
	if p.position <= 0 {
		return Range{}, false
	}
	for i := m.at(p.position - 1); i >= 0; i-- {
		if e := m.entries[i]; p.wants(e) {
			end := min(e.End(), p.position)
			start := max(e.Start, (end-1)/now.size*now.size)
			return Range{start, end - start}, true
		}
	}
	return Range{}, false
}

// wants returns true if the current pass reads an entry.
func (p *Planner) wants(e Entry) bool {
	now := p.passes[0]
	switch {
	case now.retry > 0:
		return e.State == Lost && e.Number <= int64(now.retry)
	case e.State != Pending:
		return false
	case now.size < p.block:
		return e.Number > now.size
	}
	return e.Number == 0
}

// Saved records a read that succeeded.
func (p *Planner) Saved(m *Map, r Range) {
	m.Set(r, Saved, 0)
	p.skip = 0
	p.advance(r, 0)
}

// Failed records a read that failed. It returns true if the range is now lost.
func (p *Planner) Failed(m *Map, r Range) bool {
	lost := r.Length <= p.smallest
	if lost {
		e := m.entries[m.at(r.Start)]
		reads := int64(1)
		if e.State == Lost {
			reads += e.Number
		}
		m.Set(r, Lost, reads)
	} else {
		m.Set(r, Pending, r.Length)
	}
	skip := int64(0)
	if p.passes[0].skipped {
		skip = p.skip
		p.skip = min(max(2*p.skip, p.passes[0].size), p.maxSkip)
	}
	p.advance(r, skip)
	return lost
}

func (p *Planner) advance(r Range, skip int64) {
	if p.passes[0].backward {
		p.position = r.Start - skip
		return
	}
	p.position = r.End() + skip
}
