package lvmd

import (
	"cmp"
	"math"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// This file tells how large one logical volume of several images can be. LVM puts each image on physical volumes that
// no other image of the volume has: first on those with the largest free areas, and when an image has filled its own,
// on further ones that nobody has. Which ones exactly depends on details, so what is told here is what always succeeds:
//
//   - with each image on one physical volume: what the one has that is the last to be chosen;
//   - if nothing is fragmented, also with several for each: of each further set of as many physical volumes as there
//     are images what the smallest of it has.
//
// With disks of one size whose number is a multiple of the images this is all that can be had. Else LVM may find more:
// with one disk of twice the size of two others, raid1 can have both of these for one image, and half of that is told.

// disk is a physical volume as far as allocation is concerned, in extents.
type disk struct {
	uuid, name string
	free       int64
	// largest is the largest run of free extents.
	largest int64
	// whole: the free extents are one run.
	whole bool
}

// disks returns the physical volumes on which LVM puts new extents, the one with the most free extents first.
func disks(vg *lvm.VG) []disk {
	var list []disk
	for _, pv := range vg.PVs {
		if !pv.Allocatable || pv.Missing || vg.ExtentSize <= 0 {
			continue
		}
		d := disk{uuid: pv.UUID, name: pv.Name, free: int64(pv.Free / vg.ExtentSize), whole: len(pv.FreeAreas) <= 1}
		for _, area := range pv.FreeAreas {
			d.largest = max(d.largest, int64(area/vg.ExtentSize))
		}
		list = append(list, d)
	}
	slices.SortStableFunc(list, func(a, b disk) int { return cmp.Compare(b.free, a.free) })
	return list
}

// metadataBytes is more than the kernel's superblock and bitmap of an image ever need: LVM makes regions so large that
// there are at most 2^21 of them, a bit each.
const metadataBytes = lvm.Bytes(1) << 20

// metadataExtents is what LVM puts beside each image of a layout.
func metadataExtents(layout lvm.Layout, extent lvm.Bytes) int64 {
	if !layout.Meta || extent <= 0 {
		return 0
	}
	return int64(metadataBytes.RoundUp(extent) / extent)
}

// imageRoom returns how many extents each image of a new volume can have.
func imageRoom(layout lvm.Layout, vg *lvm.VG) int64 {
	meta := metadataExtents(layout, vg.ExtentSize)
	// The first extents of an image and its metadata are in one run.
	usable := slices.DeleteFunc(disks(vg), func(d disk) bool { return d.largest <= meta })
	return max(0, inSets(usable, layout.Images)-meta)
}

// onePerImage returns the physical volumes to name to lvcreate, so that each image is on one: those with the most free
// extents. It is empty where a volume of that size needs more.
func onePerImage(layout lvm.Layout, vg *lvm.VG, image int64) []string {
	meta := metadataExtents(layout, vg.ExtentSize)
	usable := slices.DeleteFunc(disks(vg), func(d disk) bool { return d.largest <= meta })
	if len(usable) < layout.Images || usable[layout.Images-1].free < image+meta {
		return nil
	}
	return namesOf(usable[:layout.Images])
}

func namesOf(list []disk) []string {
	var names []string
	for _, d := range list {
		names = append(names, d.name)
	}
	return names
}

// inSets returns what each of n images has when every further set of n physical volumes, the largest first, gives each
// image one.
func inSets(sorted []disk, n int) int64 {
	fragmented := slices.ContainsFunc(sorted, func(d disk) bool { return !d.whole })
	var sum int64
	for set := n; set <= len(sorted) && n > 0; set += n {
		sum += sorted[set-1].free
		if fragmented {
			break
		}
	}
	return sum
}

// createRoom returns how many bytes one new volume can have.
func createRoom(layout lvm.Layout, vg *lvm.VG) lvm.Bytes {
	if layout.Images <= 1 {
		return vg.FreeOn("")
	}
	return lvm.Bytes(imageRoom(layout, vg)*int64(layout.Data)) * vg.ExtentSize
}

// imageExtents is how many extents each image of a volume has.
func imageExtents(layout lvm.Layout, size, extent lvm.Bytes) int64 {
	all := int64(size.RoundUp(extent) / max(extent, 1))
	return (all + int64(layout.Data) - 1) / int64(layout.Data)
}

// growth is how a volume can grow.
type growth struct {
	// room is how many bytes it can have more.
	room lvm.Bytes
	// devices are to be named to lvextend; none where LVM may choose.
	devices []string
}

// growthOf returns how much a thick volume can grow. options are those that it was probably made with.
func growthOf(vg *lvm.VG, lv *lvm.LV, options []string) growth {
	if lv.IsRAID() {
		return imageGrowth(vg, lv)
	}
	layout, err := lvm.NewLayout(options)
	if lv.SegType != "striped" || err != nil || layout.Meta {
		return growth{room: vg.FreeOn("")}
	}
	return growth{room: createRoom(layout, vg)}
}

// imageGrowth returns how much a RAID volume can grow: its images where they are, or on physical volumes that none of
// them is on. LVM may do both at once; what is told here always succeeds.
func imageGrowth(vg *lvm.VG, lv *lvm.LV) growth {
	parts := partsOf(vg, lv)
	if parts.data == 0 {
		return growth{}
	}
	var own, others []disk
	free := map[string]int64{}
	for _, d := range disks(vg) {
		if parts.holders[d.uuid] {
			own = append(own, d)
			free[d.uuid] = d.free
		} else {
			others = append(others, d)
		}
	}
	inPlace := int64(math.MaxInt64)
	for _, uuids := range parts.images {
		var room int64
		for _, uuid := range uuids {
			room += free[uuid]
		}
		inPlace = min(inPlace, room)
	}
	image := inPlace
	devices := own
	if elsewhere := inSets(others, len(parts.images)); elsewhere > inPlace {
		image = elsewhere
		devices = others
	}
	return growth{room: lvm.Bytes(image*parts.data) * vg.ExtentSize, devices: namesOf(devices)}
}

// parts are those of a RAID volume.
type parts struct {
	// images are the physical volumes of each.
	images [][]string
	// holders are the physical volumes of all images and their metadata.
	holders map[string]bool
	// data is how many images the data has; 0 if that cannot be told now, because images are being moved or are lost.
	data int64
}

func partsOf(vg *lvm.VG, lv *lvm.LV) parts {
	p := parts{holders: map[string]bool{}}
	whole := true
	for i := range vg.Hidden {
		part := &vg.Hidden[i]
		if part.Parent != lv.Name {
			continue
		}
		for _, uuid := range part.PVs {
			p.holders[uuid] = true
		}
		if part.Attr.IsImage() {
			p.images = append(p.images, part.PVs)
			whole = whole && len(part.PVs) > 0 && part.Size > 0
			p.data = int64(lv.Size / max(part.Size, 1))
		}
	}
	if !whole {
		p.data = 0
	}
	return p
}
