package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// retryInspection is the delay before metadata that could not be read is read again.
const retryInspection = time.Minute

// repair performs the actions of the repair of a thin pool.
func (r *Reconciler) repair(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	pool := w.Spec.ThinPoolConfig.Name
	switch a.Kind {
	case plan.InspectPool:
		return r.startInspection(ctx, w, plan.GroupOf(w, s))
	case plan.CloseMetadata:
		return r.LVM.Apply(ctx, lvm.ThinMetadataDeactivate{VG: w.Name, Pool: pool})
	case plan.RepairPool:
		return r.startRepair(ctx, w, s)
	case plan.ActivatePool:
		return r.activateRepaired(ctx, w, plan.GroupOf(w, s))
	}
	return r.LVM.Apply(ctx, lvm.LVRemoveLost{VG: w.Name, Pool: pool, UUIDs: a.Volumes})
}

// startRepair repairs the metadata of an inactive pool in the background, if another inspection has the same result as
// the one that the approved plan is based on.
func (r *Reconciler) startRepair(ctx context.Context, w plan.Desired, s plan.NodeState) error {
	vg, planned := plan.GroupOf(w, s), s.Inspection
	target, err := metadataOf(w, vg)
	if err != nil {
		return err
	}
	var options []string
	if planned.Metadata.SuperblockLost {
		options = target.RepairOptions()
	}
	pool := w.Spec.ThinPoolConfig.Name
	r.inBackground(ctx, w, vg, target, func(ctx context.Context) (plan.PoolInspection, bool) {
		now := r.inspect(ctx, w.Name, pool, target)
		if now.Err != nil || !reflect.DeepEqual(now, *planned) {
			return now, true
		}
		if planned.Metadata.Salvaged {
			err = r.salvage(ctx, w.Name, pool, target, planned.Metadata)
		} else {
			err = r.LVM.Apply(ctx, lvm.ThinPoolRepair{VG: w.Name, Pool: pool, Options: options})
		}
		if err != nil {
			return plan.PoolInspection{Err: err}, true
		}
		return plan.PoolInspection{}, false
	})
	return nil
}

// salvage writes the metadata of an inactive pool again from what the agent can read, which must be what was planned.
func (r *Reconciler) salvage(ctx context.Context, vg, pool string, target thinmeta.Pool,
	planned *thinmeta.Metadata) error {
	activate := lvm.ThinMetadataActivate{VG: vg, Pool: pool}
	if err := r.LVM.Apply(ctx, activate); err != nil {
		return err
	}
	target.Device = activate.Device()
	file := r.salvageFile(vg)
	devices, err := r.Salvage(ctx, target, file)
	if err = errors.Join(err, r.LVM.Apply(ctx, lvm.ThinMetadataDeactivate{VG: vg, Pool: pool})); err != nil {
		return err
	}
	if !maps.Equal(devices, planned.Devices) {
		return errors.Join(fmt.Errorf("the metadata of thin pool %s/%s has changed since it was planned", vg, pool),
			os.Remove(file))
	}
	err = r.LVM.Apply(ctx, lvm.ThinPoolRestore{VG: vg, Pool: pool, File: file})
	if errors.Is(err, lvm.ErrRunning) {
		return err // the command reads the file
	}
	return errors.Join(err, os.Remove(file))
}

// salvageFile is the file with the metadata of the pool of a volume group that salvage writes.
func (r *Reconciler) salvageFile(vg string) string {
	return filepath.Join(r.StateDir, "salvaged-"+vg+".xml")
}

// removeSalvaged removes the file that a repair left. A command that has it open still reads it.
func (r *Reconciler) removeSalvaged(vg string) error {
	if err := os.Remove(r.salvageFile(vg)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the file that a repair of the thin pool of volume group %s left: %w", vg, err)
	}
	return nil
}

// removeAbandoned removes the file of a repair if the LVMRecovery was deleted before the repair ended.
func (r *Reconciler) removeAbandoned(w plan.Desired) error {
	if w.Repairing || r.inspections.running(w.Name) {
		return nil
	}
	return r.removeSalvaged(w.Name)
}

