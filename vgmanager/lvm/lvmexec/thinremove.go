package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// This file deletes the data of thin volumes that LVM would leave in their pool.
//
// LVM commits each change of thin volumes together with messages for their pool and the next transaction ID. It then
// sends the messages and the transaction ID to the kernel, and commits once more to remove the messages from its
// metadata (lib/metadata/thin_manip.c, update_thin_pool_lv). If the command is killed before this last commit, the
// messages stay queued. A later lvremove adds its own message to them without a new transaction ID
// (attach_thin_pool_message). The kernel has this transaction ID already, so LVM takes all messages as sent
// (libdm/libdm-deptree.c, _node_send_messages) and the thin device stays in the pool, with its data. The next new
// volume gets the ID of this device, and has its data. LVM does not send messages to a suspended pool either, which a
// command that is killed earlier leaves: it then has transactions that the kernel does not have.

// PoolsWith sets the function with which a removal of thin volumes checks that LVM deletes their data. Without it,
// data can stay in a pool after a command was killed.
func (l *LVM) PoolsWith(pools lvm.Pools) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pools = pools
}

// deleteThin deletes those of the named thin volumes from their pools that LVM would leave there. It starts no process
// if the metadata, which the caller has read from the devices, has no queued messages. Without metadata, it takes them
// as queued: to delete a thin device before LVM does is not an error for LVM. The caller holds the slot of the volume
// group, and then removes the volumes.
func deleteThin(ctx context.Context, l *LVM, vg *lvm.VG, metadata *textmeta.Metadata, names []string) error {
	l.mu.Lock()
	pools := l.pools
	l.mu.Unlock()
	if pools == nil || len(names) == 0 {
		return nil
	}
	if metadata == nil {
		metadata = l.groups.metadataOf(ctx, vg)
	}
	byPool := poolsOf(vg, names)
	if metadata != nil {
		byPool = metadata.PoolsOf(names)
	}
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		pool := queuedPool{lvm: l, vg: vg.Name, pool: name, read: pools}
		if metadata != nil && metadata.QueuedMessages(name) == 0 {
			if err := pool.resumeActive(ctx); err != nil {
				return err
			}
			continue
		}
		if err := pool.delete(ctx, byPool[name]); err != nil {
			return fmt.Errorf("an LVM command for thin pool %s was interrupted, so the data of %s must be deleted "+
				"first: %w", lvm.FullName(vg.Name, name), lvm.FullNames(vg.Name, byPool[name]), err)
		}
	}
	return nil
}

// ThinPoolResume resumes a thin pool that a killed command has left suspended. LVM does not send the messages of later
// commands to a suspended pool, but commits them: then the pool can no longer be changed (ErrTransaction). It returns
// false if the pool is not suspended when no command of LVM for the volume group is in progress. It requires PoolsWith,
// and returns ErrNotFound if the pool is not active.
func (l *LVM) ThinPoolResume(ctx context.Context, vg, name string) (done bool, err error) {
	object := "resume thin pool " + lvm.FullName(vg, name)
	mine, _, err := l.slots.enter(ctx, object, command{Command: lvm.Command{VG: vg}, purpose: object})
	if err != nil {
		return false, err
	}
	defer l.slots.leave(mine)
	l.mu.Lock()
	pool := queuedPool{lvm: l, vg: vg, pool: name, read: l.pools}
	l.mu.Unlock()
	if pool.read == nil {
		return false, fmt.Errorf("%s: the state of pools in the kernel is not known", object)
	}
	done, err = pool.resume(ctx)
	return done, output.Classify(object, err)
}

// poolsOf returns the thin volumes among logical volumes, by pool.
func poolsOf(v *lvm.VG, names []string) map[string][]string {
	pools := map[string][]string{}
	for _, name := range names {
		if lv := v.LV(name); lv != nil && lv.Attr.IsThinVolume() {
			pools[lv.PoolName] = append(pools[lv.PoolName], name)
		}
	}
	return pools
}

// queuedPool is a thin pool that may have queued messages.
type queuedPool struct {
	lvm      *LVM
	vg, pool string
	read     lvm.Pools
}

// resumeActive resumes a pool if it is active and suspended. It starts no process otherwise.
func (q queuedPool) resumeActive(ctx context.Context) error {
	state, err := q.read(ctx, q.vg, q.pool)
	if errors.Is(err, lvm.ErrNotFound) {
		return nil
	}
	if err != nil || !state.Suspended {
		return err
	}
	_, err = q.resume(ctx)
	return err
}

