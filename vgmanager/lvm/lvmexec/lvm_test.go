package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// runner returns the result of a function for every command, and records the commands.
type runner struct {
	answer   func(ctx context.Context, args []string) ([]byte, error)
	commands []string
}

func (r *runner) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	r.commands = append(r.commands, name+" "+strings.Join(args, " "))
	switch {
	case r.answer == nil && args[0] == "fullreport":
		return []byte(wholeGroup), nil
	case r.answer == nil:
		return nil, nil
	}
	return r.answer(ctx, args)
}

// wholeGroup is a report of vg1, without missing physical volumes.
const wholeGroup = `{"report": [{"vg": [{"vg_name":"vg1", "vg_uuid":"u", "vg_seqno":"7", "vg_size":"0", "vg_free":"0", "vg_extent_size":"4194304", ` +
	`"vg_attr":"wz--n-", "vg_tags":"", "vg_missing_pv_count":"0", "vg_mda_size":"1044480", "vg_mda_free":"518144"}], "pv": [], "lv": [], "seg": [], "pvseg": []}]}`

// changes returns the commands that are not reports.
func (r *runner) changes() []string {
	return slices.DeleteFunc(slices.Clone(r.commands), func(c string) bool { return strings.Contains(c, "fullreport") })
}

func (r *runner) reports() int {
	n := 0
	for _, c := range r.commands {
		if strings.Contains(c, "fullreport") {
			n++
		}
	}
	return n
}

