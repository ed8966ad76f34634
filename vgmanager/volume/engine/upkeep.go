package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// conditionAge is the maximum age of a report for the health of a volume. The agent reads a report once a minute, so
// a request for the health starts no process.
const conditionAge = 2 * time.Minute

// ActivateLV activates a volume, for example if LVM did not activate its volume group at boot.
func (e *Engine) ActivateLV(ctx context.Context, class, name string) error {
	return e.upkeep(ctx, class, name, func(l classView) error {
		if err := l.poolActive(); err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		return statusOf(e.lvm.Apply(ctx, lvm.LVActivate{VG: l.vg.Name, Name: name}))
	})
}

// TagLV adds and removes tags of a volume in one commit of LVM's metadata.
func (e *Engine) TagLV(ctx context.Context, class, name string, add, remove []string) error {
	return e.upkeep(ctx, class, name, func(l classView) error {
		return statusOf(e.lvm.Apply(ctx, lvm.LVChangeTags{VG: l.vg.Name, Name: name, Add: add, Remove: remove}))
	})
}

// upkeep runs a command on an existing volume. The command requires no free space, so it waits only for LVM's lock.
func (e *Engine) upkeep(ctx context.Context, class, name string, command func(classView) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	return e.withFreshRetry(ctx, class, func(l classView) error {
		if l.volume(name) == nil {
			return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
		}
		return command(l)
	})
}

// Condition returns a description of what is wrong with a volume, or "". The report can be as old as conditionAge.
func (e *Engine) Condition(ctx context.Context, class, name string) (string, error) {
	l, err := e.locate(ctx, class, func(ctx context.Context) (*lvm.Report, error) {
		return e.lvm.Recent(ctx,
			conditionAge)
	})
	if err != nil {
		return "", err
	}
	lv := l.volume(name)
	if lv == nil {
		return "", status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
	}
	return l.condition(lv), nil
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
	// Condition describes what is wrong with the volume, or is "".
	Condition string
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
	Devices []PhysicalVolume
}

// PhysicalVolume is a physical volume by its UUID. Name is the path of its device, "" if it is missing.
type PhysicalVolume struct{ UUID, Name string }

// Volumes returns the volumes of all classes. It also returns every class, with an error if the class is not
// available. The report can be as old as conditionAge.
func (e *Engine) Volumes(ctx context.Context) (volumes []VolumeState, classes map[string]error, err error) {
	set := e.classes.Load()
	report, err := e.lvm.Recent(ctx, conditionAge)
	if err != nil {
		return nil, nil, statusOf(err)
	}
	classes = map[string]error{}
	for i := range set.classes {
		l, err := resolve(set, &set.classes[i], report)
		classes[set.classes[i].Name] = err
		if set.classes[i].Default {
			classes[""] = err
		}
		if err != nil {
			continue
		}
		l.now(ctx, e.kernel)
		suspended := l.suspendedDevices()
		devices := l.dataDevices()
		for j := range l.vg.LVs {
			lv := &l.vg.LVs[j]
			if !l.has(lv) {
				continue
			}
			volumes = append(volumes, VolumeState{
				Class: l.class.Name, VolumeGroup: l.vg.Name, Name: lv.Name, Device: deviceOf(lv), Size: int64(lv.Size),
				Tags: lv.Tags, Created: lv.Created,
				Condition: l.condition(lv), SuspendedDevices: suspended[lv.Name], DataPercent: lv.DataPercent,
				Damaged: l.isDamaged(lv), PoolPercent: l.fill.data,
				ReadOnly:            lv.Attr.ReadOnly(),
				ExistingVolumeGroup: l.class.ExistingVolumeGroup,
				Devices:             devices[lv.Name],
			})
		}
	}
	return volumes, classes, nil
}

// dataDevices returns the physical volumes with extents of each volume, by the name of the volume.
func (l classView) dataDevices() map[string][]PhysicalVolume {
	names := map[string]string{}
	for _, pv := range l.vg.PVs {
		if !pv.Missing {
			names[pv.UUID] = pv.Name
		}
	}
	found := map[string][]PhysicalVolume{}
	for volume, list := range l.vg.DataDevices() {
		for _, uuid := range list {
			found[volume] = append(found[volume], PhysicalVolume{UUID: uuid, Name: names[uuid]})
		}
	}
	return found
}

func deviceOf(lv *lvm.LV) string {
	if lv.Major == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", lv.Major, lv.Minor)
}

func (l classView) condition(lv *lvm.LV) string {
	wrongs := l.wrongs(lv)
	slices.Sort(wrongs)
	return strings.Join(wrongs, "; ")
}

func (l classView) wrongs(lv *lvm.LV) []string {
	wrongs := l.damages(lv)
	if l.pool == nil {
		return wrongs
	}
	if l.poolIsAbnormal() {
		wrongs = append(wrongs, fmt.Sprintf("thin pool %s/%s is broken: %s", l.vg.Name, l.pool.Name, poolState(l.pool)))
	}
	for what, percent := range map[string]*float64{"data": l.fill.data, "metadata": l.fill.metadata} {
		if percent != nil && *percent >= nearlyFull {
			wrongs = append(wrongs, fmt.Sprintf(
				"the %s of thin pool %s/%s is at least %d%% full: writes fail when it is full", what, l.vg.Name,
				l.pool.Name, nearlyFull))
		}
	}
	return wrongs
}

// damages returns what is wrong with a volume itself, and not with its thin pool.
func (l classView) damages(lv *lvm.LV) []string {
	var wrongs []string
	for _, pv := range l.vg.PVs {
		if pv.Missing && slices.Contains(l.vg.VolumesOn(pv.UUID), lv.Name) {
			wrongs = append(wrongs, fmt.Sprintf("the device with physical volume %s is missing", pv.UUID))
		}
	}
	if lv.Health != "" {
		wrongs = append(wrongs, fmt.Sprintf("logical volume %s/%s is %s", l.vg.Name, lv.Name, lv.Health))
	}
	return wrongs
}

func (l classView) poolIsAbnormal() bool { return l.pool.Health != "" || l.pool.CheckNeeded }

// poolOutOfData is LVM's health of a thin pool without free data space.
const poolOutOfData = "out_of_data"

// isDamaged reports whether a volume or its thin pool is damaged. A thin pool without free data space is not.
func (l classView) isDamaged(lv *lvm.LV) bool {
	if len(l.damages(lv)) > 0 {
		return true
	}
	if l.pool == nil || !l.poolIsAbnormal() {
		return false
	}
	full := l.pool.Health == poolOutOfData || l.pool.Health == devicemapper.ModeOutOfData
	return !full || l.pool.CheckNeeded
}

// nearlyFull is the pool usage in percent at which its volumes are reported as abnormal, regardless of the high-water
// mark.
const nearlyFull = 95

func poolState(p *lvm.ThinPool) string {
	if p.Health == "" {
		return "check needed"
	}
	return p.Health
}
