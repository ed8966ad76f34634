package lvmexec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
)

// stopTimeout is how long apply waits for a change after its time limit. A command that still runs then waits in the
// kernel for a device or commits metadata. apply returns an error that says so, and no other change starts until the
// command ends.
const stopTimeout = 10 * time.Second

// activateTimeout is the time limit of an activation, which includes thin_check. thin_check can take hours for the
// metadata of a large pool on slow disks, and it starts over if the activation is ended.
const activateTimeout = 24 * time.Hour

// Apply makes a change. Changes of the same volume group run one after another. A command that hangs does not block
// other volume groups. If ctx is canceled before the command starts, the command does not run. After that, only the
// time limit ends it, because a late change is safer than a partial one.
func (l *LVM) Apply(ctx context.Context, change lvm.Change) error {
	c := command{Command: change.Command(), effect: effectOf(change)}
	switch {
	case c.Steps:
		return steps(ctx, l, change)
	case len(c.Args) == 0:
		return nil
	}
	return l.apply(ctx, change.String(), c)
}

// command is a command of a change, or what else has the volume group.
type command struct {
	lvm.Command
	// effect is what the command does to the group, nil if unknown. If the command succeeds, the cached report stays
	// valid with the effect applied. This does not renew the age of the report.
	effect effect
	// purpose, if it is set, names what has the volume group instead of a command (Exclusively).
	purpose string
}

// kernelCommand returns a command of dmsetup, which changes nothing in the metadata of the volume group.
func kernelCommand(vg string, args ...string) command {
	return command{Command: lvm.Command{VG: vg, Message: true, Args: args}}
}

// text returns the command line for messages.
func (c command) text() string {
	if c.purpose != "" {
		return c.purpose
	}
	name := "lvm "
	if c.Message {
		name = "dmsetup "
	}
	return name + strings.Join(c.Args, " ")
}

// apply runs a command in its turn. object is what it does, for messages.
func (l *LVM) apply(ctx context.Context, object string, c command) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%s: %w", object, err)
	}
	mine, turn, err := l.slots.enter(ctx, object, c)
	if err != nil {
		return err
	}
	limit := writeTimeout + stopTimeout
	if c.Whole {
		limit += awaitTimeout
	}
	if len(c.Removes) > 0 {
		limit += writeTimeout // deleteThin
	}
	ended := make(chan error, 1)
	go func() {
		defer l.slots.leave(mine)
		ended <- l.checkAndRun(ctx, c)
	}()
	last := time.NewTimer(limit)
	defer last.Stop()
	select {
	case err := <-ended:
		return output.Classify(object, err)
	case <-last.C:
	}
	since := l.slots.setLate(mine, turn)
	if c.Long {
		return fmt.Errorf("%s: %s %w; it started at %s: a check of a thin pool's metadata takes long; see on the "+
			"node: ps -eo pid,etime,stat,args | grep -E 'lvm|thin_check'", object, c.text(), lvm.ErrRunning, since)
	}
	return fmt.Errorf("%s: %s has not ended %s after its time limit, and may have had an effect: %w: %s",
		object, c.text(), stopTimeout, context.DeadlineExceeded, output.LockHint)
}

// checkAndRun runs a command. It refuses a command with whole set if the volume group misses a physical volume, does
// not exist or has a duplicate name. The caller holds the slot of the volume group.
func (l *LVM) checkAndRun(ctx context.Context, c command) error {
	if !c.Whole {
		return runOver(ctx, l, c, c.Args)
	}
	vg, metadata := l.fromDevices(ctx, c)
	if vg == nil {
		var err error
		if vg, err = l.wholeGroup(ctx, c); err != nil {
			return err
		}
	}
	if err := deleteThin(ctx, l, vg, metadata, c.Removes); err != nil {
		return err
	}
	args := c.Args
	if c.Named {
		args = slices.Concat(args[:1], l.trust.devicesOf(vg), args[1:])
	}
	return runOver(ctx, l, c, args)
}

// wholeGroup returns the volume group of a command from a new report.
func (l *LVM) wholeGroup(ctx context.Context, c command) (*lvm.VG, error) {
	report, err := l.Report(ctx)
	if err != nil {
		return nil, err
	}
	vg := report.VG(c.VG)
	if named := report.Named(c.VG); len(named) > 1 {
		return nil, fmt.Errorf("volume group %s: %w", c.VG, lvm.ErrDuplicateVG)
	}
	if vg == nil {
		return nil, fmt.Errorf("volume group %s: %w", c.VG, lvm.ErrNotFound)
	}
	if lost := l.trust.missing(vg); len(lost) > 0 && !c.Incomplete {
		return nil, fmt.Errorf(
			"volume group %s is missing the physical volume %s: %w: attach its device again or, if it is lost, "+
				"add a Remove request to the deviceRequests of the device class", c.VG,
			strings.Join(lost, ", "), lvm.ErrMissingPV)
	}
	if c.Check != nil {
		return vg, c.Check(vg)
	}
	return vg, nil
}

func (l *LVM) run(ctx context.Context, c command, args []string) error {
	limit := writeTimeout
	e := c.effect
	if c.Long {
		limit = activateTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	l.reports.begin()
	var err error
	if c.Message {
		_, err = l.runner.Run(ctx, dmsetup, args...)
	} else {
		_, err = l.executor.execute(ctx, args...)
	}
	if err != nil {
		e = nil
	}
	l.reports.end(c.VG, e)
	if err == nil && !c.Long && !c.Message {
		return l.flusher.flushDevices(ctx, c)
	}
	if output.LacksDevices(err) {
		// The caller retries. The next attempt does not use --devices.
		l.trust.forbidNames()
	}
	return err
}
