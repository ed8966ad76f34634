package lvmtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// VGCreate implements lvm.LVM.
func (f *Fake) VGCreate(_ context.Context, o lvm.VGCreateOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("VGCreate", o.Name); err != nil {
		return err
	}
	if f.groups[o.Name] != nil {
		return fmt.Errorf("volume group %s: %w", o.Name, lvm.ErrExists)
	}
	if err := f.checkBlank(o.Devices); err != nil {
		return err
	}
	g := &group{uuid: f.newUUID(), tags: slices.Clone(o.Tags), lvs: map[string]*volume{}}
	f.groups[o.Name] = g
	f.join(g, o.Name, o.Devices)
	return nil
}

// VGExtend implements lvm.LVM.
func (f *Fake) VGExtend(_ context.Context, o lvm.VGExtendOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("VGExtend", o.Name)
	if err != nil {
		return err
	}
	if err := f.checkBlank(o.Devices); err != nil {
		return err
	}
	f.join(g, o.Name, o.Devices)
	return nil
}

func (f *Fake) checkBlank(paths []string) error {
	for _, path := range paths {
		d := f.disks[path]
		switch {
		case d == nil || d.detached:
			return fmt.Errorf("device %s: %w", path, lvm.ErrNotFound)
		case d.group != "":
			return fmt.Errorf("device %s: %w", path, lvm.ErrNotEmpty)
		case d.signature != "":
			return fmt.Errorf("device %s: %w", path, lvm.ErrSignature)
		}
	}
	return nil
}

func (f *Fake) join(g *group, name string, paths []string) {
	for _, path := range paths {
		d := f.disks[path]
		if d.uuid == "" {
			d.uuid = f.newUUID()
		}
		d.group = name
		g.disks = append(g.disks, path)
	}
}

// change begins a command on a volume group that LVM refuses while a disk is missing.
func (f *Fake) change(command, vg string) (*group, error) {
	if err := f.begin(command, vg); err != nil {
		return nil, err
	}
	g := f.groups[vg]
	if g == nil || !slices.ContainsFunc(g.disks, func(p string) bool { return !f.disks[p].detached }) {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrNotFound)
	}
	if slices.ContainsFunc(g.disks, func(p string) bool { return f.disks[p].detached }) {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrMissingPV)
	}
	return g, nil
}

// VGActivate implements lvm.LVM.
func (f *Fake) VGActivate(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("VGActivate", name)
	if err != nil {
		return err
	}
	for _, v := range g.lvs {
		v.on = true
	}
	return nil
}

// VGRemove implements lvm.LVM.
func (f *Fake) VGRemove(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("VGRemove", name)
	if err != nil {
		return err
	}
	if len(g.lvs) > 0 {
		return fmt.Errorf("volume group %s: %w", name, lvm.ErrNotEmpty)
	}
	for _, path := range g.disks {
		f.disks[path].group = ""
	}
	delete(f.groups, name)
	return nil
}

// PVRemove implements lvm.LVM.
func (f *Fake) PVRemove(_ context.Context, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("PVRemove", path); err != nil {
		return err
	}
	d := f.disks[path]
	switch {
	case d == nil || d.detached || d.uuid == "":
		return fmt.Errorf("physical volume %s: %w", path, lvm.ErrNotFound)
	case d.group != "":
		return fmt.Errorf("physical volume %s: %w", path, lvm.ErrNotEmpty)
	}
	d.uuid = ""
	return nil
}

// DevicesFileRemove implements lvm.LVM, for a node without devices file.
func (f *Fake) DevicesFileRemove(_ context.Context, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begin("DevicesFileRemove", path)
}

// add makes a logical volume.
func (f *Fake) add(g *group, vg string, v *volume) error {
	if g.lvs[v.Name] != nil {
		return fmt.Errorf("logical volume %s/%s: %w", vg, v.Name, lvm.ErrExists)
	}
	if v.kind != 'V' && v.Size > f.free(g) {
		return fmt.Errorf("logical volume %s/%s: %w", vg, v.Name, lvm.ErrNoSpace)
	}
	v.UUID, v.on = f.newUUID(), true
	if v.kind != 't' {
		v.Path = "/dev/" + vg + "/" + v.Name
	}
	g.lvs[v.Name] = v
	return nil
}

// LVCreateThick implements lvm.LVM.
func (f *Fake) LVCreateThick(_ context.Context, o lvm.ThickOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("LVCreateThick", o.VG)
	if err != nil {
		return err
	}
	return f.add(g, o.VG, &volume{kind: '-', LV: lvm.LV{Name: o.Name, Size: o.Size.RoundUp(ExtentSize), Tags: slices.Clone(o.Tags)}})
}

