// Package poolmetadata reads, repairs and activates the metadata of thin pools. What can take hours runs in the
// background.
package poolmetadata

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

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/attempts"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// retryInspection is the delay before metadata that could not be read is read again.
const retryInspection = time.Minute

// LVM changes logical volumes, and reads the IDs of the volumes of a thin pool.
type LVM interface {
	Apply(ctx context.Context, c lvm.Change) error
	ThinDeviceIDs(ctx context.Context, vg, pool string) (map[string]uint64, error)
}

// Pools reads, repairs and activates the metadata of the thin pools of this node.
type Pools struct {
	LVM LVM
	// Read, salvageTo and isBlank are Inspect, Salvage and IsBlank of Options.
	Read      func(ctx context.Context, pool thinmeta.Pool) (*thinmeta.Metadata, error)
	SalvageTo func(ctx context.Context, pool thinmeta.Pool, file string) (map[uint64]thinmeta.Device, error)
	IsBlank   func(ctx context.Context, device string) (bool, error)
	StateDir  string
	// Faults has why LVM did not activate thin pools, and inspections what is known about their metadata, by volume
	// group.
	Faults      map[string]error
	Inspections *Inspections
	Attempts    attempts.All
	Now         func() time.Time
	Wake        func()
}

// Observe returns what is known about the thin pool of a class.
func (m *Pools) Observe(d state.Desired, vg *lvm.VG) state.Pool {
	return state.Pool{Fault: m.Faults[d.Name], Inspection: m.Inspections.of(d, vg, m.Now())}
}

// StartRepair repairs the metadata of an inactive pool in the background, if another inspection has the same result as
// the one that the approved plan is based on.
func (m *Pools) StartRepair(ctx context.Context, d state.Desired, s state.NodeState) error {
	vg, planned := ownership.GroupOf(d, s), s.Pool.Inspection
	target, err := MetadataOf(d, vg)
	if err != nil {
		return err
	}
	var options []string
	if planned.Metadata.SuperblockLost {
		options = target.RepairOptions()
	}
	pool := d.Spec.ThinPoolConfig.Name
	m.InBackground(ctx, d, vg, target, func(ctx context.Context) (state.PoolInspection, bool) {
		now := m.Inspect(ctx, d.Name, pool, target)
		if now.Err != nil || !reflect.DeepEqual(now, *planned) {
			return now, true
		}
		if planned.Metadata.Salvaged {
			err = m.salvage(ctx, d.Name, pool, target, planned.Metadata)
		} else {
			err = m.LVM.Apply(ctx, lvm.ThinPoolRepair{VG: d.Name, Pool: pool, Options: options})
		}
		if err != nil {
			return state.PoolInspection{Err: err}, true
		}
		return state.PoolInspection{}, false
	})
	return nil
}

// salvage writes the metadata of an inactive pool again from what the agent can read, which must be what was planned.
func (m *Pools) salvage(ctx context.Context, vg, pool string, target thinmeta.Pool,
	planned *thinmeta.Metadata) error {
	activate := lvm.ThinMetadataActivate{VG: vg, Pool: pool}
	if err := m.LVM.Apply(ctx, activate); err != nil {
		return err
	}
	target.Device = activate.Device()
	file := m.SalvageFile(vg)
	devices, err := m.SalvageTo(ctx, target, file)
	if err = errors.Join(err, m.LVM.Apply(ctx, lvm.ThinMetadataDeactivate{VG: vg, Pool: pool})); err != nil {
		return err
	}
	if !maps.Equal(devices, planned.Devices) {
		return errors.Join(fmt.Errorf("the metadata of thin pool %s/%s has changed since it was planned", vg, pool),
			os.Remove(file))
	}
	err = m.LVM.Apply(ctx, lvm.ThinPoolRestore{VG: vg, Pool: pool, File: file})
	if errors.Is(err, lvm.ErrRunning) {
		return err // the command reads the file
	}
	return errors.Join(err, os.Remove(file))
}

// SalvageFile is the file with the metadata of the pool of a volume group that salvage writes.
func (m *Pools) SalvageFile(vg string) string {
	return filepath.Join(m.StateDir, "salvaged-"+vg+".xml")
}

