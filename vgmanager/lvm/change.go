package lvm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// stopTimeout is how long a change may take to end after its time limit. What still runs then waits in the kernel for a device, or
// commits metadata; its caller learns that it has not ended, and no other change begins before it has.
const stopTimeout = 10 * time.Second

// change runs one command that changes something. A caller that gives up before it began stops it; after that only the
// time limit does, since a half-done change is worse than a late one.
func (l *LVM) change(ctx context.Context, object string, args ...string) error {
	return l.apply(ctx, object, command{args: args})
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
	// vg is the volume group that it changes, effect what it does to it; nil if that is not known.
	vg     string
	effect effect
	// whole: the volume group must not miss a physical volume. named: its devices may be named to the command.
	whole, named bool
}

func (l *LVM) apply(ctx context.Context, object string, c command) error {
	if err := l.enter(ctx, object, c.args); err != nil {
		return err
	}
	limit := writeTimeout + stopTimeout
	if c.whole {
		limit += awaitTimeout
	}
	ended := make(chan error, 1)
	go func() {
		defer l.leave()
		ended <- l.checkAndRun(ctx, c)
	}()
	last := time.NewTimer(limit)
	defer last.Stop()
	select {
	case err := <-ended:
		return classify(object, err)
	case <-last.C:
		return fmt.Errorf("%s: lvm %s has not ended %s after its time limit, whether it had an effect is not known: %w: %s",
			object, strings.Join(c.args, " "), stopTimeout, context.DeadlineExceeded, lockHint)
	}
}

// checkAndRun runs a command. No other change runs meanwhile.
func (l *LVM) checkAndRun(ctx context.Context, c command) error {
	if !c.whole {
		return l.run(ctx, c.vg, c.effect, c.args)
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
		return fmt.Errorf("volume group %s misses the physical volume %s: %w: attach its device again, or, if it is lost, "+
			"ask for its removal in the deviceRequests of the device class", c.vg, strings.Join(lost, ", "), ErrMissingPV)
	}
	args := c.args
	if c.named {
		args = slices.Concat(args[:1], l.devicesOf(vg), args[1:])
	}
	return l.run(ctx, c.vg, c.effect, args)
}

func (l *LVM) run(ctx context.Context, vg string, e effect, args []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	l.begin()
	_, err := l.runner.Run(ctx, program, l.filtered(args)...)
	if err != nil {
		e = nil
	}
	l.end(vg, e)
	if lacksDevices(err) {
		// The caller tries again, as after every refusal that a look may change.
		l.mu.Lock()
		l.namesUnknown = true
		l.mu.Unlock()
	}
	return err
}

// enter waits until no other change runs: at most writeTimeout, so that calls do not pile up behind a command that hangs.
func (l *LVM) enter(ctx context.Context, object string, args []string) error {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return classify(object, err)
	}
	select {
	case l.changing <- struct{}{}:
		l.name(strings.Join(args, " "))
		return nil
	case <-limited.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return classify(object, ctx.Err())
	}
	return fmt.Errorf("%s: %w: lvm %s has not ended: %s", object, ErrBusy, l.named(), lockHint)
}

func (l *LVM) leave() {
	l.name("")
	<-l.changing
}

func (l *LVM) name(command string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inChange = command
}

func (l *LVM) named() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inChange
}

// begin notes that a change runs. Until it ends, what was kept before it is as true as anything.
func (l *LVM) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.inProgress = true
}

// end notes that the change has ended. The report that is kept goes on with its effect, or is dropped where that is not known.
func (l *LVM) end(vg string, e effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.inProgress = false
	if e == nil {
		l.recent = nil
		return
	}
	l.recent = amended(l.recent, vg, e)
}
