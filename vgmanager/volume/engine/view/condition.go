package view

import (
	"fmt"
	"slices"
	"strings"

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

// Condition describes what is wrong with a volume, or is "".
func (v Class) Condition(lv *lvm.LV) string {
	wrongs := v.wrongs(lv)
	slices.Sort(wrongs)
	return strings.Join(wrongs, "; ")
}

func (v Class) wrongs(lv *lvm.LV) []string {
	wrongs := damages(v.VG, lv)
	if v.Pool == nil {
		return wrongs
	}
	if isAbnormal(v.Pool) {
		wrongs = append(wrongs, fmt.Sprintf("thin pool %s/%s is broken: %s", v.VG.Name, v.Pool.Name, poolState(v.Pool)))
	}
	for what, percent := range map[string]*float64{"data": v.Fill.Data, "metadata": v.Fill.Metadata} {
		if percent != nil && *percent >= nearlyFull {
			wrongs = append(wrongs, fmt.Sprintf(
				"the %s of thin pool %s/%s is at least %d%% full: writes fail when it is full", what, v.VG.Name,
				v.Pool.Name, nearlyFull))
		}
	}
	return wrongs
}

// damages returns what is wrong with a volume itself, and not with its thin pool.
func damages(vg *lvm.VG, lv *lvm.LV) []string {
	var wrongs []string
	for _, pv := range vg.PVs {
		if pv.Missing && slices.Contains(vg.VolumesOn(pv.UUID), lv.Name) {
			wrongs = append(wrongs, fmt.Sprintf("the device with physical volume %s is missing", pv.UUID))
		}
	}
	if lv.Health != "" {
		wrongs = append(wrongs, fmt.Sprintf("logical volume %s/%s is %s", vg.Name, lv.Name, lv.Health))
	}
	return wrongs
}

func isAbnormal(p *lvm.ThinPool) bool { return p.Health != "" || p.CheckNeeded }

// poolOutOfData is LVM's health of a thin pool without free data space.
const poolOutOfData = "out_of_data"

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

// nearlyFull is the pool usage in percent at which its volumes are reported as abnormal, regardless of the high-water
// mark.
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
