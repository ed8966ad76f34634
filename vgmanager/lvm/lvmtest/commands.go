package lvmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	g.area = lvm.MetadataArea{Size: o.MetadataSize}
	g.area.Free = g.area.Limit()
	f.groups[o.Name] = g
	f.join(g, o.Name, o.Devices)
	return nil
}

// VGExtend implements lvm.LVM.
func (f *Fake) VGExtend(_ context.Context, o lvm.VGExtendOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.changeWhole("VGExtend", o.Name)
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
		d.cordoned = false
		d.tags = nil
		g.disks = append(g.disks, path)
	}
}

// change starts a command that LVM rejects while the volume group misses a disk.
func (f *Fake) change(command, vg string) (*group, error) {
	g, err := f.changeIncomplete(command, vg)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(g.disks, func(p string) bool { return f.disks[p].detached }) {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrMissingPV)
	}
	return g, nil
}

// changeIncomplete starts a command that LVM also runs while the volume group misses a disk.
func (f *Fake) changeIncomplete(command, vg string) (*group, error) {
	if err := f.begin(command, vg); err != nil {
		return nil, err
	}
	g := f.groups[vg]
	if _, both := f.namesakes[vg]; both && g != nil {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrDuplicateVG)
	}
	if g == nil || !slices.ContainsFunc(g.disks, func(p string) bool { return !f.disks[p].detached }) {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrNotFound)
	}
	return g, nil
}

// changeWhole starts a command that is refused while a disk is missing whose loss is not accepted.
func (f *Fake) changeWhole(command, vg string) (*group, error) {
	g, err := f.changeIncomplete(command, vg)
	if err != nil {
		return nil, err
	}
	lost := func(path string) bool {
		d := f.disks[path]
		return (d.detached || d.hidden) && !slices.Contains(f.accepted[vg], d.uuid)
	}
	if slices.ContainsFunc(g.disks, lost) {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrMissingPV)
	}
	return g, nil
}

// AcceptLoss implements lvm.LVM.
func (f *Fake) AcceptLoss(vg string, pvs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted[vg] = slices.Clone(pvs)
}

// VGChangeTags implements lvm.LVM.
func (f *Fake) VGChangeTags(_ context.Context, o lvm.VGTagOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(o.Add)+len(o.Remove) == 0 {
		return nil
	}
	g, err := f.changeWhole("VGChangeTags", o.VG)
	if err != nil {
		return err
	}
	for _, tag := range o.Add {
		if strings.ContainsAny(tag, " ,@") {
			return fmt.Errorf("tag %q: %w", tag, lvm.ErrInvalid)
		}
	}
	g.tags = retag(g.tags, o.Add, o.Remove)
	return nil
}

// VGRename implements lvm.LVM.
func (f *Fake) VGRename(_ context.Context, uuid, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("VGRename", ""); err != nil {
		return err
	}
	_, taken := f.namesakes[name]
	if f.groups[name] != nil || taken {
		return fmt.Errorf("volume group %s: %w", name, lvm.ErrExists)
	}
	for old, vg := range f.namesakes {
		if vg.UUID == uuid {
			delete(f.namesakes, old)
			vg.Name = name
			f.namesakes[name] = vg
			return nil
		}
	}
	for old, g := range f.groups {
		if g.uuid != uuid {
			continue
		}
		if slices.ContainsFunc(g.disks, func(p string) bool { return f.disks[p].detached }) {
			return fmt.Errorf("volume group %s: %w", old, lvm.ErrMissingPV)
		}
		for _, path := range g.disks {
			f.disks[path].group = name
		}
		delete(f.groups, old)
		f.groups[name] = g
		return nil
	}
	return fmt.Errorf("volume group %s: %w", uuid, lvm.ErrNotFound)
}

