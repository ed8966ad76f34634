package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/smart"
)

func TestSmartInterval(t *testing.T) {
	for name, c := range map[string]struct {
		variable string
		flag     time.Duration
		want     time.Duration
		problem  string
	}{
		"never":                     {},
		"by flag":                   {flag: time.Hour, want: time.Hour},
		"by variable":               {variable: "30m", want: 30 * time.Minute},
		"the variable comes first":  {variable: "30m", flag: time.Hour, want: 30 * time.Minute},
		"the variable turns it off": {variable: "0", flag: time.Hour},
		"a number without a unit":   {variable: "60", problem: `SMART_INTERVAL="60": must be a duration such as 1h`},
		"too often": {variable: "10s",
			problem: "invalid environment variable SMART_INTERVAL 10s: must be at least 1m0s"},
		"too often by flag": {flag: time.Second, problem: "invalid --smart-interval 1s"},
		"a time that makes no sense": {variable: "-1h", problem: "invalid environment variable SMART_INTERVAL " +
			"-1h0m0s"},
	} {
		t.Setenv(smartIntervalVariable, c.variable)
		got, err := intervalFromEnvironment(smartIntervalVariable, "smart-interval", c.flag, smart.MinInterval)
		if got != c.want || (err == nil) != (c.problem == "") ||
			err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

func TestRunbooks(t *testing.T) {
	for name, c := range map[string]struct{ variable, flag, want, problem string }{
		"not set":     {want: alertrules.DefaultRunbooks},
		"by flag":     {flag: "https://a.example.com", want: "https://a.example.com/"},
		"by variable": {variable: "https://b.example.com", want: "https://b.example.com/"},
		"the variable comes first": {variable: "https://b.example.com", flag: "https://a.example.com",
			want: "https://b.example.com/"},
		"no address":         {variable: "runbooks", problem: "environment variable RUNBOOK_BASE_URL: "},
		"no address by flag": {flag: "runbooks", problem: "--runbook-base-url: "},
	} {
		t.Setenv(runbooksVariable, c.variable)
		got, err := runbooks(c.flag)
		if got != c.want || (err == nil) != (c.problem == "") ||
			err != nil && !strings.HasPrefix(err.Error(), c.problem) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
