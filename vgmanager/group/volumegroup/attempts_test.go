package volumegroup

import (
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
)

func TestAttemptsBackOff(t *testing.T) {
	all := attempts{}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	pauses := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
		160 * time.Second, 5 * time.Minute, 5 * time.Minute}
	for i, pause := range pauses {
		all.add("vg1", "a", now)
		if got := all.delay("vg1", now, time.Hour); got != pause {
			t.Errorf("attempt %d: next in %s, want %s", i+1, got, pause)
		}
		want := plan.Attempt{Ineffective: i + 1, Waiting: true}
		if got := all.of("vg1", []string{"a"}, now.Add(pause-1))["a"]; got != want {
			t.Errorf("attempt %d, too early: got %+v", i+1, got)
		}
		now = now.Add(pause)
		if got := all.of("vg1", []string{"a"}, now)["a"]; got != (plan.Attempt{Ineffective: i + 1}) {
			t.Errorf("attempt %d, due: got %+v", i+1, got)
		}
	}
}

func TestAttemptsAreForgotten(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	all := attempts{}
	for range 3 {
		all.add("vg1", "a", now)
	}
	all.add("vg2", "a", now)
	// An attempt that helped does not count as ineffective, but the next one still waits: the disk may fail again.
	if got := all.of("vg1", nil, now)["a"]; got != (plan.Attempt{Waiting: true}) {
		t.Errorf("after an attempt that helped: got %+v", got)
	}
	if got := all.delay("vg1", now, time.Minute); got != time.Minute {
		t.Errorf("a healthy volume wakes the agent after %s", got)
	}
	if got := all.of("vg2", []string{"a"}, now)["a"]; got != (plan.Attempt{Ineffective: 1, Waiting: true}) {
		t.Errorf("another volume group: got %+v", got)
	}
	if got := all.of("vg1", []string{"a"}, now.Add(forgetAttempts+1)); len(got) != 0 {
		t.Errorf("after a long time: got %+v", got)
	}
	if got := all.delay("vg2", now.Add(time.Hour), time.Minute); got != afterChange {
		t.Errorf("an overdue attempt: got %s", got)
	}
}