// LVCreateThinPool implements lvm.LVM. Its default of the metadata is one extent.
func (f *Fake) LVCreateThinPool(_ context.Context, o lvm.ThinPoolOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("LVCreateThinPool", o.VG)
	if err != nil {
		return err
	}
	metadata := max(o.MetadataSize.RoundUp(ExtentSize), ExtentSize)
	free := f.free(g)
	size := min(free*lvm.Bytes(o.PercentFree)/100, free-2*metadata) / ExtentSize * ExtentSize
	if size <= 0 {
		return fmt.Errorf("thin pool %s/%s: %w", o.VG, o.Name, lvm.ErrNoSpace)
	}
	none, some := 0.0, 10.0
	return f.add(g, o.VG, &volume{kind: 't', LV: lvm.LV{
		Name: o.Name, Size: size, MetadataSize: metadata, ChunkSize: max(o.ChunkSize, 64<<10), Zeroes: true,
		DataPercent: &none, MetadataPercent: &some,
	}})
}

// LVCreateThin implements lvm.LVM.
func (f *Fake) LVCreateThin(_ context.Context, o lvm.ThinOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("LVCreateThin", o.VG)
	if err != nil {
		return err
	}
	if err := checkPool(g, o.VG, o.Pool); err != nil {
		return err
	}
	return f.add(g, o.VG, thin(o.Name, o.Pool, o.VirtualSize, o.Tags))
}

func thin(name, pool string, size lvm.Bytes, tags []string) *volume {
	none := 0.0
	return &volume{kind: 'V', LV: lvm.LV{
		Name: name, PoolName: pool, Size: size.RoundUp(ExtentSize), Tags: slices.Clone(tags), DataPercent: &none,
	}}
}

func checkPool(g *group, vg, pool string) error {
	p := g.lvs[pool]
	if p == nil || p.kind != 't' {
		return fmt.Errorf("thin pool %s/%s: %w", vg, pool, lvm.ErrNotFound)
	}
	if p.DataPercent != nil && *p.DataPercent >= 100 {
		return fmt.Errorf("thin pool %s/%s: %w", vg, pool, lvm.ErrNoSpace)
	}
	return nil
}

// LVCreateSnapshot implements lvm.LVM.
func (f *Fake) LVCreateSnapshot(_ context.Context, o lvm.SnapshotOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("LVCreateSnapshot", o.VG)
	if err != nil {
		return err
	}
	source := g.lvs[o.Source]
	if source == nil || source.kind != 'V' {
		return fmt.Errorf("thin volume %s/%s: %w", o.VG, o.Source, lvm.ErrNotFound)
	}
	if err := checkPool(g, o.VG, source.PoolName); err != nil {
		return err
	}
	v := thin(o.Name, source.PoolName, source.Size, o.Tags)
	v.Origin, v.ro = o.Source, o.ReadOnly
	return f.add(g, o.VG, v)
}

// LVExtend implements lvm.LVM.
func (f *Fake) LVExtend(_ context.Context, o lvm.LVExtendOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, v, err := f.find("LVExtend", o.VG, o.Name)
	if err != nil {
		return err
	}
	size := o.Size.RoundUp(ExtentSize)
	switch {
	case size <= v.Size:
		return fmt.Errorf("logical volume %s/%s: %w", o.VG, o.Name, lvm.ErrNotLarger)
	case v.kind != 'V' && size-v.Size > f.free(g):
		return fmt.Errorf("logical volume %s/%s: %w", o.VG, o.Name, lvm.ErrNoSpace)
	}
	v.Size = size
	return nil
}

func (f *Fake) find(command, vg, name string) (*group, *volume, error) {
	g, err := f.change(command, vg)
	if err != nil {
		return nil, nil, err
	}
	v := g.lvs[name]
	if v == nil {
		return nil, nil, fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrNotFound)
	}
	return g, v, nil
}

// LVRemove implements lvm.LVM.
func (f *Fake) LVRemove(_ context.Context, vg, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, _, err := f.find("LVRemove", vg, name)
	if err != nil {
		return err
	}
	for _, v := range g.lvs {
		if v.Origin == name {
			v.Origin = ""
		}
	}
	delete(g.lvs, name)
	return nil
}

// ThinPoolRemove implements lvm.LVM.
func (f *Fake) ThinPoolRemove(_ context.Context, vg, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, pool, err := f.find("ThinPoolRemove", vg, name)
	if err != nil {
		return err
	}
	for _, v := range g.lvs {
		if v.PoolName == name || pool.on {
			return fmt.Errorf("thin pool %s/%s: %w", vg, name, lvm.ErrNotEmpty)
		}
	}
	delete(g.lvs, name)
	return nil
}

// LVDeactivate implements lvm.LVM.
func (f *Fake) LVDeactivate(_ context.Context, vg, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, v, err := f.find("LVDeactivate", vg, name)
	if err != nil {
		return err
	}
	v.on = false
	return nil
}
