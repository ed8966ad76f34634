package lvmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ReadDevices implements lvm.LVM.
func (f *Fake) ReadDevices(_ context.Context, devices ...string) (*lvm.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("ReadDevices", strings.Join(devices, ", ")); err != nil {
		return nil, err
	}
	report := &lvm.Report{}
	for name, g := range f.groups {
		if slices.ContainsFunc(g.disks, func(path string) bool { return slices.Contains(devices, path) }) {
			report.VGs = append(report.VGs, f.reportVG(name))
		}
	}
	return report, nil
}

// groupDeactivate makes lvm.GroupDeactivate.
func groupDeactivate(f *Fake, c lvm.GroupDeactivate) error {
	if err := f.begin("GroupDeactivate", c.Group.UUID); err != nil {
		return err
	}
	g := f.groups[c.Group.Name]
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

// groupBackup makes lvm.GroupBackup. It writes no file.
func groupBackup(f *Fake, c lvm.GroupBackup) error {
	return f.begin("GroupBackup", c.Group.UUID)
}

// Wipe removes the label of a physical volume, as wipefs does. A volume group without physical volumes is gone.
func (f *Fake) Wipe(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.disks[path]
	if g := f.groups[d.group]; g != nil {
		g.disks = slices.DeleteFunc(g.disks, func(p string) bool { return p == path })
		if len(g.disks) == 0 {
			delete(f.groups, d.group)
		}
	}
	d.uuid, d.group, d.signature = "", "", ""
}

// Tag replaces the tags of a volume group, as another program does.
func (f *Fake) Tag(vg string, tags ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups[vg].tags = tags
}
