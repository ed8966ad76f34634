// Package view is what a report of LVM and the kernel say about a device class: which volumes it has, its room, and
// what it refuses. It changes nothing.
package view

import (
	"context"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/classes"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// Pools reads the current state of thin pools from the kernel. devicemapper.Reader implements it without a process.
type Pools interface {
	ThinPool(ctx context.Context, vg, pool string) (devicemapper.ThinPool, error)
}

// Class is a device class with its volume group and thin pool in a report.
type Class struct {
	Config *deviceclass.Class
	Set    *classes.Set
	VG     *lvm.VG
	Pool   *lvm.ThinPool // nil for a thick class
	Fill   Fill
	// Unread is why the state of the pool in the kernel is not known: Fill is that of the report.
	Unread error
	// PoolSuspended: the kernel has the pool suspended.
	PoolSuspended bool
}

// Of returns a class of a set in a report. It returns Unavailable without its volume group or thin pool.
func Of(set *classes.Set, class *deviceclass.Class, report *lvm.Report) (Class, error) {
	v := Class{Config: class, Set: set, VG: report.VG(class.VolumeGroup)}
	named := report.Named(class.VolumeGroup)
	switch {
	case len(named) > 1:
		return v, fault.New(fault.Unavailable, "device class %s: %d volume groups of this node have the name %s: "+
			"detach the disks of the one that does not belong here, or rename it",
			class.Name, len(named), class.VolumeGroup)
	case v.VG == nil:
		return v, fault.New(fault.Unavailable,
			"device class %s: volume group %s is missing: check that its disks are attached",
			class.Name, class.VolumeGroup)
	case class.VolumeGroupUUID != "" && v.VG.UUID != class.VolumeGroupUUID:
		return v, fault.New(fault.Unavailable,
			"device class %s: volume group %s (%s) is missing, and %s is another one with its name: "+
				"check that its disks are attached", class.Name, class.VolumeGroup, class.VolumeGroupUUID, v.VG.UUID)
	}
	if class.IsThin() {
		if v.Pool = v.VG.ThinPool(class.ThinPoolConfig.Name); v.Pool == nil {
			return v, fault.New(fault.Unavailable, "device class %s: volume group %s has no thin pool %s",
				class.Name, class.VolumeGroup, class.ThinPoolConfig.Name)
		}
		v.Fill = Fill{Data: v.Pool.DataPercent, Metadata: v.Pool.MetadataPercent}
	}
	return v, nil
}

// Volume returns a volume of the volume group by name. Thick and thin volumes of a volume group share one name space.
func (v Class) Volume(name string) *lvm.LV {
	lv := v.VG.LV(name)
	if lv == nil || lv.Attr.IsThinPool() || !v.MayUse(lv) {
		return nil
	}
	return lv
}

// MayUse returns false for a logical volume of somebody else in a volume group that an administrator created.
func (v Class) MayUse(lv *lvm.LV) bool {
	return !v.Config.ExistingVolumeGroup || deviceclass.IsClaimed(lv.Name, lv.Tags)
}

// Has returns true if a volume belongs to the class.
func (v Class) Has(lv *lvm.LV) bool {
	if !v.MayUse(lv) {
		return false
	}
	if v.Pool != nil {
		return lv.PoolName == v.Pool.Name
	}
	return !lv.Attr.IsThinPool() && !lv.Attr.IsThinVolume()
}

// Zeroes returns true if new volumes read as zeroes.
func (v Class) Zeroes() bool { return v.Pool != nil && v.Pool.Zeroes }

// CreateOptions returns the lvcreate options of the option class if name is set, otherwise those of the device class.
func (v Class) CreateOptions(name string) ([]string, error) {
	if name == "" {
		return v.Config.CreateOptions(), nil
	}
	options, ok := v.Set.Options[name]
	if !ok {
		return nil, fault.New(fault.InvalidArgument, "lvcreate option class %q does not exist on this node", name)
	}
	return options, nil
}