// resume resumes a suspended pool under LVM's lock, so that no command of LVM is in progress that will resume it. It
// returns false if there was nothing to do.
func (q queuedPool) resume(ctx context.Context) (done bool, err error) {
	err = q.locked(ctx, func() error {
		_, done, err = q.resumed(ctx)
		return err
	})
	return done, err
}

// delete deletes thin volumes from their pool, if LVM would not do it. LVM's lock of the volume group is held while
// it decides: no command of another program is in progress, so a suspended pool stays suspended if nobody resumes it.
func (q queuedPool) delete(ctx context.Context, names []string) error {
	var left map[string]lvm.ThinVolume
	err := q.locked(ctx, func() (err error) {
		_, left, err = q.leftBy(ctx, names)
		return err
	})
	if err != nil || len(left) == 0 {
		return err
	}
	names = slices.Sorted(maps.Keys(left))
	deactivate := command{Command: lvm.LVDeactivate{VG: q.vg, Names: names}.Command()}
	if err := q.lvm.run(ctx, deactivate, deactivate.Args); err != nil {
		return err
	}
	return q.locked(ctx, func() error {
		state, now, err := q.leftBy(ctx, names)
		if err != nil {
			return err
		}
		for _, name := range names {
			if v, ok := now[name]; !ok || v.ID != left[name].ID || v.Device != left[name].Device {
				return fmt.Errorf("logical volume %s was changed by another program meanwhile",
					lvm.FullName(q.vg, name))
			}
			if err := q.deleteDevice(ctx, state.Device, now[name].ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// leftBy returns those thin volumes, by name, whose removal LVM would not tell the kernel, and the state of their pool,
// which it resumes. If the kernel lacks the last transaction, LVM sends it together with the removal. The caller holds
// LVM's lock.
func (q queuedPool) leftBy(ctx context.Context, names []string) (lvm.PoolState, map[string]lvm.ThinVolume, error) {
	state, _, err := q.resumed(ctx)
	if err != nil {
		return state, nil, err
	}
	volumes, numbers, err := q.lvm.executor.thinVolumes(ctx, q.vg)
	if err != nil {
		return state, nil, err
	}
	number, known := numbers[q.pool]
	if !known {
		return state, nil, fmt.Errorf("thin pool %s: %w", lvm.FullName(q.vg, q.pool), lvm.ErrNotFound)
	}
	left := map[string]lvm.ThinVolume{}
	for _, name := range names {
		if v, ok := volumes[name]; ok && v.Pool == q.pool && number == state.TransactionID {
			left[name] = v
		}
	}
	return state, left, nil
}

// resumed returns the state of a pool after it has resumed the pool if it was suspended, and whether it was.
func (q queuedPool) resumed(ctx context.Context) (state lvm.PoolState, was bool, err error) {
	state, err = q.read(ctx, q.vg, q.pool)
	if err != nil || !state.Suspended {
		return state, false, err
	}
	resume := kernelCommand(q.vg, "resume", "--uuid", state.Device)
	if err := q.lvm.run(ctx, resume, resume.Args); err != nil {
		return state, true, err
	}
	if state, err = q.read(ctx, q.vg, q.pool); err == nil && state.Suspended {
		err = fmt.Errorf("thin pool %s is still suspended", lvm.FullName(q.vg, q.pool))
	}
	return state, true, err
}

// noThinDevice is the answer of dmsetup if the pool does not have a thin device.
var noThinDevice = regexp.MustCompile(`message ioctl on .* failed: No data available`)

// deleteDevice deletes a thin device, which must be inactive. If the pool does not have it, that is not an error.
func (q queuedPool) deleteDevice(ctx context.Context, device string, id uint64) error {
	message := kernelCommand(q.vg, "message", "--uuid", device, "0", "delete "+strconv.FormatUint(id, 10))
	err := q.lvm.run(ctx, message, message.Args)
	var failure *host.Error
	if errors.As(err, &failure) && noThinDevice.MatchString(failure.Stderr) {
		return nil
	}
	return err
}

// locked calls f while it holds LVM's lock of the volume group, as Exclusively does. The caller holds the slot.
func (q queuedPool) locked(ctx context.Context, f func() error) error {
	lock, err := lockFile(ctx, filepath.Join(q.lvm.lockDir, "V_"+q.vg))
	if err != nil {
		return fmt.Errorf("lock volume group %s: %w", q.vg, err)
	}
	return errors.Join(f(), lock.Close())
}
