package lvmexec

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

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// confRunner is a runner with an lvm.conf.
type confRunner struct {
	mu        sync.Mutex
	commands  []string
	conf      string
	configErr error
	configs   int
	report    string
}

func (f *confRunner) Run(_ context.Context, _ string, args ...string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if args[0] == "lvmconfig" {
		f.configs++
		return []byte(f.conf), f.configErr
	}
	f.commands = append(f.commands, strings.Join(args, " "))
	return []byte(cmp.Or(f.report, `{"report":[]}`)), nil
}

// plainConf is what lvmconfig prints for a node that does not use filters.
const plainConf = "filter=[\"a|.*|\"]\nglobal_filter=[\"a|.*|\"]\n"

// disks returns readable devices and a loop device of a user.
func disks() (lvm.Devices, error) {
	return lvm.Devices{
		Readable: map[string][]string{"8:0": {"/dev/sda"}, "254:2": {"/dev/dm-2", "/dev/mapper/m+p"}},
		Guests:   map[string][]string{"7:0": {"/dev/disk/by-label/x", "/dev/loop0"}},
	}, nil
}

// reportAndChange returns the commands of a report and of a change.
func (f *confRunner) reportAndChange(t *testing.T, l *LVM) (report, change string) {
	t.Helper()
	f.commands = nil
	_, err := l.Report(t.Context())
	err = errors.Join(err, l.Apply(t.Context(), lvm.LVActivate{VG: "vg1", Name: "a"}))
	if err != nil || len(f.commands) != 2 {
		t.Fatalf("got %q, %v", f.commands, err)
	}
	return f.commands[0], f.commands[1]
}

func TestCommandsReadTheDevicesOfTheListAlone(t *testing.T) {
	const list = `["a|^/dev/dm-2$|","a|^/dev/mapper/m.p$|","a|^/dev/sda$|","r|.*|"]`
	const guests = `"r|^/dev/disk/by-label/x$|","r|^/dev/loop0$|","r|^/dev/block/7:0$|"`
	for name, tt := range map[string]struct{ filter, global, want string }{
		"no filters":      {`"a|.*|"`, `"a|.*|"`, "filter=" + list},
		"a filter":        {`"r|^/dev/vm|","a|.*|"`, `"a|.*|"`, "global_filter=" + list},
		"a global filter": {`"a|.*|"`, `"r|^/dev/vm|"`, "filter=" + list},
		"both":            {`"r|^/dev/vm|","a|.*|"`, `"r|^/dev/x|"`, "filter=[" + guests + `,"r|^/dev/vm|","a|.*|"]`},
	} {
		f := &confRunner{conf: "filter=[" + tt.filter + "]\nglobal_filter=[" + tt.global + "]\n"}
		l := New(f)
		l.executor.configStamp = func() string { return "first" }
		l.UseDevices(disks)
		want := "devices{scan_lvs=0 " + tt.want + "}"
		for range 2 {
			report, change := f.reportAndChange(t, l)
			if !strings.Contains(report, `report{time_format="%s"} `+want) ||
				change != "lvchange --config "+want+" --activate y vg1/a" {
				t.Errorf("%s: got %q, %q, want %q", name, report, change, want)
			}
		}
		if f.configs != 1 {
			t.Errorf("%s: lvmconfig ran %d times, want once for each change of lvm.conf", name, f.configs)
		}
		l.executor.configStamp = func() string { return "changed" }
		if f.reportAndChange(t, l); f.configs != 2 {
			t.Errorf("%s: lvmconfig ran %d times after a change", name, f.configs)
		}
	}
}

func TestDevicesThatDoNotAnswerAreLeftOut(t *testing.T) {
	silent := map[string][]string{}
	f := &confRunner{conf: plainConf}
	l := New(f)
	l.UseDevices(disks)
	l.SkipSilent(func(context.Context) map[string][]string { return silent })
	silent["254:2"] = []string{"/dev/mapper/m+p", "/dev/dm-2"}
	if report, change := f.reportAndChange(t, l); strings.Contains(report+change, "/dev/dm-2") ||
		!strings.Contains(report, "/dev/sda") {
		t.Errorf("got %q, %q", report, change)
	}
	f.conf = "filter=[\"a|x|\"]\nglobal_filter=[\"a|x|\"]\n"
	if report, change := f.reportAndChange(t, l); !strings.Contains(report, `"r|^/dev/dm-2$|"`) ||
		!strings.Contains(change, `"r|^/dev/dm-2$|"`) {
		t.Errorf("filters of the node: got %q, %q", report, change)
	}
	f.conf = plainConf
	// A device of a group is not left out, because it would appear to be missing.
	l.executor.known = map[string]bool{"254:2": true}
	if report, change := f.reportAndChange(t, l); !strings.Contains(report, "/dev/dm-2") ||
		!strings.Contains(change, "/dev/dm-2") {
		t.Errorf("a physical volume was left out: %q, %q", report, change)
	}
	delete(silent, "254:2")
	if report, _ := f.reportAndChange(t, l); !strings.Contains(report, "/dev/dm-2") {
		t.Errorf("it answers again: %q", report)
	}
}

