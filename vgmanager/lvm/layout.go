package lvm

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Move is a running "pvmove".
type Move struct {
	// Name is the hidden logical volume of the move, for example "pvmove0".
	Name string
	// SourceUUID is the physical volume that the move empties.
	SourceUUID string
	// Percent is the progress. It is nil if the volume is not active, so that nothing is copied.
	Percent *float64
}

// Moves returns the moves that are neither finished nor aborted, even if no process manages them.
func (v *VG) Moves() []Move {
	var moves []Move
	for i := range v.Hidden {
		if lv := &v.Hidden[i]; lv.MoveSource != "" {
			moves = append(moves, Move{Name: lv.Name, SourceUUID: lv.MoveSource, Percent: lv.SyncPercent})
		}
	}
	return moves
}

// FreeOn returns how many bytes LVM can allocate on physical volumes other than except. It excludes missing and
// cordoned physical volumes. If except is empty, all others are included.
func (v *VG) FreeOn(except string) Bytes {
	var free Bytes
	for i := range v.PVs {
		if pv := &v.PVs[i]; pv.UUID != except && pv.Allocatable && !pv.Missing {
			free += pv.Free
		}
	}
	return free
}

// VolumesOn returns the sorted names of the volumes that have data on a physical volume. It returns only volumes that
// users can see: the thin volumes instead of their thin pool, and the parent volume instead of a hidden part. While
// extents are being moved, all volumes that a move locks count for each physical volume of the move.
func (v *VG) VolumesOn(pvUUID string) []string {
	f := newFamily(v)
	for _, lv := range f.all {
		if slices.Contains(lv.PVs, pvUUID) {
			f.addUsers(lv)
		}
	}
	return slices.Sorted(maps.Keys(f.found))
}

// DataDevices returns the sorted UUIDs of the physical volumes with extents of each volume that users can see, by the
// name of the volume: those of its segments and of its hidden parts; for a thin volume, those of the data of its thin
// pool, because its blocks can be on each of them. The metadata of a pool does not count. While extents are being
// moved, all volumes that a move locks count for each physical volume of the move.
func (v *VG) DataDevices() map[string][]string {
	f := newFamily(v)
	devices := map[string][]string{}
	for _, lv := range f.all {
		if len(lv.PVs) == 0 || f.isPoolMetadata(lv) {
			continue
		}
		f.found = map[string]bool{}
		f.done = map[string]bool{}
		f.addUsers(lv)
		for name := range f.found {
			devices[name] = append(devices[name], lv.PVs...)
		}
	}
	for name, list := range devices {
		slices.Sort(list)
		devices[name] = slices.Compact(list)
	}
	return devices
}

// HasDataOn returns true if a logical volume or a hidden part of it has extents on a physical volume. While extents
// of the physical volume are being moved, it returns true for every logical volume.
func (v *VG) HasDataOn(name, pvUUID string) bool {
	f := newFamily(v)
	return slices.ContainsFunc(f.all, func(lv *LV) bool {
		top := f.top(lv)
		return slices.Contains(lv.PVs, pvUUID) && (top.Name == name || top.MoveSource != "")
	})
}

// family collects the volumes that depend on hidden parts.
type family struct {
	all    []*LV
	byName map[string]*LV
	// visible are the names of VG.LVs.
	visible map[string]bool
	// inPool has the thin volumes of each pool.
	inPool map[string][]string
	found  map[string]bool
	// done has the volumes whose dependents are already collected.
	done map[string]bool
}

func newFamily(v *VG) *family {
	f := &family{byName: map[string]*LV{}, visible: map[string]bool{}, inPool: map[string][]string{},
		found: map[string]bool{}, done: map[string]bool{}}
	for i := range v.Hidden {
		f.all = append(f.all, &v.Hidden[i])
	}
	for i := range v.LVs {
		lv := &v.LVs[i]
		f.all = append(f.all, lv)
		f.visible[lv.Name] = true
		if lv.PoolName != "" {
			f.inPool[lv.PoolName] = append(f.inPool[lv.PoolName], lv.Name)
		}
	}
	for _, lv := range f.all {
		f.byName[lv.Name] = lv
	}
	return f
}

// addUsers adds the volumes that depend on a logical volume.
func (f *family) addUsers(lv *LV) {
	top := f.top(lv)
	if f.done[top.Name] {
		return
	}
	f.done[top.Name] = true
	switch {
	case top.MoveSource != "":
		f.addLocked()
	case top.Attr.IsThinPool():
		for _, name := range f.inPool[top.Name] {
			f.found[name] = true
		}
	case f.visible[top.Name]:
		f.found[top.Name] = true
	}
}

// addLocked adds the volumes whose extents are being moved. The hidden volumes of the moves are locked too.
func (f *family) addLocked() {
	for _, lv := range f.all {
		if lv.Attr.Locked() && f.top(lv).MoveSource == "" {
			f.addUsers(lv)
		}
	}
}

