package attempts

import (
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

func TestAttemptsBackOff(t *testing.T) {
	all := All{}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	pauses := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
		160 * time.Second, 5 * time.Minute, 5 * time.Minute}
	for i, pause := range pauses {
		all.Add("vg1", "a", now)
		if got := all.Delay("vg1", now, time.Millisecond, time.Hour); got != pause {
			t.Errorf("attempt %d: next in %s, want %s", i+1, got, pause)
		}
		want := state.Attempt{Ineffective: i + 1, Waiting: true}
		if got := all.Of("vg1", []string{"a"}, now.Add(pause-1))["a"]; got != want {
			t.Errorf("attempt %d, too early: got %+v", i+1, got)
		}
		now = now.Add(pause)
		if got := all.Of("vg1", []string{"a"}, now)["a"]; got != (state.Attempt{Ineffective: i + 1}) {
			t.Errorf("attempt %d, due: got %+v", i+1, got)
		}
	}
}

func TestAttemptsAreForgotten(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	all := All{}
	for range 3 {
		all.Add("vg1", "a", now)
	}
	all.Add("vg2", "a", now)
	// An attempt that helped does not count as ineffective, but the next one still waits: the disk may fail again.
	if got := all.Of("vg1", nil, now)["a"]; got != (state.Attempt{Waiting: true}) {
		t.Errorf("after an attempt that helped: got %+v", got)
	}
	if got := all.Delay("vg1", now, time.Millisecond, time.Minute); got != time.Minute {
		t.Errorf("a healthy volume wakes the agent after %s", got)
	}
	if got := all.Of("vg2", []string{"a"}, now)["a"]; got != (state.Attempt{Ineffective: 1, Waiting: true}) {
		t.Errorf("another volume group: got %+v", got)
	}
	if got := all.Of("vg1", []string{"a"}, now.Add(forgetAttempts+1)); len(got) != 0 {
		t.Errorf("after a long time: got %+v", got)
	}
	if got := all.Delay("vg2", now.Add(time.Hour), time.Millisecond, time.Minute); got != time.Millisecond {
		t.Errorf("an overdue attempt: got %s", got)
	}
}
