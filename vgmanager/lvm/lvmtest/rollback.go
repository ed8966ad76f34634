package lvmtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// kernelPool is what the metadata of a thin pool has, which LVM does not restore with the metadata of the group.
type kernelPool struct {
	transaction uint64
	devices     map[uint64]bool
}

// earlier is the metadata of a volume group before a change.
type earlier struct {
	text    string
	lvs     map[string]*volume
	tags    []string
	changes uint64
}

// save archives the metadata of a volume group before a change.
func save(node *Node, g *group, vg string) {
	if node.groups[vg] == g {
		node.earlier[vg] = append(node.earlier[vg], earlier{metadataText(node, vg), cloned(g.lvs), slices.Clone(g.tags),
			g.changes})
	}
	g.changes++
}

func cloned(lvs map[string]*volume) map[string]*volume {
	copies := map[string]*volume{}
	for name, v := range lvs {
		c := *v
		copies[name] = &c
	}
	return copies
}

// Rollback restores the oldest archived metadata with this number of volumes in the pool, or in the group if pool is
// "", as an administrator does with vgcfgrestore. All volumes must be inactive.
func (node *Node) Rollback(vg, pool string, volumes int) {
	node.mu.Lock()
	defer node.mu.Unlock()
	at := slices.IndexFunc(node.earlier[vg], func(e earlier) bool {
		if pool == "" {
			return len(e.lvs) == volumes
		}
		return e.lvs[pool] != nil && len((&group{lvs: e.lvs}).inPool(pool)) == volumes
	})
	save(node, node.groups[vg], vg)
	restore(node, vg, node.earlier[vg][at])
}

// ForgetArchive deletes the archived metadata of a volume group.
func (node *Node) ForgetArchive(vg string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	delete(node.earlier, vg)
}

func restore(node *Node, vg string, e earlier) {
	g := node.groups[vg]
	lvs := cloned(e.lvs)
	for name, v := range lvs {
		v.on = false
		if before := g.lvs[name]; before != nil && before.kernel != nil && before.UUID == v.UUID {
			v.metadata = before.metadata
		}
	}
	g.lvs = lvs
	g.tags = slices.Clone(e.tags)
	g.changes = e.changes + 1
}

// countTransaction records that a thin volume was added to its pool or removed from it.
func countTransaction(node *Node, g *group, v *volume, added bool) {
	pool := g.lvs[v.PoolName]
	if pool == nil {
		return
	}
	if pool.kernel == nil {
		pool.kernel = &kernelPool{devices: map[uint64]bool{}}
	}
	pool.transaction++
	pool.kernel.transaction = pool.transaction
	if added {
		pool.kernel.devices[deviceID(node, v)] = true
	} else {
		delete(pool.kernel.devices, deviceID(node, v))
	}
}

// kernelTransaction returns the number of transactions in the metadata of a pool.
func (v *volume) kernelTransaction() uint64 {
	if v.kernel == nil {
		return 1
	}
	return v.kernel.transaction + 1
}

// ReadMetadata implements lvmexec.LVM.
func (f *Fake) ReadMetadata(_ context.Context, device string) (*textmeta.Metadata, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "ReadMetadata", device); err != nil {
		return nil, err
	}
	d := f.disks[device]
	if d == nil || d.detached || d.group == "" {
		return nil, fmt.Errorf("device %s: %w", device, lvm.ErrNotFound)
	}
	return textmeta.Decode([]byte(metadataText(&f.Node, d.group)))
}

// FindMetadata implements lvmexec.LVM.
func (f *Fake) FindMetadata(_ context.Context, vg string, fits func(*textmeta.Metadata) string) (*textmeta.Metadata,
	[]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "FindMetadata", vg); err != nil {
		return nil, nil, err
	}
	var reasons []string
	for i, e := range slices.Backward(f.earlier[vg]) {
		m, err := textmeta.Decode([]byte(e.text))
		if err != nil {
			return nil, nil, err
		}
		m.File = fmt.Sprintf("%s%s_%05d-1.vg", lvm.ArchiveDir, vg, i)
		m.Text = []byte(e.text)
		why := fits(m)
		if why == "" {
			return m, nil, nil
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	return nil, reasons, nil
}

func metadataRestore(node *Node, c lvm.MetadataRestore) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	for _, v := range g.lvs {
		if v.on || v.metadata.open {
			return fmt.Errorf("volume group %s: %w", c.VG, lvm.ErrInUse)
		}
	}
	at := slices.IndexFunc(node.earlier[c.VG], func(e earlier) bool { return e.text == string(text) })
	if at < 0 || g.uuid != c.UUID {
		return fmt.Errorf("file %s: %w", c.File, lvm.ErrDamaged)
	}
	restore(node, c.VG, node.earlier[c.VG][at])
	return nil
}

// volumesText returns the logical volumes of a group as LVM writes them. Their extents are made up: each part has
// extents of its own.
func volumesText(node *Node, g *group) string {
	var text strings.Builder
	section := func(name, uuid, status string, segments ...string) {
		_, _ = fmt.Fprintf(&text, "%s {\nid = %q\nstatus = [%s]\n", name, uuid, status)
		for i, s := range segments {
			_, _ = fmt.Fprintf(&text, "segment%d {\n%s}\n", i+1, s)
		}
		text.WriteString("}\n")
	}
	for _, name := range slices.Sorted(maps.Keys(g.lvs)) {
		v := g.lvs[name]
		size := extents(v.Size)
		visible := `"READ", "WRITE", "VISIBLE"`
		switch v.kind {
		case 't':
			section(name, v.UUID, visible, fmt.Sprintf("start_extent = 0\nextent_count = %d\ntype = \"thin-pool\"\n"+
				"metadata = \"%s_tmeta\"\npool = \"%s_tdata\"\ntransaction_id = %d\nchunk_size = %d\n", size, name,
				name, v.transaction+1, v.ChunkSize/512))
		case 'V':
			section(name, v.UUID, visible, fmt.Sprintf("start_extent = 0\nextent_count = %d\ntype = \"thin\"\n"+
				"thin_pool = %q\ntransaction_id = 0\ndevice_id = %d\n", size, v.PoolName, deviceID(node, v)))
		default:
			section(name, v.UUID, visible, g.stripes(v, "")...)
		}
		for _, p := range v.parts {
			if p.suffix != "" {
				section(name+p.suffix, v.UUID+p.suffix, `"READ", "WRITE"`, g.stripes(v, p.suffix)...)
			}
		}
	}
	return text.String()
}

// stripes returns the segments of the parts of a volume with this suffix.
func (g *group) stripes(v *volume, suffix string) []string {
	var segments []string
	start := 0
	for i, p := range v.parts {
		if p.suffix != suffix {
			continue
		}
		for n, path := range g.disks {
			if count := p.on[path]; count > 0 {
				segments = append(segments, fmt.Sprintf("start_extent = %d\nextent_count = %d\ntype = \"striped\"\n"+
					"stripe_count = 1\nstripes = [\n\"pv%d\", %d\n]\n", start, count, n, int(v.Minor)*1000000+i*100000))
				start += count
			}
		}
	}
	return segments
}

// Lose removes a volume from the metadata of its group, as if it was never created.
func (node *Node) Lose(vg, name string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	delete(node.groups[vg].lvs, name)
}
