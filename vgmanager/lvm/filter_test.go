package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	configs   int
	report    string
}

func (f *filters) Run(_ context.Context, _ string, args ...string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if args[0] == "lvmconfig" {
		f.configs++
		return []byte(f.conf), f.configErr
	}
	f.commands = append(f.commands, strings.Join(args, " "))
	return []byte(cmp.Or(f.report, `{"report":[]}`)), nil
}

func TestDevicesThatDoNotAnswerAreLeftOut(t *testing.T) {
	silent := map[string][]string{}
	f := &filters{conf: "filter=[\"a|.*|\"]\n"}
	l := New(f)
	l.configStamp = func() string { return "" }
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
	if plain != strings.Join(reportArguments(), " ") || strings.Contains(change, "filter") {
		t.Errorf("nothing is silent: %q, %q", plain, change)
	}
	silent["254:2"] = []string{"/dev/mapper/dead", "/dev/dm-2", "/dev/disk/by-id/a+b|c"}
	const want = `devices{filter=["r|^/dev/mapper/dead$|","r|^/dev/dm-2$|"]}`
	report, change := both()
	if !strings.Contains(report, timeFormat+" "+want) || change != "lvchange --config "+want+" --activate y vg1/a" {
		t.Errorf("got %q, %q", report, change)
	}
	f.conf = "filter=[\"r|^/dev/vm|\",\"a|.*|\"]\n"
	const also = `devices{filter=["r|^/dev/mapper/dead$|","r|^/dev/dm-2$|","r|^/dev/disk/by-id/a.b.c$|","r|^/dev/block/254:2$|","r|^/dev/vm|","a|.*|"]}`
	if report, change = both(); !strings.Contains(report, also) || !strings.Contains(change, also) {
		t.Errorf("a filter of the node: got %q, %q", report, change)
	}
	f.conf = "filter=[\"a|.*|\"]\n"
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

// TestNoCommandReadsWhatUsersOfVolumesWrite calls a function of each kind. Commands that get their devices as options
// are
// in TestEachCommandExcludesGuests.
func TestNoCommandReadsWhatUsersOfVolumesWrite(t *testing.T) {
	f := &filters{conf: "filter=[\"a|.*|\"]\n"}
	l := New(f)
	l.configStamp = func() string { return "first" }
	guests := map[string][]string{}
	l.ExcludeGuests(func() (map[string][]string, error) { return guests, nil })
	run := func() {
		t.Helper()
		f.commands = nil
		_, reportErr := l.Report(t.Context())
		_, _, thinErr := l.thinVolumes(t.Context(), "vg1")
		if err := errors.Join(reportErr, l.LVActivate(t.Context(), "vg1", "a")); err != nil {
			t.Fatal(err)
		}
		_ = thinErr // The report is empty.
		if len(f.commands) != 3 {
			t.Fatalf("got %q", f.commands)
		}
	}
	run()
	for _, command := range f.commands {
		if !strings.Contains(command, "devices{scan_lvs=0}") {
			t.Errorf("logical volumes are searched: %q", command)
		}
	}
	if f.configs != 0 {
		t.Error("lvmconfig runs although no device is excluded")
	}
	guests["7:0"] = []string{"/dev/disk/by-label/x", "/dev/loop0"}
	for range 2 {
		run()
		for _, command := range f.commands {
			if !strings.Contains(command, `devices{scan_lvs=0 filter=["r|^/dev/loop0$|"]}`) {
				t.Errorf("the loop device is read: %q", command)
			}
		}
	}
	if f.configs != 1 {
		t.Errorf("lvmconfig ran %d times, want once for each change of lvm.conf", f.configs)
	}
	l.configStamp = func() string { return "changed" }
	if run(); f.configs != 2 {
		t.Errorf("lvmconfig ran %d times after a change", f.configs)
	}
}

func TestWithoutTheListOfGuestsNoCommandRuns(t *testing.T) {
	f := &filters{}
	l := New(f)
	failure := errors.New("input/output error")
	l.ExcludeGuests(func() (map[string][]string, error) { return nil, failure })
	_, err := l.Report(t.Context())
	if !errors.Is(err, failure) || !errors.Is(l.LVActivate(t.Context(), "vg1", "a"), failure) || len(f.commands) != 0 {
		t.Errorf("got %v, and the commands %q", err, f.commands)
	}
}

func TestAFilterThatIsTooLongIsNotCut(t *testing.T) {
	f := &filters{conf: "filter=[\"a|.*|\"]\n"}
	l := New(f)
	l.ExcludeGuests(func() (map[string][]string, error) {
		guests := map[string][]string{}
		for i := range 10_000 {
			guests[fmt.Sprintf("7:%d", i)] = []string{fmt.Sprintf("/dev/loop%d", i)}
		}
		return guests, nil
	})
	if _, err := l.Report(t.Context()); !errors.Is(err, ErrInvalid) || len(f.commands) != 0 {
		t.Errorf("got %v, and the commands %q", err, f.commands)
	}
}

// TestAGuestThatAppearsMeanwhileIsNotReported: the loop device is set up after the command got its filter.
func TestAGuestThatAppearsMeanwhileIsNotReported(t *testing.T) {
	report := func(number int) string {
		return fmt.Sprintf(`{"report":[{"pv":[{"pv_name":"/dev/loop0","pv_uuid":"u","vg_name":"","pv_size":"1",`+
			`"pv_free":"1","pv_used":"0","pv_major":"7","pv_minor":"%d","pv_missing":"","pv_in_use":"",`+
			`"pv_allocatable":"","pv_tags":""}]}]}`, number)
	}
	for name, tt := range map[string]struct {
		appearsAt, last int
		want            error
	}{
		"once":   {2, 2, nil},
		"always": {2, 99, ErrBusy},
	} {
		f := &filters{conf: "filter=[\"a|.*|\"]\n", report: report(0)}
		l := New(f)
		asked := 0
		l.ExcludeGuests(func() (map[string][]string, error) {
			asked++
			if asked >= tt.appearsAt && asked <= tt.last {
				return map[string][]string{"7:0": {"/dev/loop0"}}, nil
			}
			return nil, nil
		})
		got, err := l.Report(t.Context())
		n := len(f.commands)
		if !errors.Is(err, tt.want) || (err == nil) != (got != nil) || n < 2 || n > maxReads {
			t.Errorf("%s: got %+v, %v after %d reports", name, got, err, n)
		}
	}
}

// TestEachCommandExcludesGuests reads the source of this package: the program of LVM is only run by execute, or with a
// list of devices, or with a command that reads no device.
func TestEachCommandExcludesGuests(t *testing.T) {
	allowed := map[string]bool{
		"l.runner.Run(ctx, program, configured(args, config)...)": true, // execute
		// Their arguments are the devices.
		"l.runner.Run(ctx, program, args...)":                                               true,
		"l.runner.Run(ctx, program, append(args, devicesOptions(g.Devices)...)...)":         true,
		`l.runner.Run(ctx, program, "lvmconfig", "--typeconfig", "full", "devices/filter")`: true,
		`l.runner.Run(ctx, program, "lvmdevices")`:                                          true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("got %v, %v", files, err)
	}
	calls := regexp.MustCompile(`\bl\.runner\.Run\(ctx, program.*\)`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllString(string(source), -1) {
			found++
			if !allowed[call] {
				t.Errorf("%s: %s does not exclude the devices that are built on volumes: use execute", file, call)
			}
		}
	}
	if found != len(allowed) {
		t.Errorf("found %d calls, want %d", found, len(allowed))
	}
}

func TestTheStampOfAFileChangesWithIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lvm.conf")
	none := stampOf([]string{file})
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	one := stampOf([]string{file})
	if err := os.WriteFile(file, []byte("ab"), 0o600); err != nil {
		t.Fatal(err)
	}
	if two := stampOf([]string{file}); none == "" || one == none || two == one || two != stampOf([]string{file}) {
		t.Errorf("got %q, %q, %q", none, one, two)
	}
	if got := stampOf([]string{filepath.Join(file, "below")}); got != "" {
		t.Errorf("got %q for a file that cannot be read", got)
	}
}

func TestPhysicalVolumesOfAReportAreKnown(t *testing.T) {
	l := New(&filters{})
	l.remember(&Report{VGs: []VG{{PVs: []PV{{Major: 8, Minor: 16}, {Missing: true}}}}})
	if len(l.known) != 1 || !l.known["8:16"] {
		t.Errorf("got %v", l.known)
	}
}
