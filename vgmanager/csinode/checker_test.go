package csinode

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/test/kill"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/fscheck"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// fakeFsck is a file system with errors, which a repair removes. The log of XFS must be replayed before.
type fakeFsck struct {
	host *fakeHost
	// broken: it has errors. dirty: its log is not replayed.
	broken, dirty bool
	// during is called while a program runs.
	during func()
	ran    []string
	err    error
	points *kill.Points // nil passes everything
}

func (f *fakeFsck) RunReporting(_ context.Context, _ func(int) bool, name string, args ...string) (string, int, error) {
	if f.during != nil {
		f.during()
	}
	f.ran = append(f.ran, filepath.Base(name)+" "+args[0])
	if f.err != nil {
		return "", -1, f.err
	}
	if f.host.usable {
		f.dirty, f.host.usable = false, false // the kernel replayed the log
	}
	out, code := "", 0
	err := f.points.Pass(func() error {
		switch checks := slices.Contains(args, "-n"); {
		case checks && f.broken && strings.HasSuffix(name, "xfs_repair"):
			out, code = "bad magic number\n", 1
		case checks && f.broken:
			out, code = "Inode 2 ref count is 4, should be 3.  Fix? no\n", 4
		case checks:
		case f.dirty:
			code = 2
		default:
			f.broken = false
			out = "disconnected inode 131, moving to lost+found\nConnect to /lost+found? yes\n"
		}
		return nil
	}, nil)
	return out, code, err
}

var checkedVolume = fsck.Volume{Name: id, Device: "/dev/vg1/" + id, Major: 254, Minor: 7}

// newChecker returns a Checker that shares the volume and the locks with the node service of b.
func (b *bench) newChecker(kind string) (*fscheck.Checker, *fakeFsck) {
	b.host.found = contentOf(kind)
	programs := &fakeFsck{host: b.host, broken: true, dirty: kind == "xfs"}
	return &fscheck.Checker{Node: "node1", Locks: b.server.Locks, Devices: b.host, Mounts: b.host, Programs: programs,
		Tags:      func(context.Context, string, string) ([]string, error) { return nil, nil },
		ReplayDir: filepath.Join(b.TempDir(), "replay")}, programs
}

func TestCheckerRepairs(t *testing.T) {
	for kind, want := range map[string]string{
		"ext4": "e2fsck -f, e2fsck -f, e2fsck -f",
		"xfs":  "xfs_repair -n, xfs_repair /dev/vg1/8a6e, xfs_repair /dev/vg1/8a6e, xfs_repair -n",
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			c, programs := b.newChecker(kind)
			for range 2 { // the same again
				got, err := c.Check(t.Context(), checkedVolume, kind)
				if err != nil || got.Errors != programs.broken {
					t.Fatalf("got %+v, %v", got, err)
				}
				if len(b.host.mounts) != 0 || len(b.host.did) != 0 {
					t.Errorf("a check did %v", b.host.did)
				}
				if programs.broken {
					programs.ran = nil
				}
			}
			programs.ran, programs.broken, programs.dirty = nil, true, kind == "xfs"
			if got, err := c.Check(t.Context(), checkedVolume, kind); err != nil || !got.Errors {
				t.Fatalf("got %+v, %v", got, err)
			}
			got, err := c.Repair(t.Context(), checkedVolume, kind)
			if err != nil || got.Errors || got.Finding != "no errors" || got.Moved == 0 {
				t.Fatalf("got %+v, %v", got, err)
			}
			if ran := strings.Join(programs.ran, ", "); ran != want || len(b.host.mounts) != 0 {
				t.Errorf("ran %s, want %s", ran, want)
			}
			b.wantCode(b.stage(kind, writer), codes.OK)
		})
	}
}

