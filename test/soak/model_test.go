package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// play walks without a cluster.
func play(t *testing.T, seed uint64, steps int) []Step {
	t.Helper()
	m := NewModel()
	r := rand.New(rand.NewPCG(seed, seed))
	var all []Step
	for range steps {
		s := m.Next(r)
		if problem := m.Possible(s); problem != "" {
			t.Fatalf("seed %d: %s: %s", seed, s, problem)
		}
		m.Done(s, "sum")
		all = append(all, s)
		for class, most := range room {
			if used := m.used(class); used > most {
				t.Fatalf("seed %d: %s: class %s has %d MiB", seed, s, class, used)
			}
		}
	}
	return all
}

func text(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

func TestTheSeedDecidesTheWalk(t *testing.T) {
	first := text(play(t, 7, 300))
	again := text(play(t, 7, 300))
	if first != again {
		t.Error("the same seed gives two walks")
	}
	if first == text(play(t, 8, 300)) {
		t.Error("two seeds give the same walk")
	}
}

func TestAWalkComesByEverything(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(20) {
		for _, s := range play(t, seed, 300) {
			seen[s.Op]++
			seen[s.During]++
			if s.Block {
				seen["block"]++
			}
			seen[s.Class]++
		}
	}
	for _, want := range append(append([]string{"block", thinClass, thickClass, mirrorClass, extraClass},
		ops...), faults...) {
		if seen[want] == 0 && want != opCheck {
			t.Errorf("never %s", want)
		}
	}
}

func TestStepsCanBeReadBack(t *testing.T) {
	steps := play(t, 3, 500)
	again, err := ParseAll("# a comment\n\n" + text(steps))
	if err != nil || text(again) != text(steps) || len(again) != len(steps) {
		t.Errorf("got %v, %d steps", err, len(again))
	}
	for _, bad := range []string{"", "jump", "create on", "create on=", "create mib=x", "create block=perhaps",
		"create color=red", "write on=v1 during=war"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is a step", bad)
		}
	}
}

func TestAShortenedWalkHasWhatItNeeds(t *testing.T) {
	steps, err := ParseAll(`create on=v1 class=thin mib=64
create on=v2 class=thick mib=64
write on=v1
snapshot on=s3 from=v1
write on=v2 during=power-cut
add-class on=extra
restore on=v4 from=s3 class=thin mib=64
stop on=v2
fail-device on=mirror
check`)
	if err != nil {
		t.Fatal(err)
	}
	const want = `create on=v1 class=thin mib=64
write on=v1
snapshot on=s3 from=v1
restore on=v4 from=s3 class=thin mib=64
fail-device on=mirror
check
`
	short := Shorten(steps, "v4")
	if text(short) != want {
		t.Errorf("got\n%s", text(short))
	}
	m := NewModel()
	for _, s := range short {
		if problem := m.Possible(s); problem != "" {
			t.Errorf("%s: %s", s, problem)
		}
		m.Done(s, "sum")
	}
}
