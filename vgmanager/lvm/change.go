package lvm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// stopTimeout is how long a change may take to end after its time limit. What still runs then waits in the kernel for a device, or
// commits metadata; its caller learns that it has not ended, and no other change begins before it has.
const stopTimeout = 10 * time.Second

// change runs one command that changes something. A caller that gives up before it began stops it; after that only the
// time limit does, since a half-done change is worse than a late one.
func (l *LVM) change(ctx context.Context, object string, args ...string) error {
	return l.apply(ctx, object, "", nil, args)
}

// changeVolume runs a command on volumes of one volume group. If it succeeds, and what it did to the group is known, the report that
// is kept stays in use, with the effect in it: it does not become younger by that.
func (l *LVM) changeVolume(ctx context.Context, object, vg string, e effect, args ...string) error {
	return l.apply(ctx, object, vg, e, append(args[:1:1], append(l.devicesOf(vg), args[1:]...)...))
}

func (l *LVM) apply(ctx context.Context, object, vg string, e effect, args []string) error {
	if err := l.enter(ctx, object, args); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		defer l.leave()
		ended <- l.run(ctx, vg, e, args)
	}()
	last := time.NewTimer(writeTimeout + stopTimeout)
	defer last.Stop()
	select {
	case err := <-ended:
		return classify(object, err)
	case <-last.C:
		return fmt.Errorf("%s: lvm %s has not ended %s after its time limit, whether it had an effect is not known: %w: %s",
			object, strings.Join(args, " "), stopTimeout, context.DeadlineExceeded, lockHint)
	}
}

func (l *LVM) run(ctx context.Context, vg string, e effect, args []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	l.begin()
	_, err := l.runner.Run(ctx, program, args...)
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
