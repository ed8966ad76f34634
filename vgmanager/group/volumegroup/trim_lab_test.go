//go:build lab

package volumegroup

import (
	"crypto/rand"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
)

// mkfs creates the file systems that the scene mounts. After the mount, the kernel writes no new blocks on its own.
// check checks the file systems.
var (
	mkfs = map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-m0", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
		"xfs":  {"mkfs.xfs", "-q", "-l", "size=64m"},
	}
	check = map[string][]string{"ext4": {"e2fsck", "-f", "-n"}, "xfs": {"xfs_repair", "-n"}}
)

// TestSceneFullPoolIsTrimmedWithApproval fills a thin pool after a file was deleted in a mounted volume. The blocks of
// the file return to the pool while the file system stays mounted, and no other volume changes.
func TestSceneFullPoolIsTrimmedWithApproval(t *testing.T) {
	for _, kind := range lane.Cases(slices.Sorted(maps.Keys(mkfs))...) {
		t.Run(kind, func(t *testing.T) { trimFullPool(t, kind) })
	}
}

func trimFullPool(t *testing.T, kind string) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[:3]...)
		return spec
	})
	size := s.ready().ThinPool.Size.Value()
	s.sh("/usr/sbin/lvm", "lvchange", "--errorwhenfull", "y", "vg1/pool")
	sum := s.fill(s.volume("other", 16<<20), 16<<20)
	mountPoint := s.mountVolume("mounted", 512<<20, kind)
	kept := s.writeFile(filepath.Join(mountPoint, "kept"), 8<<20)
	s.writeFile(filepath.Join(mountPoint, "deleted"), size*6/10)
	s.ok(os.Remove(filepath.Join(mountPoint, "deleted")))
	unix.Sync()
	s.disaster()
	s.writeSome(s.volume("filler", 512<<20), size)
	s.happened()
	s.says(v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolOutOfData, "(1) extend the pool",
		"(2) add a device", string(v1alpha1.RecoveryFreePoolSpace))
	s.named()

	p := s.plan(v1alpha1.RecoveryFreePoolSpace).Status.Plan
	if len(p.MountedVolumes) != 1 || p.MountedVolumes[0].Name != "mounted" || p.ExtensibleBytes == 0 ||
		p.MountedVolumes[0].AllocatedBytes-p.MountedVolumes[0].UsedBytes < size/2 {
		t.Fatalf("got the plan %+v", p)
	}
	s.approve(p.ID)
	// An agent changes nothing by commands here. Each one ends after one reconcile more than the one before, so at each
	// step: before the trim, while it runs, and before its result is reported. The next one begins again.
	agents, left := 1, 1
	s.converge("trimmed", func(v1alpha1.VGStatus) bool {
		if left--; left == 0 {
			s.boot()
			agents++
			left = agents
		}
		return s.recovery().Status.Phase == v1alpha1.RecoverySucceeded
	})
	s.recovered(agents - 1)
	if agents < 3 {
		t.Errorf("only %d agents ended: this shows nothing", agents-1)
	}
	status := s.recovery().Status
	t.Logf("%s", status.Message)
	if status.FreedBytes == nil || *status.FreedBytes < size/2 || strings.Contains(status.Message, "not trimmed") {
		t.Errorf("got %+v", status)
	}
	if e := s.ready(); e.ThinPool.DataPercent > 60 {
		t.Errorf("the pool is %d%% full", e.ThinPool.DataPercent)
	}
	s.unchanged("/dev/vg1/other", sum)
	s.unchanged(filepath.Join(mountPoint, "kept"), kept)
	s.writeFile(filepath.Join(mountPoint, "new"), 8<<20)
	s.sh("/usr/bin/umount", mountPoint)
	s.sh("/usr/sbin/"+check[kind][0], append(check[kind][1:], "/dev/vg1/mounted")...)
	s.discard()
}

// mountVolume creates a volume, and mounts a new file system on it.
func (s *scene) mountVolume(name string, size int64, kind string) string {
	s.Helper()
	volume := s.volume(name, size)
	s.sh("/usr/sbin/"+mkfs[kind][0], append(mkfs[kind][1:], volume)...)
	path := filepath.Join(s.TempDir(), name)
	s.ok(os.Mkdir(path, 0o700))
	s.sh("/usr/bin/mount", volume, path)
	s.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

// writeFile writes random data to a new file, and returns its hash.
func (s *scene) writeFile(path string, size int64) string {
	s.Helper()
	f, err := os.Create(path)
	s.ok(err)
	_, err = io.CopyN(f, rand.Reader, size)
	s.ok(err)
	s.ok(f.Sync())
	s.ok(f.Close())
	return s.hash(path)
}
