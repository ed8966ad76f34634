package lvm

// MetadataArea is the area on the physical volumes of a volume group that has LVM's text metadata. Each change writes
// the complete text next to the previous one, to the area of every physical volume. So a text can have half of an
// area, and the smallest area of the group decides (lib/format_text/format-text.c, _vg_write_raw).
//
// The size of an area cannot be changed. A text of 7 MiB is also the largest one that LVM reads without a larger
// global/io_memory_size (lvm.conf(5): 8 MiB; lib/label/label.c, label_scan).
type MetadataArea struct {
	// Size is the size of the smallest area, or 0 if it is not known.
	Size Bytes
	// Free is how much the text can grow.
	Free Bytes
}

const (
	// areaHeader is the size of the header of a metadata area.
	areaHeader Bytes = 512
	// reserveShare and reserveFixed are the part of the largest text that is kept: one of reserveShare, and
	// reserveFixed. It is for what is written while volumes are removed, and for existing volumes: tags (erasure, file
	// systems, fences; up to 1 KiB each), messages to thin pools, physical volumes that are added (300 bytes), and
	// segments during moves.
	reserveShare       = 8
	reserveFixed Bytes = 8 << 10
	// volumeText is the size of the text of a new volume without its tags. LVM 2.03.16 writes about 320 bytes for a
	// thin volume, and 580 with the tags of a claim. tagText is the text around a tag.
	volumeText Bytes = 512
	tagText    Bytes = 4
)

// Limit returns the maximum size of the text.
func (a MetadataArea) Limit() Bytes { return max(0, (a.Size-areaHeader)/2) }

// Reserve returns the part of Limit that new volumes must leave, so that volumes can still be removed.
func (a MetadataArea) Reserve() Bytes { return a.Limit()/reserveShare + reserveFixed }

// IsFull returns true if the text has reached the reserve. It returns false if the size is not known.
func (a MetadataArea) IsFull() bool { return a.Size > 0 && a.Free < a.Reserve() }

// WithVolume returns the area after a volume with tags was created, until the next report.
func (a MetadataArea) WithVolume(tags []string) MetadataArea {
	text := volumeText
	for _, tag := range tags {
		text += tagText + Bytes(len(tag))
	}
	a.Free = max(0, a.Free-text)
	return a
}
