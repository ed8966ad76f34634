package lvmtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// add adds a logical volume with allocated extents to the group.
func add(node *Node, g *group, vg string, v *volume) error {
	if g.lvs[v.Name] != nil {
		return fmt.Errorf("logical volume %s/%s: %w", vg, v.Name, lvm.ErrExists)
	}
	v.UUID = newUUID(node)
	v.Minor = uint32(node.serial)
	v.on = true
	if v.kind != 't' {
		v.Path = "/dev/" + vg + "/" + v.Name
	}
	save(node, g, vg)
	g.lvs[v.Name] = v
	countTransaction(node, g, v, true)
	return nil
}

func lvCreateThick(node *Node, c lvm.LVCreateThick) error {
	g, err := startComplete(node, c.VG)
	if err != nil {
		return err
	}
	v, err := thick(node, g, c)
	if err != nil {
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, err)
	}
	return add(node, g, c.VG, v)
}

// thick returns a volume with allocated extents.
func thick(node *Node, g *group, o lvm.LVCreateThick) (*volume, error) {
	layout, err := lvm.NewLayout(o.Options)
	if err != nil {
		return nil, err
	}
	n := extents(o.Size)
	v := &volume{kind: '-', LV: lvm.LV{Name: o.Name, Size: lvm.Bytes(n) * ExtentSize, Tags: slices.Clone(o.Tags),
		SegType: layout.Type, Stripes: layout.Images}}
	switch {
	case g.lvs[o.Name] != nil:
		return nil, lvm.ErrExists
	case !layout.Meta:
		p := &part{}
		v.parts = []*part{p}
		each := (n + layout.Data - 1) / layout.Data
		v.Size = lvm.Bytes(each*layout.Data) * ExtentSize
		return v, g.takeStriped(p, each*layout.Data, layout.Data, g.openDisks(o.Devices))
	case node.noRAID:
		return nil, lvm.ErrNoTarget
	}
	image := (n + layout.Data - 1) / layout.Data
	v.kind = 'r'
	v.SyncPercent = new(100.0)
	v.Size = lvm.Bytes(image*layout.Data) * ExtentSize
	return v, g.takeImages(v, layout, image, o.Devices)
}

// lvCreateThinPool makes lvm.LVCreateThinPool. The default size of the metadata is one extent.
func lvCreateThinPool(node *Node, c lvm.LVCreateThinPool) error {
	g, err := startComplete(node, c.VG)
	if err != nil {
		return err
	}
	v, err := g.newPool(c)
	if err != nil {
		return fmt.Errorf("thin pool %s/%s: %w", c.VG, c.Name, err)
	}
	return add(node, g, c.VG, v)
}

func (g *group) newPool(o lvm.LVCreateThinPool) (*volume, error) {
	if g.lvs[o.Name] != nil {
		return nil, lvm.ErrExists
	}
	metadata := max(extents(o.MetadataSize), 1)
	disks := g.openDisks(nil)
	free := 0
	for _, path := range disks {
		free += g.freeExtents(path)
	}
	// The share includes the metadata and its spare (lib/metadata/lv_manip.c).
	size := free*o.PercentFree/100 - 2*metadata
	if o.Size > 0 {
		size = extents(o.Size)
	}
	if size <= 0 {
		return nil, lvm.ErrNoSpace
	}
	v := &volume{kind: 't', LV: lvm.LV{
		Name: o.Name, Size: lvm.Bytes(size) * ExtentSize, MetadataSize: lvm.Bytes(metadata) * ExtentSize,
		ChunkSize: max(o.ChunkSize, 64<<10), Zeroes: true, DataPercent: new(0.0), MetadataPercent: new(10.0),
		SegType: "thin-pool", Discards: cmp.Or(o.Discards, lvm.DiscardsPassDown),
	}}
	for _, p := range []struct {
		suffix        string
		size, stripes int
	}{{"_tdata", size, o.Stripes}, {"_tmeta", metadata, 1}} {
		next := &part{suffix: p.suffix}
		if err := g.takeStriped(next, p.size, p.stripes, disks); err != nil {
			return nil, err
		}
		v.parts = append(v.parts, next)
		// The next allocation must account for this one.
		g.lvs[o.Name] = v
	}
	err := g.growSpare(metadata)
	delete(g.lvs, o.Name)
	return v, err
}

// growSpare extends the spare to the size of the largest metadata.
func (g *group) growSpare(metadata int) error {
	return g.take(&g.spare, max(0, metadata-g.spare.size()), g.openDisks(nil))
}

func lvCreateThin(node *Node, c lvm.LVCreateThin) error {
	g, err := startComplete(node, c.VG)
	if err != nil {
		return err
	}
	if err := checkPool(g, c.VG, c.Pool); err != nil {
		return err
	}
	return add(node, g, c.VG, thin(c.Name, c.Pool, c.VirtualSize, c.Tags))
}

func thin(name, pool string, size lvm.Bytes, tags []string) *volume {
	return &volume{kind: 'V', LV: lvm.LV{Name: name, PoolName: pool, Size: size.RoundUp(ExtentSize),
		Tags: slices.Clone(tags), DataPercent: new(0.0), SegType: "thin"}}
}

