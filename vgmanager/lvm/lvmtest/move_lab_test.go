//go:build lab

package lvmtest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const movingGroup = "moving"

// movable creates a group of two devices. The first has a thick volume and a pool with a volume, both full of data.
// The second is so slow that a move takes a while.
func movable(t *testing.T, l *lvmexec.LVM) [3]string {
	t.Helper()
	ctx := t.Context()
	disks := mapped(t)
	must(t, l.Apply(ctx, lvm.VGCreate{Name: movingGroup, Devices: disks[:1]}))
	must(t, l.Apply(ctx, lvm.LVCreateThick{VG: movingGroup, Name: "thick", Size: 32 << 20}))
	must(t, l.Apply(ctx, lvm.LVCreateThinPool{VG: movingGroup, Name: "pool", PercentFree: 60,
		MetadataSize: 4 << 20}))
	must(t, l.Apply(ctx, lvm.LVCreateThin{VG: movingGroup, Pool: "pool", PoolZeroes: true, Name: "thin",
		VirtualSize: 32 << 20}))
	for _, name := range []string{"thick", "thin"} {
		command(t, "/usr/bin/dd", "if=/dev/urandom", "of=/dev/"+movingGroup+"/"+name, "bs=1M",
			"count=32", "oflag=direct")
	}
	must(t, l.Apply(ctx, lvm.VGExtend{Name: movingGroup, Devices: disks[1:2]}))
	reload(t, disks[1], "slow")
	t.Cleanup(func() { removeMovable(t, l, disks) })
	return disks
}

func removeMovable(t *testing.T, l *lvmexec.LVM, disks [3]string) {
	ctx := context.Background()
	reload(t, disks[1], "linear")
	endPollers(t)
	must(t, l.Apply(ctx, lvm.PVMoveAbort{Source: disks[0]}))
	for _, name := range []string{"thick", "thin"} {
		must(t, l.Apply(ctx, lvm.LVRemove{VG: movingGroup, Names: []string{name}}))
	}
	must(t, l.Apply(ctx, lvm.LVDeactivate{VG: movingGroup, Names: []string{"pool"}}))
	must(t, l.Apply(ctx, lvm.ThinPoolRemove{VG: movingGroup, Name: "pool"}))
	must(t, l.Apply(ctx, lvm.VGRemove{VG: movingGroup}))
	unmap(t, disks)
}

// sums returns checksums of the volumes, read past the page cache.
func sums(t *testing.T) string {
	t.Helper()
	var list []string
	for _, name := range []string{"thick", "thin"} {
		f, err := os.OpenFile("/dev/"+movingGroup+"/"+name, os.O_RDONLY, 0)
		must(t, err)
		command(t, "/usr/sbin/blockdev", "--flushbufs", f.Name())
		hash := sha256.New()
		_, err = io.Copy(hash, f)
		must(t, err)
		must(t, f.Close())
		list = append(list, fmt.Sprintf("%s %x", name, hash.Sum(nil)[:8]))
	}
	return strings.Join(list, ", ")
}

// pollers returns the processes that manage moves.
func pollers(t *testing.T) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var list []int
	for _, name := range files {
		line, err := os.ReadFile(name)
		var pid int
		if _, bad := fmt.Sscanf(name, "/proc/%d/",
			&pid); err == nil && bad == nil && bytes.Contains(line, []byte("pvmove")) &&
			bytes.Contains(line, []byte("lv")) {
			list = append(list, pid)
		}
	}
	return list
}

func endPollers(t *testing.T) {
	t.Helper()
	for _, pid := range pollers(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

func group(t *testing.T, l *lvmexec.LVM) *lvm.VG {
	t.Helper()
	report, err := l.Report(t.Context())
	must(t, err)
	return report.VG(movingGroup)
}

func waitFor(t *testing.T, what string, limit time.Duration, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", limit, what)
		}
	}
}

