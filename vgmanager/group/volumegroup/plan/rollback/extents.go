package rollback

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// run is a run of physical extents of a logical volume.
type run struct {
	pv           string
	first, count uint64
	// volume is the UUID of the logical volume, and name its name. logical is the logical extent of the first physical
	// one. It advances by stripes with each physical extent.
	volume, name string
	logical      uint64
	stripes      uint64
	stripeSize   uint64
}

// runsOf returns the runs of all logical volumes, by physical volume and position. It returns why they are not known.
func runsOf(m *textmeta.Metadata) (map[string][]run, error) {
	runs := map[string][]run{}
	for _, lv := range m.Volumes {
		for _, s := range lv.Segments {
			if !isKnown(s.Type) {
				return nil, fmt.Errorf("volume %s has the unknown segment type %q", lv.Name, s.Type)
			}
			for i, area := range s.Areas {
				stripes := uint64(len(s.Areas))
				runs[area.PV] = append(runs[area.PV], run{pv: area.PV, first: area.First, count: s.Count / stripes,
					volume: lv.UUID, name: lv.Name, logical: s.Start + uint64(i), stripes: stripes,
					stripeSize: s.StripeSize})
			}
		}
	}
	for _, list := range runs {
		slices.SortFunc(list, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	}
	return runs, nil
}

// isKnown returns true for segment types whose physical extents are in Areas, or in those of other volumes.
func isKnown(kind string) bool {
	return slices.Contains([]string{"striped", "thin-pool", "thin", "raid0", "raid0_meta", "raid1", "raid4", "raid10",
		"raid10_near", "raid5", "raid5_n", "raid5_la", "raid5_ra", "raid5_ls", "raid5_rs", "raid6", "raid6_nr",
		"raid6_nc", "raid6_zr", "raid6_n_6", "error", "zero"}, kind)
}

// mapping compares the physical extents of the volumes of a group in two metadata. Its maps are by the UUID of the
// volume, which can be a hidden one.
type mapping struct {
	// same is the number of extents that a volume has in both, at the same place.
	same map[string]uint64
	// taken is the number of extents of a volume of the earlier metadata that another volume, or another part of the
	// same one, has now. by is the name of that volume.
	taken map[string]uint64
	by    map[string]string
}

// CompareExtents compares the present metadata with an earlier one.
func CompareExtents(present, earlier *textmeta.Metadata) (mapping, error) {
	c := mapping{map[string]uint64{}, map[string]uint64{}, map[string]string{}}
	now, err := runsOf(present)
	if err != nil {
		return c, fmt.Errorf("the present metadata: %w", err)
	}
	then, err := runsOf(earlier)
	if err != nil {
		return c, err
	}
	for pv, list := range then {
		for _, a := range list {
			c.compare(a, now[pv])
		}
	}
	return c, nil
}

// compare compares a run of a volume in the earlier metadata with the present runs of its physical volume.
func (c mapping) compare(a run, present []run) {
	at, _ := slices.BinarySearchFunc(present, a.first, func(b run, first uint64) int {
		return cmp.Compare(b.first+b.count, first+1)
	})
	for _, b := range present[at:] {
		first, end := max(a.first, b.first), min(a.first+a.count, b.first+b.count)
		switch {
		case first >= end:
			return
		case a.isSame(b):
			c.same[a.volume] += end - first
		default:
			c.taken[a.volume] += end - first
			c.by[a.volume] = b.name
		}
	}
}

// isSame returns true if two runs that overlap map their common physical extents to the same logical ones.
func (r run) isSame(o run) bool {
	return r.volume == o.volume && r.stripes == o.stripes && r.stripeSize == o.stripeSize &&
		// Both are compared at the physical extent 0, with an offset that avoids negative numbers.
		r.logical+o.first*r.stripes == o.logical+r.first*r.stripes
}

// physicalExtents returns the number of the physical extents of a volume itself.
func physicalExtents(lv *textmeta.LV) uint64 {
	var sum uint64
	for _, s := range lv.Segments {
		if n := uint64(len(s.Areas)); n > 0 {
			sum += s.Count / n * n
		}
	}
	return sum
}

// parts returns a volume and all volumes that it consists of.
func parts(m *textmeta.Metadata, lv *textmeta.LV) []*textmeta.LV {
	list := []*textmeta.LV{lv}
	for i := 0; i < len(list) && len(list) < maxParts; i++ {
		for _, s := range list[i].Segments {
			for _, name := range s.Parts {
				if part := m.Volume(name); part != nil && !slices.Contains(list, part) {
					list = append(list, part)
				}
			}
		}
	}
	return list
}

// maxParts is more than the number of hidden volumes that a volume of LVM has (64 images with metadata, twice for a
// pool).
const maxParts = 512
