package groupsnapshot

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

var watched = []string{"LVM-v0", "LVM-v1", "LVM-v2"}

// suspend suspends the first two devices.
func (k *node) suspend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.locked[vg] = true
	k.suspended["LVM-v0"], k.suspended["LVM-v1"] = true, true
}

func (k *node) isSuspended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.suspended) > 0
}

func TestTheWatchdogResumesWhenTheAgentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newNode(3)
		k.suspend()
		k.fails["resume LVM-v0"] = resumeAttempts - 1
		read, write := io.Pipe()
		var out bytes.Buffer
		ended := make(chan error, 1)
		go func() { ended <- watch(read, &out, k, watched, time.Minute) }()
		synctest.Wait()
		if out.String() != host.Ready+"\n" || !k.isSuspended() {
			t.Errorf("before: %q, suspended: %v", out.String(), k.isSuspended())
		}
		_ = write.Close()
		if err := <-ended; err != nil || k.isSuspended() {
			t.Errorf("got %v, suspended: %v", err, k.isSuspended())
		}
		if slices.Contains(k.recorded(), "resume LVM-v2") {
			t.Error("a device that is not suspended was resumed")
		}
	})
}

// TestTheWatchdogResumesAtItsLimit, also a device that the kernel suspends later.
func TestTheWatchdogResumesAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newNode(3)
		k.suspend()
		k.fails["state LVM-v1"] = 1
		read, write := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- watch(read, io.Discard, k, watched, time.Minute) }()
		time.Sleep(2 * time.Minute) // the volume groups are locked, and nothing is suspended yet
		synctest.Wait()
		if !k.isSuspended() {
			t.Error("resumed before the limit has begun")
		}
		_, _ = write.Write([]byte{'\n'})
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if !k.isSuspended() {
			t.Error("resumed before the limit")
		}
		for range 2 {
			time.Sleep(watchInterval + 1)
			synctest.Wait()
			if k.isSuspended() {
				t.Errorf("%v are suspended after the limit", k.suspended)
			}
			k.suspend()
		}
		_ = write.Close()
		if err := <-ended; err != nil || k.isSuspended() {
			t.Errorf("got %v, suspended: %v", err, k.isSuspended())
		}
	})
}

func TestTheWatchdogEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newNode(3)
		k.suspend()
		read, write := io.Pipe()
		begun := time.Now()
		if err := watch(read, io.Discard, k, watched, time.Minute); err == nil || time.Since(begun) != watchEnd {
			t.Errorf("after %s: got %v", time.Since(begun), err)
		}
		_ = write.Close()
	})
}

func TestTheWatchdogSaysWhatItCannotResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newNode(3)
		k.suspend()
		k.fails["state LVM-v1"] = 1
		k.fails["resume LVM-v0"] = resumeAttempts
		if err := watch(&bytes.Buffer{}, io.Discard, k, watched, time.Minute); !errors.Is(err, errFailed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheWatchdogLeavesItsCgroup(t *testing.T) {
	root := t.TempDir()
	if err := leaveCgroup(root); err == nil {
		t.Error("a node without cgroup v2 has a watchdog")
	}
	for _, name := range []string{"cgroup.controllers", "cgroup.procs"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := leaveCgroup(root); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(root, "cgroup.procs")); err != nil || string(got) != "0" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(root, "cgroup.procs")); err != nil {
		t.Fatal(err)
	}
	if err := leaveCgroup(root); err == nil {
		t.Error("a process that cannot leave its cgroup is a watchdog")
	}
}
