package groupsnapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
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
	release func(context.Context) error) (took time.Duration, err error) {
	h := &hold{kernel: n.kernel, members: members}
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
		return 0, err
	}
	stop, err := n.watch(ctx, devices, limit+watchMargin, locks)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("start the watchdog of the suspension: %w", err), n.journal.remove())
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun := n.now()
	err = h.run(limited, release)
	resumed := h.resumeAll()
	took = n.now().Sub(begun)
	resumed = errors.Join(resumed, h.settle())
	if resumed == nil {
		return took, errors.Join(err, stop(), n.journal.remove())
	}
	return took, errors.Join(err, fmt.Errorf("volumes may still be suspended; the watchdog and the next node agent "+
		"resume them; or on the node: dmsetup resume -u UUID: %w", resumed), stop())
}

// hold is one suspension of the members of a group.
type hold struct {
	kernel  Kernel
	members []Member
	// suspended are the devices that were suspended, in this order.
	suspended []string
	// late is a request to the kernel that was not complete in time, or nil. lateDevice is the device that it suspends,
	// if it does.
	late       chan error
	lateDevice string
}

// run suspends the members, creates their snapshots and waits for the release. It does not resume.
func (h *hold) run(ctx context.Context, release func(context.Context) error) error {
	for _, m := range h.members {
		if m.Device == "" {
			continue
		}
		if err := h.within(ctx, m.Device, func() error { return h.kernel.Suspend(m.Device) }); err != nil {
			return fmt.Errorf("suspend volume %s/%s: %w", m.VG, m.Source, err)
		}
		h.suspended = append(h.suspended, m.Device)
	}
	for _, m := range h.members {
		err := h.within(ctx, "", func() error { return h.kernel.CreateThinSnapshot(m.Pool, m.SnapshotID, m.SourceID) })
		if err != nil {
			return fmt.Errorf("create snapshot %s/%s of %s: %w", m.VG, m.Snapshot, m.Source, err)
		}
	}
	if err := release(ctx); err != nil {
		return fmt.Errorf("%w: not all nodes of the group were ready in time: %w", ErrNotHeld, err)
	}
	return h.confirm()
}

// within calls the kernel, and returns at the end of ctx even if the call does not. Such a call stays in late.
func (h *hold) within(ctx context.Context, device string, call func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		h.late, h.lateDevice = done, device
		return fmt.Errorf("%w: the kernel has not completed it in time: %w", ErrNotHeld, ctx.Err())
	}
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

// resumeAll resumes what was suspended, in reverse order. It tries every device.
func (h *hold) resumeAll() error {
	var errs []error
	for _, device := range slices.Backward(h.suspended) {
		errs = append(errs, resume(h.kernel, device))
	}
	return errors.Join(errs...)
}

// settle waits for a request to the kernel that was late, and resumes the device that it has suspended.
func (h *hold) settle() error {
	if h.late == nil {
		return nil
	}
	err := <-h.late
	if h.lateDevice == "" || err != nil {
		return nil // a suspension that failed has no effect
	}
	return resume(h.kernel, h.lateDevice)
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
