package thinmeta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoDevice: the metadata snapshot does not have the thin device.
var ErrNoDevice = errors.New("the metadata of the thin pool does not have the thin device")

// ErrDamaged: a block of the metadata cannot be read or is not valid. The result is then not known.
var ErrDamaged = errors.New("the metadata of the thin pool is damaged")

// Snapshot is the metadata snapshot of an active thin pool: the metadata at the moment of the message
// reserve_metadata_snap (Linux, Documentation/admin-guide/device-mapper/thin-provisioning.rst). The kernel does not
// reuse its blocks until the message release_metadata_snap, so a Snapshot must not be used after that. It is for one
// goroutine.
//
// A read of the metadata that the superblock refers to would not be safe: the kernel reuses the blocks of a transaction
// after the next one, and what is in them can be valid nodes of another device.
type Snapshot struct {
	source
	super superblock
	// reads is the number of blocks that were read.
	reads int
}

// OpenSnapshot opens the metadata snapshot of a pool. root is the block that the status of the pool has as the held
// metadata root. pool.Chunks must be read after the reservation, and pool.TransactionID is not used. It reads with
// O_DIRECT, because the kernel does not write the metadata through the page cache. It returns ErrDamaged if root is not
// the block of a metadata snapshot of this pool.
func OpenSnapshot(ctx context.Context, pool Pool, root uint64) (*Snapshot, error) {
	from, err := openSource(pool.Device, unix.O_DIRECT)
	if err != nil {
		return nil, fmt.Errorf("read the metadata snapshot of a thin pool: %w", err)
	}
	s := &Snapshot{source: from}
	if err := s.readRoot(ctx, pool, root); err != nil {
		return nil, errors.Join(fmt.Errorf("read the metadata snapshot of a thin pool, %s: %w", pool.Device, err),
			s.Close())
	}
	return s, nil
}

// Close closes the device. It does not release the metadata snapshot.
func (s *Snapshot) Close() error { return s.file.Close() }

func (s *Snapshot) readRoot(ctx context.Context, pool Pool, root uint64) error {
	if root == 0 {
		return errors.New("no metadata snapshot is reserved")
	}
	b, err := s.read(ctx, root)
	if err != nil {
		return err
	}
	var valid bool
	if s.super, valid = decodeSuperblock(b, root, pool); !valid || s.super.version != metadataVersion {
		return fmt.Errorf("block %d is not the root of a metadata snapshot: %w", root, ErrDamaged)
	}
	// The kernel removes the space maps from the root, and with them the number of chunks (__reserve_metadata_snap in
	// drivers/md/dm-thin-metadata.c).
	s.super.chunks = pool.Chunks
	return nil
}

// read reads a block, which must exist.
func (s *Snapshot) read(ctx context.Context, at uint64) ([]byte, error) {
	if at == 0 || at >= s.blocks {
		return nil, fmt.Errorf("block %d is not one of its %d blocks: %w", at, s.blocks, ErrDamaged)
	}
	s.reads++
	b, err := s.block(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", at, err)
	}
	if b == nil {
		return nil, fmt.Errorf("block %d cannot be read: %w", at, ErrDamaged)
	}
	return b, nil
}

// node reads a node of the tree of devices or of a device, whose keys must be from low to high.
func (s *Snapshot) node(ctx context.Context, at, low, high uint64) (treeNode, error) {
	b, err := s.read(ctx, at)
	if err != nil {
		return treeNode{}, err
	}
	n, valid := decodeNode(b, at, mappingSize, low, high)
	if !valid {
		return treeNode{}, fmt.Errorf("block %d is not a node with the keys %d to %d: %w", at, low, high, ErrDamaged)
	}
	return n, nil
}

