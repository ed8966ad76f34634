package groupsnapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

const (
	// resumeAttempts and resumeWait are how often a device is resumed that cannot be, and the time before the second
	// attempt, which doubles.
	resumeAttempts = 6
	resumeWait     = 20 * time.Millisecond
	// watchMargin is how much later than this process the watchdog resumes the devices.
	watchMargin = time.Second
)

// guarded suspends the members with a journal and a watchdog. The journal stays if a device may still be suspended.
func (n *Node) guarded(ctx context.Context, limit time.Duration, members []Member, locked map[string]Locked,
	others Others) (Times, error) {
	h := &hold{kernel: n.kernel, members: members, now: n.now}
	var devices []string
	record := map[string][]string{}
	for _, m := range members {
		if m.Device != "" {
			devices = append(devices, m.Device)
			record[m.VG] = append(record[m.VG], m.Device)
		}
	}
	var locks []*os.File
	for _, e := range locked {
		locks = append(locks, e.Lock)
	}
	if err := n.journal.write(record); err != nil {
		return Times{}, err
	}
	watchdog, err := n.watch(ctx, devices, limit+watchMargin, locks)
	if err != nil {
		return Times{}, errors.Join(fmt.Errorf("start the watchdog of the suspension: %w", err), n.journal.remove())
	}
	if err := n.awaitLocked(ctx, members, others, watchdog); err != nil {
		return Times{}, errors.Join(err, watchdog.Stop(), n.journal.remove())
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun := n.now()
	err = h.run(limited, others)
	resumed := h.resumeAll()
	took := h.times
	took.Suspended = n.now().Sub(begun)
	resumed = errors.Join(resumed, h.settle())
	if resumed == nil {
		return took, errors.Join(err, watchdog.Stop(), n.journal.remove())
	}
	return took, errors.Join(err, fmt.Errorf("volumes may still be suspended; the watchdog and the next node agent "+
		"resume them; or on the node: dmsetup resume -u UUID: %w", resumed), watchdog.Stop())
}

// awaitLocked returns nil when all nodes of the group are ready, the states of the sources are still those of the plan,
// and the watchdog runs.
func (n *Node) awaitLocked(ctx context.Context, members []Member, others Others, watchdog Watchdog) error {
	limited, cancel := context.WithTimeout(ctx, lockedLimit)
	defer cancel()
	if err := others.Locked(limited); err != nil {
		return fmt.Errorf("%w: not all nodes of the group were ready in time: %w", ErrNotHeld, err)
	}
	if err := n.checkStates(members); err != nil {
		return err
	}
	return watchdog.Signal()
}

// hold is one suspension of the members of a group.
type hold struct {
	kernel  Kernel
	members []Member
	now     func() time.Time
	times   Times
	// suspended are the devices that were suspended.
	suspended []string
	// late are the requests to the kernel that were not complete in time, and calls their results.
	late  int
	calls chan call
}

// call is the result of a request to the kernel. device is the device that it suspends, if it does.
type call struct {
	device string
	err    error
}

// run suspends the members, creates their snapshots and waits for the other nodes. It does not resume.
func (h *hold) run(ctx context.Context, others Others) error {
	begun := h.now()
	err := h.suspendAll(ctx)
	h.times.Freezing = h.now().Sub(begun)
	if err != nil {
		return err
	}
	for _, m := range h.members {
		err := h.within(ctx, "create snapshot "+m.VG+"/"+m.Snapshot+" of "+m.Source, []func() call{func() call {
			return call{err: h.kernel.CreateThinSnapshot(m.Pool, m.SnapshotID, m.SourceID)}
		}})
		if err != nil {
			return err
		}
	}
	begun = h.now()
	err = others.Held(ctx)
	h.times.Waited = h.now().Sub(begun)
	if err != nil {
		return fmt.Errorf("%w: not all nodes of the group had their snapshots in time: %w", ErrNotHeld, err)
	}
	return h.confirm()
}

// suspendAll suspends all members at the same time: a thin pool writes its metadata once for several flushes.
func (h *hold) suspendAll(ctx context.Context) error {
	var requests []func() call
	for _, m := range h.members {
		if m.Device == "" {
			continue
		}
		requests = append(requests, func() call {
			err := h.kernel.Suspend(m.Device)
			if err != nil {
				err = fmt.Errorf("volume %s/%s: %w", m.VG, m.Source, err)
			}
			return call{m.Device, err}
		})
	}
	return h.within(ctx, "suspend the volumes", requests)
}

// within sends requests to the kernel, and returns at the end of ctx even if the kernel has not completed them. Those
// stay in late.
func (h *hold) within(ctx context.Context, what string, requests []func() call) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", what, ErrNotHeld, err)
	}
	h.calls = make(chan call, len(requests))
	for _, request := range requests {
		go func() { h.calls <- request() }()
	}
	var errs []error
	for done := range requests {
		select {
		case c := <-h.calls:
			errs = append(errs, c.err)
			if c.err == nil && c.device != "" {
				h.suspended = append(h.suspended, c.device)
			}
		case <-ctx.Done():
			h.late = len(requests) - done
			return fmt.Errorf("%s: %w: the kernel has not completed it in time: %w", what, ErrNotHeld,
				errors.Join(append(errs, ctx.Err())...))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// confirm returns an error if a member is no longer suspended. It runs after the release, so each member that is still
// suspended was suspended at the release, on every clock.
func (h *hold) confirm() error {
	for _, m := range h.members {
		if m.Device == "" {
			continue
		}
		state, err := h.kernel.State(m.Device)
		if err != nil {
			return fmt.Errorf("%w: volume %s/%s: %w", ErrNotHeld, m.VG, m.Source, err)
		}
		if !state.Suspended {
			return fmt.Errorf("%w: another program or the watchdog has resumed volume %s/%s", ErrNotHeld, m.VG,
				m.Source)
		}
	}
	return nil
}

// resumeAll resumes what was suspended. It tries all devices at the same time, so that none waits for another one that
// cannot be resumed at once.
func (h *hold) resumeAll() error {
	errs := make([]error, len(h.suspended))
	var wait sync.WaitGroup
	for i, device := range h.suspended {
		wait.Go(func() { errs[i] = resume(h.kernel, device) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// settle waits for the requests to the kernel that were late, and resumes the devices that they have suspended, each as
// soon as it is.
func (h *hold) settle() error {
	var errs []error
	for range h.late {
		if c := <-h.calls; c.err == nil && c.device != "" { // a suspension that failed has no effect
			errs = append(errs, resume(h.kernel, c.device))
		}
	}
	return errors.Join(errs...)
}

// resume resumes a device, and repeats it after an error. A device that no longer exists is not suspended.
func resume(kernel Kernel, device string) error {
	wait := resumeWait
	for attempt := 1; ; attempt++ {
		err := kernel.Resume(device)
		if err == nil || errors.Is(err, devicemapper.ErrNotFound) {
			return nil
		}
		if attempt == resumeAttempts {
			return err
		}
		time.Sleep(wait)
		wait *= 2
	}
}
