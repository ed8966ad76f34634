package groupsnapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

var errFailed = errors.New("failed")

// node simulates LVM's metadata, the kernel and the watchdog. It records what is called, in order.
type node struct {
	volumes map[string]lvm.ThinVolume
	state   devicemapper.ThinPool
	noPool  error
	// fails are the calls that fail, with the number of times. hangs are those that end when the channel is closed.
	fails map[string]int
	hangs map[string]chan struct{}

	mu        sync.Mutex
	calls     []string
	suspended map[string]bool
	inactive  map[string]bool // a table is loaded and not in use
	// thin are the thin devices of the pool: the version of the data.
	thin   map[uint64]int
	locked map[string]bool
}

func newNode(n int) (*node, []Pair) {
	volumes, pairs := volumesOf(n)
	k := &node{volumes: volumes, state: devicemapper.ThinPool{Mode: devicemapper.ModeReadWrite},
		fails: map[string]int{}, hangs: map[string]chan struct{}{}, suspended: map[string]bool{},
		inactive: map[string]bool{},
		thin:     map[uint64]int{}, locked: map[string]bool{}}
	for _, v := range volumes {
		k.thin[v.ID] = 0
	}
	return k, pairs
}

// start returns a Node with a journal in a temporary directory.
func (k *node) start(t *testing.T) *Node {
	t.Helper()
	return k.startAt(filepath.Join(t.TempDir(), "suspended"))
}

func (k *node) startAt(path string) *Node { return New(k, k, k, k.watchdog, path) }

func (k *node) call(name string) error {
	k.mu.Lock()
	k.calls = append(k.calls, name)
	hang := k.hangs[name]
	k.mu.Unlock()
	if hang != nil {
		<-hang
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fails[name] > 0 {
		k.fails[name]--
		return fmt.Errorf("%s: %w", name, errFailed)
	}
	return nil
}

func (k *node) Exclusively(_ context.Context, vg, _ string, f func(Locked) error) error {
	if err := k.call("lock " + vg); err != nil {
		return err
	}
	k.locked[vg] = true
	defer func() { k.locked[vg] = false }()
	return f(Locked{ThinVolumes: func(context.Context) (map[string]lvm.ThinVolume, error) {
		return k.volumes, k.call("volumes")
	}})
}

func (k *node) ThinPoolDevice(context.Context, string, string) (devicemapper.Device, devicemapper.ThinPool, error) {
	return devicemapper.Device{UUID: pool}, k.state, errors.Join(k.noPool, k.call("pool"))
}

func (k *node) State(uuid string) (devicemapper.State, error) {
	err := k.call("state " + uuid)
	k.mu.Lock()
	defer k.mu.Unlock()
	return devicemapper.State{Suspended: k.suspended[uuid], InactiveTable: k.inactive[uuid]}, err
}

func (k *node) Suspend(uuid string) error {
	if err := k.call("suspend " + uuid); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.locked[vg] {
		return errors.New("a command of LVM can run")
	}
	k.suspended[uuid] = true
	return nil
}

func (k *node) Resume(uuid string) error {
	if err := k.call("resume " + uuid); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.locked[vg] {
		return errors.New("a command of LVM can run")
	}
	delete(k.suspended, uuid)
	return nil
}

func (k *node) CreateThinSnapshot(_ string, id, origin uint64) error {
	if err := k.call(fmt.Sprintf("snap %d %d", id, origin)); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, exists := k.thin[id]; exists {
		return devicemapper.ErrExists
	}
	k.thin[id] = k.thin[origin]
	return nil
}

func (k *node) DeleteThin(_ string, id uint64) error {
	if err := k.call(fmt.Sprintf("delete %d", id)); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, exists := k.thin[id]; !exists {
		return devicemapper.ErrNoThinDevice
	}
	delete(k.thin, id)
	return nil
}

func (k *node) watchdog(context.Context, []string, time.Duration, []*os.File) (Watchdog, error) {
	if err := k.call("watch"); err != nil {
		return nil, err
	}
	return watcher{k}, nil
}

// watcher is a watchdog.
type watcher struct{ k *node }

func (w watcher) Signal() error { return w.k.call("signal") }
func (w watcher) Stop() error   { return w.k.call("unwatch") }

func (k *node) recorded() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	calls := k.calls
	k.calls = nil
	return calls
}

// write writes a version to all volumes that a Pod can write.
func (k *node) write(version int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.volumes {
		if v.Origin == "" && !k.suspended[v.Device] {
			k.thin[v.ID] = version
		}
	}
}

func nothing(context.Context) error { return nil }

// alone are the other nodes of a group that has none.
var alone = Others{Locked: nothing, Held: nothing}

// whenHeld are other nodes that need f until they have their snapshots.
func whenHeld(f func(context.Context) error) Others { return Others{Locked: nothing, Held: f} }

// recordedOthers are other nodes whose calls are recorded.
func (k *node) recordedOthers() Others {
	return Others{Locked: func(context.Context) error { return k.call("locked") },
		Held: func(context.Context) error { return k.call("held") }}
}

