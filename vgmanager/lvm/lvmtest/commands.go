package lvmtest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func vgCreate(node *Node, c lvm.VGCreate) error {
	if node.groups[c.Name] != nil {
		return fmt.Errorf("volume group %s: %w", c.Name, lvm.ErrExists)
	}
	if err := node.disks.checkBlank(c.Devices); err != nil {
		return err
	}
	g := &group{node: node.disks, uuid: newUUID(node), tags: slices.Clone(c.Tags), lvs: map[string]*volume{}}
	g.area = lvm.MetadataArea{Size: c.MetadataSize}
	g.area.Free = g.area.Limit()
	node.groups[c.Name] = g
	join(node, g, c.Name, c.Devices)
	return nil
}

func vgExtend(node *Node, c lvm.VGExtend) error {
	g, err := startWhole(node, c.Name)
	if err != nil {
		return err
	}
	if err := node.disks.checkBlank(c.Devices); err != nil {
		return err
	}
	join(node, g, c.Name, c.Devices)
	return nil
}

func (d disks) checkBlank(paths []string) error {
	for _, path := range paths {
		disk := d[path]
		switch {
		case disk == nil || disk.detached:
			return fmt.Errorf("device %s: %w", path, lvm.ErrNotFound)
		case disk.group != "":
			return fmt.Errorf("device %s: %w", path, lvm.ErrNotEmpty)
		case disk.signature != "":
			return fmt.Errorf("device %s: %w", path, lvm.ErrSignature)
		}
	}
	return nil
}

func join(node *Node, g *group, name string, paths []string) {
	for _, path := range paths {
		d := node.disks[path]
		if d.uuid == "" {
			d.uuid = newUUID(node)
		}
		d.group = name
		d.cordoned = false
		d.tags = nil
		g.disks = append(g.disks, path)
	}
}

// startComplete starts a command that LVM rejects while the volume group misses a disk.
func startComplete(node *Node, vg string) (*group, error) {
	return startWithout(node, vg, func(d *disk) bool { return d.detached })
}

// startWhole starts a command that is refused while a disk is missing whose loss is not accepted.
func startWhole(node *Node, vg string) (*group, error) {
	return startWithout(node, vg, func(d *disk) bool {
		return (d.detached || d.hidden) && !slices.Contains(node.accepted[vg], d.uuid)
	})
}

func startWithout(node *Node, vg string, lost func(*disk) bool) (*group, error) {
	g, err := start(node, vg)
	if err == nil && slices.ContainsFunc(g.disks, func(path string) bool { return lost(node.disks[path]) }) {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrMissingPV)
	}
	return g, err
}

// start starts a command that LVM also runs while the volume group misses a disk.
func start(node *Node, vg string) (*group, error) {
	g := node.groups[vg]
	if _, both := node.namesakes[vg]; both && g != nil {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrDuplicateVG)
	}
	if g == nil || !slices.ContainsFunc(g.disks, func(p string) bool { return !node.disks[p].detached }) {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrNotFound)
	}
	return g, nil
}

// startChecked starts a command that looks at the volume group first.
func startChecked(node *Node, c lvm.Command) (*group, error) {
	begin := startWhole
	if c.Incomplete {
		begin = start
	}
	g, err := begin(node, c.VG)
	if err != nil {
		return nil, err
	}
	vg := reportVG(node, c.VG)
	return g, c.Check(&vg)
}

// AcceptLoss implements lvmexec.LVM.
func (f *Fake) AcceptLoss(vg string, pvs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted[vg] = slices.Clone(pvs)
}

func vgChangeTags(node *Node, c lvm.VGChangeTags) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	g.tags = retag(g.tags, c.Add, c.Remove)
	return nil
}

