package engine

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// This file completes what a killed LVM command left unfinished. LVM first commits its metadata, then changes the
// mapped devices. A command that is killed in between, with the container of the agent or by the OOM killer, leaves
// six states that no later LVM command of the agent would change:
//   - a thin volume that the pool does not have (notInPool);
//   - a mapped device without a table (reload);
//   - a mapped device that is smaller than its volume (reload);
//   - a suspended thin pool (resumePool);
//   - other suspended devices (reload, and the reconciler of volume groups for all others);
//   - a thin device that LVM does not know. lvm.LVRemove leaves none, but a command of an administrator or of an
//     earlier version can. A new volume with its ID would have its data (checkEmpty, checkUnused, dropLeftover).

// present returns the volume with a name, or nil. If LVM lists a thin volume that its pool does not have, present
// removes it and returns nil, so that the caller creates it again. It returns Aborted for a pending snapshot of a
// group.
func (e *Engine) present(ctx context.Context, l classView, name string) (*lvm.LV, error) {
	lv := l.vg.LV(name)
	if lv == nil {
		return nil, nil
	}
	if !l.mayUse(lv) {
		return nil, status.Errorf(codes.AlreadyExists, "logical volume %s/%s already exists, and was not created for "+
			"a LogicalVolume", l.vg.Name, name)
	}
	if isPending(lv) {
		return nil, l.pendingError(lv)
	}
	missing, err := e.notInPool(ctx, l, lv)
	if err != nil || !missing {
		return lv, err
	}
	return nil, e.removeUnfinished(ctx, l.class.Name, name)
}

// removeUnfinished removes a thin volume that its pool does not have. It checks that again with a new report.
func (e *Engine) removeUnfinished(ctx context.Context, class, name string) error {
	l, err := e.locate(ctx, class, e.lvm.Report)
	if err != nil {
		return err
	}
	lv := l.vg.LV(name)
	if lv == nil {
		return nil
	}
	missing, err := e.notInPool(ctx, l, lv)
	if err != nil {
		return err
	}
	if !missing {
		return status.Errorf(codes.Aborted, "logical volume %s/%s is being created", l.vg.Name, name)
	}
	log.FromContext(ctx).Info("recreating a thin volume that its pool does not have, because the command that created "+
		"it was interrupted", "deviceClass", class, "lv", name)
	return statusOf(e.lvm.Apply(ctx, lvm.LVRemove{VG: l.vg.Name, Names: []string{name}}))
}

// notInPool returns true if LVM's metadata has an inactive thin volume that does not exist in its pool and therefore
// has no data.
//
// LVM commits a new thin volume together with a message for its pool and the next transaction ID. It then sends the
// message to the kernel, followed by the transaction ID (lib/metadata/thin_manip.c, update_thin_pool_lv). Until then,
// the kernel has the transaction ID with which the volume was created, one less than LVM. LVM commits one such message
// at a time.
func (e *Engine) notInPool(ctx context.Context, l classView, lv *lvm.LV) (bool, error) {
	if e.kernel == nil || l.pool == nil || lv.PoolName != l.pool.Name || lv.Attr.Active() ||
		lv.TransactionID == nil || l.pool.TransactionID == nil || *l.pool.TransactionID != *lv.TransactionID+1 {
		return false, nil
	}
	state, err := e.kernel.ThinPool(ctx, l.vg.Name, l.pool.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		return false, nil // LVM sends the message when it activates the pool.
	}
	if err != nil {
		return false, status.Errorf(codes.Aborted, "thin pool %s/%s: %v", l.vg.Name, l.pool.Name, err)
	}
	return !state.HasFailed() && state.TransactionID == *lv.TransactionID, nil
}

// reload makes the mapped device of an active volume match LVM's metadata: it resumes a suspended device, and extends
// one that is smaller than the volume.
func (e *Engine) reload(ctx context.Context, l classView, lv *lvm.LV) error {
	if e.kernel == nil {
		return nil
	}
	device, err := e.kernel.Volume(ctx, l.vg.Name, lv.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		return nil // It is not active, and its activation uses the metadata.
	}
	var size int64
	if err == nil {
		size, err = e.kernel.Size(device.Number)
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "logical volume %s/%s: %v", l.vg.Name, lv.Name, err)
	}
	if !device.Suspended && size >= int64(lv.Size) {
		return nil
	}
	log.FromContext(ctx).Info("reloading a logical volume, because the command that changed it was interrupted",
		"deviceClass", l.class.Name, "lv", lv.Name, "size", int64(lv.Size), "cause",
		fmt.Sprintf("the device has %d bytes, suspended: %t", size, device.Suspended))
	var change lvm.Change = lvm.LVRefresh{VG: l.vg.Name, Name: lv.Name}
	if size == 0 {
		// A device that has never had a table in use is not active.
		change = lvm.LVActivate{VG: l.vg.Name, Name: lv.Name}
	}
	if err := e.lvm.Apply(ctx, change); err != nil {
		return statusOf(fmt.Errorf("the mapped device of logical volume %s/%s does not match its metadata: %w",
			l.vg.Name, lv.Name, err))
	}
	return nil
}