// rootOf returns the root of the tree of a device.
func (s *Snapshot) rootOf(ctx context.Context, device uint64) (uint64, error) {
	at := s.super.mappingRoot
	low := uint64(0)
	high := uint64(math.MaxUint64)
	for range maxDepth {
		n, err := s.node(ctx, at, low, high)
		if err != nil {
			return 0, err
		}
		i, found := slices.BinarySearch(n.keys, device)
		switch {
		case !n.internal && found:
			return n.number(i, 0), nil
		case !n.internal || i == 0 && !found:
			return 0, ErrNoDevice
		case !found:
			i--
		}
		at = n.number(i, 0)
		low = n.keys[i]
		if i+1 < len(n.keys) {
			high = n.keys[i+1] - 1
		}
	}
	return 0, fmt.Errorf("its tree of devices has more than %d levels: %w", maxDepth, ErrDamaged)
}

// cursor is a place in the tree of a device. It reads a node only if expand is called, so a whole subtree can be
// skipped without a read.
type cursor struct {
	*Snapshot
	// from is the first chunk of interest.
	from  uint64
	stack []frame
}

// frame is a node and the entry of it at which the cursor is. high is the last key that the node may have.
type frame struct {
	treeNode
	at   int
	high uint64
}

// entry is what a cursor is at: a mapping, or a subtree that was not read.
type entry struct {
	mapping bool
	// low and high are the first and the last chunk that a subtree may have. For a mapping, both are its chunk.
	low, high uint64
	// block is the block of the metadata with the subtree, or the block of the data that has the chunk.
	block uint64
}

// cursorAt returns a cursor at the tree of a device, before the chunk from.
func (s *Snapshot) cursorAt(ctx context.Context, device, from uint64) (*cursor, error) {
	root, err := s.rootOf(ctx, device)
	if err != nil {
		return nil, fmt.Errorf("thin device %d: %w", device, err)
	}
	values := binary.LittleEndian.AppendUint64(nil, root)
	return &cursor{Snapshot: s, from: from, stack: []frame{{high: math.MaxUint64,
		treeNode: treeNode{internal: true, keys: []uint64{0}, values: values, size: mappingSize}}}}, nil
}

func (f *frame) entry() entry {
	if !f.internal {
		return entry{mapping: true, low: f.keys[f.at], high: f.keys[f.at], block: f.number(f.at, 0) >> timeBits}
	}
	e := entry{low: f.keys[f.at], high: f.high, block: f.number(f.at, 0)}
	if f.at+1 < len(f.keys) {
		e.high = f.keys[f.at+1] - 1
	}
	return e
}

// peek returns the entry at which the cursor is, or false at the end. It skips what is before from.
func (c *cursor) peek() (entry, bool) {
	for len(c.stack) > 0 {
		f := &c.stack[len(c.stack)-1]
		if f.at < len(f.keys) {
			if e := f.entry(); e.high >= c.from {
				return e, true
			}
			f.at++
			continue
		}
		c.stack = c.stack[:len(c.stack)-1]
		if len(c.stack) > 0 {
			c.skip()
		}
	}
	return entry{}, false
}

// skip moves the cursor behind the entry at which it is.
func (c *cursor) skip() { c.stack[len(c.stack)-1].at++ }

// expand reads the subtree e at which the cursor is, and moves the cursor to its first entry.
func (c *cursor) expand(ctx context.Context, e entry) error {
	if len(c.stack) > maxDepth {
		return fmt.Errorf("its tree has more than %d levels: %w", maxDepth, ErrDamaged)
	}
	n, err := c.node(ctx, e.block, e.low, e.high)
	if err != nil {
		return err
	}
	f := frame{treeNode: n, high: e.high}
	for i := 0; !n.internal && i < len(n.keys); i++ {
		if data := n.number(i, 0) >> timeBits; data >= c.super.chunks {
			return fmt.Errorf("block %d maps chunk %d to block %d of %d: %w", e.block, n.keys[i], data,
				c.super.chunks, ErrDamaged)
		}
	}
	c.stack = append(c.stack, f)
	return nil
}

// alignedBlock returns memory for a block, at an address that O_DIRECT accepts.
func alignedBlock() []byte {
	buffer := make([]byte, 2*blockSize)
	skip := -int(uintptr(unsafe.Pointer(&buffer[0]))) & (blockSize - 1)
	return buffer[skip : skip+blockSize : skip+blockSize]
}
