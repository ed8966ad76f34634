package fstrim

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// start is when the agent of the tests started.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// attempt returns an attempt at a time after start.
func attempt(result Result, after time.Duration, failures int) *Record {
	return &Record{Time: start.Add(after), Result: result, Failures: failures}
}

func TestTurnBySchedule(t *testing.T) {
	v := volume{class: "vg1", name: "a", created: start.Add(-365 * day)}
	// The volume has its turn each week at start + offset.
	offset := lastSlot("node1", v, week, start.Add(week)).Sub(start)
	if offset <= 0 || offset >= week {
		t.Fatalf("the offset is %s", offset)
	}
	on := classState{since: start, catchUp: true}
	fresh := classState{since: start} // a schedule that was set just now
	for name, test := range map[string]struct {
		last  *Record
		state classState
		at    time.Duration
		none  bool // no schedule
		want  bool
	}{
		"before its first turn": {state: on, at: offset - time.Second},
		"at its first turn":     {state: on, at: offset, want: true},
		"after its turn":        {state: on, at: offset + day, want: true},
		"no schedule":           {state: on, at: offset, none: true},
		"trimmed at its turn":   {state: on, at: offset + day, last: attempt("Trimmed", offset, 0)},
		"trimmed a week ago":    {state: on, at: offset + week, last: attempt("Trimmed", offset, 0), want: true},
		"not supported":         {state: on, at: offset + day, last: attempt("NotSupported", offset, 0)},
		"not supported for a week": {state: on, at: offset + week, last: attempt("NotSupported", offset, 0),
			want: true},
		"due while no agent ran":   {state: on, at: 0, last: attempt("Trimmed", -week-day, 0), want: true},
		"a new schedule":           {state: fresh, at: 0, last: attempt("Trimmed", -4*week, 0)},
		"a new schedule, its turn": {state: fresh, at: offset, last: attempt("Trimmed", -4*week, 0), want: true},
		"failed just now":          {state: on, at: offset + time.Minute, last: attempt("Failed", offset, 1)},
		"failed an hour ago":       {state: on, at: offset + time.Hour, last: attempt("Failed", offset, 1), want: true},
		"4 failures, an hour ago":  {state: on, at: offset + time.Hour, last: attempt("Failed", offset, 4)},
		"4 failures, 8 hours ago": {state: on, at: offset + 8*time.Hour, last: attempt("Failed", offset, 4),
			want: true},
		"100 failures, a day ago": {state: on, at: offset + day, last: attempt("Failed", offset, 100), want: true},
		"failed, no schedule now": {state: on, at: offset + day, last: attempt("Failed", offset, 1), none: true},
		"trimmed in the future":   {state: on, at: offset, last: attempt("Trimmed", 4*week, 0), want: true},
		"failed in the future":    {state: on, at: offset - time.Hour, last: attempt("Failed", 4*week, 9)},
	} {
		t.Run(name, func(t *testing.T) {
			c := class{period: week, classState: test.state}
			if test.none {
				c.period = 0
			}
			v.last = test.last
			due := dueVolumes("node1", map[string]class{"vg1": c}, []volume{v}, start.Add(test.at))
			if got := len(due) == 1; got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	v.last, v.created = nil, start.Add(offset+time.Minute)
	if _, due := turnOf("node1", class{period: week, classState: on}, v, start.Add(offset+day)); due {
		t.Error("a volume is due that was created after its turn")
	}
	if _, due := turnOf("node1", class{period: week, classState: on}, v, start.Add(offset+week)); !due {
		t.Error("a volume is not due at its first turn")
	}
	v.notBefore = start.Add(offset + week + time.Hour)
	if due := dueVolumes("node1", map[string]class{"vg1": {period: week, classState: on}}, []volume{v},
		start.Add(offset+week)); len(due) > 0 {
		t.Error("a volume is due whose trim was just interrupted")
	}
}

// TestTurnsAreSpread: neither the volumes of a node nor the nodes have their turns at the same time.
func TestTurnsAreSpread(t *testing.T) {
	for _, period := range []time.Duration{day, week} {
		hours := map[time.Duration]int{}
		for node := range 20 {
			for i := range 50 {
				v := volume{name: fmt.Sprintf("volume-%d", i)}
				slot := lastSlot(fmt.Sprintf("node-%d", node), v, period, start.Add(period))
				if slot.After(start.Add(period)) || !slot.After(start) {
					t.Fatalf("%s is not within the last %s", slot, period)
				}
				hours[slot.Sub(start)/(period/10)]++
			}
		}
		for part, count := range hours {
			if count > 150 {
				t.Errorf("%d of 1000 turns are in part %d of 10 of %s", count, part, period)
			}
		}
		v := volume{name: "volume-1"}
		slot := lastSlot("node-1", v, period, start)
		for _, later := range []time.Duration{0, time.Second, period - time.Second} {
			if got := lastSlot("node-1", v, period, slot.Add(later)); !got.Equal(slot) {
				t.Errorf("%s after its turn: got the turn %s, want %s", later, got, slot)
			}
		}
		if got := lastSlot("node-1", v, period, slot.Add(period)); !got.Equal(slot.Add(period)) {
			t.Errorf("got %s", got)
		}
	}
}

func TestTurnBecauseOfThePool(t *testing.T) {
	for name, test := range map[string]struct {
		last  *Record
		above time.Duration // since when, after start
		at    time.Duration
		below bool
		want  bool
	}{
		"never trimmed":                     {want: true},
		"below the threshold":               {below: true},
		"trimmed 30 minutes ago":            {last: attempt("Trimmed", 0, 0), at: 30 * time.Minute},
		"trimmed an hour ago":               {last: attempt("Trimmed", 0, 0), at: time.Hour, want: true},
		"twice without effect, an hour ago": {last: attempt("Trimmed", 2*time.Hour, 0), at: 3 * time.Hour},
		"twice without effect, 2 h ago": {last: attempt("Trimmed", 2*time.Hour, 0), at: 4 * time.Hour,
			want: true},
		"for a month without effect":           {last: attempt("Trimmed", 30*day, 0), at: 30*day + 23*time.Hour},
		"for a month without effect, next day": {last: attempt("Trimmed", 30*day, 0), at: 31 * day, want: true},
		"trimmed long before":                  {last: attempt("Trimmed", -20*day, 0), want: true},
		"trimmed just before":                  {last: attempt("Trimmed", -time.Minute, 0)},
		"not supported, two hours ago":         {last: attempt("NotSupported", 0, 0), at: 2 * time.Hour},
		"not supported, a day ago":             {last: attempt("NotSupported", 0, 0), at: day, want: true},
		"failed an hour ago":                   {last: attempt("Failed", 0, 1), at: time.Hour, want: true},
		"failed the third time, an hour ago":   {last: attempt("Failed", 0, 3), at: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := class{isAbove: !test.below, percent: 85, classState: classState{aboveSince: start.Add(test.above)}}
			v := volume{class: "vg1", name: "a", created: start.Add(-time.Hour), last: test.last}
			if got, due := turnOf("node1", c, v, start.Add(test.at)); due != test.want || due && !got.pressure {
				t.Errorf("got %+v, %t", got, due)
			}
		})
	}
}

func TestOrderOfTurns(t *testing.T) {
	classes := map[string]class{
		"full":   {isAbove: true, percent: 99, period: week, classState: classState{since: start, catchUp: true}},
		"above":  {isAbove: true, percent: 81},
		"weekly": {period: week, classState: classState{since: start, catchUp: true}},
	}
	scheduled := func(name string) volume {
		v := volume{class: "weekly", name: name}
		slot := lastSlot("node1", v, week, start)
		v.last = &Record{Result: Trimmed, Time: slot.Add(-week)}
		return v
	}
	x, y := scheduled("x"), scheduled("y")
	volumes := []volume{x, y, {class: "above", name: "big", allocated: 9 << 30}, {class: "full", name: "b"},
		{class: "full", name: "c", allocated: 5 << 30}, {class: "full", name: "a"}, {class: "none", name: "other"}}
	var got []string
	for _, v := range dueVolumes("node1", classes, volumes, start) {
		got = append(got, v.name)
	}
	byTime := []string{"x", "y"}
	if lastSlot("node1", y, week, start).Before(lastSlot("node1", x, week, start)) {
		byTime = []string{"y", "x"}
	}
	if want := append([]string{"c", "a", "b", "big"}, byTime...); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	slices.Reverse(volumes)
	var again []string
	for _, v := range dueVolumes("node1", classes, volumes, start) {
		again = append(again, v.name)
	}
	if !slices.Equal(got, again) {
		t.Errorf("the order depends on that of the volumes: %q, %q", got, again)
	}
}

func TestStateOfAClass(t *testing.T) {
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	first := classState{}.next(true, true, false, at(0))
	if want := (classState{since: at(0), catchUp: true, aboveSince: at(0)}); first != want {
		t.Errorf("at the start: got %+v", first)
	}
	if got := first.next(true, true, true, at(1)); got != first {
		t.Errorf("later: got %+v", got)
	}
	if got := first.next(true, false, true, at(1)); got != (classState{since: at(0), catchUp: true}) {
		t.Errorf("below the threshold: got %+v", got)
	}
	if got := first.next(false, false, true, at(1)).next(true, true, true, at(2)); got != (classState{since: at(2),
		aboveSince: at(2)}) {
		t.Errorf("set again: got %+v", got)
	}
}