// reporting returns a runner that returns a record for reports.
func reporting(t *testing.T, name string) *runner {
	t.Helper()
	data, err := os.ReadFile("../output/testdata/2.03.16/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return &runner{answer: func(context.Context, []string) ([]byte, error) { return data, nil }}
}

func TestCommands(t *testing.T) {
	tests := []struct {
		want   string
		change lvm.Change
	}{
		{"vgcreate --addtag lvms vg1 /dev/sdb /dev/sdc --setautoactivation n",
			lvm.VGCreate{Name: "vg1", Devices: []string{"/dev/sdb", "/dev/sdc"}, Tags: []string{"lvms"}}},
		{"vgextend vg1 /dev/sdd", lvm.VGExtend{Name: "vg1", Devices: []string{"/dev/sdd"}}},
		{"pvresize /dev/sdb", lvm.PVResize{VG: "vg1", Device: "/dev/sdb"}},
		{"vgremove vg1", lvm.VGRemove{VG: "vg1"}},
		{"vgchange --activate y vg1", lvm.VGActivate{VG: "vg1"}},
		{"pvremove /dev/sdb", lvm.PVRemove{Device: "/dev/sdb"}},
		{"lvremove --yes vg1/a", lvm.LVRemove{VG: "vg1", Names: []string{"a"}}},
		{"lvremove vg1/pool", lvm.ThinPoolRemove{VG: "vg1", Name: "pool"}},
		{"lvchange --activate y vg1/a", lvm.LVActivate{VG: "vg1", Name: "a"}},
		{"lvrename vg1 a b", lvm.LVRename{VG: "vg1", Name: "a", To: "b"}},
		{"lvchange --addtag x --addtag y --deltag z vg1/a",
			lvm.LVChangeTags{VG: "vg1", Name: "a", Add: []string{"x", "y"}, Remove: []string{"z"}}},
		{"lvchange --activate n vg1/pool", lvm.LVDeactivate{VG: "vg1", Names: []string{"pool"}}},
		{"lvextend --size 8388608b vg1/a", lvm.LVExtend{VG: "vg1", Name: "a", Size: 8 << 20}},
		{"lvcreate --name a --size 4194304b --wipesignatures y --yes --addtag t --type raid1 vg1",
			lvm.LVCreateThick{VG: "vg1", Name: "a", Size: 4 << 20, Tags: []string{"t"},
				Options: []string{"--type", "raid1"}}},
		{"lvcreate --name a --virtualsize 4194304b --wipesignatures n --addtag t --thinpool vg1/pool",
			lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: "a", VirtualSize: 4 << 20, PoolZeroes: true,
				Tags: []string{"t"}}},
		{"lvcreate --name a --virtualsize 4194304b --wipesignatures y --yes --thinpool vg1/pool",
			lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: "a", VirtualSize: 4 << 20}},
		{"lvcreate --snapshot --name s --setactivationskip y --activate n --addtag t vg1/a",
			lvm.LVCreateSnapshot{VG: "vg1", Source: "a", Name: "s", Inactive: true, Tags: []string{"t"}}},
		{"lvchange --setactivationskip n vg1/s", lvm.LVAllowActivation{VG: "vg1", Name: "s"}},
		{"lvcreate --snapshot --name s --setactivationskip n --permission r vg1/a",
			lvm.LVCreateSnapshot{VG: "vg1", Source: "a", Name: "s", ReadOnly: true}},
		{"lvcreate --type thin-pool --extents 90%FREE --zero y --chunksize 131072b --poolmetadatasize 1073741824b " +
			"--thinpool vg1/pool",
			lvm.LVCreateThinPool{VG: "vg1", Name: "pool", PercentFree: 90, ChunkSize: 128 << 10, MetadataSize: 1 << 30}},
		{"lvcreate --type thin-pool --extents 100%FREE --zero y --thinpool vg1/pool",
			lvm.LVCreateThinPool{VG: "vg1", Name: "pool", PercentFree: 100}},
		{"lvcreate --type thin-pool --extents 50%FREE --zero y --discards nopassdown --thinpool vg1/pool",
			lvm.LVCreateThinPool{VG: "vg1", Name: "pool", PercentFree: 50, Discards: lvm.DiscardsNoPassDown}},
		{"lvchange --discards passdown vg1/pool", lvm.ThinPoolSetDiscards{VG: "vg1", Pool: "pool", Mode: lvm.DiscardsPassDown}},
		{"lvcreate --name a --size 4194304b --wipesignatures y --yes --type raid1 vg1 /dev/sdb /dev/sdc",
			lvm.LVCreateThick{VG: "vg1", Name: "a", Size: 4 << 20, Options: []string{"--type", "raid1"},
				Devices: []string{"/dev/sdb", "/dev/sdc"}}},
		{"lvextend --size 8388608b vg1/a /dev/sdb",
			lvm.LVExtend{VG: "vg1", Name: "a", Size: 8 << 20, Devices: []string{"/dev/sdb"}}},
		{"vgchange --addtag a=b --addtag c --deltag d vg1",
			lvm.VGChangeTags{VG: "vg1", Add: []string{"a=b", "c"}, Remove: []string{"d"}}},
		{"vgrename uuid-1 vg1", lvm.VGRename{UUID: "uuid-1", Name: "vg1"}},
		{"vgreduce vg1 /dev/sdb", lvm.VGReduce{VG: "vg1", Device: "/dev/sdb"}},
		{"vgreduce --removemissing vg1", lvm.VGReduceMissing{VG: "vg1"}},
		{"pvchange --allocatable n --addtag t /dev/sdb", lvm.PVSetAllocatable{Device: "/dev/sdb", AddTag: "t"}},
		{"pvchange --allocatable y --deltag t /dev/sdb",
			lvm.PVSetAllocatable{Device: "/dev/sdb", Allocatable: true, RemoveTag: "t"}},
		{"pvmove --background --atomic --interval 5 /dev/sdb", lvm.PVMoveStart{VG: "vg1", Source: "/dev/sdb"}},
		{"pvmove --background --interval 5", lvm.PVMoveResume{}},
		{"pvmove --abort /dev/sdb", lvm.PVMoveAbort{Source: "/dev/sdb"}},
		{"lvconvert --repair --yes vg1/a", lvm.LVRepair{VG: "vg1", Name: "a"}},
		{"lvchange --yes --rebuild /dev/sdb --rebuild /dev/sdc vg1/a",
			lvm.LVRebuild{VG: "vg1", Name: "a", Devices: []string{"/dev/sdb", "/dev/sdc"}}},
		{"lvchange --refresh vg1/a", lvm.LVRefresh{VG: "vg1", Name: "a"}},
		{"lvextend --poolmetadatasize +4096b vg1/po", lvm.ThinPoolMetadataExtend{VG: "vg1", Pool: "po", Add: 4096}},
	}
	for _, tt := range tests {
		r := &runner{}
		if err := New(r).Apply(t.Context(), tt.change); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		if diff := cmp.Diff([]string{"/usr/sbin/lvm " + tt.want}, r.changes()); diff != "" {
			t.Error(diff)
		}
		for _, word := range strings.Fields(tt.want) {
			if word == "--force" || word == "-f" || word == "-ff" {
				t.Errorf("%s forces", tt.want)
			}
		}
	}
}

