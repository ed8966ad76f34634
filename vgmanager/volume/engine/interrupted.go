package engine

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
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
func (n *node) present(ctx context.Context, v view.Class, name string) (*lvm.LV, error) {
	lv := v.VG.LV(name)
	if lv == nil {
		return nil, nil
	}
	if !v.MayUse(lv) {
		return nil, fault.New(fault.AlreadyExists, "logical volume %s/%s already exists, and was not created for "+
			"a LogicalVolume", v.VG.Name, name)
	}
	if isPending(lv) {
		return nil, pendingError(v, lv)
	}
	missing, err := n.notInPool(ctx, v, lv)
	if err != nil || !missing {
		return lv, err
	}
	return nil, n.removeUnfinished(ctx, v.Config.Name, name)
}

// removeUnfinished removes a thin volume that its pool does not have. It checks that again with a new report.
func (n *node) removeUnfinished(ctx context.Context, class, name string) error {
	v, err := n.locate(ctx, class, n.lvm.Report)
	if err != nil {
		return err
	}
	lv := v.VG.LV(name)
	if lv == nil {
		return nil
	}
	missing, err := n.notInPool(ctx, v, lv)
	if err != nil {
		return err
	}
	if !missing {
		return fault.New(fault.Aborted, "logical volume %s/%s is being created", v.VG.Name, name)
	}
	log.FromContext(ctx).Info("recreating a thin volume that its pool does not have, because the command that created "+
		"it was interrupted", "deviceClass", class, "lv", name)
	return fault.Of(n.lvm.Apply(ctx, lvm.LVRemove{VG: v.VG.Name, Names: []string{name}}))
}

// notInPool returns true if LVM's metadata has an inactive thin volume that does not exist in its pool and therefore
// has no data.
//
// LVM commits a new thin volume together with a message for its pool and the next transaction ID. It then sends the
// message to the kernel, followed by the transaction ID (lib/metadata/thin_manip.c, update_thin_pool_lv). Until then,
// the kernel has the transaction ID with which the volume was created, one less than LVM. LVM commits one such message
// at a time.
func (n *node) notInPool(ctx context.Context, v view.Class, lv *lvm.LV) (bool, error) {
	if n.kernel == nil || v.Pool == nil || lv.PoolName != v.Pool.Name || lv.Attr.Active() ||
		lv.TransactionID == nil || v.Pool.TransactionID == nil || *v.Pool.TransactionID != *lv.TransactionID+1 {
		return false, nil
	}
	state, err := n.kernel.ThinPool(ctx, v.VG.Name, v.Pool.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		return false, nil // LVM sends the message when it activates the pool.
	}
	if err != nil {
		return false, fault.New(fault.Aborted, "thin pool %s/%s: %v", v.VG.Name, v.Pool.Name, err)
	}
	return !state.HasFailed() && state.TransactionID == *lv.TransactionID, nil
}

// reload makes the mapped device of an active volume match LVM's metadata: it resumes a suspended device, and extends
// one that is smaller than the volume.
func (n *node) reload(ctx context.Context, v view.Class, lv *lvm.LV) error {
	if n.kernel == nil {
		return nil
	}
	device, err := n.kernel.Volume(ctx, v.VG.Name, lv.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		return nil // It is not active, and its activation uses the metadata.
	}
	var size int64
	if err == nil {
		size, err = n.kernel.Size(device.Number)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "logical volume %s/%s: %v", v.VG.Name, lv.Name, err)
	}
	if !device.Suspended && size >= int64(lv.Size) {
		return nil
	}
	log.FromContext(ctx).Info("reloading a logical volume, because the command that changed it was interrupted",
		"deviceClass", v.Config.Name, "lv", lv.Name, "size", int64(lv.Size), "cause",
		fmt.Sprintf("the device has %d bytes, suspended: %t", size, device.Suspended))
	var change lvm.Change = lvm.LVRefresh{VG: v.VG.Name, Name: lv.Name}
	if size == 0 {
		// A device that has never had a table in use is not active.
		change = lvm.LVActivate{VG: v.VG.Name, Name: lv.Name}
	}
	if err := n.lvm.Apply(ctx, change); err != nil {
		return fault.Of(fmt.Errorf("the mapped device of logical volume %s/%s does not match its metadata: %w",
			v.VG.Name, lv.Name, err))
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
func (n *node) resumePool(ctx context.Context, v view.Class) error {
	if !v.PoolSuspended {
		return nil
	}
	done, err := n.lvm.ThinPoolResume(ctx, v.VG.Name, v.Pool.Name)
	if done && err == nil {
		log.FromContext(ctx).Info("resumed a thin pool, because a command that changed it was interrupted",
			"deviceClass", v.Config.Name, "lv", v.Pool.Name)
	}
	return fault.Of(err)
}
