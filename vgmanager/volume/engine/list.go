package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// Lister returns the volumes of a node, and the state of its device classes. It changes nothing.
type Lister struct{ *node }

// ListLVs returns the volumes of a class. For a thin class these are the volumes of its thin pool, otherwise all thick
// volumes of its volume group.
func (l *Lister) ListLVs(ctx context.Context, class string) ([]lvm.LV, error) {
	var found []lvm.LV
	err := l.withFreshRetry(ctx, class, func(v view.Class) error {
		found = nil
		for i := range v.VG.LVs {
			lv := v.VG.LVs[i]
			if !v.Has(&lv) {
				continue
			}
			if err := l.complete(ctx, v, &lv); err != nil {
				return err
			}
			found = append(found, lv)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// complete sets the device number of an active volume. If the last report does not have the number because the volume
// is new, complete gets it from the kernel.
func (l *Lister) complete(ctx context.Context, v view.Class, lv *lvm.LV) error {
	if lv.Major != 0 || !lv.Attr.Active() {
		return nil
	}
	return l.number(ctx, v, lv)
}

// FindLV returns a volume of a class. An active volume has its device number. FindLV returns NotFound if the volume
// does not exist.
func (l *Lister) FindLV(ctx context.Context, class, name string) (*lvm.LV, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var found *lvm.LV
	err := l.withFreshRetry(ctx, class, func(v view.Class) error {
		lv := v.Volume(name)
		if lv == nil || !v.Has(lv) {
			return fault.New(fault.NotFound, "device class %s has no logical volume %s in volume group %s",
				v.Config.Name, name, v.VG.Name)
		}
		volume := *lv
		found = &volume
		return l.complete(ctx, v, found)
	})
	return found, err
}

// UUID returns the UUID of a logical volume. It returns NotFound if the volume does not exist.
func (l *Lister) UUID(ctx context.Context, class, name string) (uuid string, err error) {
	err = l.onVolume(ctx, class, name, func(_ view.Class, lv *lvm.LV) error {
		uuid = lv.UUID
		return nil
	})
	return uuid, err
}

// Tagged returns the volumes of a class that have a tag, which may be none. The report can be as old as viewAge.
func (l *Lister) Tagged(ctx context.Context, class, tag string) ([]lvm.LV, error) {
	var found []lvm.LV
	err := l.withFreshRetry(ctx, class, func(v view.Class) error {
		found = nil
		for i := range v.VG.LVs {
			if lv := &v.VG.LVs[i]; v.Has(lv) && slices.Contains(lv.Tags, tag) {
				found = append(found, *lv)
			}
		}
		return nil
	})
	return found, err
}

// TagsOf returns the tags of a volume by its volume group. The report can be as old as viewAge, and has every change of
// this process.
func (l *Lister) TagsOf(ctx context.Context, vg, name string) ([]string, error) {
	return l.tagsOf(ctx, vg, name)
}

// Exists returns true if any available volume group of the node has a volume with this name, in any class.
func (l *Lister) Exists(ctx context.Context, name string) (bool, error) {
	report, err := l.lvm.Report(ctx)
	if err != nil {
		return false, fault.Of(err)
	}
	for i := range report.VGs {
		if report.VGs[i].LV(name) != nil {
			return true, nil
		}
	}
	return false, nil
}

// ClassOf returns the class of a volume. It reads a new report. It returns NotFound if no class has the volume, and
// Unavailable if the volume group or pool of a class is not available, because that class may have the volume.
func (l *Lister) ClassOf(ctx context.Context, name string) (string, error) {
	report, err := l.lvm.Report(ctx)
	if err != nil {
		return "", fault.Of(err)
	}
	set := l.classes.Current()
	var unknown error
	for i := range set.Classes {
		class := &set.Classes[i]
		v, err := view.Of(set, class, report)
		if err != nil {
			unknown = err
			continue
		}
		if lv := v.Volume(name); lv != nil && v.Has(lv) {
			return class.Name, nil
		}
	}
	if unknown != nil {
		return "", fault.New(fault.Unavailable,
			"the device class of logical volume %s is unknown: %v", name, unknown)
	}
	return "", fault.New(fault.NotFound, "no device class of this node has logical volume %s", name)
}

// number sets the device number of a volume that was created since the last report. It gets the number from the
// kernel.
func (l *Lister) number(ctx context.Context, v view.Class, lv *lvm.LV) error {
	unknown := fault.New(fault.NotFound, "the device of logical volume %s/%s is unknown", v.VG.Name, lv.Name)
	if l.kernel == nil {
		return unknown
	}
	device, err := l.kernel.Volume(ctx, v.VG.Name, lv.Name)
	if err != nil || !strings.HasPrefix(device.UUID, "LVM-"+strings.ReplaceAll(v.VG.UUID, "-", "")) {
		return unknown
	}
	if _, err := fmt.Sscanf(device.Number, "%d:%d", &lv.Major, &lv.Minor); err != nil {
		return unknown
	}
	return nil
}

// FreeBytes returns the capacity of a class for new volumes, without the spare.
func (l *Lister) FreeBytes(ctx context.Context, class string) (uint64, error) {
	v, err := l.locate(ctx, class, l.view)
	if err != nil {
		return 0, err
	}
	return v.Capacity(), nil
}

// SuspendedDevices returns the suspended devices that hold data of a volume, which may be none. The report includes
// every change of this process. It returns NotFound if the volume does not exist.
func (l *Lister) SuspendedDevices(ctx context.Context, class, name string) ([]string, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var devices []string
	err := l.withFreshRetry(ctx, class, func(v view.Class) error {
		lv := v.Volume(name)
		if lv == nil || !v.Has(lv) {
			return fault.New(fault.NotFound, "device class %s has no logical volume %s in volume group %s",
				v.Config.Name, name, v.VG.Name)
		}
		devices = v.SuspendedDevices()[name]
		return nil
	})
	return devices, err
}