func TestVGChangeTagsWithoutTagsRunsNothing(t *testing.T) {
	r := &runner{}
	if err := New(r).Apply(t.Context(), lvm.VGChangeTags{VG: "vg1"}); err != nil || len(r.commands) != 0 {
		t.Errorf("got %v, %v", err, r.commands)
	}
}

func TestCheckRAID(t *testing.T) {
	exit := func(code int) error { return &host.Error{ExitCode: code, Err: fmt.Errorf("exit status %d", code)} }
	tests := map[string]struct {
		err    error
		lacks  bool
		failed bool
	}{
		"all modules are there": {nil, false, false},
		"one is missing":        {exit(1), true, true},
		"modprobe is missing":   {&host.Error{ExitCode: -1, Err: os.ErrNotExist}, false, true},
		"modprobe crashes":      {exit(139), false, true},
	}
	for name, tt := range tests {
		r := &runner{answer: func(context.Context, []string) ([]byte, error) { return nil, tt.err }}
		err := New(r).CheckRAID(t.Context())
		if errors.Is(err, lvm.ErrNoTarget) != tt.lacks || (err != nil) != tt.failed {
			t.Errorf("%s: got %v", name, err)
		}
		if diff := cmp.Diff([]string{"/usr/sbin/modprobe --dry-run --quiet --all dm-raid raid1 raid10 raid456"},
			r.commands); diff != "" {
			t.Error(diff)
		}
	}
}

// TestDevicesFileRemove: lvmdevices --deldev creates a missing devices file, without the devices that LVM has used so
// far.
func TestDevicesFileRemove(t *testing.T) {
	noEntry := &host.Error{ExitCode: 5, Stderr: "No devices file entry for /dev/sdb.", Err: errors.New("exit status 5")}
	tests := map[string]struct {
		list, remove error
		changes      bool
		fails        bool
	}{
		"there is a file":      {nil, nil, true, false},
		"without the device":   {nil, noEntry, true, false},
		"the command fails":    {nil, unknownFailure, true, true},
		"there is none":        {noDevicesFile, nil, false, false},
		"LVM does not use one": {notEnabled, nil, false, false},
		"nobody knows":         {unknownFailure, nil, false, true},
	}
	for name, tt := range tests {
		for range 2 {
			r := devicesFile(tt.list)
			list := r.answer
			r.answer = func(ctx context.Context, args []string) ([]byte, error) {
				if slices.Contains(args, "--deldev") {
					return nil, tt.remove
				}
				return list(ctx, args)
			}
			if err := New(r).Apply(t.Context(), lvm.DevicesFileRemove{Device: "/dev/sdb"}); (err != nil) != tt.fails {
				t.Errorf("%s: got %v", name, err)
			}
			if slices.Contains(r.commands, "/usr/sbin/lvm lvmdevices --deldev /dev/sdb") != tt.changes {
				t.Errorf("%s: ran %v", name, r.commands)
			}
		}
	}
}

func TestReportThatFailsIsNeverEmpty(t *testing.T) {
	tests := map[string]func(context.Context, []string) ([]byte, error){
		"the command fails": func(context.Context, []string) ([]byte, error) {
			return nil, &host.Error{Err: errors.New("exit status 5")}
		},
		"no output":       func(context.Context, []string) ([]byte, error) { return nil, nil },
		"half the output": func(context.Context, []string) ([]byte, error) { return []byte(`{"report":[{"vg":[`), nil },
	}
	for name, answer := range tests {
		if report, err := New(&runner{answer: answer}).Report(t.Context()); err == nil || report != nil {
			t.Errorf("%s: got %+v, %v", name, report, err)
		}
	}
}

func TestReportHasATimeLimit(t *testing.T) {
	r := &runner{answer: func(ctx context.Context, _ []string) ([]byte, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > readTimeout {
			return nil, errors.New("no time limit")
		}
		return []byte(`{"report":[]}`), nil
	}}
	if _, err := New(r).Report(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRecentIsSharedUntilItIsOld(t *testing.T) {
	r := reporting(t, "volumes")
	l := New(r)
	now := time.Now()
	l.reports.now = func() time.Time { return now }
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {time.Second, 1}, {4 * time.Second, 1}, {time.Second, 2}, {0, 2}} {
		now = now.Add(step.later)
		if _, err := l.Recent(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := r.reports(); got != step.want {
			t.Errorf("after %s: %d reports, want %d", step.later, got, step.want)
		}
	}
}

func TestRecentIsReadAnewAfterAChangeThatFailedToo(t *testing.T) {
	r := reporting(t, "volumes")
	record := r.answer
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		if args[0] == "vgchange" {
			return nil, &host.Error{Err: errors.New("exit status 5")}
		}
		return record(ctx, args)
	}
	l := New(r)
	for want := 1; want <= 2; want++ {
		if _, err := l.Recent(t.Context(), time.Hour); err != nil || r.reports() != want {
			t.Fatalf("got %d reports and %v, want %d", r.reports(), err, want)
		}
		if err := l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"}); err == nil {
			t.Fatal("the change should have failed")
		}
	}
}

