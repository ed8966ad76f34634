package lvmtest

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func extents(size lvm.Bytes) int { return int(size.RoundUp(ExtentSize) / ExtentSize) }

// all returns all parts of the group.
func (g *group) all() []*part {
	list := []*part{&g.spare}
	for _, v := range g.lvs {
		list = append(list, v.parts...)
	}
	return list
}

func (v *volume) isOn(path string) bool {
	return slices.ContainsFunc(v.parts, func(p *part) bool { return p.on[path] > 0 })
}

func (g *group) freeExtents(path string) int {
	free := extents(usable(g.node[path].size))
	for _, p := range g.all() {
		free -= p.on[path]
	}
	for _, m := range g.moves {
		for _, s := range m.steps {
			free -= s.to[path]
		}
	}
	return free
}

// openDisks returns the disks on which LVM allocates new extents: of named, or of all if named is empty.
func (g *group) openDisks(named []string) []string {
	var open []string
	for _, path := range g.disks {
		d := g.node[path]
		if !d.cordoned && !d.detached && (len(named) == 0 || slices.Contains(named, path)) {
			open = append(open, path)
		}
	}
	return open
}

// take allocates extents for a part, from one disk after the other. If they are not sufficient, it allocates none.
func (g *group) take(p *part, n int, disks []string) error {
	taken := map[string]int{}
	for _, path := range disks {
		if room := min(n, g.freeExtents(path)); room > 0 {
			taken[path] = room
			n -= room
		}
	}
	if n > 0 {
		return fmt.Errorf("%d extents more are needed: %w", n, lvm.ErrNoSpace)
	}
	if p.on == nil {
		p.on = map[string]int{}
	}
	for path, count := range taken {
		p.on[path] += count
	}
	return nil
}

// takeStriped allocates n extents in stripes on separate disks, or as take does for up to one stripe. LVM can also use
// several disks for a stripe, but the fake does not.
func (g *group) takeStriped(p *part, n, stripes int, disks []string) error {
	if stripes <= 1 {
		return g.take(p, n, disks)
	}
	each := (n + stripes - 1) / stripes
	disks = slices.Clone(disks)
	slices.SortStableFunc(disks, func(a, b string) int { return g.freeExtents(b) - g.freeExtents(a) })
	if len(disks) < stripes || g.freeExtents(disks[stripes-1]) < each {
		return fmt.Errorf("%d disks with %d free extents are needed: %w", stripes, each, lvm.ErrNoSpace)
	}
	for _, path := range disks[:stripes] {
		if err := g.take(p, each, []string{path}); err != nil {
			return err
		}
	}
	return nil
}

// takeImages allocates each image of a RAID volume, with one extent of metadata, on a separate disk, starting with
// the disks with the most free extents. LVM can also use several disks for an image, but the fake does not.
func (g *group) takeImages(v *volume, layout lvm.Layout, size int, named []string) error {
	disks := g.openDisks(named)
	slices.SortStableFunc(disks, func(a, b string) int { return g.freeExtents(b) - g.freeExtents(a) })
	if len(disks) < layout.Images || g.freeExtents(disks[layout.Images-1]) < size+1 {
		return fmt.Errorf("%d disks with %d free extents are needed: %w", layout.Images, size+1, lvm.ErrNoSpace)
	}
	for i := range layout.Images {
		v.parts = append(v.parts,
			&part{suffix: fmt.Sprintf("_rimage_%d", i), on: map[string]int{disks[i]: size}},
			&part{suffix: fmt.Sprintf("_rmeta_%d", i), on: map[string]int{disks[i]: 1}})
	}
	return nil
}
