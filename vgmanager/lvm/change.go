package lvm

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// stopTimeout is how long apply waits for a change after its time limit. A command that still runs then waits in the
// kernel for a device or commits metadata. apply returns an error that says so, and no other change starts until the
// command ends.
const stopTimeout = 10 * time.Second

// activateTimeout is the time limit of an activation, which includes thin_check. thin_check can take hours for the
// metadata of a large pool on slow disks, and it starts over if the activation is ended.
const activateTimeout = 24 * time.Hour

// wholeNode replaces the name of the volume group in commands that do not affect a single volume group.
const wholeNode = ""

// Change is a change of the node's LVM as a value. Apply makes it. The errors that a change returns, according to the
// comment of its type, are those of Apply.
type Change interface {
	// String names the change in messages.
	fmt.Stringer
	// command returns what Apply runs. It has no args if there is nothing to do.
	command() command
}

// Apply makes a change. Changes of the same volume group run one after another. A command that hangs does not block
// other volume groups. If ctx is canceled before the command starts, the command does not run. After that, only the
// time limit ends it, because a late change is safer than a partial one.
func (l *LVM) Apply(ctx context.Context, c Change) error {
	command := c.command()
	switch {
	case command.steps != nil:
		return command.steps(ctx, l)
	case len(command.args) == 0:
		return nil
	}
	return l.apply(ctx, c.String(), command)
}

// command is a command that changes something.
type command struct {
	// steps are run instead of args, for a change that has several commands, or that reads something first.
	steps func(ctx context.Context, l *LVM) error
	args  []string
	// purpose, if it is set, names what has the volume group instead of a command (Exclusively).
	purpose string
	// message: the arguments are those of dmsetup, and what they change is not in LVM's metadata.
	message bool
	// vg is the volume group that the command changes, or wholeNode.
	vg string
	// effect is what the command does to the group, nil if unknown. If the command succeeds, the cached report stays
	// valid with the effect applied. This does not renew the age of the report.
	effect effect
	// whole: the volume group must not miss a physical volume whose loss is not accepted (AcceptLoss). LVM also runs
	// the command then, marks the physical volume as missing in the metadata, and the mark stays after the device
	// returns. Therefore a new report is read first, or the devices themselves (LookWith).
	whole bool
	// named: the command may get the group's devices (--devices).
	named bool
	// incomplete: a command with whole set may run although the volume group misses physical volumes. It has a check
	// that allows it only if it does not need them, and it does not write the metadata.
	incomplete bool
	// check is called, if it is set, with the volume group as it is when the command starts. It requires whole.
	check func(*VG) error
	// removes are the names of the logical volumes that the command removes. It requires whole.
	removes []string
	// long: the command can take hours and must not be ended. If it takes longer than the caller waits, it continues,
	// and it is not started a second time meanwhile.
	long bool
}

// text returns the command line for messages.
func (c command) text() string {
	if c.purpose != "" {
		return c.purpose
	}
	name := "lvm "
	if c.message {
		name = "dmsetup "
	}
	return name + strings.Join(c.args, " ")
}

// tagPattern matches the tags that LVM accepts (lvm(8)), up to maxTag bytes. None can be an option of a command.
var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.\-/=!:&#]*$`)

const maxTag = 1024

// checkTags returns an error if a command adds a tag that LVM does not accept: parts of tags are texts of objects.
func checkTags(args []string) error {
	for i := range len(args) - 1 {
		tag := args[i+1]
		if args[i] == "--addtag" && (len(tag) > maxTag || !tagPattern.MatchString(tag)) {
			return fmt.Errorf("%w: LVM does not accept the tag %q: nothing is changed", ErrInvalid, tag)
		}
	}
	return nil
}

// apply runs a command in its turn. object is what it does, for messages.
func (l *LVM) apply(ctx context.Context, object string, c command) error {
	if err := checkTags(c.args); err != nil {
		return fmt.Errorf("%s: %w", object, err)
	}
	mine, turn, err := l.slots.enter(ctx, object, c)
	if err != nil {
		return err
	}
	limit := writeTimeout + stopTimeout
	if c.whole {
		limit += awaitTimeout
	}
	if len(c.removes) > 0 {
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
		return classify(object, err)
	case <-last.C:
	}
	since := l.slots.setLate(mine, turn)
	if c.long {
		return fmt.Errorf("%s: %s %w; it started at %s: a check of a thin pool's metadata takes long; see on the "+
			"node: ps -eo pid,etime,stat,args | grep -E 'lvm|thin_check'", object, c.text(), ErrRunning, since)
	}
	return fmt.Errorf("%s: %s has not ended %s after its time limit, and may have had an effect: %w: %s",
		object, c.text(), stopTimeout, context.DeadlineExceeded, lockHint)
}

// checkAndRun runs a command. It refuses a command with whole set if the volume group misses a physical volume, does
// not exist or has a duplicate name. The caller holds the slot of the volume group.
func (l *LVM) checkAndRun(ctx context.Context, c command) error {
	if !c.whole {
		return runOver(ctx, l, c, c.args)
	}
	vg, metadata := l.lookedAt(ctx, c)
	if vg == nil {
		var err error
		if vg, err = l.wholeGroup(ctx, c); err != nil {
			return err
		}
	}
	if err := deleteThin(ctx, l, vg, metadata, c.removes); err != nil {
		return err
	}
	args := c.args
	if c.named {
		args = slices.Concat(args[:1], l.trust.devicesOf(vg), args[1:])
	}
	return runOver(ctx, l, c, args)
}

// wholeGroup returns the volume group of a command from a new report.
func (l *LVM) wholeGroup(ctx context.Context, c command) (*VG, error) {
	report, err := l.Report(ctx)
	if err != nil {
		return nil, err
	}
	vg := report.VG(c.vg)
	if named := report.Named(c.vg); len(named) > 1 {
		return nil, fmt.Errorf("volume group %s: %w", c.vg, ErrDuplicateVG)
	}
	if vg == nil {
		return nil, fmt.Errorf("volume group %s: %w", c.vg, ErrNotFound)
	}
	if lost := l.trust.missing(vg); len(lost) > 0 && !c.incomplete {
		return nil, fmt.Errorf(
			"volume group %s is missing the physical volume %s: %w: attach its device again or, if it is lost, "+
				"add a Remove request to the deviceRequests of the device class", c.vg,
			strings.Join(lost, ", "), ErrMissingPV)
	}
	if c.check != nil {
		return vg, c.check(vg)
	}
	return vg, nil
}

func (l *LVM) run(ctx context.Context, c command, args []string) error {
	limit := writeTimeout
	e := c.effect
	if c.long {
		limit = activateTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	l.reports.begin()
	var err error
	if c.message {
		_, err = l.runner.Run(ctx, dmsetup, args...)
	} else {
		_, err = l.executor.execute(ctx, args...)
	}
	if err != nil {
		e = nil
	}
	l.reports.end(c.vg, e)
	if err == nil && !c.long && !c.message {
		return l.flusher.flushDevices(ctx, c)
	}
	if lacksDevices(err) {
		// The caller retries. The next attempt does not use --devices.
		l.trust.forbidNames()
	}
	return err
}