func request(pairs []Pair) Request { return Request{Name: "g", Pairs: pairs, Limit: time.Second} }

func TestAGroupIsTaken(t *testing.T) {
	k, pairs := newNode(2)
	n := k.start(t)
	k.write(1)
	for round := range 2 {
		others := k.recordedOthers()
		held := others.Held
		others.Held = func(ctx context.Context) error {
			k.write(2) // has no effect
			return held(ctx)
		}
		_, err := n.Take(t.Context(), request(pairs), others)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"lock vg1", "volumes", "pool", "state LVM-v0", "state LVM-v1", "delete 101", "delete 102",
			"watch", "locked", "state LVM-v0", "state LVM-v1", "signal",
			"suspend LVM-v0", "suspend LVM-v1", "snap 101 1", "snap 102 2", "held", "state LVM-v0", "state LVM-v1",
			"resume LVM-v0", "resume LVM-v1", "unwatch"}
		// The devices are suspended and resumed at the same time.
		got := k.recorded()
		slices.Sort(got[12:14])
		slices.Sort(got[19:21])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
		if k.thin[101] != 1 || k.thin[102] != 1 {
			t.Errorf("round %d: the snapshots have %v", round, k.thin)
		}
		k.atRest(t, n)
	}
}

// atRest checks that nothing is suspended, locked or recorded.
func (k *node) atRest(t *testing.T, n *Node) {
	t.Helper()
	if len(k.suspended) > 0 || k.locked[vg] {
		t.Errorf("suspended: %v, locked: %v", k.suspended, k.locked)
	}
	if err := n.journal.absent(); err != nil {
		t.Error(err)
	}
}

// TestEveryFailureResumesTheVolumes fails each call of a group snapshot in turn.
func TestEveryFailureResumesTheVolumes(t *testing.T) {
	for _, call := range []string{"lock vg1", "volumes", "pool", "state LVM-v1", "delete 102", "watch",
		"locked", "signal", "suspend LVM-v0", "suspend LVM-v1", "snap 101 1", "snap 102 2", "held", "unwatch"} {
		t.Run(call, func(t *testing.T) {
			k, pairs := newNode(2)
			n := k.start(t)
			k.fails[call] = 1
			_, err := n.Take(t.Context(), request(pairs), k.recordedOthers())
			if !errors.Is(err, errFailed) || !strings.Contains(err.Error(), "group snapshot g") {
				t.Errorf("got %v", err)
			}
			k.atRest(t, n)
			if _, err := n.Take(t.Context(), request(pairs), alone); err != nil {
				t.Errorf("again: %v", err)
			}
			k.atRest(t, n)
		})
	}
}

// TestAGroupIsRefusedBeforeAnythingChanges: none of these calls deletes or suspends anything.
func TestAGroupIsRefusedBeforeAnythingChanges(t *testing.T) {
	for name, change := range map[string]func(*node, *Request){
		"no members":       func(_ *node, r *Request) { r.Pairs = nil },
		"too many members": func(k *node, r *Request) { k.volumes, r.Pairs = volumesOf(MaxMembers + 1) },
		"no limit":         func(_ *node, r *Request) { r.Limit = 0 },
		"a long limit":     func(_ *node, r *Request) { r.Limit = MaxLimit + 1 },
		"suspended":        func(k *node, _ *Request) { k.suspended["LVM-v1"] = true },
		"a loaded table":   func(k *node, _ *Request) { k.inactive["LVM-v1"] = true },
		"read-only pool":   func(k *node, _ *Request) { k.state.Mode = devicemapper.ModeReadOnly },
		"damaged pool":     func(k *node, _ *Request) { k.state.NeedsCheck = true },
		"inactive pool":    func(k *node, _ *Request) { k.noPool = devicemapper.ErrNotFound },
		"unknown pool":     func(k *node, _ *Request) { k.noPool = errFailed },
	} {
		t.Run(name, func(t *testing.T) {
			k, pairs := newNode(2)
			r := request(pairs)
			change(k, &r)
			before := len(k.suspended)
			if _, err := k.start(t).Take(t.Context(), r, alone); err == nil {
				t.Error("it succeeds")
			}
			for _, call := range k.recorded() {
				if verb, _, _ := strings.Cut(call, " "); verb == "delete" || verb == "suspend" || verb == "resume" {
					t.Errorf("got the call %s", call)
				}
			}
			if len(k.suspended) != before {
				t.Errorf("suspended: %v", k.suspended)
			}
		})
	}
}

// TestTheLimitEndsASuspension: other nodes of the group are not ready in time.
func TestTheLimitEndsASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, pairs := newNode(2)
		n := k.start(t)
		took, err := n.Take(t.Context(), request(pairs), whenHeld(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		if !errors.Is(err, ErrNotHeld) || took != (Times{Suspended: time.Second, Waited: time.Second}) {
			t.Errorf("after %+v: got %v", took, err)
		}
		k.atRest(t, n)
	})
}

