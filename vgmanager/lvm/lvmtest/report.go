package lvmtest

import (
	"maps"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func reportVG(node *Node, name string) lvm.VG {
	g := node.groups[name]
	vg := lvm.VG{Name: name, UUID: g.uuid, Seqno: g.changes + 1, ExtentSize: ExtentSize, Tags: slices.Clone(g.tags),
		Attr: "wz--n-", MetadataArea: g.area}
	for _, path := range g.disks {
		pv := reportPV(node, path)
		vg.Size += pv.Size
		if pv.Missing {
			vg.MissingPVs++
		}
		vg.PVs = append(vg.PVs, pv)
	}
	vg.Free = g.free()
	if vg.MissingPVs > 0 {
		vg.Attr = "wz-pn-"
	}
	for _, lv := range slices.Sorted(maps.Keys(g.lvs)) {
		v := g.lvs[lv]
		vg.LVs = append(vg.LVs, reportLV(g, v))
		for _, p := range v.parts {
			if p.suffix != "" {
				vg.Hidden = append(vg.Hidden, reportPart(g, v, p))
			}
		}
	}
	if len(g.spare.on) > 0 {
		vg.Hidden = append(vg.Hidden, g.node.hiddenLV("lvol0_pmspare", "", "ewi-------", "linear",
			slices.Sorted(maps.Keys(g.spare.on))))
	}
	for _, m := range g.moves {
		vg.Hidden = append(vg.Hidden, reportMove(g, m)...)
	}
	return vg
}

func reportPV(node *Node, path string) lvm.PV {
	d := node.disks[path]
	pv := lvm.PV{
		Name: path, UUID: d.uuid, VGName: d.group, Size: d.size, Free: d.size, Major: d.major, Minor: d.minor,
		InUse: d.group != "" || d.unfinished,
		Tags:  slices.Clone(d.tags), Allocatable: d.group != "" && !d.cordoned,
	}
	if g := node.groups[d.group]; g != nil {
		pv.Size = usable(d.size)
		pv.Free = lvm.Bytes(g.freeExtents(path)) * ExtentSize
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

func reportLV(g *group, v *volume) lvm.LV {
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
			lv.PVs = g.node.uuids(slices.Sorted(maps.Keys(p.on)))
			if g.isMoving(p) {
				attr[2] = 'I'
				lv.PVs = nil
			}
		}
	}
	switch {
	case g.needsMissing(v):
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
func (g *group) needsMissing(v *volume) bool {
	parts := v.parts
	if pool := g.lvs[v.PoolName]; pool != nil {
		parts = pool.parts
	}
	return slices.ContainsFunc(parts, g.isLost)
}

func (g *group) isLost(p *part) bool {
	for path := range p.on {
		if g.node[path].detached {
			return true
		}
	}
	return false
}

func reportPart(g *group, v *volume, p *part) lvm.LV {
	attr := []byte("ewi-------")
	if strings.HasPrefix(p.suffix, "_rimage") {
		attr[0] = 'i'
	}
	if v.on || v.metadata.open && p.suffix == "_tmeta" {
		attr[4] = 'a'
		attr[5] = 'o'
	}
	if g.isLost(p) {
		attr[8] = 'p'
	}
	disks := slices.Sorted(maps.Keys(p.on))
	if g.isMoving(p) {
		attr[2] = 'I'
		disks = nil
	}
	lv := g.node.hiddenLV(v.Name+p.suffix, v.Name, string(attr), "linear", disks)
	lv.Size = lvm.Bytes(p.size()) * ExtentSize
	return lv
}

func reportMove(g *group, m *move) []lvm.LV {
	lv := g.node.hiddenLV(m.name, "", "p-C-aom---", "mirror", nil)
	lv.SyncPercent = new(m.percent)
	lv.MoveSource = g.node[m.source].uuid
	targets := map[string]bool{}
	for _, s := range m.steps {
		for path := range s.to {
			targets[path] = true
		}
	}
	return []lvm.LV{
		lv,
		g.node.hiddenLV(m.name+"_mimage_0", m.name, "Iwi-aom---", "linear", []string{m.source}),
		g.node.hiddenLV(m.name+"_mimage_1", m.name, "Iwi-aom---", "linear", slices.Sorted(maps.Keys(targets))),
	}
}

func (d disks) hiddenLV(name, parent, attr, kind string, disks []string) lvm.LV {
	return lvm.LV{Name: name, UUID: "uuid-of-" + name, Parent: parent, Attr: lvm.LVAttr(attr), SegType: kind,
		PVs: d.uuids(disks)}
}

// uuids returns the sorted UUIDs of disks.
func (d disks) uuids(paths []string) []string {
	var list []string
	for _, path := range paths {
		list = append(list, d[path].uuid)
	}
	slices.Sort(list)
	return list
}

// usable returns the size that a disk adds to a volume group: whole extents after the first MiB.
func usable(size lvm.Bytes) lvm.Bytes { return (size - 1<<20) / ExtentSize * ExtentSize }

func (g *group) free() lvm.Bytes {
	free := 0
	for _, path := range g.disks {
		free += g.freeExtents(path)
	}
	return lvm.Bytes(free) * ExtentSize
}
