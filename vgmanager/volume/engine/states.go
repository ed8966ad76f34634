package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// Problems returns what is wrong with a volume. It starts no process. The report can be as old as conditionAge.
func (l *Lister) Problems(ctx context.Context, class, name string) ([]health.Condition, error) {
	v, err := l.locate(ctx, class, l.recent)
	if err != nil {
		return nil, err
	}
	lv, err := find(v, name)
	if err != nil {
		return nil, err
	}
	return v.Problems(lv), nil
}

// ClassProblems returns what is wrong with the device classes of the node, as Inaccessible if no class is available,
// and as Degraded otherwise. It starts no process. The report can be as old as conditionAge.
func (l *Lister) ClassProblems(ctx context.Context) ([]health.Condition, error) {
	set := l.classes.Current()
	report, err := l.recent(ctx)
	if err != nil {
		return nil, fault.Of(err)
	}
	var problems []health.Condition
	problem, available := health.Inaccessible, map[string]*view.Class{}
	for i := range set.Classes {
		if v, err := view.Of(set, &set.Classes[i], report); err == nil {
			problem, available[v.Config.Name] = health.Degraded, &v
		}
	}
	for i := range set.Classes {
		name := set.Classes[i].Name
		v := available[name]
		if v == nil {
			problems = append(problems, problem(health.DeviceClassUnavailable,
				fmt.Sprintf("device class %s is not available", name)))
			continue
		}
		v.ReadPool(ctx, l.kernel)
		problems = append(problems, v.GroupProblems()...)
	}
	return problems, nil
}

// VolumeState is the state of a volume on the node.
type VolumeState struct {
	Class, VolumeGroup, Name string
	// Device is the device number, "MAJOR:MINOR". It is "" while the volume is not active.
	Device string
	// Size is in bytes.
	Size int64
	Tags []string
	// Created is zero if LVM did not record the time.
	Created time.Time
	// Problems are what is wrong with the volume.
	Problems []health.Condition
	// Damaged: the volume, its thin pool or one of its devices is damaged or missing. It is false for a volume whose
	// thin pool has no free space.
	Damaged bool
	// SuspendedDevices are the suspended devices that hold data of the volume.
	SuspendedDevices []string
	// DataPercent is the written part of a thin volume. It is nil for other volumes, and while the volume is not
	// active.
	DataPercent *float64
	// PoolPercent is the current data usage of the thin pool of the volume. It is nil for other volumes, and while
	// the pool is not active.
	PoolPercent *float64
	ReadOnly    bool
	// ExistingVolumeGroup: an administrator created the volume group.
	ExistingVolumeGroup bool
	// Devices are the physical volumes with extents of the volume, as lvm.VG.DataDevices returns them. It is empty
	// for a volume that was created since the last report, if its place is not known.
	Devices []view.PhysicalVolume
}

// Volumes returns the volumes of all classes. It also returns every class, with an error if the class is not
// available. The report can be as old as conditionAge.
func (l *Lister) Volumes(ctx context.Context) (volumes []VolumeState, classes map[string]error, err error) {
	set := l.classes.Current()
	report, err := l.recent(ctx)
	if err != nil {
		return nil, nil, fault.Of(err)
	}
	classes = map[string]error{}
	for i := range set.Classes {
		v, err := view.Of(set, &set.Classes[i], report)
		classes[set.Classes[i].Name] = err
		if set.Classes[i].Default {
			classes[""] = err
		}
		if err != nil {
			continue
		}
		v.ReadPool(ctx, l.kernel)
		suspended := v.SuspendedDevices()
		devices := v.DataDevices()
		for j := range v.VG.LVs {
			lv := &v.VG.LVs[j]
			if !v.Has(lv) {
				continue
			}
			volumes = append(volumes, VolumeState{
				Class: v.Config.Name, VolumeGroup: v.VG.Name, Name: lv.Name, Device: deviceOf(lv), Size: int64(lv.Size),
				Tags: lv.Tags, Created: lv.Created,
				Problems: v.Problems(lv), SuspendedDevices: suspended[lv.Name], DataPercent: lv.DataPercent,
				Damaged: v.IsDamaged(lv), PoolPercent: v.Fill.Data,
				ReadOnly:            lv.Attr.ReadOnly(),
				ExistingVolumeGroup: v.Config.ExistingVolumeGroup,
				Devices:             devices[lv.Name],
			})
		}
	}
	return volumes, classes, nil
}

func deviceOf(lv *lvm.LV) string {
	if lv.Major == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", lv.Major, lv.Minor)
}

// ClassState is the capacity and usage of a device class. Sizes are in bytes.
type ClassState struct {
	Name    string
	Default bool
	// Err is set if the volume group or the thin pool of the class is not available. The sizes are then unknown.
	Err error
	// Capacity is the space for new volumes. For a thick class with redundancy, stripes or allocation SingleDevice, it
	// is the maximum size of a single volume. For a thin class it is the total of all new volumes.
	Capacity uint64
	// Size and Free are the size and free space of the volume group, before redundancy.
	Size, Free uint64
	// Thin: the following fields are set. The percentages are nil while the pool is not active.
	Thin                         bool
	PoolSize                     uint64
	DataPercent, MetadataPercent *float64
}

// States returns the state of all classes, sorted by name.
func (l *Lister) States(ctx context.Context) ([]ClassState, error) {
	set := l.classes.Current()
	report, err := l.view(ctx)
	if err != nil {
		return nil, err
	}
	states := make([]ClassState, 0, len(set.Classes))
	for i := range set.Classes {
		class := &set.Classes[i]
		state := ClassState{Name: class.Name, Default: class.Default, Thin: class.IsThin()}
		v, err := view.Of(set, class, report)
		if err != nil {
			state.Err = err
			states = append(states, state)
			continue
		}
		v.ReadPool(ctx, l.kernel)
		state.Capacity = v.Capacity()
		state.Size = uint64(v.VG.Size)
		state.Free = uint64(v.VG.Free)
		if v.Pool != nil {
			state.PoolSize = uint64(v.Pool.Size)
			state.DataPercent = v.Fill.Data
			state.MetadataPercent = v.Fill.Metadata
		}
		states = append(states, state)
	}
	return states, nil
}
