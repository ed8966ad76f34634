package lvm

import "slices"

// IsCached returns true for a volume with a cache that an administrator attached (lvmcache(7)): what was written to it
// may be only in the cache.
func (l *LV) IsCached() bool { return l.SegType == "cache" || l.SegType == "writecache" }

// joinCaches makes the hidden volumes of a cache parts of the volume that they belong to. LVM prints them as its pool
// and its origin, in brackets, and not as its parts (lib/report/properties.c). The volume is neither in a thin pool nor
// a snapshot. How full its cache is says nothing about the volume.
func joinCaches(vg *VG) {
	hidden := map[string]*LV{}
	for i := range vg.Hidden {
		hidden[vg.Hidden[i].Name] = &vg.Hidden[i]
	}
	join := func(lv *LV) {
		for _, part := range []*string{&lv.PoolName, &lv.Origin} {
			name := unbracketed(*part)
			if name == *part {
				continue
			}
			*part = ""
			lv.DataPercent, lv.MetadataPercent = nil, nil
			if found := hidden[name]; found != nil && found.Parent == "" && found != lv {
				found.Parent = lv.Name
			}
		}
	}
	for _, list := range [][]LV{vg.LVs, vg.Hidden} {
		for i := range list {
			join(&list[i])
		}
	}
}

// CachedVolumes returns the names of the volumes with a cache, in the order of the report. For a cache in a thin pool,
// it is the name of the pool.
func (v *VG) CachedVolumes() []string {
	f := newFamily(v)
	var names []string
	for _, lv := range f.all {
		if name := f.top(lv).Name; lv.IsCached() && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// WritecachesOn returns the names of the volumes whose writecache has extents on a physical volume. LVM does not move
// them (tools/pvmove.c), in contrast to those of a cache.
func (v *VG) WritecachesOn(pvUUID string) []string {
	f := newFamily(v)
	var names []string
	for i := range v.Hidden {
		part := &v.Hidden[i]
		parent := f.byName[part.Parent]
		if part.Attr.IsCache() && slices.Contains(part.PVs, pvUUID) && parent != nil && parent.SegType == "writecache" {
			names = append(names, f.top(part).Name)
		}
	}
	return names
}
