package lvmtest_test

import (
	"errors"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest/contract"
)

func newBench() (contract.Bench, *lvmtest.Fake) {
	fake := lvmtest.New()
	disks := [3]string{"/dev/ubdb", "/dev/ubdc", "/dev/ubdd"}
	for i, path := range disks {
		fake.AddDisk(path, 400<<20, uint32(16*(i+1)))
	}
	return contract.Bench{
		LVM: fake, Disks: disks,
		Sign:   func(_ *testing.T, disk string) { fake.Sign(disk, "ext4") },
		Clear:  func(_ *testing.T, disk string) { fake.Sign(disk, "") },
		Detach: func(_ *testing.T, disk string) { fake.Detach(disk) },
		Attach: func(_ *testing.T, disk string) { fake.Attach(disk) },
		Slow:   func(*testing.T, string, bool) {},
		Copied: func(_ *testing.T, group string) { fake.Progress(group, 100) },
	}, fake
}

func TestFakeFulfilsTheContract(t *testing.T) {
	b, _ := newBench()
	contract.Check(t, b)
}

func TestFakeFulfilsTheContractOfDevices(t *testing.T) {
	b, _ := newBench()
	contract.CheckDevices(t, b)
}

func TestFakeMoveEndsOnlyWhenItIsPolled(t *testing.T) {
	b, fake := newBench()
	ctx := t.Context()
	must(t, fake.Apply(ctx, lvm.VGCreate{Name: "vg", Devices: b.Disks[:2]}))
	must(t, fake.Apply(ctx, lvm.LVCreateThick{VG: "vg", Name: "a", Size: 40 << 20, Devices: b.Disks[:1]}))
	must(t, fake.Apply(ctx, lvm.PVMoveStart{VG: "vg", Source: b.Disks[0]}))
	fake.KillPollers()
	for _, percent := range []float64{50, 100} {
		fake.Progress("vg", percent)
		report, err := fake.Report(ctx)
		must(t, err)
		if moves := report.VG("vg").Moves(); len(moves) != 1 || *moves[0].Percent != percent {
			t.Fatalf("at %g: got %+v", percent, moves)
		}
	}
	must(t, fake.Apply(ctx, lvm.PVMoveResume{}))
	report, err := fake.Report(ctx)
	must(t, err)
	if vg := report.VG("vg"); len(vg.Moves()) != 0 || vg.PVs[0].Used != 0 || vg.PVs[1].Used != 40<<20 {
		t.Errorf("got %+v", vg)
	}
}

func TestFakeRAIDNeedsARefreshAfterItsDiskWasAway(t *testing.T) {
	b, fake := newBench()
	ctx := t.Context()
	must(t, fake.Apply(ctx, lvm.VGCreate{Name: "vg", Devices: b.Disks[:2]}))
	must(t, fake.Apply(ctx, lvm.LVCreateThick{VG: "vg", Name: "a", Size: 40 << 20,
		Options: []string{"--type", "raid1"}}))
	see := func(health string) {
		t.Helper()
		report, err := fake.Report(ctx)
		must(t, err)
		if lv := report.VG("vg").LV("a"); lv.Health != health {
			t.Errorf("got %+v, want %q", lv, health)
		}
	}
	fake.Detach(b.Disks[0])
	see("partial")
	fake.Attach(b.Disks[0])
	see("refresh needed")
	must(t, fake.Apply(ctx, lvm.LVRefresh{VG: "vg", Name: "a"}))
	see("")
}

func TestFakeWithoutRAID(t *testing.T) {
	b, fake := newBench()
	ctx := t.Context()
	must(t, fake.Apply(ctx, lvm.VGCreate{Name: "vg", Devices: b.Disks[:2]}))
	fake.WithoutRAID(true)
	err := fake.Apply(ctx, lvm.LVCreateThick{VG: "vg", Name: "a", Size: 40 << 20,
		Options: []string{"--type", "raid1"}})
	if check := fake.CheckRAID(ctx); !errors.Is(err, lvm.ErrNoTarget) || !errors.Is(check, lvm.ErrNoTarget) {
		t.Errorf("got %v and %v", err, check)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