// PoolsOf returns how LVM reads the state of thin pools from the kernel.
func PoolsOf(kernel *devicemapper.Reader) lvm.Pools {
	return func(ctx context.Context, vg, pool string) (lvm.PoolState, error) {
		device, state, err := kernel.ThinPoolDevice(ctx, vg, pool)
		switch {
		case errors.Is(err, devicemapper.ErrNotFound):
			return lvm.PoolState{}, fmt.Errorf("thin pool %s/%s is not active: %w", vg, pool, lvm.ErrNotFound)
		case err != nil:
			return lvm.PoolState{}, err
		case state.HasFailed():
			return lvm.PoolState{}, fmt.Errorf("thin pool %s/%s has failed: its state in the kernel is %s", vg, pool,
				state.Mode)
		}
		return lvm.PoolState{Device: device.UUID, TransactionID: state.TransactionID, Suspended: device.Suspended}, nil
	}
}

// resumePool resumes a thin pool that is suspended and that no command of LVM will resume.
func (e *Engine) resumePool(ctx context.Context, l classView) error {
	if !l.poolSuspended {
		return nil
	}
	done, err := e.lvm.ThinPoolResume(ctx, l.vg.Name, l.pool.Name)
	if done && err == nil {
		log.FromContext(ctx).Info("resumed a thin pool, because a command that changed it was interrupted",
			"deviceClass", l.class.Name, "lv", l.pool.Name)
	}
	return statusOf(err)
}

// checkEmpty removes a new volume in a pool that zeroes new blocks, and returns Aborted, if the volume already has
// blocks: they are those of a thin device that LVM does not know, whose ID it has reused. The volume was created by
// this request, so nobody has used it. It is also removed if that cannot be read.
func (e *Engine) checkEmpty(ctx context.Context, l classView, name string) error {
	if e.kernel == nil || !l.zeroed() {
		return nil
	}
	err := e.withoutBlocks(ctx, l, name)
	if err == nil {
		return nil
	}
	log.FromContext(ctx).Info("removing a new logical volume that may have data of a removed one", "deviceClass",
		l.class.Name, "lv", name, "cause", err.Error())
	err = errors.Join(err, e.lvm.Apply(ctx, lvm.LVRemove{VG: l.vg.Name, Names: []string{name}}))
	return status.Error(codes.Aborted, err.Error())
}

// errHasData is the error of a new volume with data.
var errHasData = errors.New("already has data of a removed volume")

// withoutBlocks returns an error unless a new thin volume has no blocks in its pool.
func (e *Engine) withoutBlocks(ctx context.Context, l classView, name string) error {
	mapped, err := e.kernel.MappedSectors(ctx, l.vg.Name, name)
	if err != nil || mapped == 0 {
		return err
	}
	return fmt.Errorf("the new logical volume %s/%s %w in thin pool %s, %d bytes: it is created again", l.vg.Name, name,
		errHasData, l.pool.Name, mapped*512)
}

// checkUnused is checkEmpty for a volume with TagNew that an earlier request has created. It removes nothing: it
// returns ErrUnfinished. It activates the volume if the command that created it was interrupted before it did.
func (e *Engine) checkUnused(ctx context.Context, l classView, lv *lvm.LV) error {
	if e.kernel == nil || !l.zeroed() {
		return nil
	}
	err := e.withoutBlocks(ctx, l, lv.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		if err := e.lvm.Apply(ctx, lvm.LVActivate{VG: l.vg.Name, Name: lv.Name}); err != nil {
			return statusOf(err)
		}
		err = e.withoutBlocks(ctx, l, lv.Name)
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, errHasData):
		return status.Error(codes.Aborted, err.Error())
	}
	return &codedError{code: codes.Aborted, err: errors.Join(err, ErrUnfinished)}
}

// createSnapshot creates a snapshot. LVM refuses it if the pool has a thin device with its ID, which LVM does not know:
// then createSnapshot removes this thin device, and tries again.
func (e *Engine) createSnapshot(ctx context.Context, l classView, o lvm.LVCreateSnapshot) error {
	err := e.lvm.Apply(ctx, o)
	if !errors.Is(err, lvm.ErrLeftover) {
		return err
	}
	if failed := e.dropLeftover(ctx, l); failed != nil {
		return errors.Join(err, failed)
	}
	return e.lvm.Apply(ctx, o)
}

// leftoverName is the name of the volume of dropLeftover. No LogicalVolume has it.
const leftoverName = "lvms-leftover"

// dropLeftover removes the thin device that LVM does not know and whose ID the next new volume gets. It creates a
// volume, for which LVM accepts the device, and removes it with its data.
func (e *Engine) dropLeftover(ctx context.Context, l classView) error {
	log.FromContext(ctx).Info("removing a thin device that LVM does not know", "deviceClass", l.class.Name, "lv",
		leftoverName)
	err := e.lvm.Apply(ctx, lvm.LVCreateThin{VG: l.vg.Name, Pool: l.pool.Name, PoolZeroes: true,
		Name: leftoverName, VirtualSize: l.vg.ExtentSize})
	if err != nil && !errors.Is(err, lvm.ErrExists) { // It exists if this was interrupted before.
		return err
	}
	return e.lvm.Apply(ctx, lvm.LVRemove{VG: l.vg.Name, Names: []string{leftoverName}})
}