// TestAFilterThatCannotBeReadIsNotReplaced: the node's filter may exclude the disks of virtual machines.
func TestAFilterThatCannotBeReadIsNotReplaced(t *testing.T) {
	for name, f := range map[string]*confRunner{
		"fails":                 {configErr: errors.New("exit status 5")},
		"prints something else": {conf: "  no such thing\n"},
		"prints nothing":        {},
		"prints one of both":    {conf: "filter=[\"a|.*|\"]\n"},
		"prints another one":    {conf: plainConf + "other=1\n"},
	} {
		l := New(f)
		l.UseDevices(disks)
		if _, err := l.Report(t.Context()); err == nil ||
			strings.Contains(strings.Join(f.commands, " "), "fullreport") {
			t.Errorf("%s: got %v after %q", name, err, f.commands)
		}
	}
}

func TestWithoutTheListOfDevicesNoCommandRuns(t *testing.T) {
	f := &confRunner{conf: plainConf}
	l := New(f)
	failure := errors.New("input/output error")
	l.UseDevices(func() (lvm.Devices, error) { return lvm.Devices{}, failure })
	_, err := l.Report(t.Context())
	_, _, thinErr := l.executor.thinVolumes(t.Context(), "vg1")
	if !errors.Is(err, failure) || !errors.Is(thinErr, failure) ||
		!errors.Is(l.Apply(t.Context(), lvm.LVActivate{VG: "vg1", Name: "a"}), failure) || len(f.commands) != 0 {
		t.Errorf("got %v, %v, and the commands %q", err, thinErr, f.commands)
	}
}

func TestAListThatIsTooLongIsNotCut(t *testing.T) {
	f := &confRunner{conf: plainConf}
	l := New(f)
	l.UseDevices(func() (lvm.Devices, error) {
		devices := lvm.Devices{Readable: map[string][]string{}}
		for i := range 10_000 {
			devices.Readable[fmt.Sprintf("8:%d", i)] = []string{fmt.Sprintf("/dev/sd%d", i)}
		}
		return devices, nil
	})
	if _, err := l.Report(t.Context()); !errors.Is(err, lvm.ErrInvalid) || len(f.commands) != 0 {
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
		"always": {2, 99, lvm.ErrBusy},
	} {
		f := &confRunner{conf: "filter=[\"a|x|\"]\nglobal_filter=[\"a|x|\"]\n", report: report(0)}
		l := New(f)
		asked := 0
		l.UseDevices(func() (lvm.Devices, error) {
			asked++
			if asked >= tt.appearsAt && asked <= tt.last {
				return lvm.Devices{Guests: map[string][]string{"7:0": {"/dev/loop0"}}}, nil
			}
			return lvm.Devices{}, nil
		})
		got, err := l.Report(t.Context())
		n := len(f.commands)
		if !errors.Is(err, tt.want) || (err == nil) != (got != nil) || n < 2 || n > maxReads {
			t.Errorf("%s: got %+v, %v after %d reports", name, got, err, n)
		}
	}
}

// TestEachCommandHasAListOfDevices reads the source of this package: the program of LVM is only run by execute, or with
// a list of devices, or with a command that reads no device.
func TestEachCommandHasAListOfDevices(t *testing.T) {
	allowed := map[string]bool{
		"x.runner.Run(ctx, program, configured(args, config)...)": true, // execute
		// Their arguments are the devices.
		"l.runner.Run(ctx, program, args...)":                                             true,
		"l.runner.Run(ctx, program, append(args, devicesOptions(c.Group.Devices)...)...)": true,
		"x.runner.Run(ctx, program, readFilters...)":                                      true,
		`x.runner.Run(ctx, program, "lvmdevices")`:                                        true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("got %v, %v", files, err)
	}
	calls := regexp.MustCompile(`\b[lx]\.runner\.Run\(ctx, program.*\)`)
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
				t.Errorf("%s: %s reads devices that are built on volumes: use execute", file, call)
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
	l := New(&confRunner{})
	l.executor.remember(&lvm.Report{VGs: []lvm.VG{{PVs: []lvm.PV{{Major: 8, Minor: 16}, {Missing: true}}}}})
	if len(l.executor.known) != 1 || !l.executor.known["8:16"] {
		t.Errorf("got %v", l.executor.known)
	}
}
