// Package groupsnapshot creates snapshots of several thin volumes of a node at one instant: there is a moment at which
// no volume of the group can be written, and each snapshot has the data of that moment.
//
// LVM cannot do this. It creates one snapshot in a command, and resumes the volume at its end, also one that somebody
// else has suspended (lib/activate/activate.c, _lv_suspend). So LVM creates the snapshots before, one after another, as
// inactive volumes with the tag PendingTag, each of which has the data of its own moment. Then, while LVM's lock of the
// volume group is held (lvm.Exclusively):
//
//  1. The plan (plan.go) matches snapshots and sources by LVM's metadata, and the kernel confirms that no source is
//     suspended.
//  2. The thin devices of the pending snapshots are deleted from their pool. LVM's metadata does not change.
//  3. The journal records what is about to be suspended, and a watchdog process starts.
//  4. The node continues when all nodes of the group are at this point.
//  5. The sources are suspended, with their file systems frozen.
//  6. The kernel creates the thin devices again, with the same IDs, as snapshots of the suspended sources.
//  7. The node keeps them suspended until all nodes of the group are at this point.
//  8. The kernel confirms that all are still suspended, and they are resumed.
//
// While volumes are suspended, this process only calls the kernel and waits for the other nodes: it starts no program,
// and reads and writes no file.
//
// Volumes never stay suspended for longer than the limit of the request, whoever fails: this process resumes them at
// the limit; the watchdog resumes them when this process ends, or does not act in time; and the next agent resumes what
// the journal names. A reboot ends a suspension.
//
// After an error, or if this process ends before, no snapshot of the group may be used: they still have PendingTag, and
// the caller removes them.
package groupsnapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

const (
	// PendingTag is the LVM tag of a snapshot that is not yet part of a complete group. Its data is of another moment
	// than that of the group, or it has none.
	PendingTag = "lvms.group.pending"
	// MaxMembers is the maximum number of volumes of a group on a node.
	MaxMembers = groupprotocol.MaxVolumes
	// MaxLimit is the maximum of Request.Limit.
	MaxLimit = 10 * time.Second
	// lockedLimit is how long a node with locked volume groups, and nothing suspended, waits for the other nodes.
	lockedLimit = 10 * time.Second
)

// ErrNotHeld: not all volumes of the group were suspended at one moment. Nothing of the group may be kept.
var ErrNotHeld = errors.New("the volumes were not suspended together")

// Pair is a volume and its pending snapshot, by the names of the logical volumes.
type Pair struct{ VG, Source, Snapshot string }

// Request is a group of volumes of this node.
type Request struct {
	// Name names the group in errors.
	Name  string
	Pairs []Pair
	// Limit is the maximum time for which a volume is suspended, at most MaxLimit.
	Limit time.Duration
}

// LVM is what a Node needs of the node's LVM.
type LVM interface {
	// Exclusively calls f while no command of LVM reads or changes the volume group: see lvm.Exclusively.
	Exclusively(ctx context.Context, vg, purpose string, f func(Locked) error) error
}

// Locked is a volume group whose LVM lock is held.
type Locked struct {
	// Lock holds the lock.
	Lock *os.File
	// ThinVolumes reads the thin volumes of the volume group, by name.
	ThinVolumes func(ctx context.Context) (map[string]lvm.ThinVolume, error)
}

// OfNode returns the node's LVM as a Node needs it.
func OfNode(l *lvmexec.LVM) LVM { return ofNode{l} }

type ofNode struct{ lvm *lvmexec.LVM }

// Exclusively implements LVM.
func (o ofNode) Exclusively(ctx context.Context, vg, purpose string, f func(Locked) error) error {
	return o.lvm.Exclusively(ctx, vg, purpose, func(e *lvmexec.Exclusive) error {
		return f(Locked{Lock: e.Lock, ThinVolumes: e.ThinVolumes})
	})
}

// Pools finds the mapped devices of thin pools.
type Pools interface {
	ThinPoolDevice(ctx context.Context, vg, pool string) (devicemapper.Device, devicemapper.ThinPool, error)
}

// Kernel suspends devices and changes thin pools. Its calls have no time limit.
type Kernel interface {
	State(uuid string) (devicemapper.State, error)
	Suspend(uuid string) error
	Resume(uuid string) error
	CreateThinSnapshot(pool string, id, origin uint64) error
	DeleteThin(pool string, id uint64) error
}

// Watch starts a process that resumes devices when the caller ends, or after a time limit that begins with Signal. The
// process holds the locks.
type Watch func(ctx context.Context, devices []string, limit time.Duration, locks []*os.File) (Watchdog, error)

// Watchdog is a process that watches suspended devices.
type Watchdog interface {
	// Signal begins the time limit. It returns an error if the process has ended.
	Signal() error
	// Stop ends the process and waits for its end.
	Stop() error
}

// Others are the other nodes of a group. Each function is called when this node has reached a point, and returns nil
// when all nodes have reached it.
type Others struct {
	// Locked: the volume groups are locked, and all is ready for the suspension. Its context ends after 10 s.
	Locked func(ctx context.Context) error
	// Held: the volumes are suspended, and the snapshots are taken. Its context ends at the limit of the request.
	Held func(ctx context.Context) error
}