// TestNothingIsStagedDuringACheck, and no check starts while a volume is staged.
func TestNothingIsStagedDuringACheck(t *testing.T) {
	b := newBench(t)
	c, programs := b.newChecker("ext4")
	calls := 0
	programs.during = func() {
		calls++
		b.wantCode(b.stage("ext4", writer), codes.Aborted, "e2fsck -f -", "/dev/vg1/8a6e has been running since 20")
		b.wantCode(b.publish(true, false), codes.Aborted, "e2fsck")
		if _, err := c.Check(t.Context(), checkedVolume, "ext4"); !errors.Is(err, fsck.ErrLocked) {
			t.Errorf("a second check: %v", err)
		}
	}
	if _, err := c.Check(t.Context(), checkedVolume, "ext4"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Repair(t.Context(), checkedVolume, "ext4"); err != nil {
		t.Fatal(err)
	}
	if calls != 3 {
		t.Errorf("%d programs ran", calls)
	}
	programs.during = func() { t.Error("a program runs on a volume that is being staged or mounted") }
	b.host.during = func(ctx context.Context, _ string) {
		if _, err := c.Check(ctx, checkedVolume, "ext4"); !errors.Is(err, fsck.ErrLocked) ||
			!strings.Contains(err.Error(), "the check of the file system") {
			t.Errorf("while it is staged: %v", err)
		}
	}
	b.wantCode(b.stage("ext4", writer), codes.OK)
	if _, err := c.Repair(t.Context(), checkedVolume, "ext4"); !errors.Is(err, fsck.ErrInUse) ||
		!strings.Contains(err.Error(), b.staging) {
		t.Errorf("got %v", err)
	}
}

func TestCheckerChangesNothingWithoutItsReason(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(*bench)
		kind  string
		fails error
		says  string
	}{
		"a mount in another namespace": {do: func(b *bench) { b.host.isHeld = true }, fails: fsck.ErrInUse},
		"a published block volume": {do: func(b *bench) { b.host.mounts["/pods/1"] = b.host.device }, fails: fsck.ErrInUse,
			says: "/pods/1"},
		"mounts that cannot be read": {do: func(b *bench) { b.host.errors["mountPoints"] = errors.New("permission denied") },
			says: "permission denied"},
		"a device that cannot be opened": {do: func(b *bench) { b.host.errors["held"] = errors.New("input/output error") },
			says: "input/output error"},
		"a device that cannot be read": {do: func(b *bench) { b.host.errors["probe"] = errors.New("read at 0: EIO") },
			says: "cannot be read: read at 0"},
		"a device that is gone": {do: func(b *bench) { b.host.errors["number"] = errors.New("no such file") },
			says: "no such file"},
		"another device": {do: func(b *bench) { b.host.device = mounter.Number{Major: 254, Minor: 9} }, says: "leads to device 254:9"},
		"another file system": {do: func(b *bench) { b.host.found = contentOf("xfs") },
			says: "has the file system xfs now, and had ext4"},
		"no file system": {do: func(b *bench) { b.host.found = mounter.Content{} }, fails: fsck.ErrUnsupported},
		"a partition table": {do: func(b *bench) { b.host.found = mounter.Content{Kind: "a partition table (gpt)"} },
			fails: fsck.ErrUnsupported, says: "a partition table (gpt)"},
		"an unsupported file system": {do: func(b *bench) { b.host.found = contentOf("btrfs") },
			fails: fsck.ErrUnsupported, says: "btrfs"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c, programs := b.newChecker("ext4")
			test.do(b)
			_, checked := c.Check(t.Context(), checkedVolume, "ext4")
			_, repaired := c.Repair(t.Context(), checkedVolume, "ext4")
			for _, err := range []error{checked, repaired} {
				if err == nil || test.fails != nil && !errors.Is(err, test.fails) ||
					!strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v", err)
				}
			}
			if len(programs.ran) != 0 {
				t.Errorf("ran %v", programs.ran)
			}
			// The lock is free again.
			if err := b.server.Locks.Enter(id); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCheckerIdentifiesAFileSystemWithoutSuperblock by the tag of the volume.
func TestCheckerIdentifiesAFileSystemWithoutSuperblock(t *testing.T) {
	b := newBench(t)
	c, _ := b.newChecker("ext4")
	b.host.found = mounter.Content{}
	v := checkedVolume
	v.Formatted = "xfs"
	if kind, err := c.Identify(t.Context(), v); kind != "xfs" || err != nil {
		t.Errorf("got %s, %v", kind, err)
	}
	v.Formatted = "vfat"
	if _, err := c.Identify(t.Context(), v); !errors.Is(err, fsck.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

// TestALogThatCannotBeReplayedIsKept: nothing is forced.
func TestALogThatCannotBeReplayedIsKept(t *testing.T) {
	b := newBench(t)
	c, programs := b.newChecker("xfs")
	b.host.errors["mount"] = errors.New("structure needs cleaning")
	_, err := c.Repair(t.Context(), checkedVolume, "xfs")
	if !errors.Is(err, fsck.ErrDirtyLog) || !strings.Contains(err.Error(), "structure needs cleaning") {
		t.Errorf("got %v", err)
	}
	if len(programs.ran) != 1 || !programs.broken || !programs.dirty {
		t.Errorf("ran %v", programs.ran)
	}
}

// TestCheckerKilledAtEveryStep repairs in the next process, and leaves no mount.
func TestCheckerKilledAtEveryStep(t *testing.T) {
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		b := newBench(t)
		c, programs := b.newChecker("xfs")
		b.host.points, programs.points = p, p
		if _, err := c.Repair(t.Context(), checkedVolume, "xfs"); err == nil && p.Kills() {
			t.Fatal("the process was not ended")
		}
		p.Restart()
		b.guarded(p)
		next := *c
		next.Locks = b.server.Locks
		for range 2 {
			if err := next.EndReplay(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got, err := next.Repair(t.Context(), checkedVolume, "xfs")
		if err != nil || got.Errors || programs.broken || len(b.host.mounts) != 0 {
			t.Errorf("got %+v, %v, mounts %v", got, err, b.host.mounts)
		}
	})
}

func TestMountPointsOfVolumes(t *testing.T) {
	b := newBench(t)
	c, _ := b.newChecker("ext4")
	b.wantCode(b.stage("ext4", writer), codes.OK)
	other := fsck.Volume{Name: "other", Major: 254, Minor: 8}
	got, err := c.MountPoints([]fsck.Volume{checkedVolume, other})
	if err != nil || len(got) != 1 || strings.Join(got[id], " ") != b.staging {
		t.Errorf("got %v, %v", got, err)
	}
	b.host.errors["mountPoints"] = errors.New("permission denied")
	if _, err := c.MountPoints([]fsck.Volume{other}); err == nil || !strings.Contains(err.Error(), "node1") {
		t.Errorf("got %v", err)
	}
}
