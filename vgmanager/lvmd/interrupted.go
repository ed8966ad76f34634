package lvmd

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// This file completes what a killed LVM command left unfinished. LVM first commits its metadata, then changes the
// mapped devices. A command that is killed in between, with the container of the agent or by the OOM killer, leaves
// four states that no later LVM command of the agent would change:
//   - a thin volume that the pool does not have (notInPool);
//   - a mapped device without a table (reload);
//   - a mapped device that is smaller than its volume (reload);
//   - suspended devices (reload, and the reconciler of volume groups for all others).

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
	return statusOf(e.lvm.LVRemove(ctx, l.vg.Name, name))
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
	change := e.lvm.LVRefresh
	if size == 0 {
		change = e.lvm.LVActivate // A device that has never had a table in use is not active.
	}
	if err := change(ctx, l.vg.Name, lv.Name); err != nil {
		return statusOf(fmt.Errorf("the mapped device of logical volume %s/%s does not match its metadata: %w",
			l.vg.Name, lv.Name, err))
	}
	return nil
}