// isPoolMetadata returns true for the metadata of a thin pool and its parts.
func (f *family) isPoolMetadata(lv *LV) bool {
	for range maxNesting {
		parent := f.byName[lv.Parent]
		if lv.Parent == "" || parent == nil {
			return false
		}
		if parent.Attr.IsThinPool() && lv.Name == parent.Name+metadataSuffix {
			return true
		}
		lv = parent
	}
	return false
}

// maxNesting is how many levels of parts are followed. LVM nests parts about four levels deep. The limit prevents an
// endless loop if the metadata has two parts that contain each other.
const maxNesting = 16

// top returns the topmost volume that contains a part.
func (f *family) top(lv *LV) *LV {
	for range maxNesting {
		parent := f.byName[lv.Parent]
		if lv.Parent == "" || parent == nil {
			break
		}
		lv = parent
	}
	return lv
}

// HealthRefreshNeeded is LVM's value of LV.Health for a RAID volume with an image that the kernel has excluded after
// errors (D in the status of dm-raid), although its device is present, and for the image.
const HealthRefreshNeeded = "refresh needed"

// RAIDFailed returns true if a RAID volume has lost more images than its level tolerates, so that data cannot be
// read. LVM does not distinguish this from lost redundancy: both are "partial", and SyncPercent can be 100 in both
// cases. An image is lost if one of its physical volumes is missing, or if the kernel does not use it after errors.
func (v *VG) RAIDFailed(lv *LV) bool {
	images := v.images(lv)
	lost := 0
	for _, image := range images {
		if v.isLost(image) {
			lost++
		}
	}
	level, _, _ := strings.Cut(lv.SegType, "_")
	switch level {
	case "raid1":
		return lost > 0 && lost == len(images)
	case "raid4", "raid5":
		return lost > 1
	case "raid6":
		return lost > 2
	case "raid10":
		return v.lostSet(lv, images)
	}
	return lost > 0
}

// lostSet returns true if all copies of some part are lost. In raid10 the copies are consecutive images.
func (v *VG) lostSet(lv *LV, images []*LV) bool {
	if len(images) == 0 || images[0].Size == 0 {
		return false
	}
	copies := max(1, len(images)/max(1, int(lv.Size/images[0].Size)))
	for set := range slices.Chunk(images, copies) {
		if !slices.ContainsFunc(set, func(image *LV) bool { return !v.isLost(image) }) {
			return true
		}
	}
	return false
}

// Unreadable returns true if data of a volume cannot be read because physical volumes are missing. A thin volume is
// unreadable with its pool, even if none of its own blocks is on a missing physical volume. A RAID volume is
// unreadable if it has lost more images than its level tolerates.
func (v *VG) Unreadable(lv *LV) bool {
	switch pool := v.LV(lv.PoolName); {
	case pool != nil:
		return v.Unreadable(pool)
	case lv.IsRAID():
		return v.RAIDFailed(lv)
	case v.isMissing(lv):
		return true
	}
	return slices.ContainsFunc(v.Hidden, func(part LV) bool { return part.Parent == lv.Name && v.Unreadable(&part) })
}

// UnusedImages returns the images of a RAID volume that the kernel does not use, although their devices are present.
func (v *VG) UnusedImages(lv *LV) []*LV {
	return slices.DeleteFunc(v.images(lv), func(image *LV) bool {
		return image.Health != HealthRefreshNeeded || v.isMissing(image)
	})
}

// ImagesLeft returns the names of the images, data and metadata, that have a device while their RAID volume has none. A
// killed activation or deactivation leaves them. LVM does not activate the volume meanwhile.
func (v *VG) ImagesLeft() []string {
	var names []string
	for i := range v.Hidden {
		part := &v.Hidden[i]
		lv := v.LV(part.Parent)
		if lv != nil && lv.IsRAID() && part.Attr.HasDevice() && !lv.Attr.HasDevice() {
			names = append(names, part.Name)
		}
	}
	return names
}

// images returns the images of a RAID volume in the order of their numbers.
func (v *VG) images(lv *LV) []*LV {
	var list []*LV
	for i := range v.Hidden {
		if part := &v.Hidden[i]; part.Parent == lv.Name && part.Attr.IsImage() {
			list = append(list, part)
		}
	}
	// LVM sorts by name, which puts 10 before 2.
	slices.SortStableFunc(list, func(a, b *LV) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return list
}

// isLost returns true if the kernel cannot use an image: one of its physical volumes is missing, or it was excluded
// after errors.
func (v *VG) isLost(lv *LV) bool {
	return lv.Health == HealthRefreshNeeded || v.isMissing(lv)
}

func (v *VG) isMissing(lv *LV) bool {
	return slices.ContainsFunc(v.PVs, func(pv PV) bool { return pv.Missing && slices.Contains(lv.PVs, pv.UUID) })
}
