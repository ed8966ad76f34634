// Package changedblocks reads which blocks of a snapshot are allocated, and which ones differ between two snapshots of
// a thin pool. It reads the pool's metadata, not the data.
//
// A read reserves the metadata snapshot of the pool, reads a part of the result, and releases it. The result does not
// depend on the moment: both snapshots are read-only, so neither what they have nor where the pool stores it changes.
// So a read that continues the one before can use another metadata snapshot, and none is held while a client is slow.
// While one is held, the kernel keeps the metadata from before each change, and the chunks of deleted volumes.
package changedblocks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

const (
	// readLimit is the maximum time of a read for which the metadata snapshot is held. What was found until then is a
	// part of the result.
	readLimit = 30 * time.Second
	// releaseLimit is the time limit of a release, which also runs if the caller no longer waits.
	releaseLimit = 3 * time.Minute
	// MaxRanges is the maximum number of ranges of a page.
	MaxRanges = 1 << 14
	sector    = 512
)

// Errors that a caller can act on.
var (
	// ErrUnsupported: the volume has no changed blocks that can be read. It is thick, writable or encrypted.
	ErrUnsupported = errors.New("changed blocks are not available")
	// ErrUnavailable: the metadata of the pool cannot be read now.
	ErrUnavailable = errors.New("the metadata of the thin pool is not available")
)

// LVM is what a Reader needs of the node's LVM.
type LVM interface {
	Report(ctx context.Context) (*lvm.Report, error)
	ThinDeviceIDs(ctx context.Context, vg, pool string) (map[string]uint64, error)
	Apply(ctx context.Context, c lvm.Change) error
}

// Kernel reads the state of thin pools.
type Kernel interface {
	ThinPoolDevice(ctx context.Context, vg, pool string) (devicemapper.Device, devicemapper.ThinPool, error)
	Volume(ctx context.Context, vg, lv string) (devicemapper.Device, error)
}

// Metadata is a metadata snapshot of a thin pool.
type Metadata interface {
	Allocated(ctx context.Context, device, from uint64, visit func(thinmeta.Range) error) error
	Delta(ctx context.Context, base, target, from uint64, visit func(thinmeta.Range) error) error
	Close() error
}

// Open opens the metadata snapshot with a root.
type Open func(ctx context.Context, pool thinmeta.Pool, root uint64) (Metadata, error)

// OpenSnapshot is thinmeta.OpenSnapshot.
func OpenSnapshot(ctx context.Context, pool thinmeta.Pool, root uint64) (Metadata, error) {
	s, err := thinmeta.OpenSnapshot(ctx, pool, root)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Query says what to read.
type Query struct {
	VG string
	// Target is the name of a snapshot's logical volume. Base is that of an older one of the same volume, or empty for
	// all allocated blocks of Target.
	Base, Target string
	// Offset is the byte from which on to read.
	Offset uint64
	// Encrypted also accepts encrypted volumes: the offsets are those of the encrypted data.
	Encrypted bool
	// MaxRanges is the maximum number of ranges of the page. 0 and numbers above MaxRanges select MaxRanges.
	MaxRanges int
}

// Range is a part of a snapshot, in bytes. It is aligned to the chunks of the pool, except for the end of the snapshot.
type Range struct {
	Offset, Length uint64
}

// Page is a part of the result.
type Page struct {
	// Size is the size of the target in bytes.
	Size uint64
	// Ranges are in order and do not overlap. The first one can begin before Query.Offset, but does not end there.
	Ranges []Range
	// Next is the offset of the next page, or 0 if this one is the last.
	Next uint64
}

// Reader reads the metadata of the node's thin pools. It is safe for concurrent use: reads of the same pool run one
// after another, because a pool has one metadata snapshot. No other program may reserve one: a Reader releases what it
// finds.
type Reader struct {
	lvm    LVM
	kernel Kernel
	open   Open
	limit  time.Duration

	mu sync.Mutex
	// turns has one element for each pool ever read.
	turns map[string]chan struct{}
}

// New returns a Reader.
func New(l LVM, kernel Kernel, open Open) *Reader {
	return &Reader{lvm: l, kernel: kernel, open: open, limit: readLimit, turns: map[string]chan struct{}{}}
}

// Read returns a page of the result. A query that fails can be repeated.
//
// It wraps lvm.ErrNotFound if a snapshot does not exist, ErrUnsupported, ErrUnavailable, or thinmeta.ErrDamaged.
func (r *Reader) Read(ctx context.Context, q Query) (*Page, error) {
	report, err := r.lvm.Report(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the changed blocks of %s/%s: %w", q.VG, q.Target, err)
	}
	p, err := newPair(report, q)
	if err != nil {
		return nil, err
	}
	leave, err := r.enter(ctx, q.VG+"/"+p.pool.Name)
	if err != nil {
		return nil, fmt.Errorf("read the changed blocks of %s/%s: another read of thin pool %s runs: %w", q.VG,
			q.Target, p.pool.Name, err)
	}
	defer leave()
	page, err := r.read(ctx, q, p)
	if err != nil {
		return nil, fmt.Errorf("read the changed blocks of %s/%s: %w", q.VG, q.Target, err)
	}
	return page, nil
}

// Release releases the metadata snapshot of a thin pool if one is reserved. It is for the start of the agent, because
// the one before can have been killed. A pool that is not active is not an error: its next read releases it.
func (r *Reader) Release(ctx context.Context, vg, pool string) error {
	leave, err := r.enter(ctx, vg+"/"+pool)
	if err != nil {
		return fmt.Errorf("release the metadata snapshot of thin pool %s/%s: %w", vg, pool, err)
	}
	defer leave()
	device, state, err := r.kernel.ThinPoolDevice(ctx, vg, pool)
	if errors.Is(err, devicemapper.ErrNotFound) || err == nil && state.HeldRoot == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release the metadata snapshot of thin pool %s/%s: %w", vg, pool, err)
	}
	return r.lvm.Apply(ctx, lvm.ThinMetadataRelease{VG: vg, Pool: pool, Device: device.UUID})
}

