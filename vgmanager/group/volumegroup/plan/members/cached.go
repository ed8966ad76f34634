package members

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// CacheNote says which volumes have a cache that an administrator attached, or "".
func CacheNote(vg *lvm.VG) string {
	cached := vg.CachedVolumes()
	if len(cached) == 0 {
		return ""
	}
	return fmt.Sprintf("logical volumes have a cache that was attached on the node: %s: it is removed with its "+
		"volume, and must be detached before (lvconvert --splitcache) if the device class erases volumes",
		state.Joined(cached))
}

// unmovableCache returns why the extents on a physical volume cannot be moved because of a writecache, or "".
func unmovableCache(vg *lvm.VG, pv lvm.PV) string {
	cached := vg.WritecachesOn(pv.UUID)
	if len(cached) == 0 {
		return ""
	}
	return fmt.Sprintf("it has the writecache of %s, which LVM does not move: detach it on the node, which writes its "+
		"data to the volume: lvconvert --splitcache %s/%s; then attach a cache on another device if you need one",
		state.Joined(cached), vg.Name, cached[0])
}
