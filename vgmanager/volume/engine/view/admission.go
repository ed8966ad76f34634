package view

import (
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// admit returns ResourceExhausted if the size does not fit, so that the provisioner selects another node. where says
// where the room is.
func (v Class) admit(size, room lvm.Bytes, where string) error {
	if size <= room {
		return nil
	}
	return fault.New(fault.ResourceExhausted, "device class %s: %d bytes are requested, but only %d are free %s",
		v.Config.Name, size, room, where)
}

// AdmitThin returns ResourceExhausted if the thin volumes of the class cannot have more bytes.
func (v Class) AdmitThin(more lvm.Bytes) error {
	return v.admit(more, v.freeSpace(), "in volume group "+v.VG.Name)
}

// AdmitNew returns an error if a new volume does not fit, and otherwise the devices to pass to LVM.
func (v Class) AdmitNew(name string, tags []string, size lvm.Bytes, options []string) ([]string, error) {
	if err := v.Open(); err != nil {
		return nil, err
	}
	if err := v.suspendedPool(); err != nil {
		return nil, err
	}
	if err := v.RefuseThinSpread(tags); err != nil {
		return nil, err
	}
	if v.Pool != nil {
		return nil, v.AdmitThin(size)
	}
	layout, err := lvm.NewLayout(options)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "device class %s: %v", v.Config.Name, err)
	}
	image := imageExtents(layout, size, v.VG.ExtentSize)
	whole := lvm.Bytes(image*int64(layout.Data)) * v.VG.ExtentSize
	return v.admitApart(deviceclass.SpreadOf(tags), name, whole,
		func(on diskSet) Placement { return v.placeNew(layout, image, on) })
}

// AdmitGrowth returns an error if a volume cannot be extended by more, and otherwise the devices to pass to LVM.
func (v Class) AdmitGrowth(lv *lvm.LV, more lvm.Bytes) ([]string, error) {
	if err := v.Open(); err != nil {
		return nil, err
	}
	if v.Pool != nil {
		return nil, v.AdmitThin(more)
	}
	return v.admitApart(deviceclass.SpreadOf(lv.Tags), lv.Name, more,
		func(on diskSet) Placement { return v.PlaceGrowth(lv, on) })
}
