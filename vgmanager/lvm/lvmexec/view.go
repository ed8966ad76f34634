package lvmexec

import (
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// effect applies a change to its argument, a copy of the volume group. It returns false if the result is only known
// after a new report.
type effect func(vg *lvm.VG) bool

// effectOf returns the effect of a change, or nil if it is unknown.
func effectOf(change lvm.Change) effect {
	switch c := change.(type) {
	case lvm.LVCreateThick:
		return newThick(c)
	case lvm.LVCreateThin:
		return newThin(c)
	case lvm.LVCreateSnapshot:
		return newSnapshot(c)
	case lvm.LVExtend:
		return grown(c)
	case lvm.LVRemove:
		return removed(c.Names)
	case lvm.LVChangeTags:
		return tagged(c)
	case lvm.ThinMetadataReserve, lvm.ThinMetadataRelease:
		return func(*lvm.VG) bool { return true }
	}
	return nil
}

// amended returns a copy of a report with an effect applied to one volume group. It returns nil if the result is not
// known.
func amended(r *lvm.Report, vg string, e effect) *lvm.Report {
	if r == nil {
		return nil
	}
	next := &lvm.Report{VGs: slices.Clone(r.VGs), Unassigned: r.Unassigned}
	group := next.VG(vg)
	if group == nil {
		return nil
	}
	group.LVs = slices.Clone(group.LVs)
	group.PVs = slices.Clone(group.PVs)
	if !e(group) {
		return nil
	}
	for i := range group.LVs {
		if group.LVs[i].Attr.IsThinPool() {
			group.LVs[i].TransactionID = nil // A change of thin volumes increases it.
		}
	}
	return next
}

// newThin is the effect of a new thin volume. The volume takes no extents of the group, because its pool provides
// them.
func newThin(o lvm.LVCreateThin) effect {
	return func(vg *lvm.VG) bool {
		if vg.ThinPool(o.Pool) == nil || len(o.Options) > 0 {
			return false
		}
		vg.MetadataArea = vg.MetadataArea.WithVolume(o.Tags)
		vg.LVs = append(vg.LVs, lvm.LV{
			Name: o.Name, Path: lvm.DevicePath(vg.Name, o.Name), Size: o.VirtualSize.RoundUp(vg.ExtentSize),
			Attr: "Vwi-a-tz--",
			Tags: sorted(o.Tags), PoolName: o.Pool, SegType: "thin", Created: time.Now(),
		})
		return true
	}
}

// newSnapshot is the effect of a new thin snapshot.
func newSnapshot(o lvm.LVCreateSnapshot) effect {
	return func(vg *lvm.VG) bool {
		source := vg.LV(o.Source)
		if source == nil || !source.Attr.IsThinVolume() {
			return false
		}
		attr := lvm.LVAttr("Vwi-a-tz--")
		if o.ReadOnly {
			attr = "Vri-a-tz--"
		}
		if o.Inactive {
			attr = attr[:4] + "-" + attr[5:9] + "k"
		}
		vg.MetadataArea = vg.MetadataArea.WithVolume(o.Tags)
		vg.LVs = append(vg.LVs, lvm.LV{
			Name: o.Name, Path: lvm.DevicePath(vg.Name, o.Name), Size: source.Size, Attr: attr,
			Tags: sorted(o.Tags), PoolName: source.PoolName, Origin: o.Source, SegType: "thin", Created: time.Now(),
		})
		return true
	}
}

// newThick is the effect of a new thick volume. It is known only if the group has a single run of free extents.
func newThick(o lvm.LVCreateThick) effect {
	return func(vg *lvm.VG) bool {
		pv := onlyArea(vg)
		size := o.Size.RoundUp(vg.ExtentSize)
		if pv == nil || len(o.Options) > 0 || size > pv.Free {
			return false
		}
		pv.Free -= size
		pv.Used += size
		vg.Free -= size
		pv.FreeAreas = nil
		if pv.Free > 0 {
			pv.FreeAreas = []lvm.Bytes{pv.Free}
		}
		vg.MetadataArea = vg.MetadataArea.WithVolume(o.Tags)
		vg.LVs = append(vg.LVs, lvm.LV{
			Name: o.Name, Path: lvm.DevicePath(vg.Name, o.Name), Size: size, Attr: "-wi-a-----", Tags: sorted(o.Tags),
			SegType: "linear", Stripes: 1, PVs: []string{pv.UUID}, Created: time.Now(),
		})
		return true
	}
}

// onlyArea returns the physical volume that has all free extents of the group in one run, or nil.
func onlyArea(vg *lvm.VG) *lvm.PV {
	var only *lvm.PV
	for i := range vg.PVs {
		pv := &vg.PVs[i]
		switch {
		case pv.Free == 0:
		case only != nil || !pv.Allocatable || pv.Missing || len(pv.FreeAreas) != 1:
			return nil
		default:
			only = pv
		}
	}
	return only
}

// grown is the effect of the extension of a thin volume.
func grown(o lvm.LVExtend) effect {
	return func(vg *lvm.VG) bool {
		lv := vg.LV(o.Name)
		if lv == nil || !lv.Attr.IsThinVolume() {
			return false
		}
		lv.Size = o.Size.RoundUp(vg.ExtentSize)
		return true
	}
}

// notablyFull is the pool usage in percent from which a removal can change more than the list of volumes.
const notablyFull = 90

// removed is the effect of the removal of thin volumes. The removal frees blocks of the pool. If the pool is full or
// stopped, that can change its state, so the effect is unknown without a new report.
func removed(names []string) effect {
	return func(vg *lvm.VG) bool {
		for _, name := range names {
			lv := vg.LV(name)
			if lv == nil || !lv.Attr.IsThinVolume() {
				return false
			}
			pool := vg.LV(lv.PoolName)
			if pool == nil || pool.Health != "" || pool.CheckNeeded || atLeast(pool.DataPercent, notablyFull) ||
				atLeast(pool.MetadataPercent, notablyFull) {
				return false
			}
		}
		vg.LVs = slices.DeleteFunc(vg.LVs, func(lv lvm.LV) bool { return slices.Contains(names, lv.Name) })
		for i := range vg.LVs {
			if slices.Contains(names, vg.LVs[i].Origin) {
				vg.LVs[i].Origin = ""
			}
		}
		return true
	}
}

func atLeast(percent *float64, mark float64) bool { return percent != nil && *percent >= mark }

// tagged is the effect of a change of tags.
func tagged(o lvm.LVChangeTags) effect {
	return func(vg *lvm.VG) bool {
		lv := vg.LV(o.Name)
		if lv == nil {
			return false
		}
		// A new slice is used, because the previous report still has the old one.
		tags := slices.DeleteFunc(slices.Clone(lv.Tags),
			func(t string) bool { return slices.Contains(o.Remove, t) || slices.Contains(o.Add, t) })
		lv.Tags = sorted(append(tags, o.Add...))
		return true
	}
}

// sorted returns tags in the order of LVM's report.
func sorted(tags []string) []string {
	tags = slices.Clone(tags)
	slices.Sort(tags)
	return slices.Compact(tags)
}
