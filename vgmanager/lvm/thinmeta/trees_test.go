package thinmeta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// image is the metadata of a pool with three devices: 1 has the leaves 10, 11 and 12, 2 is a snapshot of it and has the
// leaves 10, 11 and 13, and 3 has the leaf 14 and no internal node.
type image []byte

const (
	topBlock, detailsBlock = 2, 3
	root1, root2           = 5, 6
	perLeaf                = 100
)

func newImage() image {
	m := make(image, 32*blockSize)
	s := m.block(0)
	binary.LittleEndian.PutUint64(s[32:], superblockMagic)
	binary.LittleEndian.PutUint32(s[40:], 2)
	binary.LittleEndian.PutUint32(s[44:], 1)
	binary.LittleEndian.PutUint64(s[48:], 3)
	binary.LittleEndian.PutUint64(s[64:], 1920)
	binary.LittleEndian.PutUint64(s[320:], topBlock)
	binary.LittleEndian.PutUint64(s[328:], detailsBlock)
	binary.LittleEndian.PutUint32(s[336:], 128)
	m.seal(0, superblockXor)
	m.node(topBlock, flagLeaf, mappingSize, []uint64{1, 2, 3}, []uint64{root1, root2, 14})
	m.node(detailsBlock, flagLeaf, detailsSize, []uint64{1, 2, 3},
		[]uint64{300, 0, 1 << 32, 300, 1, 1<<32 | 1, 100, 2, 1<<32 | 1})
	m.node(root1, flagInternal, mappingSize, []uint64{0, 100, 200}, []uint64{10, 11, 12})
	m.node(root2, flagInternal, mappingSize, []uint64{0, 100, 200}, []uint64{10, 11, 13})
	for i, leaf := range []uint64{10, 11, 12} {
		m.leaf(leaf, uint64(i)*perLeaf, uint64(i)*perLeaf)
	}
	m.leaf(13, 200, 500)
	m.leaf(14, 0, 700)
	return m
}

func (m image) block(at uint64) []byte { return m[at*blockSize : (at+1)*blockSize] }

func (m image) seal(at uint64, xor uint32) {
	b := m.block(at)
	binary.LittleEndian.PutUint64(b[8:], at)
	binary.LittleEndian.PutUint32(b, checksum(b, xor))
}

func (m image) node(at uint64, flags uint32, size int, keys, values []uint64) {
	space := (blockSize - nodeHeader) / (8 + size) / 3 * 3
	b := m.block(at)
	clear(b)
	binary.LittleEndian.PutUint32(b[4:], flags)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(keys)))
	binary.LittleEndian.PutUint32(b[20:], uint32(space))
	binary.LittleEndian.PutUint32(b[24:], uint32(size))
	for i, key := range keys {
		binary.LittleEndian.PutUint64(b[nodeHeader+8*i:], key)
	}
	for i, value := range values {
		binary.LittleEndian.PutUint64(b[nodeHeader+8*space+8*i:], value)
	}
	m.seal(at, nodeXor)
}

// leaf writes a leaf that maps blocks from origin on to blocks from data on.
func (m image) leaf(at, origin, data uint64) {
	var keys, values []uint64
	for i := range uint64(perLeaf) {
		keys = append(keys, origin+i)
		values = append(values, (data+i)<<timeBits)
	}
	m.node(at, flagLeaf, mappingSize, keys, values)
}