// enter waits until no other call uses the metadata snapshot of a pool.
func (r *Reader) enter(ctx context.Context, pool string) (leave func(), err error) {
	r.mu.Lock()
	turn := r.turns[pool]
	if turn == nil {
		turn = make(chan struct{}, 1)
		r.turns[pool] = turn
	}
	r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pair is the snapshots of a query, and their pool.
type pair struct {
	pool         *lvm.ThinPool
	base, target *lvm.LV // base is nil if the query has none
}

func newPair(report *lvm.Report, q Query) (pair, error) {
	if len(report.Named(q.VG)) > 1 {
		return pair{}, fmt.Errorf("volume group %s: %w", q.VG, lvm.ErrDuplicateVG)
	}
	vg := report.VG(q.VG)
	if vg == nil {
		return pair{}, fmt.Errorf("volume group %s: %w", q.VG, lvm.ErrNotFound)
	}
	var p pair
	var err error
	if p.target, err = snapshot(vg, q.Target, q.Encrypted); err != nil {
		return pair{}, err
	}
	if p.pool = vg.ThinPool(p.target.PoolName); p.pool == nil {
		return pair{}, fmt.Errorf("thin pool %s/%s of snapshot %s: %w", q.VG, p.target.PoolName, q.Target,
			lvm.ErrNotFound)
	}
	if q.Base == "" {
		return p, nil
	}
	if p.base, err = snapshot(vg, q.Base, q.Encrypted); err != nil {
		return pair{}, err
	}
	if p.base.PoolName != p.target.PoolName {
		return pair{}, fmt.Errorf("snapshots %s and %s of volume group %s are in different thin pools: %w", q.Base,
			q.Target, q.VG, ErrUnsupported)
	}
	if p.base.Size > p.target.Size {
		return pair{}, fmt.Errorf("snapshot %s/%s is smaller than %s: %w: the base must be the older snapshot", q.VG,
			q.Target, q.Base, ErrUnsupported)
	}
	return p, nil
}

// snapshot returns a logical volume whose content does not change and, unless encrypted is set, is what its users see.
func snapshot(vg *lvm.VG, name string, encrypted bool) (*lvm.LV, error) {
	lv := vg.LV(name)
	if lv == nil {
		return nil, fmt.Errorf("snapshot %s/%s: %w", vg.Name, name, lvm.ErrNotFound)
	}
	reason := ""
	switch {
	case !lv.Attr.IsThinVolume():
		reason = "it is thick, and only thin pools record which blocks changed"
	case !lv.Attr.ReadOnly():
		reason = "it is writable, so its blocks can change meanwhile: use a VolumeSnapshot"
	case isEncrypted(lv) && !encrypted:
		reason = "it is encrypted, so the offsets of its blocks are not those that its users see: back up all its data"
	}
	if reason != "" {
		return nil, fmt.Errorf("snapshot %s/%s: %w: %s", vg.Name, name, ErrUnsupported, reason)
	}
	return lv, nil
}

func isEncrypted(lv *lvm.LV) bool {
	for _, tag := range lv.Tags {
		if strings.HasPrefix(tag, wellknown.EncryptionTagPrefix) {
			return true
		}
	}
	return false
}