func checkPool(g *group, vg, pool string) error {
	p, err := g.pool(vg, pool)
	if err != nil {
		return err
	}
	if p.DataPercent != nil && *p.DataPercent >= 100 {
		return fmt.Errorf("thin pool %s/%s: %w", vg, pool, lvm.ErrNoSpace)
	}
	return nil
}

func lvCreateSnapshot(node *Node, c lvm.LVCreateSnapshot) error {
	g, err := startComplete(node, c.VG)
	if err != nil {
		return err
	}
	source := g.lvs[c.Source]
	if source == nil || source.kind != 'V' {
		return fmt.Errorf("thin volume %s/%s: %w", c.VG, c.Source, lvm.ErrNotFound)
	}
	if err := checkPool(g, c.VG, source.PoolName); err != nil {
		return err
	}
	v := thin(c.Name, source.PoolName, source.Size, c.Tags)
	v.Origin = c.Source
	v.ro = c.ReadOnly
	err = add(node, g, c.VG, v)
	v.on = !c.Inactive
	v.skip = c.Inactive
	return err
}

func lvExtend(node *Node, c lvm.LVExtend) error {
	g, v, err := startVolume(node, c.VG, c.Name)
	if err != nil {
		return err
	}
	size := c.Size.RoundUp(ExtentSize)
	switch {
	case size <= v.Size:
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, lvm.ErrNotLarger)
	case g.isLocked(v) && v.kind != 't':
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, lvm.ErrMoving)
	}
	if size, err = g.grow(v, size, c.Stripes, c.Devices); err != nil {
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, err)
	}
	v.Size = size
	return nil
}

// grow allocates the extents for the new size of a volume and returns the size. An image stays on its disk, and a
// volume keeps its stripes.
func (g *group) grow(v *volume, size lvm.Bytes, stripes int, named []string) (lvm.Bytes, error) {
	more := extents(size) - extents(v.Size)
	switch v.kind {
	case 'V':
		return size, nil
	case 'r':
		return g.growImages(v, more, named)
	}
	if v.kind == '-' {
		stripes = max(stripes, v.Stripes, 1)
		more = (more + stripes - 1) / stripes * stripes
		size = v.Size + lvm.Bytes(more)*ExtentSize
	}
	return size, g.takeStriped(v.parts[0], more, stripes, g.openDisks(named))
}

func (g *group) growImages(v *volume, more int, named []string) (lvm.Bytes, error) {
	var images []*part
	for _, p := range v.parts {
		if strings.HasPrefix(p.suffix, "_rimage") {
			images = append(images, p)
		}
	}
	data := extents(v.Size) / images[0].size()
	step := (more + data - 1) / data
	for _, p := range images {
		for path := range p.on {
			if !slices.Contains(g.openDisks(named), path) || g.freeExtents(path) < step {
				return 0, fmt.Errorf("disk %s has not %d free extents: %w", path, step, lvm.ErrNoSpace)
			}
		}
	}
	for _, p := range images {
		for path := range p.on {
			p.on[path] += step
		}
	}
	return v.Size + lvm.Bytes(step*data)*ExtentSize, nil
}

func (p *part) size() int {
	n := 0
	for _, count := range p.on {
		n += count
	}
	return n
}

func thinPoolMetadataExtend(node *Node, c lvm.ThinPoolMetadataExtend) error {
	g, v, err := startVolume(node, c.VG, c.Pool)
	switch {
	case err != nil:
		return err
	case v.kind != 't':
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Pool, lvm.ErrInvalid)
	}
	metadata := v.parts[1]
	n := extents(c.Add)
	if free := g.free(); lvm.Bytes(2*n)*ExtentSize > free {
		return fmt.Errorf("thin pool %s/%s: %w", c.VG, c.Pool, lvm.ErrNoSpace)
	}
	if err := g.take(metadata, n, g.openDisks(nil)); err != nil {
		return err
	}
	v.MetadataSize += lvm.Bytes(n) * ExtentSize
	return g.growSpare(metadata.size())
}

func thinPoolSetDiscards(node *Node, c lvm.ThinPoolSetDiscards) error {
	_, v, err := startVolume(node, c.VG, c.Pool)
	switch {
	case err != nil:
		return err
	case v.kind != 't':
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Pool, lvm.ErrInvalid)
	case v.Discards == c.Mode || v.Discards == lvm.DiscardsIgnore || c.Mode == lvm.DiscardsIgnore:
		return fmt.Errorf("thin pool %s/%s has the discards %s, which cannot change to %s", c.VG, c.Pool, v.Discards,
			c.Mode)
	}
	v.Discards = c.Mode
	return nil
}

func startVolume(node *Node, vg, name string) (*group, *volume, error) {
	g, err := startComplete(node, vg)
	if err != nil {
		return nil, nil, err
	}
	v, err := g.volume(vg, name)
	return g, v, err
}