func (m image) write(t *testing.T) Pool {
	p := pool
	p.Device = filepath.Join(t.TempDir(), "metadata")
	if err := os.WriteFile(p.Device, m, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// devices returns devices by ID from pairs of recorded and found blocks.
func devices(pairs ...uint64) map[uint64]Device {
	list := map[uint64]Device{}
	for i := 0; i < len(pairs); i += 2 {
		list[uint64(i/2+1)] = Device{Recorded: pairs[i], Found: pairs[i+1]}
	}
	return list
}

func TestDamagedTrees(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(image)
		want   map[uint64]Device
	}{
		"none":        {func(image) {}, devices(300, 300, 300, 300, 100, 100)},
		"a leaf":      {func(m image) { m.block(12)[100]++ }, devices(300, 200, 300, 300, 100, 100)},
		"shared leaf": {func(m image) { m.block(11)[100]++ }, devices(300, 200, 300, 200, 100, 100)},
		"the root of a volume": {func(m image) { clear(m.block(root1)) },
			devices(300, 0, 300, 300, 100, 100)},
		"the only leaf":   {func(m image) { clear(m.block(14)) }, devices(300, 300, 300, 300, 100, 0)},
		"details":         {func(m image) { clear(m.block(detailsBlock)) }, devices(300, 300, 300, 300, 100, 100)},
		"list of volumes": {func(m image) { clear(m.block(topBlock)) }, devices()},
		"a leaf in the place of another": {func(m image) { copy(m.block(12), m.block(13)) },
			devices(300, 200, 300, 300, 100, 100)},
		"a leaf with other keys": {func(m image) { m.leaf(12, 100, 900) }, devices(300, 200, 300, 300, 100, 100)},
		"a leaf of another kind": {func(m image) {
			m.node(12, flagLeaf, detailsSize, []uint64{200}, []uint64{1, 1, 1})
		}, devices(300, 200, 300, 300, 100, 100)},
		"blocks that the pool does not have": {func(m image) { m.leaf(12, 200, 1900) },
			devices(300, 220, 300, 300, 100, 100)},
		"a node below itself": {func(m image) {
			m.node(root1, flagInternal, mappingSize, []uint64{0, 100}, []uint64{10, root1})
		}, devices(300, 100, 300, 300, 100, 100)},
		"a node that is always the first below itself": {func(m image) {
			m.node(root1, flagInternal, mappingSize, []uint64{0}, []uint64{root1})
		}, devices(300, 0, 300, 300, 100, 100)},
		"a node that is elsewhere": {func(m image) {
			m.node(root1, flagInternal, mappingSize, []uint64{0, 100, 200}, []uint64{10, 1 << 40, 12})
		}, devices(300, 200, 300, 300, 100, 100)},
		"too many entries": {func(m image) {
			binary.LittleEndian.PutUint32(m.block(12)[16:], 1<<31)
			m.seal(12, nodeXor)
		}, devices(300, 200, 300, 300, 100, 100)},
	} {
		t.Run(name, func(t *testing.T) {
			m := newImage()
			test.damage(m)
			p := m.write(t)
			got, err := readTrees(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = got.file.Close() }()
			if diff := cmp.Diff(test.want, got.devices); diff != "" {
				t.Error(diff)
			}
			want := map[uint64]Device{}
			for id, d := range test.want {
				want[id] = Device{Recorded: d.Found, Found: d.Found}
			}
			for _, version := range []string{"1.1.0\n", "0.9.0\n"} {
				if diff := cmp.Diff(want, decoded(t, salvage(t, p, version)).devices); diff != "" {
					t.Errorf("thin-provisioning-tools %s: %s", version, diff)
				}
			}
		})
	}
}

func salvage(t *testing.T, p Pool, version string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "text.xml")
	for range 2 { // a second one replaces the file
		if _, err := Salvage(t.Context(), &node{version: version}, p, file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decoded(t *testing.T, text string) *contents {
	t.Helper()
	c := newContents()
	if err := c.decode(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSalvagedText(t *testing.T) {
	m := newImage()
	clear(m.block(12))
	want := `<superblock uuid="" time="1" transaction="3" version="2" data_block_size="128" nr_data_blocks="1920">
<def name="10">
<range_mapping origin_begin="0" data_begin="0" length="100" time="0"/>
</def>
<def name="11">
<range_mapping origin_begin="100" data_begin="100" length="100" time="0"/>
</def>
<device dev_id="1" mapped_blocks="200" transaction="0" creation_time="0" snap_time="1">
<ref name="10"/>
<ref name="11"/>
</device>
<device dev_id="2" mapped_blocks="300" transaction="1" creation_time="1" snap_time="1">
<ref name="10"/>
<ref name="11"/>
<range_mapping origin_begin="200" data_begin="500" length="100" time="0"/>
</device>
<device dev_id="3" mapped_blocks="100" transaction="2" creation_time="1" snap_time="1">
<range_mapping origin_begin="0" data_begin="700" length="100" time="0"/>
</device>
</superblock>
`
	if diff := cmp.Diff(want, salvage(t, m.write(t), "1.1.0\n")); diff != "" {
		t.Error(diff)
	}
	// Without details, a block counts as shared: the kernel copies it before it writes to it.
	clear(m.block(detailsBlock))
	got := salvage(t, m.write(t), "1.1.0\n")
	const unknown = `<device dev_id="3" mapped_blocks="100" transaction="0" creation_time="0" snap_time="1">`
	if !strings.Contains(got, unknown) {
		t.Errorf("got %s", got)
	}
}

// TestSalvagedTextForVersion09: thin_restore 0.9.0 does not read shared mappings.
func TestSalvagedTextForVersion09(t *testing.T) {
	m := newImage()
	clear(m.block(12))
	got := salvage(t, m.write(t), "0.9.0\n")
	const second = `<device dev_id="2" mapped_blocks="300" transaction="1" creation_time="1" snap_time="1">
<range_mapping origin_begin="0" data_begin="0" length="100" time="0"/>
<range_mapping origin_begin="100" data_begin="100" length="100" time="0"/>
<range_mapping origin_begin="200" data_begin="500" length="100" time="0"/>
</device>
`
	if !strings.Contains(got, second) || strings.Contains(got, "def") || strings.Contains(got, "ref") {
		t.Errorf("got %s", got)
	}
}

// TestSalvageWithoutASuperblock: the text has no volume, so that the pool can be used again.
func TestSalvageWithoutASuperblock(t *testing.T) {
	const want = `<superblock uuid="" time="0" transaction="3" version="2" data_block_size="128" nr_data_blocks="1920">
</superblock>
`
	m := newImage()
	clear(m.block(0))
	if diff := cmp.Diff(want, salvage(t, m.write(t), "")); diff != "" {
		t.Error(diff)
	}
}

func TestSalvageThatFails(t *testing.T) {
	whole := newImage().write(t)
	for name, test := range map[string]struct {
		node node
		pool Pool
		file string
		err  string
	}{
		"no device": {pool: Pool{Device: "/nosuch"}, err: "/nosuch"},
		"no folder": {pool: whole, file: "nosuch/file", err: "no such file"},
		"no version": {node: node{versionError: errors.New("killed")}, pool: whole,
			err: "read the version of thin_dump: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "text", test.file)
			_, err := Salvage(t.Context(), &test.node, test.pool, file)
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it left a file: %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "text")
	if _, err := Salvage(ctx, &node{}, whole, file); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestAReadErrorIsNotDamage: only what the medium has lost is left out.
func TestAReadErrorIsNotDamage(t *testing.T) {
	p := newImage().write(t)
	got, err := readTrees(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := got.readMappings(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	n := &node{check: exit(1, "bad"), out: dumped}
	if m, err := Inspect(t.Context(), n, Pool{Device: "/nosuch"}); err == nil || m != nil {
		t.Errorf("got %+v, %v", m, err)
	}
}

// TestWhichMetadataIsUsed: thin_repair saves the volumes if it would write what the superblock refers to.
func TestWhichMetadataIsUsed(t *testing.T) {
	const head = `<superblock transaction="3" nr_data_blocks="1920">`
	device := func(id, recorded, found string) string {
		return `<device dev_id="` + id + `" mapped_blocks="` + recorded +
			`"><range_mapping length="` + found + `"/></device>`
	}
	present := devices(300, 200, 300, 300, 100, 100)
	for name, test := range map[string]struct {
		damage func(image)
		dumped string
		dump   error
		want   Metadata
	}{
		"the same": {
			dumped: device("1", "300", "200") + device("2", "300", "300") + device("3", "100", "100"),
			want:   Metadata{Devices: present}},
		"an earlier state": {dumped: device("1", "300", "300") + device("2", "250", "250"),
			want: Metadata{Devices: present, Salvaged: true}},
		"only one volume": {dumped: device("3", "100", "100"), want: Metadata{Devices: present, Salvaged: true}},
		"thin_repair finds nothing": {dump: exit(1, "no compatible roots found"),
			want: Metadata{Devices: present, Salvaged: true,
				RepairError: exit(1, "no compatible roots found").Error()}},
		"only the earlier state has volumes": {
			damage: func(m image) { clear(m.block(topBlock)) },
			dumped: device("1", "250", "250") + device("2", "300", "300"),
			want: Metadata{Devices: map[uint64]Device{1: {Recorded: 300, Found: 250}, 2: {Recorded: 300, Found: 300}},
				Earlier: true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newImage()
			clear(m.block(12))
			if test.damage != nil {
				test.damage(m)
			}
			n := &node{version: "1.1.0\n", check: exit(64, "bad"), plainDump: test.dump,
				out: head + test.dumped + "</superblock>"}
			got, err := Inspect(t.Context(), n, m.write(t))
			if err != nil {
				t.Fatal(err)
			}
			test.want.Problem = "bad"
			test.want.TransactionID = 3
			test.want.Chunks = 1920
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestVersion09LeavesOutOnlyTheNode: thin_repair of that version saves the volumes.
func TestVersion09LeavesOutOnlyTheNode(t *testing.T) {
	m := newImage()
	clear(m.block(12))
	p := m.write(t)
	n := &node{check: exit(1, "bad"), out: `<superblock transaction="3" nr_data_blocks="1920">` +
		`<device dev_id="1" mapped_blocks="200"><range_mapping length="200"/></device></superblock>`}
	want := &Metadata{Problem: "bad", TransactionID: 3, Chunks: 1920,
		Devices: map[uint64]Device{1: {Recorded: 300, Found: 200}}}
	got, err := Inspect(t.Context(), n, p)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	n = &node{check: exit(1, "bad"), versionError: errors.New("killed")}
	if got, err := Inspect(t.Context(), n, p); err == nil || got != nil {
		t.Errorf("without a version: got %+v, %v", got, err)
	}
}

// TestThinDumpThatCrashes: thin_dump 0.9.0 does, if the list of volumes or the superblock is damaged.
func TestThinDumpThatCrashes(t *testing.T) {
	crash := crashed(t, unix.SIGSEGV)
	for name, test := range map[string]struct {
		damaged uint64
		want    map[uint64]Device
		lost    bool
	}{
		"one leaf":        {damaged: 12, want: devices(300, 200, 300, 300, 100, 100)},
		"list of volumes": {damaged: topBlock, want: map[uint64]Device{}},
		"superblock":      {damaged: 0, want: map[uint64]Device{}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newImage()
			clear(m.block(test.damaged))
			p := m.write(t)
			for _, failure := range []error{crash, exit(1, "bad")} {
				n := &node{check: exit(1, "bad"), plainDump: failure, dumpWithOptions: failure}
				got, err := Inspect(t.Context(), n, p)
				want := &Metadata{Problem: "bad", TransactionID: 3, Chunks: 1920, Devices: test.want, Salvaged: true,
					SuperblockLost: test.lost, RepairError: failure.Error()}
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%v: %s", err, diff)
				}
			}
			for _, failure := range []error{crashed(t, unix.SIGKILL), exit(137, ""), exit(127, "no such file"),
				exit(-1, ""), context.DeadlineExceeded} {
				n := &node{check: exit(1, "bad"), plainDump: failure, dumpWithOptions: failure}
				if got, err := Inspect(t.Context(), n, p); err == nil || got != nil {
					t.Errorf("%v: got %+v", failure, got)
				}
			}
		})
	}
}

// crashed returns the error of a program that a signal ends.
func crashed(t *testing.T, signal unix.Signal) error {
	t.Helper()
	_, err := host.NewLocal().Run(t.Context(), "/bin/sh", "-c", fmt.Sprintf("kill -%d $$", signal))
	var failure *host.Error
	if !errors.As(err, &failure) || failure.Signal() != signal {
		t.Fatalf("got %v", err)
	}
	return err
}

// FuzzTrees: no metadata may end the agent, or keep it busy forever.
func FuzzTrees(f *testing.F) {
	f.Add(uint16(root1), uint16(nodeHeader), uint64(1))
	f.Add(uint16(0), uint16(64), uint64(1<<63))
	f.Fuzz(func(t *testing.T, at, offset uint16, value uint64) {
		m := newImage()
		block := uint64(at) % uint64(len(m)/blockSize)
		binary.LittleEndian.PutUint64(m.block(block)[offset%(blockSize-8):], value)
		xor := uint32(nodeXor)
		if block == 0 {
			xor = superblockXor
		}
		m.seal(block, xor)
		got, err := readTrees(t.Context(), m.write(t))
		if err == nil {
			err = got.file.Close()
		}
		if err != nil && !errors.Is(err, errNoSuperblock) {
			t.Error(err)
		}
	})
}

var _ host.Streamer = (*node)(nil)
