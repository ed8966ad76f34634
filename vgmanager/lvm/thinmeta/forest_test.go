package thinmeta

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// heldRoot is the block of the metadata snapshot in an image.
const heldRoot = 4

// mappings are the chunks of a device, with the block of the data that each has.
type mappings map[uint64]uint64

// forest writes trees as the kernel has them: devices share the nodes that have the same content. A node has the chunks
// of an aligned range, so a change of one chunk changes only the nodes above it.
type forest struct {
	image
	// perNode is the maximum number of entries of a node.
	perNode uint64
	written map[string]uint64
	roots   map[uint64]uint64
}

func newForest(perNode uint64) *forest {
	return &forest{image: make(image, (heldRoot+1)*blockSize), perNode: perNode, written: map[string]uint64{},
		roots: map[uint64]uint64{}}
}

// put writes a node, or returns the block that has it already.
func (f *forest) put(flags uint32, keys, values []uint64) uint64 {
	content := fmt.Sprint(flags, keys, values)
	if at, has := f.written[content]; has {
		return at
	}
	at := uint64(len(f.image) / blockSize)
	f.image = append(f.image, make([]byte, blockSize)...)
	f.node(at, flags, mappingSize, keys, values)
	f.written[content] = at
	return at
}

// add writes the tree of a device, with extra levels above its root.
func (f *forest) add(device uint64, chunks mappings, extra int) {
	nodes := mappings{}
	for chunk, data := range chunks {
		nodes[chunk] = data << timeBits
	}
	flags := uint32(flagLeaf)
	width := f.perNode
	for first := true; first || len(nodes) > 1; first = false {
		nodes = f.level(flags, nodes, width)
		flags = flagInternal
		width *= f.perNode
	}
	for at, key := range nodes {
		f.roots[device] = key
		for range extra {
			f.roots[device] = f.put(flagInternal, []uint64{at}, []uint64{f.roots[device]})
		}
	}
	if len(chunks) == 0 {
		f.roots[device] = f.put(flagLeaf, nil, nil)
	}
}

// level writes the nodes that have entries, and returns them by their first key.
func (f *forest) level(flags uint32, entries mappings, width uint64) mappings {
	above := mappings{}
	keys := slices.Sorted(maps.Keys(entries))
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n]/width == keys[0]/width {
			n++
		}
		var values []uint64
		for _, key := range keys[:n] {
			values = append(values, entries[key])
		}
		above[keys[0]] = f.put(flags, keys[:n], values)
		keys = keys[n:]
	}
	return above
}

const forestChunks = 1 << 24

// forestPool is the pool of a forest.
var forestPool = Pool{ChunkSectors: 128, Chunks: forestChunks}

// open writes the metadata snapshot and opens it.
func (f *forest) open(t testing.TB) *Snapshot {
	t.Helper()
	ids := slices.Sorted(maps.Keys(f.roots))
	var values []uint64
	for _, id := range ids {
		values = append(values, f.roots[id])
	}
	f.node(topBlock, flagLeaf, mappingSize, ids, values)
	b := f.block(heldRoot)
	clear(b)
	binary.LittleEndian.PutUint64(b[32:], superblockMagic)
	binary.LittleEndian.PutUint32(b[40:], metadataVersion)
	binary.LittleEndian.PutUint64(b[320:], topBlock)
	binary.LittleEndian.PutUint32(b[336:], uint32(forestPool.ChunkSectors))
	f.seal(heldRoot, superblockXor)
	s, err := openImage(t, f.image)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openImage opens a metadata snapshot in a file, which need not support O_DIRECT.
func openImage(t testing.TB, m image) (*Snapshot, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "metadata")
	if err := os.WriteFile(name, m, 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := openSource(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{source: from}
	t.Cleanup(func() { _ = s.Close() })
	return s, s.readRoot(t.Context(), forestPool, heldRoot)
}