// TestAMoveOutlivesAKillOfTheProcessGroupThatBeganIt: the polling process has its own session, so it outlives the
// agent and the process that started the command.
func TestAMoveOutlivesAKillOfTheProcessGroupThatBeganIt(t *testing.T) {
	l := lvmexec.New(host.NewLocal())
	disks := movable(t, l)
	before := sums(t)
	cmd := exec.Command("/bin/sh", "-c", "/usr/sbin/lvm pvmove --background --atomic --interval 5 "+disks[0]+
		" & wait; sleep 60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	waitFor(t, "no move began", time.Minute,
		func() bool { return len(group(t, l).Moves()) == 1 && len(pollers(t)) > 0 })
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	_ = cmd.Wait()
	if left := pollers(t); len(left) != 1 {
		t.Fatalf("the processes %v poll the move, want one", left)
	}
	reload(t, disks[1], "linear")
	waitFor(t, "the move did not end by itself", time.Minute, func() bool { return len(group(t, l).Moves()) == 0 })
	if after := sums(t); after != before {
		t.Errorf("the data was %s and is %s", before, after)
	}
	if vg := group(t, l); vg.PVs[0].Used != 0 {
		t.Errorf("got %+v", vg.PVs)
	}
}

// TestAMoveWhosePollerIsKilledIsResumed: the end of a container kills the polling process. No data is lost, and a
// resume finishes the move.
func TestAMoveWhosePollerIsKilledIsResumed(t *testing.T) {
	l := lvmexec.New(host.NewLocal())
	disks := movable(t, l)
	ctx := t.Context()
	before := sums(t)
	must(t, l.Apply(ctx, lvm.PVMoveStart{VG: movingGroup, Source: disks[0]}))
	endPollers(t)
	moves := group(t, l).Moves()
	if len(moves) != 1 || moves[0].Percent == nil || *moves[0].Percent >= 100 {
		t.Fatalf("got %+v", moves)
	}
	reload(t, disks[1], "linear")
	waitFor(t, "the kernel did not copy without a poller", time.Minute, func() bool {
		m := group(t, l).Moves()
		return len(m) == 1 && m[0].Percent != nil && *m[0].Percent == 100
	})
	if during := sums(t); during != before {
		t.Errorf("the data was %s and is %s", before, during)
	}
	// Without polling, the move is not committed: the source is still in use.
	time.Sleep(7 * time.Second)
	if vg := group(t, l); len(vg.Moves()) != 1 || vg.PVs[0].Used == 0 {
		t.Fatalf("the move ended though nothing polls it: %+v", vg.PVs)
	}
	must(t, l.Apply(ctx, lvm.PVMoveResume{}))
	waitFor(t, "the move did not end", time.Minute, func() bool { return len(group(t, l).Moves()) == 0 })
	if after := sums(t); after != before {
		t.Errorf("the data was %s and is %s", before, after)
	}
	if vg := group(t, l); vg.PVs[0].Used != 0 {
		t.Errorf("got %+v", vg.PVs)
	}
}

