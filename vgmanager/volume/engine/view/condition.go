package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// PhysicalVolume is a physical volume by its UUID. Name is the path of its device, "" if it is missing.
type PhysicalVolume struct{ UUID, Name string }

// DataDevices returns the physical volumes with extents of each volume, by the name of the volume.
func (v Class) DataDevices() map[string][]PhysicalVolume {
	names := map[string]string{}
	for _, pv := range v.VG.PVs {
		if !pv.Missing {
			names[pv.UUID] = pv.Name
		}
	}
	found := map[string][]PhysicalVolume{}
	for volume, list := range v.VG.DataDevices() {
		for _, uuid := range list {
			found[volume] = append(found[volume], PhysicalVolume{UUID: uuid, Name: names[uuid]})
		}
	}
	return found
}

// Problems returns what is wrong with a volume, in the order of the messages.
func (v Class) Problems(lv *lvm.LV) []health.Condition {
	problems := append(damages(v.VG, lv), poolProblems(v)...)
	slices.SortFunc(problems, func(a, b health.Condition) int { return strings.Compare(a.Message, b.Message) })
	return problems
}

// GroupProblems returns what is wrong with the volume group and the thin pool. Other volumes may not be affected.
func (v Class) GroupProblems() []health.Condition {
	var problems []health.Condition
	for _, pv := range v.VG.PVs {
		if pv.Missing {
			problems = append(problems, health.Degraded(health.DeviceMissing,
				fmt.Sprintf("volume group %s: the device with physical volume %s is missing", v.VG.Name, pv.UUID)))
		}
	}
	for _, problem := range poolProblems(v) {
		problems = append(problems, health.Degraded(problem.Reason, problem.Message))
	}
	return problems
}

// poolProblems returns what is wrong with the thin pool.
func poolProblems(v Class) []health.Condition {
	if v.Pool == nil {
		return nil
	}
	var problems []health.Condition
	pool := v.VG.Name + "/" + v.Pool.Name
	if isAbnormal(v.Pool) {
		problem := health.Degraded // Reads still work.
		if slices.Contains([]string{poolFailed, devicemapper.ModeFailed, devicemapper.ModeError}, v.Pool.Health) {
			problem = health.Inaccessible
		}
		problems = append(problems, problem(health.ThinPoolUnhealthy,
			fmt.Sprintf("thin pool %s is broken: %s", pool, poolState(v.Pool))))
	}
	for _, space := range []struct {
		what, reason string
		percent      *float64
	}{{"data", health.ThinPoolOutOfData, v.Fill.Data}, {"metadata", health.ThinPoolOutOfMetadata, v.Fill.Metadata}} {
		if space.percent != nil && *space.percent >= nearlyFull {
			problems = append(problems, health.Degraded(space.reason, fmt.Sprintf(
				"the %s of thin pool %s is at least %d%% full: writes fail when it is full", space.what, pool,
				nearlyFull)))
		}
	}
	return problems
}

// damages returns what is wrong with a volume itself, and not with its thin pool.
func damages(vg *lvm.VG, lv *lvm.LV) []health.Condition {
	problem := health.Inaccessible
	if lv.IsRAID() && !vg.RAIDFailed(lv) {
		problem = health.Degraded
	}
	var problems []health.Condition
	for _, pv := range vg.PVs {
		if pv.Missing && slices.Contains(vg.VolumesOn(pv.UUID), lv.Name) {
			problems = append(problems, problem(health.DeviceMissing,
				fmt.Sprintf("the device with physical volume %s is missing", pv.UUID)))
		}
	}
	if lv.Health != "" {
		problems = append(problems, problem(health.LogicalVolumeUnhealthy,
			fmt.Sprintf("logical volume %s/%s is %s", vg.Name, lv.Name, lv.Health)))
	}
	return problems
}

func isAbnormal(p *lvm.ThinPool) bool { return p.Health != "" || p.CheckNeeded }

// LVM's health of a thin pool without free data space, and of one that the kernel has stopped.
const (
	poolOutOfData = "out_of_data"
	poolFailed    = "failed"
)

// IsDamaged reports whether a volume or its thin pool is damaged. A thin pool without free data space is not.
func (v Class) IsDamaged(lv *lvm.LV) bool {
	if len(damages(v.VG, lv)) > 0 {
		return true
	}
	if v.Pool == nil || !isAbnormal(v.Pool) {
		return false
	}
	full := v.Pool.Health == poolOutOfData || v.Pool.Health == devicemapper.ModeOutOfData
	return !full || v.Pool.CheckNeeded
}

// nearlyFull is the pool usage in percent at which its volumes are reported as abnormal, regardless of the
// high-water mark.
const nearlyFull = 95

func poolState(p *lvm.ThinPool) string {
	if p.Health == "" {
		return "check needed"
	}
	return p.Health
}

// IsLost returns true if all devices with data of a volume are missing. Then there is nothing to erase.
func (v Class) IsLost(name string) bool {
	lost := false
	for _, pv := range v.VG.PVs {
		if !slices.Contains(v.VG.VolumesOn(pv.UUID), name) {
			continue
		}
		if !pv.Missing {
			return false
		}
		lost = true
	}
	return lost
}
