package thinmeta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// The layout of the metadata: drivers/md/dm-thin-metadata.c and drivers/md/persistent-data/dm-btree-internal.h. All
// numbers are little-endian.
const (
	superblockMagic = 27022010
	superblockXor   = 160774
	nodeXor         = 121107
	nodeHeader      = 32
	flagInternal    = 1
	flagLeaf        = 2
	// metadataVersion is THIN_VERSION.
	metadataVersion = 2
	mappingSize     = 8
	detailsSize     = 24
	// timeBits are the low bits of a mapping, which have the time at which the block was allocated.
	timeBits = 24
	// maxDepth is the maximum depth of a tree. Six levels of nodes with 252 entries have more entries than a pool.
	maxDepth = 12
)

// superblock is struct thin_disk_superblock.
type superblock struct {
	flags, time              uint32
	transaction              uint64
	chunks                   uint64
	mappingRoot, detailsRoot uint64
	chunkSectors             uint32
	version                  uint32
}

// details is struct disk_device_details.
type details struct {
	mapped, transaction  uint64
	created, snapshotted uint32
}

// trees is the metadata that the superblock refers to, as far as it can be read. A node that is damaged is left out
// with all that it leads to, and everything else stays. (thin_repair 1.x discards a tree that has a damaged node, and
// uses nodes of an earlier state instead, whose blocks can belong to other volumes now.)
type trees struct {
	source
	super   superblock
	roots   map[uint64]uint64
	details map[uint64]details
	devices map[uint64]Device
	// shared are the leaves that several devices have.
	shared map[uint64]bool
	// mappings is the number of mappings, those of shared leaves once.
	mappings uint64
}

// source is the device with the metadata.
type source struct {
	name   string
	file   *os.File
	blocks uint64
}

// errNoSuperblock: the superblock cannot be read, so the trees are not known.
var errNoSuperblock = errors.New("the superblock of the metadata is damaged")

func openSource(device string, flags int) (source, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return source{}, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return source{}, errors.Join(err, f.Close())
	}
	return source{name: device, file: f, blocks: uint64(size) / blockSize}, nil
}

// readTrees reads the metadata of an inactive pool. The caller closes the file of the result. It returns
// errNoSuperblock if the superblock is damaged.
func readTrees(ctx context.Context, pool Pool) (*trees, error) {
	t, err := newTrees(pool)
	if err != nil {
		return nil, err
	}
	if err = t.read(ctx, pool); err != nil {
		return nil, errors.Join(fmt.Errorf("read the metadata of a thin pool, %s: %w", pool.Device, err),
			t.file.Close())
	}
	return t, nil
}

// newTrees opens the metadata of a pool.
func newTrees(pool Pool) (*trees, error) {
	from, err := openSource(pool.Device, 0)
	if err != nil {
		return nil, fmt.Errorf("read the metadata of a thin pool: %w", err)
	}
	return &trees{source: from, roots: map[uint64]uint64{}, details: map[uint64]details{},
		devices: map[uint64]Device{}, shared: map[uint64]bool{}}, nil
}

func (t *trees) read(ctx context.Context, pool Pool) error {
	block, err := t.block(ctx, 0)
	if err != nil {
		return err
	}
	var valid bool
	if t.super, valid = decodeSuperblock(block, 0, pool); !valid {
		return errNoSuperblock
	}
	err = t.walk(ctx, t.super.mappingRoot, mappingSize, func(n treeNode) error {
		for i, id := range n.keys {
			t.roots[id] = n.number(i, 0)
		}
		return tooMany(len(t.roots))
	})
	if err != nil {
		return err
	}
	err = t.walk(ctx, t.super.detailsRoot, detailsSize, func(n treeNode) error {
		for i, id := range n.keys {
			times := n.number(i, 16)
			t.details[id] = details{mapped: n.number(i, 0), transaction: n.number(i, 8), created: uint32(times),
				snapshotted: uint32(times >> 32)}
		}
		return tooMany(len(t.details))
	})
	if err != nil {
		return err
	}
	return t.readMappings(ctx)
}

func tooMany(devices int) error {
	if devices > maxDevices {
		return fmt.Errorf("more than %d thin devices", maxDevices)
	}
	return nil
}

// readMappings counts the mappings of each device, and finds the leaves that devices share.
func (t *trees) readMappings(ctx context.Context) error {
	seen := make([]bool, t.blocks)
	for _, id := range slices.Sorted(maps.Keys(t.roots)) {
		var d Device
		err := t.walk(ctx, t.roots[id], mappingSize, func(n treeNode) error {
			usable := uint64(len(t.usable(n)))
			d.Found += usable
			if seen[n.block] {
				t.shared[n.block] = true
				return nil
			}
			seen[n.block] = true
			t.mappings += usable
			return nil
		})
		if err != nil {
			return err
		}
		d.Recorded = d.Found
		if known, has := t.details[id]; has {
			d.Recorded = max(known.mapped, d.Found)
		}
		t.devices[id] = d
	}
	return nil
}

// mapping is the block of a device that has the data of a block of a volume.
type mapping struct {
	origin, data uint64
	time         uint32
}

// usable returns the mappings of a leaf. Those to blocks that the pool does not have are damaged.
func (t *trees) usable(n treeNode) []mapping {
	list := make([]mapping, 0, len(n.keys))
	for i, key := range n.keys {
		value := n.number(i, 0)
		if data := value >> timeBits; data < t.super.chunks {
			list = append(list, mapping{key, data, uint32(value & (1<<timeBits - 1))})
		}
	}
	return list
}