func vgRename(node *Node, c lvm.VGRename) error {
	_, taken := node.namesakes[c.Name]
	if node.groups[c.Name] != nil || taken {
		return fmt.Errorf("volume group %s: %w", c.Name, lvm.ErrExists)
	}
	for old, vg := range node.namesakes {
		if vg.UUID == c.UUID {
			delete(node.namesakes, old)
			vg.Name = c.Name
			node.namesakes[c.Name] = vg
			return nil
		}
	}
	for old, g := range node.groups {
		if g.uuid != c.UUID {
			continue
		}
		if slices.ContainsFunc(g.disks, func(p string) bool { return node.disks[p].detached }) {
			return fmt.Errorf("volume group %s: %w", old, lvm.ErrMissingPV)
		}
		for _, path := range g.disks {
			node.disks[path].group = c.Name
		}
		delete(node.groups, old)
		node.groups[c.Name] = g
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

func vgReduce(node *Node, c lvm.VGReduce) error {
	g, err := startComplete(node, c.VG)
	switch {
	case err != nil:
		return err
	case !slices.Contains(g.disks, c.Device):
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotFound)
	case g.isUsed(c.Device) || len(g.disks) == 1:
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotEmpty)
	}
	g.drop(c.Device)
	node.disks[c.Device].group = ""
	return nil
}

func (g *group) isUsed(path string) bool {
	return g.freeExtents(path) < extents(usable(g.node[path].size))
}

func (g *group) drop(path string) {
	g.disks = slices.DeleteFunc(g.disks, func(p string) bool { return p == path })
}

// vgReduceMissing makes lvm.VGReduceMissing. A disk that returns later still has its label and belongs to no group.
func vgReduceMissing(node *Node, c lvm.VGReduceMissing) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	var needed []string
	for _, path := range slices.Clone(g.disks) {
		switch {
		case !node.disks[path].detached:
		case g.isUsed(path):
			needed = append(needed, path)
		default:
			g.drop(path)
			node.disks[path].group = ""
		}
	}
	if len(needed) > 0 {
		return fmt.Errorf("volumes need %v: %w", needed, lvm.ErrNotEmpty)
	}
	return nil
}

func pvSetAllocatable(node *Node, c lvm.PVSetAllocatable) error {
	d, _, err := startMember(node, c.Device)
	if err != nil {
		return err
	}
	d.cordoned = !c.Allocatable
	d.tags = retag(d.tags, []string{c.AddTag}, []string{c.RemoveTag})
	return nil
}

// startMember starts a command on a physical volume of a group without missing disks.
func startMember(node *Node, path string) (*disk, *group, error) {
	d := node.disks[path]
	if d == nil || d.detached || d.group == "" {
		return nil, nil, fmt.Errorf("physical volume %s: %w", path, lvm.ErrNotFound)
	}
	g, err := startComplete(node, d.group)
	return d, g, err
}

func vgActivate(node *Node, c lvm.VGActivate) error {
	g, err := startComplete(node, c.VG)
	if err != nil {
		return err
	}
	return g.activateAll()
}

func vgRemove(node *Node, c lvm.VGRemove) error {
	g, err := startComplete(node, c.VG)
	if err != nil {
		return err
	}
	if len(g.lvs) > 0 {
		return fmt.Errorf("volume group %s: %w", c.VG, lvm.ErrNotEmpty)
	}
	for _, path := range g.disks {
		node.disks[path].group = ""
	}
	delete(node.groups, c.VG)
	return nil
}

func pvResize(node *Node, c lvm.PVResize) error {
	d := node.disks[c.Device]
	if d == nil || d.detached || d.group != c.VG {
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotFound)
	}
	d.size, d.grown = d.size+d.grown, 0
	node.groups[c.VG].changes++
	return nil
}

// Grow makes a disk larger by this size. Its physical volume stays.
func (node *Node) Grow(path string, by lvm.Bytes) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.disks[path].grown += by
}

func pvRemove(node *Node, c lvm.PVRemove) error {
	d := node.disks[c.Device]
	switch {
	case d == nil || d.detached || d.uuid == "":
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotFound)
	case d.group != "" || d.unfinished != c.Unfinished:
		return fmt.Errorf("physical volume %s: %w", c.Device, lvm.ErrNotEmpty)
	}
	d.uuid, d.unfinished = "", false
	return nil
}

// Unfinish leaves a disk as a vgcreate that was killed after it wrote the label, or a vgremove before it did.
func Unfinish(node *Node, path string) {
	node.disks[path].uuid, node.disks[path].unfinished = cmp.Or(node.disks[path].uuid, "unfinished"), true
}

// devicesFileAdd makes lvm.DevicesFileAdd for a node with a devices file.
func devicesFileAdd(node *Node, c lvm.DevicesFileAdd) error {
	if d := node.disks[c.Device]; d != nil {
		d.hidden = false
	}
	return nil
}
