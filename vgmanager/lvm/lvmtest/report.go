package lvmtest

import (
	"maps"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func (f *Fake) reportVG(name string) lvm.VG {
	g := f.groups[name]
	vg := lvm.VG{Name: name, UUID: g.uuid, Seqno: g.changes + 1, ExtentSize: ExtentSize, Tags: slices.Clone(g.tags),
		Attr: "wz--n-", MetadataArea: g.area}
	for _, path := range g.disks {
		pv := f.reportPV(path)
		vg.Size += pv.Size
		if pv.Missing {
			vg.MissingPVs++
		}
		vg.PVs = append(vg.PVs, pv)
	}
	vg.Free = f.free(g)
	if vg.MissingPVs > 0 {
		vg.Attr = "wz-pn-"
	}
	for _, lv := range slices.Sorted(maps.Keys(g.lvs)) {
		v := g.lvs[lv]
		vg.LVs = append(vg.LVs, f.reportLV(g, v))
		for _, p := range v.parts {
			if p.suffix != "" {
				vg.Hidden = append(vg.Hidden, f.reportPart(g, v, p))
			}
		}
	}
	if len(g.spare.on) > 0 {
		vg.Hidden = append(vg.Hidden, f.hidden("lvol0_pmspare", "", "ewi-------", "linear",
			slices.Sorted(maps.Keys(g.spare.on))))
	}
	for _, m := range g.moves {
		vg.Hidden = append(vg.Hidden, f.reportMove(m)...)
	}
	return vg
}

func (f *Fake) reportPV(path string) lvm.PV {
	d := f.disks[path]
	pv := lvm.PV{
		Name: path, UUID: d.uuid, VGName: d.group, Size: d.size, Free: d.size, Major: d.major, Minor: d.minor,
		InUse: d.group != "",
		Tags:  slices.Clone(d.tags), Allocatable: d.group != "" && !d.cordoned,
	}
	if g := f.groups[d.group]; g != nil {
		pv.Size = usable(d.size)
		pv.Free = lvm.Bytes(f.freeExtents(g, path)) * ExtentSize
		pv.Used = pv.Size - pv.Free
		if pv.Free > 0 {
			pv.FreeAreas = []lvm.Bytes{pv.Free}
		}
	}
	if d.detached || d.hidden {
		pv.Name = "[unknown]"
		pv.Missing = true
		pv.Major = 0
		pv.Minor = 0
	}
	return pv
}

func (f *Fake) reportLV(g *group, v *volume) lvm.LV {
	lv := v.LV
	attr := []byte("-wi-------")
	attr[0] = v.kind
	if v.ro {
		attr[1] = 'r'
	}
	if v.open {
		attr[5] = 'o'
	}
	if v.skip {
		attr[9] = 'k'
	}
	if v.on {
		attr[4] = 'a'
		lv.Major = 254
	} else {
		lv.Minor = 0
		lv.DataPercent = nil
		lv.MetadataPercent = nil
		lv.SyncPercent = nil
	}
	for _, p := range v.parts {
		if p.suffix == "" {
			lv.PVs = f.uuids(slices.Sorted(maps.Keys(p.on)))
			if f.isMoving(g, p) {
				attr[2] = 'I'
				lv.PVs = nil
			}
		}
	}
	switch {
	case f.needsMissing(g, v):
		attr[8] = 'p'
		lv.Health = "partial"
	case v.stale && v.on:
		attr[8] = 'r'
		lv.Health = lvm.HealthRefreshNeeded
	}
	if v.kind == 't' {
		lv.TransactionID = new(v.transaction + 1)
		lv.CheckNeeded = lv.CheckNeeded || v.on && v.metadata.flagged
	}
	lv.Attr = lvm.LVAttr(attr)
	return lv
}

// needsMissing returns true if a part of the volume, or of its pool, is on a missing disk.
func (f *Fake) needsMissing(g *group, v *volume) bool {
	parts := v.parts
	if pool := g.lvs[v.PoolName]; pool != nil {
		parts = pool.parts
	}
	return slices.ContainsFunc(parts, f.isLost)
}

func (f *Fake) isLost(p *part) bool {
	for path := range p.on {
		if f.disks[path].detached {
			return true
		}
	}
	return false
}

func (f *Fake) reportPart(g *group, v *volume, p *part) lvm.LV {
	attr := []byte("ewi-------")
	if strings.HasPrefix(p.suffix, "_rimage") {
		attr[0] = 'i'
	}
	if v.on || v.metadata.open && p.suffix == "_tmeta" {
		attr[4] = 'a'
		attr[5] = 'o'
	}
	if f.isLost(p) {
		attr[8] = 'p'
	}
	disks := slices.Sorted(maps.Keys(p.on))
	if f.isMoving(g, p) {
		attr[2] = 'I'
		disks = nil
	}
	lv := f.hidden(v.Name+p.suffix, v.Name, string(attr), "linear", disks)
	lv.Size = lvm.Bytes(p.size()) * ExtentSize
	return lv
}

func (f *Fake) reportMove(m *move) []lvm.LV {
	lv := f.hidden(m.name, "", "p-C-aom---", "mirror", nil)
	percent := m.percent
	lv.SyncPercent = &percent
	lv.MoveSource = f.disks[m.source].uuid
	targets := map[string]bool{}
	for _, s := range m.steps {
		for path := range s.to {
			targets[path] = true
		}
	}
	return []lvm.LV{
		lv,
		f.hidden(m.name+"_mimage_0", m.name, "Iwi-aom---", "linear", []string{m.source}),
		f.hidden(m.name+"_mimage_1", m.name, "Iwi-aom---", "linear", slices.Sorted(maps.Keys(targets))),
	}
}

func (f *Fake) hidden(name, parent, attr, kind string, disks []string) lvm.LV {
	return lvm.LV{Name: name, UUID: "uuid-of-" + name, Parent: parent, Attr: lvm.LVAttr(attr), SegType: kind,
		PVs: f.uuids(disks)}
}

// uuids returns the sorted UUIDs of disks.
func (f *Fake) uuids(disks []string) []string {
	var list []string
	for _, path := range disks {
		list = append(list, f.disks[path].uuid)
	}
	slices.Sort(list)
	return list
}

// usable returns the size that a disk adds to a volume group: whole extents after the first MiB.
func usable(size lvm.Bytes) lvm.Bytes { return (size - 1<<20) / ExtentSize * ExtentSize }

func (f *Fake) free(g *group) lvm.Bytes {
	free := 0
	for _, path := range g.disks {
		free += f.freeExtents(g, path)
	}
	return lvm.Bytes(free) * ExtentSize
}
