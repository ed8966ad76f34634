package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
)

// slots admit the changes of a volume group one after another.
type slots struct {
	mu sync.Mutex
	// byGroup has a slot for each volume group ever changed, by its name. lvm.WholeNode is the key for changes without
	// a volume group.
	byGroup map[string]*slot
}

// slot admits one command at a time.
type slot struct {
	free chan struct{}
	// command is the running command, or "". It is for the error messages of commands that wait. late: its caller no
	// longer waits for it.
	command    string
	since      time.Time
	long, late bool
	// turn counts the commands of the slot. It distinguishes a command that has ended from the next one.
	turn uint64
}

// activationGrace is how long an activation can run before reports no longer wait for its locks.
const activationGrace = 5 * time.Second

// holdsLocks returns true if the command in the slot holds LVM's lock of its volume group for long. A report that
// waits for this lock fails for all volume groups of the node.
func (s *slot) holdsLocks(now time.Time) bool {
	return s.command != "" && (s.late || s.long && now.Sub(s.since) >= activationGrace)
}

// enter waits until no other change of the volume group runs. It waits at most writeTimeout, so that calls do not
// pile up behind a command that hangs. It returns ErrBusy at once if the running command is past its time limit.
func (a *slots) enter(ctx context.Context, object string, c command) (s *slot, turn uint64, err error) {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, 0, output.Classify(object, err)
	}
	s = a.of(c.VG)
	if a.isLate(s) {
		return nil, 0, a.busyError(object, s)
	}
	select {
	case s.free <- struct{}{}:
		return s, a.occupy(s, c), nil
	case <-limited.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, 0, output.Classify(object, ctx.Err())
	}
	return nil, 0, a.busyError(object, s)
}

func (a *slots) busyError(object string, s *slot) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Errorf("%s: %w: %s has been running since %s: %s", object, lvm.ErrBusy, s.command,
		s.since.UTC().Format(time.RFC3339), output.LockHint)
}

// of returns the slot of a volume group.
func (a *slots) of(vg string) *slot {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byGroup[vg] == nil {
		a.byGroup[vg] = &slot{free: make(chan struct{}, 1)}
	}
	return a.byGroup[vg]
}

// occupy records the command that now has the slot and returns its turn.
func (a *slots) occupy(s *slot, c command) (turn uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.command = c.text()
	s.since = time.Now()
	s.long = c.Long
	s.late = false
	s.turn++
	return s.turn
}

// setLate records that no caller waits for the command, and returns its start time. It does nothing to the
// slot if the command ended in the meantime.
func (a *slots) setLate(s *slot, turn uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.turn == turn && s.command != "" {
		s.late = true
	}
	return s.since.UTC().Format(time.RFC3339)
}

func (a *slots) isLate(s *slot) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.late
}

func (a *slots) leave(s *slot) {
	a.mu.Lock()
	s.command = ""
	s.late = false
	a.mu.Unlock()
	<-s.free
}

// locksAreHeld returns true if a command of this process holds a lock of LVM for long. A report without locks may
// show the volume group of this command in an intermediate state. No other change of that group starts before the
// command has ended, and such a report is not cached.
func (a *slots) locksAreHeld() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.byGroup {
		if s.holdsLocks(time.Now()) {
			return true
		}
	}
	return false
}