// TestNothingIsSuspendedForNodesThatAreNotReady: the node waits with locked volume groups, for a limited time.
func TestNothingIsSuspendedForNodesThatAreNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, pairs := newNode(2)
		n := k.start(t)
		begun := time.Now()
		took, err := n.Take(t.Context(), request(pairs), Others{Locked: func(ctx context.Context) error {
			if !k.locked[vg] {
				t.Error("a command of LVM can run")
			}
			<-ctx.Done()
			return ctx.Err()
		}, Held: func(context.Context) error { return k.call("held") }})
		if !errors.Is(err, ErrNotHeld) || took != (Times{}) || time.Since(begun) != lockedLimit {
			t.Errorf("after %s: got %+v, %v", time.Since(begun), took, err)
		}
		for _, call := range k.recorded() {
			if verb, _, _ := strings.Cut(call, " "); verb == "suspend" || verb == "snap" || verb == "signal" {
				t.Errorf("got the call %s", call)
			}
		}
		k.atRest(t, n)
	})
}

// TestAVolumeThatIsSuspendedByOthersBeforeTheGroup is not resumed: this would end somebody else's suspension.
func TestAVolumeThatIsSuspendedByOthersBeforeTheGroup(t *testing.T) {
	k, pairs := newNode(2)
	n := k.start(t)
	_, err := n.Take(t.Context(), request(pairs), Others{Locked: func(context.Context) error {
		return k.Suspend("LVM-v1")
	}, Held: nothing})
	if err == nil || !strings.Contains(err.Error(), "vg1/v1 is suspended") || !k.suspended["LVM-v1"] ||
		k.suspended["LVM-v0"] {
		t.Errorf("got %v, suspended: %v", err, k.suspended)
	}
}

// TestAHangingKernelDoesNotKeepOthersSuspended: a file system that cannot be frozen, and a pool that does not respond.
func TestAHangingKernelDoesNotKeepOthersSuspended(t *testing.T) {
	for _, call := range []string{"suspend LVM-v1", "snap 101 1"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, pairs := newNode(3)
				n := k.start(t)
				k.hangs[call] = make(chan struct{})
				ended := make(chan error, 1)
				go func() {
					_, err := n.Take(t.Context(), request(pairs), alone)
					ended <- err
				}()
				time.Sleep(time.Second + time.Millisecond)
				synctest.Wait()
				k.mu.Lock()
				if len(k.suspended) > 0 {
					t.Errorf("after the limit, %v are suspended", k.suspended)
				}
				if !k.locked[vg] {
					t.Error("LVM can suspend the device that is resumed later")
				}
				k.mu.Unlock()
				if err := n.journal.absent(); err == nil {
					t.Error("the next agent would not know of the device")
				}
				close(k.hangs[call])
				if err := <-ended; !errors.Is(err, ErrNotHeld) {
					t.Errorf("got %v", err)
				}
				k.atRest(t, n)
			})
		})
	}
}

// TestAVolumeThatWasResumedIsNoMember: the watchdog or an administrator has resumed it before the release was seen.
func TestAVolumeThatWasResumedIsNoMember(t *testing.T) {
	for name, test := range map[string]struct {
		resume func(*node) error
		want   string
	}{
		"resumed": {func(k *node) error { return k.Resume("LVM-v0") }, "has resumed volume vg1/v0"},
		"unknown": {func(k *node) error { k.fails["state LVM-v0"] = 1; return nil }, "vg1/v0"},
	} {
		t.Run(name, func(t *testing.T) {
			k, pairs := newNode(2)
			n := k.start(t)
			held := func(context.Context) error { return test.resume(k) }
			_, err := n.Take(t.Context(), request(pairs), whenHeld(held))
			if !errors.Is(err, ErrNotHeld) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			k.atRest(t, n)
		})
	}
}

// TestADeviceThatCannotBeResumed stays in the journal, and no group is taken until it is resumed.
func TestADeviceThatCannotBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, pairs := newNode(2)
		n := k.start(t)
		k.fails["resume LVM-v0"] = resumeAttempts
		_, err := n.Take(t.Context(), request(pairs), alone)
		if !errors.Is(err, errFailed) || !strings.Contains(err.Error(), "may still be suspended") ||
			!k.suspended["LVM-v0"] || k.suspended["LVM-v1"] {
			t.Errorf("got %v, suspended: %v", err, k.suspended)
		}
		if _, err := n.Take(t.Context(), request(pairs), alone); err == nil {
			t.Error("a group is taken")
		}
		k.fails["resume LVM-v0"] = resumeAttempts - 1
		for range 2 {
			if err := n.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		k.atRest(t, n)
	})
}

func TestOneGroupIsTakenAtATime(t *testing.T) {
	k, pairs := newNode(1)
	n := k.start(t)
	_, err := n.Take(t.Context(), request(pairs), whenHeld(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err := n.Take(ctx, request(pairs), alone)
		if !errors.Is(err, context.Canceled) || !errors.Is(n.Recover(ctx), context.Canceled) {
			t.Errorf("got %v", err)
		}
		return nil
	}))
	if err != nil {
		t.Error(err)
	}
}
