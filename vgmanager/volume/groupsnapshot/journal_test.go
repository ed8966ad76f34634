package groupsnapshot

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// TestTheNextAgentResumesTheVolumes ends an agent at each of its calls: the next one finds the journal.
func TestTheNextAgentResumesTheVolumes(t *testing.T) {
	for _, call := range []string{"watch", "locked", "signal", "suspend LVM-v0", "suspend LVM-v1",
		"snap 101 1", "snap 102 2", "held", "resume LVM-v1", "resume LVM-v0", "unwatch"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, pairs := newNode(2)
				path := filepath.Join(t.TempDir(), "suspended")
				killed := make(chan struct{})
				k.hangs[call] = killed
				first := make(chan struct{})
				go func() {
					defer close(first)
					_, _ = k.startAt(path).Take(t.Context(), Request{Name: "g", Pairs: pairs, Limit: MaxLimit},
						k.recordedOthers())
				}()
				synctest.Wait()
				next, _ := newNode(2)
				maps.Copy(next.suspended, k.suspended)
				n := next.startAt(path)
				next.fails["state LVM-v0"] = 1
				if err := n.Recover(t.Context()); !errors.Is(err, errFailed) {
					t.Errorf("after a failed read: %v", err)
				}
				if err := n.Recover(t.Context()); err != nil {
					t.Error(err)
				}
				next.atRest(t, n)
				close(killed)
				<-first
			})
		})
	}
}

func TestRecoverWithoutAJournalChangesNothing(t *testing.T) {
	k, _ := newNode(1)
	k.suspended["LVM-v0"] = true // by an administrator
	if err := k.start(t).Recover(t.Context()); err != nil || !k.suspended["LVM-v0"] {
		t.Errorf("got %v, suspended: %v", err, k.suspended)
	}
}

func TestAJournalThatCannotBeReadIsAnError(t *testing.T) {
	k, pairs := newNode(1)
	path := filepath.Join(t.TempDir(), "suspended")
	n := k.startAt(path)
	for _, content := range []string{"", "x", strings.Repeat(" ", maxJournal+1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := n.Recover(t.Context()); err == nil {
				t.Errorf("%.5q is read", content)
			}
			if _, err := n.Take(t.Context(), request(pairs), alone); err == nil {
				t.Errorf("%.5q: a group is taken", content)
			}
		}
	}
	if calls := k.recorded(); strings.Contains(strings.Join(calls, ","), "suspend") {
		t.Errorf("got the calls %v", calls)
	}
	n = k.startAt(filepath.Join(path, "suspended")) // its directory is a file
	if err := n.Recover(t.Context()); err == nil {
		t.Error("a failed read is no journal")
	}
}
