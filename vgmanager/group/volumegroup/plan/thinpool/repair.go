package thinpool

import (
	"errors"
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// FullPercent is the usage of its metadata at which a pool is full.
const FullPercent = 100

// RepairTarget returns the thin pool that a recovery repairs, or why it cannot be repaired.
func RepairTarget(d state.Desired, s state.NodeState, vg *lvm.VG) (pool *lvm.ThinPool, problem string) {
	if d.Spec.ThinPoolConfig == nil {
		return nil, fmt.Sprintf("device class %s has no thin pool", d.Name)
	}
	if problem := recovery.ChangeProblem(d, s, vg); problem != "" {
		return nil, problem
	}
	name := d.Spec.ThinPoolConfig.Name
	if pool = vg.ThinPool(name); pool == nil {
		return nil, fmt.Sprintf("volume group %s on node %s has no thin pool %s", d.Name, d.Node, name)
	}
	return pool, ""
}

// Works returns true if the kernel serves the pool without restriction.
func Works(pool *lvm.ThinPool) bool {
	return pool.Attr.Active() && !pool.CheckNeeded && (pool.Health == "" || pool.Health == OutOfData) &&
		!AtLeast(pool.MetadataPercent, FullPercent)
}

// Readiness returns what must happen before the metadata of a pool is known, or "".
func Readiness(s state.NodeState, vg *lvm.VG, pool *lvm.ThinPool) string {
	open := state.OpenVolumes(state.Pointers(pool.Volumes))
	switch i := s.Pool.Inspection; {
	case len(open) > 0:
		return fmt.Sprintf("volumes are in use, so the metadata cannot be checked: %s: delete the Pods that use them",
			state.Joined(open))
	case vg.IsPoolActive(pool.Name):
		return "it is being deactivated, so that its metadata can be checked"
	case i != nil && i.Err != nil:
		return fmt.Sprintf("its metadata cannot be read: %v", i.Err)
	case i == nil || i.Metadata == nil:
		return "its metadata is being checked"
	}
	return ""
}

func transactionOf(pool *lvm.ThinPool) uint64 {
	if pool.TransactionID == nil {
		return 0
	}
	return *pool.TransactionID
}

// IsOnlyFull returns true if a pool works but for the size of its metadata.
func IsOnlyFull(pool *lvm.ThinPool) bool {
	return pool.Attr.Active() && !pool.CheckNeeded && AtLeast(pool.MetadataPercent, FullPercent)
}

// poolFault returns the problem of a thin pool that LVM does not activate.
func poolFault(d state.Desired, s state.NodeState, pool *lvm.ThinPool) []state.Problem {
	if s.Pool.Fault == nil || pool.Attr.Active() {
		return nil
	}
	hint := recovery.RepairHint(d)
	if errors.Is(s.Pool.Fault, lvm.ErrTransaction) {
		hint = recovery.RollbackHint(d)
	}
	return []state.Problem{Problem(pool, v1alpha1.ReasonThinPoolFailed, fmt.Sprintf(
		"thin pool %s/%s on node %s cannot be activated: %v: %s", d.Name, pool.Name, d.Node, s.Pool.Fault, hint))}
}

// Mismatch returns how the metadata of a thin pool differs from that of its volume group, or "".
func Mismatch(pool *lvm.ThinPool, m *thinmeta.Metadata) string {
	switch chunks := uint64(pool.Size / max(pool.ChunkSize, 1)); {
	case m.TransactionID != transactionOf(pool):
		return fmt.Sprintf("its metadata has the transaction ID %d, and that of the volume group has %d",
			m.TransactionID, transactionOf(pool))
	case m.Chunks > chunks:
		return fmt.Sprintf("its metadata has %d chunks, and that of the volume group has %d", m.Chunks, chunks)
	}
	return ""
}
