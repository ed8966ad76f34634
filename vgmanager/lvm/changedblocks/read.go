package changedblocks

import (
	"context"
	"errors"
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// deviceIDs are the IDs of the snapshots of a query in the metadata of their pool.
type deviceIDs struct{ base, target uint64 }

// read reads a page. The IDs are compared at the end: if a snapshot was deleted meanwhile, another volume may have its
// ID.
func (r *Reader) read(ctx context.Context, q Query, p pair) (*Page, error) {
	ids, err := r.idsOf(ctx, q.VG, p)
	if err != nil {
		return nil, err
	}
	page := &Page{Size: uint64(p.target.Size)}
	if err := r.readHeld(ctx, q, p, ids, page); err != nil {
		return nil, err
	}
	after, err := r.idsOf(ctx, q.VG, p)
	if err != nil {
		return nil, err
	}
	if after != ids {
		return nil, fmt.Errorf("the device IDs of its snapshots have changed: %w", ErrUnavailable)
	}
	return page, nil
}

func (r *Reader) idsOf(ctx context.Context, vg string, p pair) (deviceIDs, error) {
	all, err := r.lvm.ThinDeviceIDs(ctx, vg, p.pool.Name)
	if err != nil {
		return deviceIDs{}, err
	}
	var ids deviceIDs
	var has bool
	if ids.target, has = all[p.target.UUID]; !has {
		return ids, fmt.Errorf("snapshot %s/%s: %w", vg, p.target.Name, lvm.ErrNotFound)
	}
	if p.base == nil {
		return ids, nil
	}
	if ids.base, has = all[p.base.UUID]; !has {
		return ids, fmt.Errorf("snapshot %s/%s: %w", vg, p.base.Name, lvm.ErrNotFound)
	}
	return ids, nil
}

// readHeld reads a page from the metadata snapshot of the pool, which it reserves and releases.
func (r *Reader) readHeld(ctx context.Context, q Query, p pair, ids deviceIDs, page *Page) (err error) {
	device, state, err := r.usable(ctx, q.VG, p.pool.Name)
	if err != nil {
		return err
	}
	if state.HeldRoot != 0 {
		// An agent was killed before it released it.
		release := lvm.ThinMetadataRelease{VG: q.VG, Pool: p.pool.Name, Device: device.UUID}
		if err := r.lvm.Apply(ctx, release); err != nil {
			return err
		}
	}
	// Also after an error, the metadata snapshot may be reserved.
	defer func() { err = errors.Join(err, r.release(ctx, q.VG, p.pool.Name, device.UUID)) }()
	if err := r.lvm.Apply(ctx, lvm.ThinMetadataReserve{VG: q.VG, Pool: p.pool.Name, Device: device.UUID}); err != nil {
		return err
	}
	held, state, err := r.usable(ctx, q.VG, p.pool.Name)
	if err != nil {
		return err
	}
	if held.UUID != device.UUID || state.HeldRoot == 0 {
		return fmt.Errorf("thin pool %s/%s was deactivated: %w", q.VG, p.pool.Name, ErrUnavailable)
	}
	metadata, err := r.kernel.Volume(ctx, q.VG, p.pool.Name+"_tmeta")
	if err != nil {
		return err
	}
	snapshot, err := r.open(ctx, thinmeta.Pool{Device: "/dev/mapper/" + metadata.Name,
		ChunkSectors: uint64(p.pool.ChunkSize) / sector, Chunks: state.TotalData}, state.HeldRoot)
	if err != nil {
		return err
	}
	return errors.Join(r.walk(ctx, snapshot, q, p, ids, page), snapshot.Close())
}

// usable returns the device of a pool that accepts messages.
func (r *Reader) usable(ctx context.Context, vg, pool string) (devicemapper.Device, devicemapper.ThinPool, error) {
	device, state, err := r.kernel.ThinPoolDevice(ctx, vg, pool)
	reason := ""
	switch {
	case errors.Is(err, devicemapper.ErrNotFound):
		return device, state, fmt.Errorf("thin pool %s/%s is not active: %w", vg, pool, ErrUnavailable)
	case err != nil:
		return device, state, err
	case device.Suspended:
		reason = "is suspended"
	case state.NeedsCheck:
		reason = "needs a check of its metadata"
	case state.Mode != devicemapper.ModeReadWrite && state.Mode != devicemapper.ModeOutOfData:
		reason = "has the mode " + state.Mode
	default:
		return device, state, nil
	}
	return device, state, fmt.Errorf("thin pool %s/%s %s: %w: see the conditions of the LVMCluster", vg, pool, reason,
		ErrUnavailable)
}

// release releases the metadata snapshot that this process has reserved, if it is reserved.
func (r *Reader) release(ctx context.Context, vg, pool, uuid string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	device, state, err := r.kernel.ThinPoolDevice(ctx, vg, pool)
	switch {
	case errors.Is(err, devicemapper.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("the metadata snapshot was not released, the next read does it: %w", err)
	case device.UUID != uuid || state.HeldRoot == 0:
		return nil
	}
	if err := r.lvm.Apply(ctx, lvm.ThinMetadataRelease{VG: vg, Pool: pool, Device: uuid}); err != nil {
		return fmt.Errorf("the metadata snapshot was not released, the next read does it: %w", err)
	}
	return nil
}

// errFull ends a walk when the page is full.
var errFull = errors.New("the page is full")

// walk reads chunks into a page, until it is full or the time limit is reached.
func (r *Reader) walk(ctx context.Context, m Metadata, q Query, p pair, ids deviceIDs, page *Page) error {
	limited, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	chunk := uint64(p.pool.ChunkSize)
	most := MaxRanges
	if q.MaxRanges > 0 {
		most = min(most, q.MaxRanges)
	}
	visit := func(found thinmeta.Range) error {
		if len(page.Ranges) == most {
			return errFull
		}
		if chunks := (page.Size + chunk - 1) / chunk; found.First >= chunks || found.Count > chunks-found.First {
			return fmt.Errorf("its metadata has chunks behind its end, chunk %d: %w", chunks, thinmeta.ErrDamaged)
		}
		begin := found.First * chunk
		end := min(found.End()*chunk, page.Size)
		page.Ranges = append(page.Ranges, Range{Offset: begin, Length: end - begin})
		return nil
	}
	var err error
	if p.base == nil {
		err = m.Allocated(limited, ids.target, q.Offset/chunk, visit)
	} else {
		err = m.Delta(limited, ids.base, ids.target, q.Offset/chunk, visit)
	}
	isPart := errors.Is(err, errFull) || ctx.Err() == nil && limited.Err() != nil && len(page.Ranges) > 0
	if err == nil || !isPart {
		return err
	}
	last := page.Ranges[len(page.Ranges)-1]
	page.Next = last.Offset + last.Length
	return nil
}
