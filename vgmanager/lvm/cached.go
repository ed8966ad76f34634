package lvm

import "slices"

// IsCached returns true for a volume with a cache that an administrator attached (lvmcache(7)): what was written to it
// may be only in the cache.
func (l *LV) IsCached() bool { return l.SegType == "cache" || l.SegType == "writecache" }

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
