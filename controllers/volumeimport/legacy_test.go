package volumeimport

import (
	"testing"
	"time"
)

func TestTheTimeBetweenPassesDoublesWhileAgentsDoNotAct(t *testing.T) {
	interval := legacyInterval
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		interval = nextInterval(interval, true)
		if got := interval.Round(time.Second); got != want*time.Second {
			t.Errorf("got %s, want %ds", got, want)
		}
	}
	if got := nextInterval(interval, false); got != legacyInterval {
		t.Errorf("got %s without anything to wait for", got)
	}
}