// activateRepaired activates a pool whose metadata is valid. Volumes that are not in the metadata stay inactive.
func (r *Reconciler) activateRepaired(ctx context.Context, w plan.Desired, vg *lvm.VG) error {
	r.inspections.forget(w.Name)
	if err := r.removeSalvaged(w.Name); err != nil {
		return err
	}
	err := r.checkBlank(ctx, w, vg)
	if err == nil {
		err = r.LVM.Apply(ctx, lvm.ThinPoolActivate{VG: w.Name})
	}
	r.recordFault(w, err)
	if errors.Is(err, lvm.ErrNoData) {
		return nil
	}
	return err
}

// recordFault records why LVM did not activate the thin pool of a class, and counts the attempt, so that the next one
// is delayed.
func (r *Reconciler) recordFault(w plan.Desired, err error) {
	if w.Spec.ThinPoolConfig == nil {
		return
	}
	delete(r.faults, w.Name)
	for _, fault := range []error{lvm.ErrPoolCheck, lvm.ErrTransaction, lvm.ErrNoData} {
		if errors.Is(err, fault) {
			r.faults[w.Name] = fault
			r.attempts.add(w.Name, w.Spec.ThinPoolConfig.Name, r.now())
			return
		}
	}
}

// checkBlank returns ErrPoolCheck if the kernel would write new, empty metadata when the inactive pool of a class is
// activated, although the pool has had volumes. All volumes would be lost. LVM does not find this (thinmeta.IsBlank).
// In a group that misses a physical volume, LVM activates a pool only if the missing one is not needed for it.
func (r *Reconciler) checkBlank(ctx context.Context, w plan.Desired, vg *lvm.VG) error {
	if w.Spec.ThinPoolConfig == nil || vg == nil {
		return nil
	}
	name := w.Spec.ThinPoolConfig.Name
	pool := vg.ThinPool(name)
	if pool == nil || pool.TransactionID == nil || *pool.TransactionID == 0 || vg.IsPoolActive(name) ||
		vg.Unreadable(vg.LV(name)) {
		return nil
	}
	activate := lvm.ThinMetadataActivate{VG: w.Name, Pool: name}
	if err := r.LVM.Apply(ctx, activate); err != nil {
		return err
	}
	blank, err := r.IsBlank(ctx, activate.Device())
	if err = errors.Join(err, r.LVM.Apply(ctx, lvm.ThinMetadataDeactivate{VG: w.Name, Pool: name})); err != nil {
		return err
	}
	if blank {
		return fmt.Errorf("thin pool %s/%s on node %s: the first block of its metadata has only zeros, and an "+
			"activation would delete all volumes: %w", w.Name, name, w.Node, lvm.ErrPoolCheck)
	}
	return nil
}

// metadataOf returns what LVM's metadata says about the thin pool of a class.
func metadataOf(w plan.Desired, vg *lvm.VG) (thinmeta.Pool, error) {
	pool := vg.ThinPool(w.Spec.ThinPoolConfig.Name)
	if pool == nil || pool.TransactionID == nil || pool.ChunkSize == 0 {
		return thinmeta.Pool{},
			fmt.Errorf("volume group %s on node %s: LVM does not report the properties of thin pool %s",
				w.Name, w.Node, w.Spec.ThinPoolConfig.Name)
	}
	return thinmeta.Pool{TransactionID: *pool.TransactionID, ChunkSectors: uint64(pool.ChunkSize) / 512,
		Chunks: uint64(pool.Size / pool.ChunkSize)}, nil
}

// inspections has what is known about the metadata of thin pools, by volume group. An inspection can take hours, so it
// does not run in a reconcile.
type inspections struct {
	mu   sync.Mutex
	list map[string]*inspection
}

type inspection struct {
	plan.PoolInspection
	// transaction and pool identify the metadata that was read.
	pool        string
	transaction uint64
	ended       time.Time
}

