package lvmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// vgCreate makes lvm.VGCreate.
func vgCreate(f *Fake, c lvm.VGCreate) error {
	if err := f.begin("VGCreate", c.Name); err != nil {
		return err
	}
	if f.groups[c.Name] != nil {
		return fmt.Errorf("volume group %s: %w", c.Name, lvm.ErrExists)
	}
	if err := f.checkBlank(c.Devices); err != nil {
		return err
	}
	g := &group{uuid: f.newUUID(), tags: slices.Clone(c.Tags), lvs: map[string]*volume{}}
	g.area = lvm.MetadataArea{Size: c.MetadataSize}
	g.area.Free = g.area.Limit()
	f.groups[c.Name] = g
	f.join(g, c.Name, c.Devices)
	return nil
}

// vgExtend makes lvm.VGExtend.
func vgExtend(f *Fake, c lvm.VGExtend) error {
	g, err := f.changeWhole("VGExtend", c.Name)
	if err != nil {
		return err
	}
	if err := f.checkBlank(c.Devices); err != nil {
		return err
	}
	f.join(g, c.Name, c.Devices)
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

// vgChangeTags makes lvm.VGChangeTags.
func vgChangeTags(f *Fake, c lvm.VGChangeTags) error {
	if len(c.Add)+len(c.Remove) == 0 {
		return nil
	}
	g, err := f.changeWhole("VGChangeTags", c.VG)
	if err != nil {
		return err
	}
	for _, tag := range c.Add {
		if strings.ContainsAny(tag, " ,@") {
			return fmt.Errorf("tag %q: %w", tag, lvm.ErrInvalid)
		}
	}
	g.tags = retag(g.tags, c.Add, c.Remove)
	return nil
}

// vgRename makes lvm.VGRename.
func vgRename(f *Fake, c lvm.VGRename) error {
	if err := f.begin("VGRename", ""); err != nil {
		return err
	}
	_, taken := f.namesakes[c.Name]
	if f.groups[c.Name] != nil || taken {
		return fmt.Errorf("volume group %s: %w", c.Name, lvm.ErrExists)
	}
	for old, vg := range f.namesakes {
		if vg.UUID == c.UUID {
			delete(f.namesakes, old)
			vg.Name = c.Name
			f.namesakes[c.Name] = vg
			return nil
		}
	}
	for old, g := range f.groups {
		if g.uuid != c.UUID {
			continue
		}
		if slices.ContainsFunc(g.disks, func(p string) bool { return f.disks[p].detached }) {
			return fmt.Errorf("volume group %s: %w", old, lvm.ErrMissingPV)
		}
		for _, path := range g.disks {
			f.disks[path].group = c.Name
		}
		delete(f.groups, old)
		f.groups[c.Name] = g
		return nil
	}
	return fmt.Errorf("volume group %s: %w", c.UUID, lvm.ErrNotFound)
}

// retag returns the new tags, sorted as in LVM's report.
func retag(tags, add, remove []string) []string {
	list := append(slices.Clone(tags), add...)
	list = slices.DeleteFunc(list, func(t string) bool { return t == "" || slices.Contains(remove, t) })
	slices.Sort(list)
	return slices.Compact(list)
}

// vgReduce makes lvm.VGReduce.
func vgReduce(f *Fake, c lvm.VGReduce) error {
	g, err := f.change("VGReduce", c.VG)
	switch {
	case err != nil:
		return err
	case !slices.Contains(g.disks, c.Device):
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotFound)
	case f.isUsed(g, c.Device) || len(g.disks) == 1:
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotEmpty)
	}
	f.drop(g, c.Device)
	f.disks[c.Device].group = ""
	return nil
}

func (f *Fake) isUsed(g *group, path string) bool {
	return f.freeExtents(g, path) < extents(usable(f.disks[path].size))
}

func (f *Fake) drop(g *group, path string) {
	g.disks = slices.DeleteFunc(g.disks, func(p string) bool { return p == path })
}

// vgReduceMissing makes lvm.VGReduceMissing. A disk that returns later still has its label and belongs to no group.
func vgReduceMissing(f *Fake, c lvm.VGReduceMissing) error {
	g, err := f.changeWhole("VGReduceMissing", c.VG)
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

// pvSetAllocatable makes lvm.PVSetAllocatable.
func pvSetAllocatable(f *Fake, c lvm.PVSetAllocatable) error {
	d, _, err := f.member("PVSetAllocatable", c.Device)
	if err != nil {
		return err
	}
	d.cordoned, d.tags = !c.Allocatable, retag(d.tags, []string{c.AddTag}, []string{c.RemoveTag})
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

// vgActivate makes lvm.VGActivate.
func vgActivate(f *Fake, c lvm.VGActivate) error {
	g, err := f.change("VGActivate", c.VG)
	if err != nil {
		return err
	}
	return f.activate(g)
}

// vgRemove makes lvm.VGRemove.
func vgRemove(f *Fake, c lvm.VGRemove) error {
	g, err := f.change("VGRemove", c.VG)
	if err != nil {
		return err
	}
	if len(g.lvs) > 0 {
		return fmt.Errorf("volume group %s: %w", c.VG, lvm.ErrNotEmpty)
	}
	for _, path := range g.disks {
		f.disks[path].group = ""
	}
	delete(f.groups, c.VG)
	return nil
}

// pvResize makes lvm.PVResize.
func pvResize(f *Fake, c lvm.PVResize) error {
	if err := f.begin("PVResize", c.Device); err != nil {
		return err
	}
	d := f.disks[c.Device]
	if d == nil || d.detached || d.group != c.VG {
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotFound)
	}
	d.size, d.grown = d.size+d.grown, 0
	f.groups[c.VG].changes++
	return nil
}

// Grow makes a disk larger by this size. Its physical volume stays.
func (f *Fake) Grow(path string, by lvm.Bytes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path].grown += by
}

// pvRemove makes lvm.PVRemove.
func pvRemove(f *Fake, c lvm.PVRemove) error {
	if err := f.begin("PVRemove", c.Device); err != nil {
		return err
	}
	d := f.disks[c.Device]
	switch {
	case d == nil || d.detached || d.uuid == "":
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotFound)
	case d.group != "":
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotEmpty)
	}
	d.uuid = ""
	return nil
}

// devicesFileRemove makes lvm.DevicesFileRemove for a node without a devices file.
func devicesFileRemove(f *Fake, c lvm.DevicesFileRemove) error {
	return f.begin("DevicesFileRemove", c.Device)
}

// devicesFileAdd makes lvm.DevicesFileAdd for a node with a devices file.
func devicesFileAdd(f *Fake, c lvm.DevicesFileAdd) error {
	if err := f.begin("DevicesFileAdd", c.Device); err != nil {
		return err
	}
	if d := f.disks[c.Device]; d != nil {
		d.hidden = false
	}
	return nil
}
