package lvmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ReadDevices implements lvmexec.LVM.
func (f *Fake) ReadDevices(_ context.Context, devices ...string) (*lvm.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "ReadDevices", strings.Join(devices, ", ")); err != nil {
		return nil, err
	}
	report := &lvm.Report{}
	for name, g := range f.groups {
		if slices.ContainsFunc(g.disks, func(path string) bool { return slices.Contains(devices, path) }) {
			report.VGs = append(report.VGs, reportVG(&f.Node, name))
		}
	}
	return report, nil
}

func groupDeactivate(node *Node, c lvm.GroupDeactivate) error {
	g := node.groups[c.Group.Name]
	if g == nil || g.uuid != c.Group.UUID {
		return fmt.Errorf("volume group %s: %w", c.Group.UUID, lvm.ErrNotFound)
	}
	for name, v := range g.lvs {
		if v.open {
			return fmt.Errorf("logical volume %s: %w", name, lvm.ErrInUse)
		}
	}
	for _, v := range g.lvs {
		v.on = false
	}
	return nil
}

// Wipe removes the label of a physical volume, as wipefs does. A volume group without physical volumes is gone.
func (node *Node) Wipe(path string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	d := node.disks[path]
	if g := node.groups[d.group]; g != nil {
		g.disks = slices.DeleteFunc(g.disks, func(p string) bool { return p == path })
		if len(g.disks) == 0 {
			delete(node.groups, d.group)
		}
	}
	d.uuid = ""
	d.group = ""
	d.signature = ""
}

// Tag replaces the tags of a volume group, as another program does.
func (node *Node) Tag(vg string, tags ...string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.groups[vg].tags = tags
}
