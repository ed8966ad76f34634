package rescue

import (
	"fmt"
	"slices"
	"sort"
)

// State is the state of a range of the source.
type State uint8

// The states of a range.
const (
	// Pending: not saved, and another read may save it.
	Pending State = iota
	// Saved: the target has it.
	Saved
	// Lost: its smallest reads failed. The target has zeros.
	Lost
)

var stateNames = [...]string{Pending: "pending", Saved: "saved", Lost: "lost"}

// String returns the name of the state in a map file.
func (s State) String() string { return stateNames[s] }

// Range is a range of bytes.
type Range struct{ Start, Length int64 }

// End returns the first byte after the range.
func (r Range) End() int64 { return r.Start + r.Length }

// Entry is a range in one state.
type Entry struct {
	Range
	State State
	// Number is, for Pending, the size of the smallest read that failed here, 0 if none did. For Lost it is the number
	// of reads that failed. For Saved it is 0.
	Number int64
}

// Map has the state of each byte of the source. Its entries are in order, cover the source without gaps, and two
// neighbors always differ in state or number.
type Map struct{ entries []Entry }

// NewMap returns a map of a source of which nothing was read yet.
func NewMap(size int64) *Map { return &Map{entries: []Entry{{Range: Range{0, size}}}} }

// Size returns the size of the source in bytes.
func (m *Map) Size() int64 { return m.entries[len(m.entries)-1].End() }

// at returns the index of the entry that has the byte at an offset, or the number of entries behind the end.
func (m *Map) at(offset int64) int {
	return sort.Search(len(m.entries), func(i int) bool { return m.entries[i].End() > offset })
}

// Set changes the state of a range. It panics if the range is empty or not within the source.
func (m *Map) Set(r Range, state State, number int64) {
	if r.Start < 0 || r.Length <= 0 || r.End() > m.Size() {
		panic(fmt.Sprintf("range %d+%d is not within the source of %d bytes", r.Start, r.Length, m.Size()))
	}
	first, last := m.at(r.Start), m.at(r.End()-1)
	before, after := m.entries[first], m.entries[last]
	var parts []Entry
	if before.Start < r.Start {
		before.Length = r.Start - before.Start
		parts = append(parts, before)
	}
	parts = append(parts, Entry{r, state, number})
	if end := after.End(); end > r.End() {
		after.Range = Range{r.End(), end - r.End()}
		parts = append(parts, after)
	}
	if first > 0 {
		first--
		parts = slices.Insert(parts, 0, m.entries[first])
	}
	if last < len(m.entries)-1 {
		last++
		parts = append(parts, m.entries[last])
	}
	m.entries = slices.Replace(m.entries, first, last+1, merged(parts)...)
}

// merged joins neighbors with the same state and number.
func merged(entries []Entry) []Entry {
	out := entries[:1]
	for _, e := range entries[1:] {
		if end := &out[len(out)-1]; end.State == e.State && end.Number == e.Number {
			end.Length += e.Length
			continue
		}
		out = append(out, e)
	}
	return out
}

// Reset makes lost ranges pending again. number is the size of the reads that failed there, 0 to begin with
// the largest.
func (m *Map) Reset(number int64) {
	for i := range m.entries {
		if m.entries[i].State == Lost {
			m.entries[i].State, m.entries[i].Number = Pending, number
		}
	}
	m.entries = merged(m.entries)
}

// Bytes returns the number of bytes in a state.
func (m *Map) Bytes(state State) int64 {
	var sum int64
	for _, e := range m.entries {
		if e.State == state {
			sum += e.Length
		}
	}
	return sum
}

// Missing returns the ranges that are not saved, joined.
func (m *Map) Missing() []Range {
	var ranges []Range
	for _, e := range m.entries {
		switch {
		case e.State == Saved:
		case len(ranges) > 0 && ranges[len(ranges)-1].End() == e.Start:
			ranges[len(ranges)-1].Length += e.Length
		default:
			ranges = append(ranges, e.Range)
		}
	}
	return ranges
}
