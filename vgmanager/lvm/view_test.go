package lvm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

// After a change whose effect is known, the report that is kept is used on, and does not become younger.
func TestAKnownChangeCostsNoReport(t *testing.T) {
	r := reporting(t, "volumes")
	l, now := New(r), time.Now()
	l.now = func() time.Time { return now }
	before, err := l.Recent(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, before)
	now = now.Add(40 * time.Second)
	if err := l.LVCreateThin(t.Context(), ThinOptions{VG: vg.Name, Pool: pool, PoolZeroes: true, Name: "new", VirtualSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	after, err := l.Recent(t.Context(), time.Minute)
	if err != nil || r.reports() != 1 {
		t.Fatalf("%d reports, %v", r.reports(), err)
	}
	if lv := after.VG(vg.Name).LV("new"); lv == nil || lv.Size != vg.ExtentSize || lv.PoolName != pool {
		t.Errorf("got %+v", lv)
	}
	if before.VG(vg.Name).LV("new") != nil {
		t.Error("a report that somebody has was changed")
	}
	now = now.Add(30 * time.Second)
	if _, err := l.Recent(t.Context(), time.Minute); err != nil || r.reports() != 2 {
		t.Errorf("%d reports, %v: the change has made the report younger", r.reports(), err)
	}
}

// poolOf returns a volume group with a thin pool, and its name.
func poolOf(t *testing.T, report *Report) (VG, string) {
	t.Helper()
	for _, vg := range report.VGs {
		for i := range vg.LVs {
			if vg.LVs[i].Attr.IsThinPool() {
				return vg, vg.LVs[i].Name
			}
		}
	}
	t.Fatal("no pool")
	return VG{}, ""
}

func TestAChangeWhoseEffectIsNotKnownCostsAReport(t *testing.T) {
	r := reporting(t, "volumes")
	l := New(r)
	record := r.answer
	fail := false
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		if fail && args[0] != "fullreport" {
			return nil, &host.Error{Err: errors.New("exit status 5")}
		}
		return record(ctx, args)
	}
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, report)
	changes := map[string]func() error{
		"unknown pool": func() error {
			return l.LVCreateThin(t.Context(), ThinOptions{VG: vg.Name, Pool: "nosuch", Name: "n", VirtualSize: 1 << 20})
		},
		"options of the user's": func() error {
			return l.LVCreateThin(t.Context(), ThinOptions{VG: vg.Name, Pool: pool, Name: "n", VirtualSize: 1 << 20, Options: []string{"-an"}})
		},
		"group that was not seen": func() error { return l.LVRemove(t.Context(), "other", "n") },
		"RAID": func() error {
			return l.LVCreateThick(t.Context(), ThickOptions{VG: vg.Name, Name: "n", Size: 1 << 20, Options: []string{"--type", "raid1"}})
		},
		"growth of the pool": func() error { return l.LVExtend(t.Context(), LVExtendOptions{VG: vg.Name, Name: pool, Size: 1 << 40}) },
		"failure": func() error {
			fail = true
			defer func() { fail = false }()
			_ = l.LVCreateThin(t.Context(), ThinOptions{VG: vg.Name, Pool: pool, Name: "n", VirtualSize: 1 << 20})
			return nil
		},
	}
	for name, change := range changes {
		reports := r.reports()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Recent(t.Context(), time.Hour); err != nil || r.reports() != reports+1 {
			t.Errorf("%s: %d reports more, %v", name, r.reports()-reports, err)
		}
	}
}

// Devices are named only for a group that is known to be well, and only while they are known.
func TestDevicesAreNamedOnlyForAGroupThatIsWell(t *testing.T) {
	for _, record := range []string{"volumes", "missing"} {
		r := reporting(t, record)
		l := New(r)
		report, err := l.Recent(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		vg := report.VGs[0]
		remove := func() string {
			if err := l.LVRemove(t.Context(), vg.Name, "nosuch"); err != nil {
				t.Fatal(err)
			}
			command := r.commands[len(r.commands)-1]
			if _, err := l.Recent(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			return command
		}
		if c := remove(); strings.Contains(c, "--devices") {
			t.Errorf("%s: not known to be well: %s", record, c)
		}
		l.NameDevices(vg.Name, true)
		c := remove()
		if got, want := strings.Count(c, "--devices"), len(vg.PVs); record == "volumes" && got != want || record == "missing" && got != 0 {
			t.Errorf("%s: %s", record, c)
		}
		l.NameDevices(vg.Name, false)
		if c := remove(); strings.Contains(c, "--devices") {
			t.Errorf("%s: not well any more: %s", record, c)
		}
	}
}

// Who reads while a change runs gets what was before it, and starts no process for it.
func TestAReaderDuringAChangeCostsNoReport(t *testing.T) {
	r := reporting(t, "volumes")
	record := r.answer
	l := New(r)
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, report)
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		if args[0] == "lvcreate" {
			during, err := l.Recent(ctx, time.Hour)
			if err != nil || during.VG(vg.Name).LV("new") != nil {
				t.Errorf("during the change: %v", err)
			}
		}
		return record(ctx, args)
	}
	if err := l.LVCreateThin(t.Context(), ThinOptions{VG: vg.Name, Pool: pool, PoolZeroes: true, Name: "new", VirtualSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if after, err := l.Recent(t.Context(), time.Hour); err != nil || after.VG(vg.Name).LV("new") == nil || r.reports() != 1 {
		t.Errorf("%d reports, %v", r.reports(), err)
	}
}

// A report whose reading began while a change ran shows either state, and is not kept: the change would be in it twice, or not at all.
func TestAReportThatBeganDuringAChangeIsNotKept(t *testing.T) {
	r := reporting(t, "volumes")
	record := r.answer
	l := New(r)
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, report)
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		if args[0] == "lvcreate" {
			if _, err := l.Report(ctx); err != nil {
				t.Error(err)
			}
		}
		return record(ctx, args)
	}
	if err := l.LVCreateThin(t.Context(), ThinOptions{VG: vg.Name, Pool: pool, PoolZeroes: true, Name: "new", VirtualSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	after, err := l.Recent(t.Context(), time.Hour)
	if err != nil || len(after.VG(vg.Name).LVs) != len(vg.LVs)+1 {
		t.Errorf("got %d volumes, want %d: %v", len(after.VG(vg.Name).LVs), len(vg.LVs)+1, err)
	}
}

// LVM before 2.03.12 does not know the option.
func TestDevicesAreNotNamedToAnOldLVM(t *testing.T) {
	r := reporting(t, "volumes")
	record := r.answer
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		if strings.Contains(strings.Join(args, " "), "--devices") {
			return nil, &host.Error{Err: errors.New("exit status 3"), Stderr: "lvremove: unrecognized option '--devices'\n  Error during parsing of command line."}
		}
		return record(ctx, args)
	}
	l := New(r)
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	name := report.VGs[0].Name
	l.NameDevices(name, true)
	if err := l.LVRemove(t.Context(), name, "a"); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if _, err := l.Recent(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := l.LVRemove(t.Context(), name, "a"); err != nil {
			t.Error(err)
		}
	}
}

// A volume is removed because its pool is full: the pool is not full then.
func TestARemovalFromAFullPoolCostsAReport(t *testing.T) {
	r := reporting(t, "full")
	l := New(r)
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, report)
	name := vg.ThinPool(pool).Volumes[0].Name
	if err := l.LVRemove(t.Context(), vg.Name, name); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Recent(t.Context(), time.Hour); err != nil || r.reports() != 2 {
		t.Errorf("%d reports, %v", r.reports(), err)
	}
}