// powerCut simulates a power failure: the kernel no longer has the group's volumes. LVM does not deactivate a pool
// that is being moved, so the test does.
func powerCut(t *testing.T) {
	t.Helper()
	for range 10 {
		out, err := exec.Command("/usr/sbin/dmsetup", "info", "--columns", "--noheadings", "-o", "name").Output()
		must(t, err)
		left := 0
		for _, name := range strings.Fields(string(out)) {
			if strings.HasPrefix(name, movingGroup+"-") &&
				exec.Command("/usr/sbin/dmsetup", "remove", name).Run() != nil {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	t.Fatal("volumes are left in the kernel")
}

// TestAMoveThatWasDeactivatedIsResumed checks the state after a power failure: the volumes are activated, the kernel
// restarts the copy, and a resume finishes the move.
func TestAMoveThatWasDeactivatedIsResumed(t *testing.T) {
	l := lvmexec.New(host.NewLocal())
	disks := movable(t, l)
	ctx := t.Context()
	before := sums(t)
	must(t, l.Apply(ctx, lvm.PVMoveStart{VG: movingGroup, Source: disks[0]}))
	endPollers(t)
	powerCut(t)
	if moves := group(t, l).Moves(); len(moves) != 1 || moves[0].Percent != nil {
		t.Fatalf("got %+v", moves)
	}
	reload(t, disks[1], "linear")
	must(t, l.Apply(ctx, lvm.VGActivate{VG: movingGroup}))
	if during := sums(t); during != before {
		t.Errorf("the data was %s and is %s", before, during)
	}
	must(t, l.Apply(ctx, lvm.PVMoveResume{}))
	waitFor(t, "the move did not end", time.Minute, func() bool { return len(group(t, l).Moves()) == 0 })
	if after := sums(t); after != before || group(t, l).PVs[0].Used != 0 {
		t.Errorf("the data was %s and is %s", before, after)
	}
}

// TestAnAbortKeepsWhatWasWrittenMeanwhile: data that is written during a move is on both sides, so an abort loses
// nothing.
func TestAnAbortKeepsWhatWasWrittenMeanwhile(t *testing.T) {
	l := lvmexec.New(host.NewLocal())
	disks := movable(t, l)
	ctx := t.Context()
	must(t, l.Apply(ctx, lvm.PVMoveStart{VG: movingGroup, Source: disks[0]}))
	for _, name := range []string{"thick", "thin"} {
		command(t, "/usr/bin/dd", "if=/dev/urandom", "of=/dev/"+movingGroup+"/"+name, "bs=64k", "count=4", "seek=9",
			"oflag=direct", "conv=notrunc")
	}
	before := sums(t)
	must(t, l.Apply(ctx, lvm.PVMoveAbort{Source: disks[0]}))
	if after := sums(t); after != before {
		t.Errorf("the data was %s and is %s", before, after)
	}
	if vg := group(t, l); len(vg.Moves()) != 0 || vg.PVs[1].Used != 0 {
		t.Errorf("got %+v", vg)
	}
}

// holdLock takes LVM's lock of the group, like another program that hangs.
func holdLock(t *testing.T, name string) func() {
	t.Helper()
	must(t, os.MkdirAll("/run/lock/lvm", 0o700))
	f, err := os.OpenFile("/run/lock/lvm/V_"+name, os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return func() { must(t, f.Close()) }
}

// limited sets a short time limit for every command, so that the test does not take minutes.
type limited struct {
	host.Runner
	limit time.Duration
}

func (r limited) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	return r.Runner.Run(ctx, name, args...)
}

func TestALockThatAnotherProgramHoldsEndsCommandsByTheirTimeLimit(t *testing.T) {
	runner := host.NewLocal()
	l := lvmexec.New(runner)
	limited := lvmexec.New(limited{runner, 3 * time.Second})
	ctx := t.Context()
	disks := labDisks(t)
	must(t, l.Apply(ctx, lvm.VGCreate{Name: "locked", Devices: disks[:1]}))
	release := holdLock(t, "locked")
	before := runner.Started().Total()
	errs := make(chan error, 3)
	go func() { errs <- limited.Apply(ctx, lvm.LVCreateThick{VG: "locked", Name: "a", Size: 4 << 20}) }()
	go func() { _, err := limited.Report(ctx); errs <- err }()
	go func() { _, err := limited.Recent(ctx, time.Minute); errs <- err }()
	for range 3 {
		err := <-errs
		if !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "another program may hold LVM's lock") {
			t.Errorf("got %v", err)
		}
		t.Log(err)
	}
	if n := runner.Started().Total() - before; n > 3 {
		t.Errorf("%d processes were started for three calls", n)
	}
	release()
	must(t, l.Apply(ctx, lvm.LVCreateThick{VG: "locked", Name: "a", Size: 4 << 20}))
	must(t, l.Apply(ctx, lvm.LVRemove{VG: "locked", Names: []string{"a"}}))
	must(t, l.Apply(ctx, lvm.VGRemove{VG: "locked"}))
	must(t, l.Apply(ctx, lvm.PVRemove{Device: disks[0]}))
}

// TestAMoveKeepsImagesApart checks that a moved image of a RAID volume stays on a different device than the others.
func TestAMoveKeepsImagesApart(t *testing.T) {
	l := lvmexec.New(host.NewLocal())
	ctx := t.Context()
	disks := labDisks(t)
	must(t, l.Apply(ctx, lvm.VGCreate{Name: "apart", Devices: disks[:]}))
	must(t, l.Apply(ctx, lvm.LVCreateThick{VG: "apart", Name: "m", Size: 40 << 20,
		Options: []string{"--type", "raid1"}, Devices: disks[:2]}))
	waitUntilCopied(t, l, "apart")
	must(t, l.Apply(ctx, lvm.PVMoveStart{VG: "apart", Source: disks[0]}))
	waitUntilCopied(t, l, "apart")
	report, err := l.Report(ctx)
	must(t, err)
	vg := report.VG("apart")
	used := map[string]lvm.Bytes{}
	for _, pv := range vg.PVs {
		used[pv.Name] = pv.Used
	}
	if used[disks[0]] != 0 || used[disks[1]] != 44<<20 || used[disks[2]] != 44<<20 {
		t.Errorf("got %v", used)
	}
	must(t, l.Apply(ctx, lvm.LVRemove{VG: "apart", Names: []string{"m"}}))
	must(t, l.Apply(ctx, lvm.VGRemove{VG: "apart"}))
	for _, disk := range disks {
		must(t, l.Apply(ctx, lvm.PVRemove{Device: disk}))
	}
}

// TestAPoolThatIsBeingMovedTakesVolumesAndKeepsItsData: LVM 2.03.16 prints internal errors about suspended devices
// when it changes a pool whose data is being moved ("Writing metadata in critical section"). The result is correct.
func TestAPoolThatIsBeingMovedTakesVolumesAndKeepsItsData(t *testing.T) {
	l := lvmexec.New(host.NewLocal())
	disks := movable(t, l)
	ctx := t.Context()
	before := sums(t)
	must(t, l.Apply(ctx, lvm.PVMoveStart{VG: movingGroup, Source: disks[0]}))
	more := []string{"one", "two"}
	for _, name := range more {
		must(t, l.Apply(ctx, lvm.LVCreateThin{VG: movingGroup, Pool: "pool", PoolZeroes: true, Name: name,
			VirtualSize: 16 << 20}))
		command(t, "/usr/bin/dd", "if=/dev/urandom", "of=/dev/"+movingGroup+"/"+name, "bs=1M",
			"count=2", "oflag=direct")
	}
	must(t, l.Apply(ctx, lvm.LVCreateSnapshot{VG: movingGroup, Source: "thin", Name: "snap"}))
	must(t, l.Apply(ctx, lvm.LVExtend{VG: movingGroup, Name: "one", Size: 32 << 20}))
	if moves := group(t, l).Moves(); len(moves) != 1 {
		t.Fatalf("the move is over: %+v", moves)
	}
	reload(t, disks[1], "linear")
	waitFor(t, "the move did not end", time.Minute, func() bool { return len(group(t, l).Moves()) == 0 })
	if after := sums(t); after != before {
		t.Errorf("the data was %s and is %s", before, after)
	}
	for _, name := range append(more, "snap") {
		must(t, l.Apply(ctx, lvm.LVRemove{VG: movingGroup, Names: []string{name}}))
	}
	// LVM runs thin_check when a pool is deactivated and when it is activated.
	for _, name := range []string{"thin", "pool"} {
		must(t, l.Apply(ctx, lvm.LVDeactivate{VG: movingGroup, Names: []string{name}}))
	}
	must(t, l.Apply(ctx, lvm.VGActivate{VG: movingGroup}))
	if pool := group(t, l).ThinPool("pool"); pool.Health != "" || pool.CheckNeeded || !pool.Attr.Active() {
		t.Errorf("got %+v", pool)
	}
	if after := sums(t); after != before {
		t.Errorf("the data was %s and is %s", before, after)
	}
}