// removeSalvaged removes the file that a repair left. A command that has it open still reads it.
func (m *Pools) removeSalvaged(vg string) error {
	if err := os.Remove(m.SalvageFile(vg)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the file that a repair of the thin pool of volume group %s left: %w", vg, err)
	}
	return nil
}

// RemoveAbandoned removes the file of a repair if the LVMRecovery was deleted before the repair ended.
func (m *Pools) RemoveAbandoned(d state.Desired) error {
	if d.Open.Action == v1alpha1.RecoveryRepairThinPool || m.Inspections.running(d.Name) {
		return nil
	}
	return m.removeSalvaged(d.Name)
}

// ActivateRepaired activates a pool whose metadata is valid. Volumes that are not in the metadata stay inactive.
func (m *Pools) ActivateRepaired(ctx context.Context, d state.Desired, vg *lvm.VG,
	c lvm.ThinPoolActivate) error {
	m.Inspections.forget(d.Name)
	if err := m.removeSalvaged(d.Name); err != nil {
		return err
	}
	err := m.CheckBlank(ctx, d, vg)
	if err == nil {
		err = m.LVM.Apply(ctx, c)
	}
	m.RecordFault(d, err)
	if errors.Is(err, lvm.ErrNoData) {
		return nil
	}
	return err
}

// RecordFault records why LVM did not activate the thin pool of a class, and counts the attempt, so that the next one
// is delayed.
func (m *Pools) RecordFault(d state.Desired, err error) {
	if d.Spec.ThinPoolConfig == nil {
		return
	}
	delete(m.Faults, d.Name)
	for _, fault := range []error{lvm.ErrPoolCheck, lvm.ErrTransaction, lvm.ErrNoData} {
		if errors.Is(err, fault) {
			m.Faults[d.Name] = fault
			m.Attempts.Add(d.Name, d.Spec.ThinPoolConfig.Name, m.Now())
			return
		}
	}
}

// CheckBlank returns ErrPoolCheck if the kernel would write new, empty metadata when the inactive pool of a class is
// activated, although the pool has had volumes. All volumes would be lost. LVM does not find this (thinmeta.IsBlank).
// In a group that misses a physical volume, LVM activates a pool only if the missing one is not needed for it.
func (m *Pools) CheckBlank(ctx context.Context, d state.Desired, vg *lvm.VG) error {
	if d.Spec.ThinPoolConfig == nil || vg == nil {
		return nil
	}
	name := d.Spec.ThinPoolConfig.Name
	pool := vg.ThinPool(name)
	if pool == nil || pool.TransactionID == nil || *pool.TransactionID == 0 || vg.IsPoolActive(name) ||
		vg.Unreadable(vg.LV(name)) {
		return nil
	}
	activate := lvm.ThinMetadataActivate{VG: d.Name, Pool: name}
	if err := m.LVM.Apply(ctx, activate); err != nil {
		return err
	}
	blank, err := m.IsBlank(ctx, activate.Device())
	if err = errors.Join(err, m.LVM.Apply(ctx, lvm.ThinMetadataDeactivate{VG: d.Name, Pool: name})); err != nil {
		return err
	}
	if blank {
		return fmt.Errorf("thin pool %s/%s on node %s: the first block of its metadata has only zeros, and an "+
			"activation would delete all volumes: %w", d.Name, name, d.Node, lvm.ErrPoolCheck)
	}
	return nil
}

// MetadataOf returns what LVM's metadata says about the thin pool of a class.
func MetadataOf(d state.Desired, vg *lvm.VG) (thinmeta.Pool, error) {
	pool := vg.ThinPool(d.Spec.ThinPoolConfig.Name)
	if pool == nil || pool.TransactionID == nil || pool.ChunkSize == 0 {
		return thinmeta.Pool{},
			fmt.Errorf("volume group %s on node %s: LVM does not report the properties of thin pool %s",
				d.Name, d.Node, d.Spec.ThinPoolConfig.Name)
	}
	return thinmeta.Pool{TransactionID: *pool.TransactionID, ChunkSectors: uint64(pool.ChunkSize) / 512,
		Chunks: uint64(pool.Size / pool.ChunkSize)}, nil
}

// Inspections has what is known about the metadata of thin pools, by volume group. An inspection can take hours, so it
// does not run in a reconcile.
type Inspections struct {
	mu   sync.Mutex
	list map[string]*inspection
}

