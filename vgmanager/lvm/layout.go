package lvm

import (
	"maps"
	"slices"
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

// FreeOn returns how many bytes new extents can have on the physical volumes other than this one: on those that are there and
// are not cordoned. An empty UUID excepts none.
func (v *VG) FreeOn(except string) Bytes {
	var free Bytes
	for i := range v.PVs {
		if pv := &v.PVs[i]; pv.UUID != except && pv.Allocatable && !pv.Missing {
			free += pv.Free
		}
	}
	return free
}

// VolumesOn returns the names of the volumes that have data on a physical volume, sorted: what somebody else may use, so in place
// of a thin pool its thin volumes, and of a hidden part the volume that it is a part of. While extents are being moved, all volumes
// that the moves lock count for each physical volume that takes part in one.
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
	f := &family{byName: map[string]*LV{}, visible: map[string]bool{}, inPool: map[string][]string{}, found: map[string]bool{}, done: map[string]bool{}}
	for i := range v.Hidden {
		f.all = append(f.all, &v.Hidden[i])
	}
	for i := range v.LVs {
		lv := &v.LVs[i]
		f.all, f.visible[lv.Name] = append(f.all, lv), true
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

// top returns the volume that a part belongs to in the end. LVM nests parts some four deep; the limit is for metadata in which
// two are parts of each other.
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