// TestReportThatOverlapsAChangeIsNotKept: a report that started before a change ended may show the state before it.
func TestReportThatOverlapsAChangeIsNotKept(t *testing.T) {
	r := reporting(t, "volumes")
	record := r.answer
	l := New(r)
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		l.reports.begin()
		l.reports.end("", nil)
		return record(ctx, args)
	}
	if _, err := l.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.reports.kept(time.Hour) != nil {
		t.Error("the report was kept")
	}
}

func TestChangeIsNotCutOffWhenItsCallerGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{answer: func(inner context.Context, _ []string) ([]byte, error) {
		cancel()
		return nil, inner.Err()
	}}
	l := New(r)
	if err := l.Apply(ctx, lvm.VGActivate{VG: "vg1"}); err != nil {
		t.Errorf("the command saw its caller's cancellation: %v", err)
	}
	if err := l.Apply(ctx, lvm.VGActivate{VG: "vg1"}); !errors.Is(err, context.Canceled) || len(r.commands) != 1 {
		t.Errorf("a change began after its caller gave up: %v, %v", err, r.commands)
	}
}

func TestChangesRunOneAfterAnother(t *testing.T) {
	var running, most atomic.Int32
	r := &concurrent{run: func() {
		most.Store(max(most.Load(), running.Add(1)))
		time.Sleep(time.Millisecond)
		running.Add(-1)
	}}
	l := New(r)
	done := make(chan error)
	for range 8 {
		go func() { done <- l.Apply(context.Background(), lvm.VGActivate{VG: "vg1"}) }()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d changes ran at a time", most.Load())
	}
}

type concurrent struct{ run func() }

func (c *concurrent) Run(context.Context, string, ...string) ([]byte, error) {
	c.run()
	return nil, nil
}

// TestRenameToANameThatIsTaken: vgrename reports the path of an active volume group with the name, too, as a path.
func TestRenameToANameThatIsTaken(t *testing.T) {
	unread := errors.New("input/output error")
	for name, test := range map[string]struct {
		to      string
		readErr error
		want    error
	}{
		"a volume group":        {to: "vg1", want: lvm.ErrExists},
		"something else":        {to: "vg2", want: lvm.ErrPathExists},
		"the groups are unread": {to: "vg1", readErr: unread, want: lvm.ErrPathExists},
	} {
		r := &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
			if args[0] == "fullreport" {
				return []byte(wholeGroup), test.readErr
			}
			return nil, &host.Error{Command: "vgrename", ExitCode: 5, Stderr: "/dev/" + test.to +
				": already exists in filesystem", Err: errors.New("exit status 5")}
		}}
		err := New(r).Apply(t.Context(), lvm.VGRename{UUID: "uuid", Name: test.to})
		if !errors.Is(err, test.want) || test.readErr != nil && !errors.Is(err, unread) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// TestVGCreateWithAnEarlierLVM: LVM before 2.03.12 does not know the option, and rejects it before it reads a device.
func TestVGCreateWithAnEarlierLVM(t *testing.T) {
	for stderr, want := range map[string]int{
		"lvm: unrecognized option '--setautoactivation'\n  Error during parsing of command line.": 2,
		"Device /dev/sdb excluded by a filter.":                                                   1,
	} {
		r := &runner{}
		r.answer = func(_ context.Context, args []string) ([]byte, error) {
			if slices.Contains(args, "--setautoactivation") {
				return nil, &host.Error{Command: "lvm vgcreate", Stderr: stderr}
			}
			return nil, nil
		}
		err := New(r).Apply(t.Context(), lvm.VGCreate{Name: "vg1", Devices: []string{"/dev/sdb"}})
		if calls := len(r.changes()); calls != want || (err == nil) != (want == 2) {
			t.Errorf("%s: %d commands: %v", stderr, calls, err)
		}
	}
}