// retag returns the new tags, sorted as in LVM's report.
func retag(tags, add, remove []string) []string {
	list := append(slices.Clone(tags), add...)
	list = slices.DeleteFunc(list, func(t string) bool { return t == "" || slices.Contains(remove, t) })
	slices.Sort(list)
	return slices.Compact(list)
}

// VGReduce implements lvm.LVM.
func (f *Fake) VGReduce(_ context.Context, o lvm.VGReduceOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("VGReduce", o.VG)
	switch {
	case err != nil:
		return err
	case !slices.Contains(g.disks, o.Device):
		return fmt.Errorf("physical volume %s: %w", o.Device, lvm.ErrNotFound)
	case f.isUsed(g, o.Device) || len(g.disks) == 1:
		return fmt.Errorf("physical volume %s: %w", o.Device, lvm.ErrNotEmpty)
	}
	f.drop(g, o.Device)
	f.disks[o.Device].group = ""
	return nil
}

func (f *Fake) isUsed(g *group, path string) bool {
	return f.freeExtents(g, path) < extents(usable(f.disks[path].size))
}

func (f *Fake) drop(g *group, path string) {
	g.disks = slices.DeleteFunc(g.disks, func(p string) bool { return p == path })
}

// VGReduceMissing implements lvm.LVM. A disk that returns later still has its label and belongs to no group.
func (f *Fake) VGReduceMissing(_ context.Context, vg string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.changeWhole("VGReduceMissing", vg)
	if err != nil {
		return err
	}
	var needed []string
	for _, path := range slices.Clone(g.disks) {
		switch {
		case !f.disks[path].detached:
		case f.isUsed(g, path):
			needed = append(needed, path)
		default:
			f.drop(g, path)
			f.disks[path].group = ""
		}
	}
	if len(needed) > 0 {
		return fmt.Errorf("volumes need %v: %w", needed, lvm.ErrNotEmpty)
	}
	return nil
}

// PVSetAllocatable implements lvm.LVM.
func (f *Fake) PVSetAllocatable(_ context.Context, o lvm.PVAllocatableOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, _, err := f.member("PVSetAllocatable", o.Device)
	if err != nil {
		return err
	}
	d.cordoned, d.tags = !o.Allocatable, retag(d.tags, []string{o.AddTag}, []string{o.RemoveTag})
	return nil
}

// member starts a command on a physical volume of a group without missing disks.
func (f *Fake) member(command, path string) (*disk, *group, error) {
	d := f.disks[path]
	if d == nil || d.detached || d.group == "" {
		if err := f.begin(command, path); err != nil {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("physical volume %s: %w", path, lvm.ErrNotFound)
	}
	g, err := f.change(command, d.group)
	return d, g, err
}

// VGActivate implements lvm.LVM.
func (f *Fake) VGActivate(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("VGActivate", name)
	if err != nil {
		return err
	}
	return f.activate(g)
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

// PVResize implements lvm.LVM.
func (f *Fake) PVResize(_ context.Context, o lvm.PVResizeOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("PVResize", o.Device); err != nil {
		return err
	}
	d := f.disks[o.Device]
	if d == nil || d.detached || d.group != o.VG {
		return fmt.Errorf("physical volume %s: %w", o.Device, lvm.ErrNotFound)
	}
	d.size, d.grown = d.size+d.grown, 0
	f.groups[o.VG].changes++
	return nil
}

// Grow makes a disk larger by this size. Its physical volume stays.
func (f *Fake) Grow(path string, by lvm.Bytes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path].grown += by
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

// DevicesFileRemove implements lvm.LVM for a node without a devices file.
func (f *Fake) DevicesFileRemove(_ context.Context, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begin("DevicesFileRemove", path)
}

// DevicesFileAdd implements lvm.LVM for a node with a devices file.
func (f *Fake) DevicesFileAdd(_ context.Context, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("DevicesFileAdd", path); err != nil {
		return err
	}
	if d := f.disks[path]; d != nil {
		d.hidden = false
	}
	return nil
}