// detailsOf returns the details of a device. If they cannot be read, every block counts as shared with a snapshot:
// the kernel then copies a block before it writes to it (__snapshotted_since in drivers/md/dm-thin-metadata.c).
func (t *trees) detailsOf(id uint64) details {
	d, has := t.details[id]
	if !has {
		d.snapshotted = t.super.time
	}
	d.mapped = t.devices[id].Found
	return d
}

// decodeSuperblock returns false if a block is not a valid superblock that was written to this place for the pool.
func decodeSuperblock(b []byte, at uint64, pool Pool) (superblock, bool) {
	if !isValid(b, superblockXor) || binary.LittleEndian.Uint64(b[8:]) != at ||
		binary.LittleEndian.Uint64(b[32:]) != superblockMagic {
		return superblock{}, false
	}
	s := superblock{
		flags:        binary.LittleEndian.Uint32(b[4:]),
		version:      binary.LittleEndian.Uint32(b[40:]),
		time:         binary.LittleEndian.Uint32(b[44:]),
		transaction:  binary.LittleEndian.Uint64(b[48:]),
		chunks:       binary.LittleEndian.Uint64(b[64:]),
		mappingRoot:  binary.LittleEndian.Uint64(b[320:]),
		detailsRoot:  binary.LittleEndian.Uint64(b[328:]),
		chunkSectors: binary.LittleEndian.Uint32(b[336:]),
	}
	return s, uint64(s.chunkSectors) == pool.ChunkSectors
}

// isValid returns true if the checksum of a block is right (dm_bm_checksum).
func isValid(b []byte, xor uint32) bool {
	return len(b) == blockSize && checksum(b, xor) == binary.LittleEndian.Uint32(b)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte, xor uint32) uint32 { return ^crc32.Checksum(b[4:], castagnoli) ^ xor }

// treeNode is a node of a tree: struct btree_node.
type treeNode struct {
	block    uint64
	internal bool
	keys     []uint64
	values   []byte
	size     int
}

// number returns the number at an offset of a value.
func (n treeNode) number(i, offset int) uint64 {
	return binary.LittleEndian.Uint64(n.values[i*n.size+offset:])
}

// decodeNode returns false if a block is not a valid node with keys of a range and values of a size.
func decodeNode(b []byte, at uint64, size int, low, high uint64) (treeNode, bool) {
	if !isValid(b, nodeXor) || binary.LittleEndian.Uint64(b[8:]) != at {
		return treeNode{}, false
	}
	flags := binary.LittleEndian.Uint32(b[4:])
	entries := int(binary.LittleEndian.Uint32(b[16:]))
	space := int(binary.LittleEndian.Uint32(b[20:]))
	valueSize := int(binary.LittleEndian.Uint32(b[24:]))
	n := treeNode{block: at, internal: flags == flagInternal, size: size}
	if n.internal {
		n.size = mappingSize
	}
	const most = (blockSize - nodeHeader) / (8 + mappingSize)
	if (flags != flagInternal && flags != flagLeaf) || space > most || entries > space || valueSize != n.size ||
		nodeHeader+space*(8+n.size) > blockSize {
		return treeNode{}, false
	}
	n.values = b[nodeHeader+8*space:]
	for i := range entries {
		key := binary.LittleEndian.Uint64(b[nodeHeader+8*i:])
		if key < low || key > high || i > 0 && key <= n.keys[i-1] {
			return treeNode{}, false
		}
		n.keys = append(n.keys, key)
	}
	return n, true
}

// walk calls visit with each leaf of a tree that can be read. Since the keys of a node must be in the range of its
// entry, a node is visited once at most.
func (t *trees) walk(ctx context.Context, root uint64, size int, visit func(treeNode) error) error {
	return t.walkNode(ctx, root, size, 0, math.MaxUint64, 1, visit)
}

func (t *trees) walkNode(ctx context.Context, at uint64, size int, low, high uint64, depth int,
	visit func(treeNode) error) error {
	if at == 0 || at >= t.blocks || depth > maxDepth {
		return nil
	}
	b, err := t.block(ctx, at)
	if err != nil {
		return err
	}
	n, valid := decodeNode(b, at, size, low, high)
	switch {
	case !valid:
		return nil
	case !n.internal:
		return visit(n)
	}
	for i, key := range n.keys {
		last := high
		if i+1 < len(n.keys) {
			last = n.keys[i+1] - 1
		}
		if err := t.walkNode(ctx, n.number(i, 0), size, key, last, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// block reads a block. It returns nil if the medium has lost it.
func (s *source) block(ctx context.Context, at uint64) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	got, err := bounded.Do(ctx, reads, s.name, func(context.Context) answer {
		data := alignedBlock()
		_, err := s.file.ReadAt(data, int64(at)*blockSize)
		return answer{data, err}
	})
	switch {
	case err != nil:
		return nil, err
	case isLost(got.err):
		return nil, nil
	}
	return got.data, got.err
}

// isLost returns true for the errors with which the kernel reports sectors that cannot be read (blk_errors in
// block/blk-core.c): an I/O error, a medium error, and a wrong checksum.
func isLost(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EILSEQ)
}
