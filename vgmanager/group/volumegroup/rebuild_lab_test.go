//go:build lab

package volumegroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// TestSceneImageThatARefreshDoesNotReviveIsRebuilt: a device of a mirror returns errors, and before the volume is in
// sync again, the other device too. The kernel then does not add the first image again.
func TestSceneImageThatARefreshDoesNotReviveIsRebuilt(t *testing.T) {
	s := newScene(t, raidScene(v1alpha1.RAIDType1, 2))
	s.ready()
	volume := s.volume("a", 32<<20)
	s.inSync()
	sum := s.fill(volume, 32<<20)
	for _, disk := range []string{s.disks[1], s.disks[0]} {
		if err := s.rewriteWithout(volume, disk); (err != nil) != (disk == s.disks[0]) {
			t.Fatalf("without %s: %v", disk, err)
		}
	}
	before := s.runner.ByCommand()["lvm lvchange"]
	s.says(v1alpha1.ConditionRAIDHealthy, v1alpha1.ReasonRAIDDegraded, "a (refresh needed)")
	// The agent's clock runs faster than the node's, so that the pauses between the attempts are shorter.
	start := time.Now()
	s.agent.now = func() time.Time { return start.Add(10 * time.Since(start)) }
	s.converge("rebuilt", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && e.RAIDStatus.Status == v1alpha1.RAIDHealthy
	})
	if n := s.runner.ByCommand()["lvm lvchange"] - before; n == 0 || n > 4 {
		t.Errorf("%d lvchange processes, want at most three refreshes and one rebuild", n)
	}
	s.unchanged(volume, sum)
	s.pull(s.disks[0])
	s.unchanged(volume, sum)
	rescan()
	s.converge("whole again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && e.RAIDStatus.Status == v1alpha1.RAIDHealthy
	})
	s.discard()
}

// TestSceneRAIDThatLostTooManyImagesHasFailed: two of three devices return errors for a moment. LVM reports the volume
// as it reports one that can be read.
func TestSceneRAIDThatLostTooManyImagesHasFailed(t *testing.T) {
	s := newScene(t, raidScene(v1alpha1.RAIDType5, 3))
	s.ready()
	volume := s.volume("a", 32<<20)
	s.inSync()
	if err := s.rewriteWithout(volume, s.disks[1], s.disks[2]); err == nil {
		t.Fatal("the volume can be written without two of its three devices")
	}
	e := s.says(v1alpha1.ConditionRAIDHealthy, v1alpha1.ReasonRAIDFailed, "a")
	if e.RAIDStatus.Status != v1alpha1.RAIDFailed {
		t.Errorf("got %+v", e.RAIDStatus)
	}
}

func (s *scene) inSync() {
	s.Helper()
	s.converge("in sync", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && e.RAIDStatus.MinSyncPercent != nil && *e.RAIDStatus.MinSyncPercent == 100
	})
}

// offline makes all I/O of disks fail, or work again.
func (s *scene) offline(yes bool, links ...string) {
	s.Helper()
	state := "running\n"
	if yes {
		state = "offline\n"
	}
	for _, link := range links {
		s.ok(os.WriteFile("/sys/block/"+filepath.Base(kernelName(link))+"/device/state", []byte(state), 0o600))
	}
}

// rewriteWithout writes the first MiB of a volume with the same content, while all I/O of these disks fails.
func (s *scene) rewriteWithout(volume string, links ...string) error {
	s.Helper()
	f, err := os.OpenFile(volume, os.O_RDWR, 0)
	s.ok(err)
	defer func() { _ = f.Close() }()
	block := make([]byte, 1<<20)
	_, err = f.ReadAt(block, 0)
	s.ok(err)
	s.offline(true, links...)
	defer s.offline(false, links...)
	_, err = f.WriteAt(block, 0)
	return errors.Join(err, f.Sync())
}
