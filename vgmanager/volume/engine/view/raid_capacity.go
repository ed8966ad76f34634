package view

import (
	"math"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// This file calculates the maximum size of one logical volume with several images. LVM allocates each image on
// physical volumes that no other image of the volume uses. It starts with the largest free areas and continues on
// other unused physical volumes when one is full. The exact choice depends on details, so the result is a size that
// always succeeds:
//
//   - with one physical volume for each image: the free space of the smallest physical volume that is chosen;
//   - without fragmentation, also with several physical volumes for each image: for each further set with as many
//     physical volumes as there are images, the free space of the smallest one.
//
// This is exact for disks of equal size whose number is a multiple of the number of images. Otherwise LVM may find
// more space: with one disk of twice the size of two others, raid1 can use both of them for one image, and the result
// is half of that.

// metadataBytes is an upper limit for the kernel's superblock and bitmap of an image. LVM chooses the region size so
// that there are at most 2^21 regions, with one bit each.
const metadataBytes = lvm.Bytes(1) << 20

// metadataExtents returns the number of extents of the metadata volume of each image.
func metadataExtents(layout lvm.Layout, extent lvm.Bytes) int64 {
	if !layout.Meta || extent <= 0 {
		return 0
	}
	return int64(metadataBytes.RoundUp(extent) / extent)
}

// withRoomForMetadata returns the physical volumes on which an image can begin. The metadata and the first extents of
// an image are in one run.
func withRoomForMetadata(layout lvm.Layout, extent lvm.Bytes, disks []lvm.FreeDisk) []lvm.FreeDisk {
	meta := metadataExtents(layout, extent)
	return slices.DeleteFunc(slices.Clone(disks), func(d lvm.FreeDisk) bool { return d.Largest <= meta })
}

// imageRoom returns the number of extents that each image of a new volume can always have.
func imageRoom(layout lvm.Layout, extent lvm.Bytes, disks []lvm.FreeDisk) int64 {
	usable := withRoomForMetadata(layout, extent, disks)
	return max(0, lvm.InSets(usable, layout.Images)-metadataExtents(layout, extent))
}

// onePerImage returns the physical volumes to pass to lvcreate, one for each image: those with the most free extents.
// It returns nothing if a volume of that size needs more physical volumes.
func onePerImage(layout lvm.Layout, extent lvm.Bytes, disks []lvm.FreeDisk, image int64) []string {
	usable := withRoomForMetadata(layout, extent, disks)
	if len(usable) < layout.Images || usable[layout.Images-1].Free < image+metadataExtents(layout, extent) {
		return nil
	}
	return namesOf(usable[:layout.Images])
}

func namesOf(list []lvm.FreeDisk) []string {
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names
}

// createRoom returns a size in bytes at which one new volume always fits on the physical volumes.
func createRoom(layout lvm.Layout, extent lvm.Bytes, disks []lvm.FreeDisk) lvm.Bytes {
	if layout.Images <= 1 {
		return lvm.Bytes(diskSet{disks: disks}.total()) * extent
	}
	return lvm.Bytes(imageRoom(layout, extent, disks)*int64(layout.Data)) * extent
}

// imageExtents returns the number of extents of each image of a volume.
func imageExtents(layout lvm.Layout, size, extent lvm.Bytes) int64 {
	all := int64(size.RoundUp(extent) / max(extent, 1))
	return (all + int64(layout.Data) - 1) / int64(layout.Data)
}

// imageGrowth returns how far a RAID volume can be extended. The images grow on their physical volumes, or on
// physical volumes that no image uses. LVM can combine both; the result is a size that always succeeds.
func imageGrowth(vg *lvm.VG, lv *lvm.LV, on diskSet) Placement {
	where := "in volume group " + vg.Name
	parts := partsOf(vg, lv)
	if parts.data == 0 {
		return Placement{Where: where}
	}
	var own, others []lvm.FreeDisk
	free := map[string]int64{}
	for _, d := range on.disks {
		if parts.holders[d.UUID] {
			own = append(own, d)
			free[d.UUID] = d.Free
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
	if elsewhere := lvm.InSets(others, len(parts.images)); elsewhere > inPlace {
		image = elsewhere
		devices = others
	}
	return Placement{Room: lvm.Bytes(image*parts.data) * vg.ExtentSize, Devices: namesOf(devices), Where: where}
}

// parts describes the images of a RAID volume.
type parts struct {
	// images has the physical volumes of each image.
	images [][]string
	// holders are the physical volumes of all images and their metadata.
	holders map[string]bool
	// data is the number of images that hold data. It is 0 if it is unknown, because images are being moved or are
	// lost.
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