func (g *group) volume(vg, name string) (*volume, error) {
	if v := g.lvs[name]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrNotFound)
}

func (g *group) pool(vg, name string) (*volume, error) {
	if p := g.lvs[name]; p != nil && p.kind == 't' {
		return p, nil
	}
	return nil, fmt.Errorf("thin pool %s/%s: %w", vg, name, lvm.ErrNotFound)
}

// lvRemove makes lvm.LVRemove. Like LVM, it continues with the other volumes after an error.
func lvRemove(node *Node, c lvm.LVRemove) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range c.Names {
		failures = append(failures, remove(node, g, c.VG, name))
	}
	return errors.Join(failures...)
}

func lvRemoveByUUID(node *Node, c lvm.LVRemoveByUUID) error {
	g, err := startChecked(node, c.Remove(nil))
	if err != nil {
		return err
	}
	return removeAll(node, g, c.VG, g.named(c.UUIDs))
}

func removeAll(node *Node, g *group, vg string, names []string) error {
	for _, name := range names {
		if err := remove(node, g, vg, name); err != nil {
			return err
		}
	}
	return nil
}

func remove(node *Node, g *group, vg, name string) error {
	switch v := g.lvs[name]; {
	case v == nil:
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrNotFound)
	case v.open:
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrInUse)
	case g.isLocked(v):
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrMoving)
	}
	save(node, g, vg)
	for _, v := range g.lvs {
		if v.Origin == name {
			v.Origin = ""
		}
	}
	countTransaction(node, g, g.lvs[name], false)
	delete(g.lvs, name)
	return nil
}

// SetHealthy implements lvmexec.LVM. It only affects the speed of the real LVM.
func (f *Fake) SetHealthy(string, bool) {}

// Open sets whether a volume is in use.
func (node *Node) Open(vg, name string, open bool) {
	node.edit(vg, name, func(v *volume) { v.open = open })
}

func thinPoolRemove(node *Node, c lvm.ThinPoolRemove) error {
	g, pool, err := startVolume(node, c.VG, c.Name)
	if err != nil {
		return err
	}
	for _, v := range g.lvs {
		if v.PoolName == c.Name || pool.on {
			return fmt.Errorf("thin pool %s/%s: %w", c.VG, c.Name, lvm.ErrNotEmpty)
		}
	}
	delete(g.lvs, c.Name)
	g.removeSpare()
	return nil
}

// removeSpare removes the spare for the metadata of pools with the last pool.
func (g *group) removeSpare() {
	for _, v := range g.lvs {
		if v.kind == 't' {
			return
		}
	}
	g.spare = part{}
}

func lvRemoveUnreadable(node *Node, c lvm.LVRemoveUnreadable) error {
	g, err := startChecked(node, c.Command())
	if err != nil {
		return err
	}
	for _, name := range c.Names {
		maps.DeleteFunc(g.lvs, func(n string, v *volume) bool { return n == name || v.PoolName == name })
	}
	g.removeSpare()
	return nil
}

func lvDeactivate(node *Node, c lvm.LVDeactivate) error {
	g, err := start(node, c.VG)
	if err != nil {
		return err
	}
	for _, name := range c.Names {
		v, err := g.volume(c.VG, name)
		if err != nil {
			return err
		}
		if v.open {
			return fmt.Errorf("logical volume %s/%s: %w", c.VG, name, lvm.ErrInUse)
		}
		v.on = false
	}
	return nil
}

func lvActivate(node *Node, c lvm.LVActivate) error {
	g, v, err := startVolume(node, c.VG, c.Name)
	if err != nil {
		return err
	}
	return g.activate(v)
}

func lvAllowActivation(node *Node, c lvm.LVAllowActivation) error {
	_, v, err := startVolume(node, c.VG, c.Name)
	if err == nil {
		v.skip = false
	}
	return err
}

func lvChangeTags(node *Node, c lvm.LVChangeTags) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	v, err := g.volume(c.VG, c.Name)
	if err == nil {
		save(node, g, c.VG)
		v.Tags = retag(v.Tags, c.Add, c.Remove)
	}
	return err
}

// ThinPoolResume implements lvmexec.LVM. No pool is suspended.
func (f *Fake) ThinPoolResume(_ context.Context, vg, name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "ThinPoolResume", vg); err != nil {
		return false, err
	}
	g, err := start(&f.Node, vg)
	if err != nil {
		return false, err
	}
	_, err = g.pool(vg, name)
	return false, err
}

func lvRename(node *Node, c lvm.LVRename) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	v, err := g.volume(c.VG, c.Name)
	if err != nil {
		return err
	}
	if g.lvs[c.To] != nil {
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.To, lvm.ErrExists)
	}
	save(node, g, c.VG)
	delete(g.lvs, c.Name)
	g.lvs[c.To] = v
	v.Name = c.To
	if v.Path != "" {
		v.Path = "/dev/" + c.VG + "/" + c.To
	}
	for _, other := range g.lvs {
		if other.Origin == c.Name {
			other.Origin = c.To
		}
	}
	return nil
}
