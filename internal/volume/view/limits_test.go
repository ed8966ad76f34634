package view

import (
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
)

func TestWhetherANodeHasAnsweredForLimits(t *testing.T) {
	for name, test := range map[string]struct {
		desired, inForce, failed string
		pending                  bool
		refusal                  string
	}{
		"never requested":              {"", "", "", false, ""},
		"requested":                    {"readIOPS=1", "", "", true, ""},
		"applied":                      {"readIOPS=1", "readIOPS=1", "", false, ""},
		"changed":                      {"readIOPS=2", "readIOPS=1", "", true, ""},
		"refused":                      {"readIOPS=2", "readIOPS=1", "readIOPS=2: why", false, "why"},
		"refused something else":       {"readIOPS=3", "readIOPS=1", "readIOPS=2: why", true, ""},
		"refused what begins the same": {"readIOPS=2", "readIOPS=1", "readIOPS=20: why", true, ""},
	} {
		limits := IOLimits{Requested: test.desired, InForce: test.inForce, Failed: test.failed}
		lv := &topolvmv1.LogicalVolume{}
		limits.Set(lv)
		if got := IOLimitsOf(lv); got != limits {
			t.Errorf("%s: %+v is read as %+v", name, limits, got)
		}
		if got := limits.IsPending(); got != test.pending {
			t.Errorf("%s: pending is %v", name, got)
		}
		if got := limits.Refusal(); got != test.refusal {
			t.Errorf("%s: refused with %q", name, got)
		}
	}
}
