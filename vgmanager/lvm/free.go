package lvm

import (
	"cmp"
	"slices"
)

// FreeDisk is the free space of a physical volume on which LVM can allocate. Sizes are in extents.
type FreeDisk struct {
	UUID, Name string
	Free       int64
	// Largest is the size of the largest run of free extents.
	Largest int64
	// Whole: all free extents are in one run.
	Whole bool
}

// FreeDisks returns the allocatable physical volumes, sorted by free extents in descending order.
func (v *VG) FreeDisks() []FreeDisk {
	var list []FreeDisk
	for _, pv := range v.PVs {
		if !pv.Allocatable || pv.Missing || v.ExtentSize <= 0 {
			continue
		}
		d := FreeDisk{UUID: pv.UUID, Name: pv.Name, Free: int64(pv.Free / v.ExtentSize), Whole: len(pv.FreeAreas) <= 1}
		for _, area := range pv.FreeAreas {
			d.Largest = max(d.Largest, int64(area/v.ExtentSize))
		}
		list = append(list, d)
	}
	slices.SortStableFunc(list, func(a, b FreeDisk) int { return cmp.Compare(b.Free, a.Free) })
	return list
}

// InSets returns the extents for each of n images or stripes if every complete set of n physical volumes, in the order
// of sorted, provides one physical volume for each of them. If the free extents of any physical volume are fragmented,
// only the first set counts. LVM can allocate at least that much, because it begins with the physical volumes that
// have the most free extents (lib/metadata/lv_manip.c, _alloc_parallel_area).
func InSets(sorted []FreeDisk, n int) int64 {
	fragmented := slices.ContainsFunc(sorted, func(d FreeDisk) bool { return !d.Whole })
	var sum int64
	for set := n; set <= len(sorted) && n > 0; set += n {
		sum += sorted[set-1].Free
		if fragmented {
			break
		}
	}
	return sum
}