type inspection struct {
	state.PoolInspection
	// transaction and pool identify the metadata that was read.
	pool        string
	transaction uint64
	ended       time.Time
}

// NewInspections returns inspections without results.
func NewInspections() *Inspections { return &Inspections{list: map[string]*inspection{}} }

// of returns what is known about the metadata of the pool of a class, or nil. It forgets an inspection of metadata that
// may have changed: if the pool is active, was changed by LVM, or is no longer being repaired.
func (all *Inspections) of(d state.Desired, vg *lvm.VG, now time.Time) *state.PoolInspection {
	all.mu.Lock()
	defer all.mu.Unlock()
	i := all.list[d.Name]
	if i == nil {
		return nil
	}
	needed := d.Open.Action == v1alpha1.RecoveryRepairThinPool || d.Open.Action == v1alpha1.RecoveryRestoreMetadata
	if !i.Running && (!needed || !isSame(d, vg, i) || i.Err != nil && now.Sub(i.ended) > retryInspection) {
		delete(all.list, d.Name)
		return nil
	}
	seen := i.PoolInspection
	return &seen
}

func isSame(d state.Desired, vg *lvm.VG, i *inspection) bool {
	if vg == nil || d.Spec.ThinPoolConfig == nil || vg.IsPoolActive(d.Spec.ThinPoolConfig.Name) {
		return false
	}
	pool := vg.ThinPool(d.Spec.ThinPoolConfig.Name)
	return pool != nil && pool.UUID == i.pool && pool.TransactionID != nil && *pool.TransactionID == i.transaction
}

// running returns true if metadata of the volume group is being read or written.
func (all *Inspections) running(group string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	i := all.list[group]
	return i != nil && i.Running
}

func (all *Inspections) set(group string, i *inspection) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list[group] = i
}

func (all *Inspections) forget(group string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.list, group)
}

// StartInspection reads the metadata of the inactive pool of a class in the background.
func (m *Pools) StartInspection(ctx context.Context, d state.Desired, vg *lvm.VG) error {
	target, err := MetadataOf(d, vg)
	if err != nil {
		return err
	}
	m.InBackground(ctx, d, vg, target, func(ctx context.Context) (state.PoolInspection, bool) {
		return m.Inspect(ctx, d.Name, d.Spec.ThinPoolConfig.Name, target), true
	})
	return nil
}

// InBackground runs work on the metadata of an inactive pool, which can take hours. work returns what is known about
// the metadata afterwards, or false if nothing is known. Only one runs for a pool, because the plan waits for its end.
// Its programs have time limits.
func (m *Pools) InBackground(ctx context.Context, d state.Desired, vg *lvm.VG, target thinmeta.Pool,
	work func(context.Context) (state.PoolInspection, bool)) {
	i := &inspection{pool: vg.ThinPool(d.Spec.ThinPoolConfig.Name).UUID, transaction: target.TransactionID}
	i.Running = true
	m.Inspections.set(d.Name, i)
	ctx = context.WithoutCancel(ctx)
	go func() {
		known, is := work(ctx)
		if is {
			m.Inspections.set(d.Name, &inspection{PoolInspection: known, pool: i.pool, transaction: i.transaction,
				ended: m.Now()})
		} else {
			m.Inspections.forget(d.Name)
		}
		m.Wake()
	}()
}

// Inspect reads the metadata of an inactive pool. LVM does not activate the pool meanwhile.
func (m *Pools) Inspect(ctx context.Context, vg, pool string, target thinmeta.Pool) state.PoolInspection {
	ids, err := m.LVM.ThinDeviceIDs(ctx, vg, pool)
	if err != nil {
		return state.PoolInspection{Err: err}
	}
	activate := lvm.ThinMetadataActivate{VG: vg, Pool: pool}
	if err := m.LVM.Apply(ctx, activate); err != nil {
		return state.PoolInspection{Err: err}
	}
	target.Device = activate.Device()
	metadata, err := m.Read(ctx, target)
	if closed := m.LVM.Apply(ctx, lvm.ThinMetadataDeactivate{VG: vg, Pool: pool}); err == nil {
		err = closed
	}
	if err != nil {
		return state.PoolInspection{Err: err}
	}
	return state.PoolInspection{Metadata: metadata, IDs: ids}
}
