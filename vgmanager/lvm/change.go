package lvm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// stopTimeout is how long a change may take to end after its time limit. What still runs then waits in the kernel for a
// device, or commits metadata; its caller learns that it has not ended, and no other change begins before it has.
const stopTimeout = 10 * time.Second

// activateTimeout is the time limit of an activation, which waits for thin_check. That needs hours for the metadata of
// a large pool on slow disks, and an activation that is ended begins its check from the start the next time.
const activateTimeout = 24 * time.Hour

// wholeNode stands for the volume group of a command that is not about a single one.
const wholeNode = ""

// change runs one command that changes something in a volume group, or on the whole node. Commands for one volume group
// run one after another; one that hangs holds up no other volume group. A caller that gives up before it began stops
// it; after that only the time limit does, since a half-done change is worse than a late one.
func (l *LVM) change(ctx context.Context, object, vg string, args ...string) error {
	return l.apply(ctx, object, command{vg: vg, args: args})
}

// activate is change for a command that may take hours and must not be ended. When its caller's time is over it goes
// on, and is not begun a second time meanwhile.
func (l *LVM) activate(ctx context.Context, object, vg string, args ...string) error {
	return l.apply(ctx, object, command{vg: vg, args: args, long: true})
}

// changeVolume runs a command on volumes of one volume group that LVM refuses while the group misses a physical volume.
// If it succeeds, and what it did to the group is known, the report that is kept stays in use, with the effect in it:
// it does not become younger by that.
func (l *LVM) changeVolume(ctx context.Context, object, vg string, e effect, args ...string) error {
	return l.apply(ctx, object, command{vg: vg, effect: e, args: args})
}

// changeWhole is changeVolume for a command that LVM carries out while the group misses a physical volume, too. LVM
// then writes into the metadata that it is missing, and it stays so when its device is back. So the group is read
// first, by a process of this very call, and the command is refused with ErrMissingPV if one is missing whose loss
// nobody has accepted (AcceptLoss).
func (l *LVM) changeWhole(ctx context.Context, object, vg string, e effect, args ...string) error {
	return l.apply(ctx, object, command{vg: vg, effect: e, args: args, whole: true})
}

// command is one that changes something.
type command struct {
	args []string
	// vg is the volume group that it changes, or wholeNode; effect is what it does to it, nil if that is not known.
	vg     string
	effect effect
	// whole: the volume group must not miss a physical volume. named: its devices may be named to the command.
	whole, named bool
	// long: it goes on when its caller's time is over.
	long bool
}

// slot has room for one command.
type slot struct {
	free chan struct{}
	// command is the one that runs, "" for none, for the errors of those that wait for it. late: nobody waits for it
	// any longer.
	command    string
	since      time.Time
	long, late bool
	// turn counts the commands, so that one that has ended is not taken for the next one.
	turn uint64
}

// activationGrace is how long an activation may take before reports no longer wait for its locks.
const activationGrace = 5 * time.Second

// holdsLocks tells whether a command keeps LVM's lock of its volume group for long. A report that waits for it fails,
// for all volume groups of the node.
func (s *slot) holdsLocks(now time.Time) bool {
	return s.command != "" && (s.late || s.long && now.Sub(s.since) >= activationGrace)
}

func (l *LVM) apply(ctx context.Context, object string, c command) error {
	mine, turn, err := l.enter(ctx, object, c)
	if err != nil {
		return err
	}
	limit := writeTimeout + stopTimeout
	if c.whole {
		limit += awaitTimeout
	}
	ended := make(chan error, 1)
	go func() {
		defer l.leave(mine)
		ended <- l.checkAndRun(ctx, c)
	}()
	last := time.NewTimer(limit)
	defer last.Stop()
	select {
	case err := <-ended:
		return classify(object, err)
	case <-last.C:
	}
	since := l.setLate(mine, turn)
	if c.long {
		return fmt.Errorf("%s: lvm %s %w since %s: a check of a thin pool's metadata takes long; see on the node: "+
			"ps -eo pid,etime,stat,args | grep -E 'lvm|thin_check'", object, strings.Join(c.args, " "),
			ErrRunning, since)
	}
	return fmt.Errorf("%s: lvm %s has not ended %s after its time limit, whether it had an effect is not known: %w: %s",
		object, strings.Join(c.args, " "), stopTimeout, context.DeadlineExceeded, lockHint)
}