// Times are how long volumes were suspended.
type Times struct {
	// Suspended is the time from the request of the first suspension to the end of the last one.
	Suspended time.Duration
	// Freezing is the part of Suspended until all volumes of the node were suspended, in which file systems are frozen.
	// Waited is the part in which the node had its snapshots, and waited for the other nodes.
	Freezing, Waited time.Duration
}

// Node creates the snapshots of groups on this node, one group at a time.
type Node struct {
	lvm     LVM
	pools   Pools
	kernel  Kernel
	watch   Watch
	journal journal
	turn    chan struct{}
	now     func() time.Time
}

// New returns a Node. path is the file of the journal, in a directory that a reboot empties.
func New(l LVM, pools Pools, kernel Kernel, watch Watch, path string) *Node {
	return &Node{lvm: l, pools: pools, kernel: kernel, watch: watch, journal: journal{path}, now: time.Now,
		turn: make(chan struct{}, 1)}
}

// Take gives the pending snapshots of a request the data of one moment, and returns how long volumes were suspended.
// The snapshots are part of the group only if Take returns nil on every node.
//
// A repeated call takes the snapshots again. After an error the volumes are resumed, unless the error says otherwise.
// If the kernel does not complete a request, Take returns only when it does: the other volumes are resumed before.
func (n *Node) Take(ctx context.Context, r Request, others Others) (Times, error) {
	if r.Limit <= 0 || r.Limit > MaxLimit {
		return Times{}, fmt.Errorf("group snapshot %s: the limit of the suspension is %s, want at most %s",
			r.Name, r.Limit, MaxLimit)
	}
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return Times{}, fmt.Errorf("group snapshot %s: another group snapshot of this node is in progress: %w", r.Name,
			ctx.Err())
	}
	groups := map[string][]Pair{}
	for _, p := range r.Pairs {
		groups[p.VG] = append(groups[p.VG], p)
	}
	var took Times
	locked := map[string]Locked{}
	err := n.lockAll(ctx, r.Name, slices.Sorted(maps.Keys(groups)), locked, func() (err error) {
		took, err = n.take(ctx, r, groups, locked, others)
		return err
	})
	if err != nil {
		return took, fmt.Errorf("group snapshot %s: %w", r.Name, err)
	}
	return took, nil
}

// lockAll locks volume groups in the order of their names, so that two callers cannot wait for each other.
func (n *Node) lockAll(ctx context.Context, name string, vgs []string, locked map[string]Locked,
	f func() error) error {
	if len(vgs) == 0 {
		return f()
	}
	return n.lvm.Exclusively(ctx, vgs[0], "group snapshot "+name, func(e Locked) error {
		locked[vgs[0]] = e
		return n.lockAll(ctx, name, vgs[1:], locked, f)
	})
}

// take runs with all volume groups locked.
func (n *Node) take(ctx context.Context, r Request, groups map[string][]Pair, locked map[string]Locked,
	others Others) (Times, error) {
	if err := n.journal.absent(); err != nil {
		return Times{}, err
	}
	members, err := n.plan(ctx, groups, locked)
	if err != nil {
		return Times{}, err
	}
	for _, m := range members {
		if err := n.kernel.DeleteThin(m.Pool, m.SnapshotID); err != nil &&
			!errors.Is(err, devicemapper.ErrNoThinDevice) {
			return Times{}, fmt.Errorf("prepare snapshot %s/%s: %w", m.VG, m.Snapshot, err)
		}
	}
	return n.guarded(ctx, r.Limit, members, locked, others)
}

// plan reads LVM's metadata and the kernel, and returns the members of the group.
func (n *Node) plan(ctx context.Context, groups map[string][]Pair, locked map[string]Locked) ([]Member,
	error) {
	var members []Member
	for _, vg := range slices.Sorted(maps.Keys(groups)) {
		volumes, err := locked[vg].ThinVolumes(ctx)
		if err != nil {
			return nil, err
		}
		pools := map[string]string{}
		for _, v := range volumes {
			if pools[v.Pool] != "" {
				continue
			}
			device, state, err := n.pools.ThinPoolDevice(ctx, vg, v.Pool)
			if errors.Is(err, devicemapper.ErrNotFound) {
				continue // it is not active; the plan refuses its volumes
			}
			if err != nil {
				return nil, err
			}
			if state.Mode == devicemapper.ModeReadWrite && !state.NeedsCheck && !device.Suspended {
				pools[v.Pool] = device.UUID
			}
		}
		found, err := NewMembers(groups[vg], volumes, pools)
		if err != nil {
			return nil, err
		}
		members = append(members, found...)
	}
	if len(members) == 0 || len(members) > MaxMembers {
		return nil, fmt.Errorf("the group has %d volumes on this node, want 1 to %d", len(members), MaxMembers)
	}
	return members, n.checkStates(members)
}

// checkStates returns an error if the device of a source is suspended, or if a resume would change its table.
func (n *Node) checkStates(members []Member) error {
	for _, m := range members {
		if m.Device == "" {
			continue
		}
		state, err := n.kernel.State(m.Device)
		switch {
		case err != nil:
			return fmt.Errorf("volume %s/%s: %w", m.VG, m.Source, err)
		case state.Suspended, state.InactiveTable:
			return fmt.Errorf("volume %s/%s is suspended, or a command of LVM has not completed its change: see on "+
				"the node: dmsetup info -u %s", m.VG, m.Source, m.Device)
		}
	}
	return nil
}
