package lvmexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// TestAKnownChangeCostsNoReport checks that the cached report stays in use after a change with a known effect, and
// that its age is not renewed.
func TestAKnownChangeCostsNoReport(t *testing.T) {
	r := reporting(t, "volumes")
	l := New(r)
	now := time.Now()
	l.reports.now = func() time.Time { return now }
	before, err := l.Recent(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, before)
	now = now.Add(40 * time.Second)
	if err := l.Apply(t.Context(), lvm.LVCreateThin{VG: vg.Name, Pool: pool, PoolZeroes: true, Name: "new",
		VirtualSize: 1 << 20}); err != nil {
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

// poolOf returns a volume group with a thin pool, and the name of the pool.
func poolOf(t *testing.T, report *lvm.Report) (lvm.VG, string) {
	t.Helper()
	for _, vg := range report.VGs {
		for i := range vg.LVs {
			if vg.LVs[i].Attr.IsThinPool() {
				return vg, vg.LVs[i].Name
			}
		}
	}
	t.Fatal("no pool")
	return lvm.VG{}, ""
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
			return l.Apply(t.Context(), lvm.LVCreateThin{VG: vg.Name, Pool: "nosuch", Name: "n", VirtualSize: 1 << 20})
		},
		"options of the user's": func() error {
			return l.Apply(t.Context(), lvm.LVCreateThin{VG: vg.Name, Pool: pool, Name: "n", VirtualSize: 1 << 20,
				Options: []string{"-an"}})
		},
		"activation of a group": func() error { return l.Apply(t.Context(), lvm.VGActivate{VG: "other"}) },
		"RAID": func() error {
			return l.Apply(t.Context(), lvm.LVCreateThick{VG: vg.Name, Name: "n", Size: 1 << 20,
				Options: []string{"--type", "raid1"}})
		},
		"growth of the pool": func() error {
			return l.Apply(t.Context(), lvm.LVExtend{VG: vg.Name, Name: pool, Size: 1 << 40})
		},
		"failure": func() error {
			fail = true
			defer func() { fail = false }()
			_ = l.Apply(t.Context(), lvm.LVCreateThin{VG: vg.Name, Pool: pool, Name: "n", VirtualSize: 1 << 20})
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

// TestDevicesAreNamedAsTheSameCallReadThem checks that devices are named only for a healthy group, and from a report
// of the same call. An older report may miss a device that was added since, and LVM treats a device that is not named
// as missing.
func TestDevicesAreNamedAsTheSameCallReadThem(t *testing.T) {
	r := reporting(t, "volumes")
	l := New(r)
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, report)
	named := func(change func() error) (int, int) {
		t.Helper()
		reports := r.reports()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		return strings.Count(r.commands[len(r.commands)-1], "--devices"), r.reports() - reports
	}
	remove := func() error { return l.Apply(t.Context(), lvm.LVRemove{VG: vg.Name, Names: []string{"nosuch"}}) }
	tag := func() error {
		return l.Apply(t.Context(), lvm.LVChangeTags{VG: vg.Name, Name: "nosuch", Add: []string{"a"}})
	}
	create := func() error {
		return l.Apply(t.Context(), lvm.LVCreateThin{VG: vg.Name, Pool: pool, PoolZeroes: true, Name: "new",
			VirtualSize: 1 << 20})
	}
	extend := func() error {
		return l.Apply(t.Context(), lvm.VGExtend{Name: vg.Name, Devices: []string{"/dev/x"}})
	}
	for name, tt := range map[string]struct {
		change     func() error
		well       bool
		devices    int
		newReports int
	}{
		"removal, not known to be well": {change: remove, devices: 0, newReports: 1},
		"removal":                       {change: remove, well: true, devices: len(vg.PVs), newReports: 1},
		"tags":                          {change: tag, well: true, devices: len(vg.PVs), newReports: 1},
		"a new volume":                  {change: create, well: true, devices: 0, newReports: 0},
		"a new device":                  {change: extend, well: true, devices: 0, newReports: 1},
	} {
		l.SetHealthy(vg.Name, tt.well)
		for range 2 {
			if devices, reports := named(tt.change); devices != tt.devices || reports != tt.newReports {
				t.Errorf("%s: %d devices are named, %d reports were read, want %d and %d", name, devices, reports,
					tt.devices, tt.newReports)
			}
		}
	}
}

// TestAGroupThatMissesADeviceIsNotChanged: LVM would run these commands and record the device as missing.
func TestAGroupThatMissesADeviceIsNotChanged(t *testing.T) {
	changes := map[string]func(*LVM, string) error{
		"removal": func(l *LVM, vg string) error {
			return l.Apply(t.Context(), lvm.LVRemove{VG: vg, Names: []string{"a"}})
		},
		"pool": func(l *LVM, vg string) error { return l.Apply(t.Context(), lvm.ThinPoolRemove{VG: vg, Name: "pool"}) },
		"tags": func(l *LVM, vg string) error {
			return l.Apply(t.Context(), lvm.LVChangeTags{VG: vg, Name: "a", Add: []string{"x"}})
		},
		"tags of the group": func(l *LVM, vg string) error {
			return l.Apply(t.Context(), lvm.VGChangeTags{VG: vg, Add: []string{"x"}})
		},
		"extension": func(l *LVM, vg string) error {
			return l.Apply(t.Context(), lvm.VGExtend{Name: vg, Devices: []string{"/dev/x"}})
		},
	}
	for name, change := range changes {
		r := reporting(t, "missing")
		l := New(r)
		report, err := l.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(report.VGs, func(vg lvm.VG) bool { return vg.MissingPVs > 0 })
		vg := report.VGs[at]
		var lost []string
		for _, pv := range vg.PVs {
			if pv.Missing {
				lost = append(lost, pv.UUID)
			}
		}
		for _, accepted := range [][]string{nil, {"another"}, lost[:len(lost)-1]} {
			l.AcceptLoss(vg.Name, accepted)
			if err := change(l, vg.Name); !errors.Is(err, lvm.ErrMissingPV) ||
				!strings.Contains(err.Error(), lost[len(lost)-1]) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		l.AcceptLoss(vg.Name, lost)
		if err := change(l, vg.Name); err != nil || len(r.changes()) != 1 {
			t.Errorf("%s: ran %v, got %v", name, r.changes(), err)
		}
		r.answer = func(context.Context, []string) ([]byte, error) { return nil, errors.New("input/output error") }
		if err := change(l, vg.Name); err == nil || len(r.changes()) != 1 {
			t.Errorf("%s: ran %v after a read that failed: %v", name, r.changes(), err)
		}
	}
}

// TestAReaderDuringAChangeCostsNoReport checks that a reader during a change gets the previous report, without a
// process.
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
	if err := l.Apply(t.Context(), lvm.LVCreateThin{VG: vg.Name, Pool: pool, PoolZeroes: true, Name: "new",
		VirtualSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if after, err := l.Recent(t.Context(), time.Hour); err != nil || after.VG(vg.Name).LV("new") == nil ||
		r.reports() != 1 {
		t.Errorf("%d reports, %v", r.reports(), err)
	}
}

// TestAReportThatBeganDuringAChangeIsNotKept: a report that started during a change shows either state. If it were
// cached, the change could be applied twice or not at all.
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
	if err := l.Apply(t.Context(), lvm.LVCreateThin{VG: vg.Name, Pool: pool, PoolZeroes: true, Name: "new",
		VirtualSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	after, err := l.Recent(t.Context(), time.Hour)
	if err != nil || len(after.VG(vg.Name).LVs) != len(vg.LVs)+1 {
		t.Errorf("got %d volumes, want %d: %v", len(after.VG(vg.Name).LVs), len(vg.LVs)+1, err)
	}
}

// TestDevicesAreNotNamedToAnOldLVM: LVM before 2.03.12 does not have the option.
func TestDevicesAreNotNamedToAnOldLVM(t *testing.T) {
	r := reporting(t, "volumes")
	record := r.answer
	r.answer = func(ctx context.Context, args []string) ([]byte, error) {
		if strings.Contains(strings.Join(args, " "), "--devices") {
			return nil, &host.Error{Err: errors.New("exit status 3"),
				Stderr: "lvremove: unrecognized option '--devices'\n  Error during parsing of command line."}
		}
		return record(ctx, args)
	}
	l := New(r)
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	name := report.VGs[0].Name
	l.SetHealthy(name, true)
	if err := l.Apply(t.Context(), lvm.LVRemove{VG: name, Names: []string{"a"}}); !errors.Is(err, lvm.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if _, err := l.Recent(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := l.Apply(t.Context(), lvm.LVRemove{VG: name, Names: []string{"a"}}); err != nil {
			t.Error(err)
		}
	}
}

// TestARemovalFromAFullPoolCostsAReport: a removal can change the state of a full pool.
func TestARemovalFromAFullPoolCostsAReport(t *testing.T) {
	r := reporting(t, "full")
	l := New(r)
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	vg, pool := poolOf(t, report)
	name := vg.ThinPool(pool).Volumes[0].Name
	if err := l.Apply(t.Context(), lvm.LVRemove{VG: vg.Name, Names: []string{name}}); err != nil {
		t.Fatal(err)
	}
	// One before, one in the call, and one after.
	if _, err := l.Recent(t.Context(), time.Hour); err != nil || r.reports() != 3 {
		t.Errorf("%d reports, %v", r.reports(), err)
	}
}