// checkAndRun runs a command. No other change of its volume group runs meanwhile.
func (l *LVM) checkAndRun(ctx context.Context, c command) error {
	if !c.whole {
		return l.run(ctx, c, c.args)
	}
	report, err := l.Report(ctx)
	if err != nil {
		return err
	}
	vg := report.VG(c.vg)
	if named := report.Named(c.vg); len(named) > 1 {
		return fmt.Errorf("volume group %s: %w", c.vg, ErrDuplicateVG)
	}
	if vg == nil {
		return fmt.Errorf("volume group %s: %w", c.vg, ErrNotFound)
	}
	if lost := l.missing(vg); len(lost) > 0 {
		return fmt.Errorf(
			"volume group %s misses the physical volume %s: %w: attach its device again, or, if it is lost, "+
				"ask for its removal in the deviceRequests of the device class", c.vg,
			strings.Join(lost, ", "), ErrMissingPV)
	}
	args := c.args
	if c.named {
		args = slices.Concat(args[:1], l.devicesOf(vg), args[1:])
	}
	return l.run(ctx, c, args)
}

func (l *LVM) run(ctx context.Context, c command, args []string) error {
	limit := writeTimeout
	e := c.effect
	if c.long {
		limit = activateTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	l.begin()
	_, err := l.runner.Run(ctx, program, l.filtered(args)...)
	if err != nil {
		e = nil
	}
	l.end(c.vg, e)
	if err == nil && !c.long {
		return l.flushDevices(ctx, c)
	}
	if lacksDevices(err) {
		// The caller tries again, as after every refusal that a look may change.
		l.mu.Lock()
		l.namesUnknown = true
		l.mu.Unlock()
	}
	return err
}

// enter waits until no other change of the volume group runs: at most writeTimeout, so that calls do not pile up behind
// a command that hangs. One that is past its limit is not waited for at all.
func (l *LVM) enter(ctx context.Context, object string, c command) (s *slot, turn uint64, err error) {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, 0, classify(object, err)
	}
	s = l.slotOf(c.vg)
	if l.isLate(s) {
		return nil, 0, l.busy(object, s)
	}
	select {
	case s.free <- struct{}{}:
		return s, l.occupy(s, c), nil
	case <-limited.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, 0, classify(object, ctx.Err())
	}
	return nil, 0, l.busy(object, s)
}

func (l *LVM) busy(object string, s *slot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%s: %w: lvm %s has not ended, it runs since %s: %s", object, ErrBusy, s.command,
		s.since.UTC().Format(time.RFC3339), lockHint)
}

// slotOf returns the slot of a volume group. There are as many as volume groups were ever changed.
func (l *LVM) slotOf(vg string) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots[vg] == nil {
		l.slots[vg] = &slot{free: make(chan struct{}, 1)}
	}
	return l.slots[vg]
}

// occupy notes the command that has the slot now, and returns which one it is.
func (l *LVM) occupy(s *slot, c command) (turn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.command, s.since, s.long, s.late = strings.Join(c.args, " "), l.now(), c.long, false
	s.turn++
	return s.turn
}

// setLate notes that nobody waits for a command any longer, and returns since when it runs. The command may have ended
// at the same moment.
func (l *LVM) setLate(s *slot, turn uint64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.turn == turn && s.command != "" {
		s.late = true
	}
	return s.since.UTC().Format(time.RFC3339)
}

func (l *LVM) isLate(s *slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.late
}

func (l *LVM) leave(s *slot) {
	l.mu.Lock()
	s.command = ""
	s.late = false
	l.mu.Unlock()
	<-s.free
}

// begin notes that a change runs. Until it ends, what was kept before it is as true as anything.
func (l *LVM) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.inProgress++
}

// end notes that the change has ended. The report that is kept goes on with its effect, or is dropped where that is not
// known.
func (l *LVM) end(vg string, e effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.inProgress--
	if e == nil {
		l.recent = nil
		return
	}
	l.recent = amended(l.recent, vg, e)
}
