//go:build lab

package volumegroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/limit"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// TestLabALongThinCheckIsNotEnded activates a pool whose thin_check takes longer than a call, and uses another volume
// group while it runs.
func TestLabALongThinCheckIsNotEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the time limit of a call")
	}
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	sh := func(name string, args ...string) {
		t.Helper()
		if out, err := nodelvm.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
		}
	}
	lvmOf := func(args ...string) { t.Helper(); sh("/usr/sbin/lvm", args...) }
	lvmOf("vgcreate", "vg1", disks[1])
	lvmOf("vgcreate", "vg2", disks[2])
	t.Cleanup(func() {
		lvmOf("vgremove", "--force", "--yes", "vg1", "vg2")
		lvmOf("pvremove", disks[1], disks[2])
	})
	lvmOf("lvcreate", "--type", "thin-pool", "--size", "64m", "--name", "pool", "vg1")
	lvmOf("lvcreate", "--size", "8m", "--name", "other", "vg2")
	lvmOf("vgchange", "--activate", "n", "vg1")
	program := filepath.Join(t.TempDir(), "thin_check")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho $$ >>"+program+".log\n"+
		"until [ -e "+program+".end ]; do sleep 1; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	end := func() {
		if err := os.WriteFile(program+".end", nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	runner := nodelvm.New()
	l := lvmexec.New(&checking{Runner: runner, program: program})

	// Reports continue before the call has ended, too.
	during := make(chan error, 1)
	time.AfterFunc(30*time.Second, func() {
		_, err := l.Report(context.Background())
		during <- err
	})
	begun := time.Now()
	err := l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"})
	if !errors.Is(err, lvm.ErrRunning) {
		t.Errorf("after %s: got %v", time.Since(begun), err)
	}
	t.Log(err)
	if err := <-during; err != nil {
		t.Errorf("no report while it was waited for: %v", err)
	}
	for range 3 {
		started := runner.Started().Total()
		if err := l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"}); !errors.Is(err, lvm.ErrBusy) ||
			runner.Started().Total() != started {
			t.Errorf("%d commands, %v", runner.Started().Total()-started, err)
		}
		report, err := l.Report(t.Context())
		if err != nil || report.VG("vg1") == nil {
			t.Errorf("no report: %v", err)
		}
		if err := errors.Join(l.Apply(t.Context(), lvm.LVDeactivate{VG: "vg2", Names: []string{"other"}}),
			l.Apply(t.Context(), lvm.LVActivate{VG: "vg2", Name: "other"})); err != nil {
			t.Errorf("the other group: %v", err)
		}
	}
	if err := l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"}); !errors.Is(err, lvm.ErrBusy) {
		t.Errorf("the other group waited until thin_check ended: %v", err)
	}
	end()
	limit.Wait(t, "the activation ends", func() bool {
		err = l.Apply(t.Context(), lvm.VGActivate{VG: "vg1"})
		return !errors.Is(err, lvm.ErrBusy)
	})
	if err != nil {
		t.Error(err)
	}
	report, err := l.Report(t.Context())
	if err != nil || report.VG("vg1").LV("pool").Major == 0 {
		t.Errorf("the pool is not active: %v", err)
	}
	if checks, err := os.ReadFile(program + ".log"); err != nil || strings.Count(string(checks), "\n") != 1 {
		t.Errorf("thin_check ran more than once or not at all: %q, %v", checks, err)
	}
}

// checking makes LVM run another thin_check when it activates vg1.
type checking struct {
	host.Runner
	program string
}

func (c *checking) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if slices.Contains(args, "vgchange") {
		args = slices.Concat(args[:1], []string{"--config",
			`global/thin_check_executable="` + c.program + `"`}, args[1:])
	}
	return c.Runner.Run(ctx, name, args...)
}