func newInspections() *inspections { return &inspections{list: map[string]*inspection{}} }

// of returns what is known about the metadata of the pool of a class, or nil. It forgets an inspection of metadata that
// may have changed: if the pool is active, was changed by LVM, or is no longer being repaired.
func (all *inspections) of(w plan.Desired, vg *lvm.VG, now time.Time) *plan.PoolInspection {
	all.mu.Lock()
	defer all.mu.Unlock()
	i := all.list[w.Name]
	if i == nil {
		return nil
	}
	needed := w.Repairing || w.RestoringGroup
	if !i.Running && (!needed || !isSame(w, vg, i) || i.Err != nil && now.Sub(i.ended) > retryInspection) {
		delete(all.list, w.Name)
		return nil
	}
	seen := i.PoolInspection
	return &seen
}

func isSame(w plan.Desired, vg *lvm.VG, i *inspection) bool {
	if vg == nil || w.Spec.ThinPoolConfig == nil || vg.IsPoolActive(w.Spec.ThinPoolConfig.Name) {
		return false
	}
	pool := vg.ThinPool(w.Spec.ThinPoolConfig.Name)
	return pool != nil && pool.UUID == i.pool && pool.TransactionID != nil && *pool.TransactionID == i.transaction
}

// running returns true if metadata of the volume group is being read or written.
func (all *inspections) running(group string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	i := all.list[group]
	return i != nil && i.Running
}

func (all *inspections) set(group string, i *inspection) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list[group] = i
}

func (all *inspections) forget(group string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.list, group)
}

// startInspection reads the metadata of the inactive pool of a class in the background.
func (r *Reconciler) startInspection(ctx context.Context, w plan.Desired, vg *lvm.VG) error {
	target, err := metadataOf(w, vg)
	if err != nil {
		return err
	}
	r.inBackground(ctx, w, vg, target, func(ctx context.Context) (plan.PoolInspection, bool) {
		return r.inspect(ctx, w.Name, w.Spec.ThinPoolConfig.Name, target), true
	})
	return nil
}

// inBackground runs work on the metadata of an inactive pool, which can take hours. work returns what is known about
// the metadata afterwards, or false if nothing is known. Only one runs for a pool, because the plan waits for its end.
// Its programs have time limits.
func (r *Reconciler) inBackground(ctx context.Context, w plan.Desired, vg *lvm.VG, target thinmeta.Pool,
	work func(context.Context) (plan.PoolInspection, bool)) {
	i := &inspection{pool: vg.ThinPool(w.Spec.ThinPoolConfig.Name).UUID, transaction: target.TransactionID}
	i.Running = true
	r.inspections.set(w.Name, i)
	ctx = context.WithoutCancel(ctx)
	go func() {
		known, is := work(ctx)
		if is {
			r.inspections.set(w.Name, &inspection{PoolInspection: known, pool: i.pool, transaction: i.transaction,
				ended: r.now()})
		} else {
			r.inspections.forget(w.Name)
		}
		r.Wake()
	}()
}

// inspect reads the metadata of an inactive pool. LVM does not activate the pool meanwhile.
func (r *Reconciler) inspect(ctx context.Context, vg, pool string, target thinmeta.Pool) plan.PoolInspection {
	ids, err := r.LVM.ThinDeviceIDs(ctx, vg, pool)
	if err != nil {
		return plan.PoolInspection{Err: err}
	}
	activate := lvm.ThinMetadataActivate{VG: vg, Pool: pool}
	if err := r.LVM.Apply(ctx, activate); err != nil {
		return plan.PoolInspection{Err: err}
	}
	target.Device = activate.Device()
	metadata, err := r.Inspect(ctx, target)
	if closed := r.LVM.Apply(ctx, lvm.ThinMetadataDeactivate{VG: vg, Pool: pool}); err == nil {
		err = closed
	}
	if err != nil {
		return plan.PoolInspection{Err: err}
	}
	return plan.PoolInspection{Metadata: metadata, IDs: ids}
}
