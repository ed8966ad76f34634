package lvm

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

// filters is a runner with an lvm.conf, and one physical volume with the number 8:16.
type filters struct {
	mu        sync.Mutex
	commands  []string
	conf      string
	configErr error
}

func (f *filters) Run(_ context.Context, _ string, args ...string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if args[0] == "lvmconfig" {
		return []byte(f.conf), f.configErr
	}
	f.commands = append(f.commands, strings.Join(args, " "))
	return []byte(`{"report":[]}`), nil
}

func TestDevicesThatDoNotAnswerAreLeftOut(t *testing.T) {
	silent := map[string][]string{}
	f := &filters{conf: "filter=[\"a|.*|\"]\n"}
	l := New(f)
	l.SkipSilent(func(context.Context) map[string][]string { return silent })
	both := func() (report, change string) {
		t.Helper()
		f.commands = nil
		_, err := l.Report(t.Context())
		if err := errors.Join(err, l.LVActivate(t.Context(), "vg1", "a")); err != nil || len(f.commands) != 2 {
			t.Fatalf("got %q, %v", f.commands, err)
		}
		return f.commands[0], f.commands[1]
	}
	plain, change := both()
	if plain != strings.Join(reportArguments(""), " ") || strings.Contains(change, "filter") {
		t.Errorf("nothing is silent: %q, %q", plain, change)
	}
	silent["254:2"] = []string{"/dev/mapper/dead", "/dev/dm-2", "/dev/disk/by-id/a+b|c"}
	const want = `devices{filter=["r|^/dev/mapper/dead$|","r|^/dev/dm-2$|","r|^/dev/disk/by-id/a.b.c$|","r|^/dev/block/254:2$|","a|.*|"]}`
	report, change := both()
	if !strings.Contains(report, timeFormat+" "+want) || change != "lvchange --config "+want+" --activate y vg1/a" {
		t.Errorf("got %q, %q", report, change)
	}
	// A device of a group is not excluded, because it would appear to be missing.
	l.known = map[string]bool{"254:2": true}
	if report, change := both(); strings.Contains(report+change, "filter") {
		t.Errorf("a physical volume was left out: %q, %q", report, change)
	}
	delete(silent, "254:2")
	if report, change := both(); report != plain || strings.Contains(change, "filter") {
		t.Errorf("it answers again: %q, %q", report, change)
	}
}

// TestAFilterThatCannotBeReadIsNotReplaced: the node's filter may exclude the disks of virtual machines.
func TestAFilterThatCannotBeReadIsNotReplaced(t *testing.T) {
	for name, f := range map[string]*filters{
		"fails":                 {configErr: errors.New("exit status 5")},
		"prints something else": {conf: "  no such thing\n"},
		"prints nothing":        {},
		"prints two lines":      {conf: "filter=[\"a|.*|\"]\nother=1\n"},
	} {
		l := New(f)
		l.SkipSilent(func(context.Context) map[string][]string { return map[string][]string{"8:0": {"/dev/sda"}} })
		if _, err := l.Report(t.Context()); err == nil ||
			strings.Contains(strings.Join(f.commands, " "), "fullreport") {
			t.Errorf("%s: got %v after %q", name, err, f.commands)
		}
	}
}

func TestPhysicalVolumesOfAReportAreKnown(t *testing.T) {
	l := New(&filters{})
	l.remember(&Report{VGs: []VG{{PVs: []PV{{Major: 8, Minor: 16}, {Missing: true}}}}})
	if len(l.known) != 1 || !l.known["8:16"] {
		t.Errorf("got %v", l.known)
	}
}
