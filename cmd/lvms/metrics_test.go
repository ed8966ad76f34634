package main

import (
	"strings"
	"testing"
	"time"
)

func TestSmartInterval(t *testing.T) {
	for name, c := range map[string]struct {
		variable string
		flag     time.Duration
		want     time.Duration
		problem  string
	}{
		"never":                      {},
		"by flag":                    {flag: time.Hour, want: time.Hour},
		"by variable":                {variable: "30m", want: 30 * time.Minute},
		"the variable comes first":   {variable: "30m", flag: time.Hour, want: 30 * time.Minute},
		"the variable turns it off":  {variable: "0", flag: time.Hour},
		"a number without a unit":    {variable: "60", problem: `SMART_INTERVAL is "60": give a time like 1h`},
		"too often":                  {variable: "10s", problem: "the environment variable SMART_INTERVAL is 10s: give 1m0s or more"},
		"too often by flag":          {flag: time.Second, problem: "--smart-interval is 1s"},
		"a time that makes no sense": {variable: "-1h", problem: "SMART_INTERVAL is -1h0m0s"},
	} {
		t.Setenv(smartIntervalVariable, c.variable)
		got, err := smartInterval(c.flag)
		if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
