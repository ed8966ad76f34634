package lvm

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Move is a running "pvmove".
type Move struct {
	// Name of the hidden logical volume that does it, for example "pvmove0".
	Name string
	// SourceUUID is the physical volume that is emptied.
	SourceUUID string
	// Percent is how much is done; nil when the volume is not active, so that nothing is being copied.
	Percent *float64
}

// Moves returns the moves that were begun and are neither finished nor aborted, whether anything works on them or not.
func (v *VG) Moves() []Move {
	var moves []Move
	for i := range v.Hidden {
		if lv := &v.Hidden[i]; lv.MoveSource != "" {
			moves = append(moves, Move{Name: lv.Name, SourceUUID: lv.MoveSource, Percent: lv.SyncPercent})
		}
	}
	return moves
}

// FreeOn returns how many bytes new extents can have on the physical volumes other than this one: on those that are
// there and are not cordoned. An empty UUID excepts none.
func (v *VG) FreeOn(except string) Bytes {
	var free Bytes
	for i := range v.PVs {
		if pv := &v.PVs[i]; pv.UUID != except && pv.Allocatable && !pv.Missing {
			free += pv.Free
		}
	}
	return free
}

// VolumesOn returns the names of the volumes that have data on a physical volume, sorted: what somebody else may use,
// so in place of a thin pool its thin volumes, and of a hidden part the volume that it is a part of. While extents are
// being moved, all volumes that the moves lock count for each physical volume that is a member of one.
func (v *VG) VolumesOn(pvUUID string) []string {
	f := newFamily(v)
	for _, lv := range f.all {
		if slices.Contains(lv.PVs, pvUUID) {
			f.addUsers(lv)
		}
	}
	return slices.Sorted(maps.Keys(f.found))
}

// family finds the volumes that need a part.
type family struct {
	all    []*LV
	byName map[string]*LV
	// visible are the names of VG.LVs.
	visible map[string]bool
	// inPool are the thin volumes of each pool.
	inPool map[string][]string
	found  map[string]bool
	// done are the volumes whose users are found already.
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

// addUsers adds the volumes that need a logical volume.
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

// addLocked adds the volumes whose extents are being moved. The parts of the moves themselves are locked too.
func (f *family) addLocked() {
	for _, lv := range f.all {
		if lv.Attr.Locked() && f.top(lv).MoveSource == "" {
			f.addUsers(lv)
		}
	}
}

// top returns the volume that a part belongs to in the end. LVM nests parts some four deep; the limit is for metadata
// in which two are parts of each other.
func (f *family) top(lv *LV) *LV {
	for range 16 {
		parent := f.byName[lv.Parent]
		if lv.Parent == "" || parent == nil {
			break
		}
		lv = parent
	}
	return lv
}

// RAIDFailed tells whether a RAID volume has lost more images than its level bears, so that data of it cannot be read.
// LVM itself does not tell that apart from a volume that has only lost redundancy: both are "partial", and SyncPercent
// may say 100 of either. An image counts as lost while a physical volume of it is missing.
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

// lostSet tells whether all copies of some part are lost. The copies of raid10 are images that follow each other.
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

// images returns the images of a RAID volume, by their number.
func (v *VG) images(lv *LV) []*LV {
	var list []*LV
	for i := range v.Hidden {
		if part := &v.Hidden[i]; part.Parent == lv.Name && part.Attr.IsImage() {
			list = append(list, part)
		}
	}
	// LVM sorts names: 10 comes before 2.
	slices.SortStableFunc(list, func(a, b *LV) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return list
}

func (v *VG) isLost(lv *LV) bool {
	return slices.ContainsFunc(v.PVs, func(pv PV) bool { return pv.Missing && slices.Contains(lv.PVs, pv.UUID) })
}
