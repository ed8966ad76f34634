package lvm

import (
	"slices"
	"strings"
	"time"
)

// Bytes is a size in bytes.
type Bytes int64

// RoundUp returns the size as the next multiple of unit. A unit of 0 leaves the size as it is.
func (b Bytes) RoundUp(unit Bytes) Bytes {
	if unit <= 0 || b%unit == 0 {
		return b
	}
	return (b/unit + 1) * unit
}

// Report is everything that LVM knows at one moment: one read, one consistent view of each volume group.
type Report struct {
	// VGs are the volume groups, in LVM's order.
	VGs []VG
	// Unassigned are the physical volumes that belong to no volume group.
	Unassigned []PV
}

// VG returns the volume group of that name; nil if there is none, or if there are several: nobody knows which is meant.
func (r *Report) VG(name string) *VG {
	if named := r.Named(name); len(named) == 1 {
		return named[0]
	}
	return nil
}

// Named returns all volume groups of that name. LVM knows them apart by UUID.
func (r *Report) Named(name string) []*VG {
	var named []*VG
	for i := range r.VGs {
		if r.VGs[i].Name == name {
			named = append(named, &r.VGs[i])
		}
	}
	return named
}

// PVs returns all physical volumes: those of the volume groups, and the unassigned.
func (r *Report) PVs() []PV {
	var all []PV
	for i := range r.VGs {
		all = append(all, r.VGs[i].PVs...)
	}
	return append(all, r.Unassigned...)
}

// PV is a physical volume.
type PV struct {
	// Name is the path that LVM prefers for the device; "[unknown]" when it is missing.
	Name string
	// UUID identifies the physical volume wherever its device appears.
	UUID string
	// VGName is empty for a physical volume of no volume group.
	VGName string
	Size   Bytes
	Free   Bytes
	// Used is what logical volumes have of it, hidden ones included.
	Used Bytes
	// FreeAreas are the runs of free extents, in the order of the device. Their sum is Free.
	FreeAreas []Bytes
	Tags      []string
	// Allocatable: LVM puts new extents on it. Without it the physical volume is cordoned ("pvchange --allocatable n");
	// what is on it stays.
	Allocatable bool
	// Major and Minor are the device number; 0 when it is missing.
	Major, Minor uint32
	// Missing: its volume group lists it, but no device has it.
	Missing bool
	// InUse is LVM's own mark in the label that the physical volume belongs to a volume group, which it also keeps when
	// the metadata of that group cannot be found.
	InUse bool
}

// VG is a volume group with what is in it.
type VG struct {
	Name       string
	UUID       string
	Size       Bytes
	Free       Bytes
	ExtentSize Bytes
	Tags       []string
	// Attr are the six characters of vg_attr.
	Attr VGAttr
	// MissingPVs is how many of its physical volumes no device has.
	MissingPVs int
	PVs        []PV
	// LVs are the visible logical volumes, thin pools included.
	LVs []LV
	// Hidden are the parts of which LVM makes the visible ones, under their names without the brackets that LVM prints
	// around them: images of RAID volumes, data and metadata of pools, running moves.
	Hidden []LV
}

// HasTag tells whether the volume group has the tag.
func (v *VG) HasTag(tag string) bool { return slices.Contains(v.Tags, tag) }

// LV returns the visible logical volume of that name, or nil.
func (v *VG) LV(name string) *LV {
	for i := range v.LVs {
		if v.LVs[i].Name == name {
			return &v.LVs[i]
		}
	}
	return nil
}

// ThinPool returns the thin pool of that name, or nil if there is none or the logical volume is of another kind.
func (v *VG) ThinPool(name string) *ThinPool {
	lv := v.LV(name)
	if lv == nil || !lv.Attr.IsThinPool() {
		return nil
	}
	pool := &ThinPool{LV: *lv}
	for i := range v.LVs {
		if v.LVs[i].PoolName == name {
			pool.Volumes = append(pool.Volumes, v.LVs[i])
		}
	}
	return pool
}

// ThinPool is a thin pool with the volumes in it.
type ThinPool struct {
	LV
	Volumes []LV
}

// VirtualSize is the sum of the sizes that the volumes of the pool promise.
func (p *ThinPool) VirtualSize() Bytes {
	var sum Bytes
	for i := range p.Volumes {
		sum += p.Volumes[i].Size
	}
	return sum
}

// LV is a logical volume.
type LV struct {
	Name string
	UUID string
	// Path is /dev/VG/NAME; empty for a thin pool, which has no node.
	Path string
	Size Bytes
	// Attr are the ten characters of lv_attr.
	Attr LVAttr
	Tags []string
	// Major and Minor are the device number, 0 when the volume is not active.
	Major, Minor uint32
	// PoolName is the thin pool of a thin volume.
	PoolName string
	// Origin is the volume that a snapshot was made of, while it exists.
	Origin string
	// DataPercent and MetadataPercent are nil when the volume is not active or has no such thing.
	DataPercent, MetadataPercent *float64
	// MetadataSize, ChunkSize and Zeroes are of a thin pool. Zeroes: new blocks are zeroed before they are handed out.
	MetadataSize Bytes
	ChunkSize    Bytes
	Zeroes       bool
	// Health is empty when all is well; else LVM's word, for example "partial", "out_of_data", "metadata_read_only".
	Health string
	// CheckNeeded: the metadata of the active thin pool is marked for thin_check.
	CheckNeeded bool
	// SegType is LVM's word for how the volume is made: "linear", "striped", "raid1", "thin-pool", "thin", "mirror" for
	// a move, … One whose segments are of several kinds has the first that is not "linear".
	SegType string
	// SyncPercent is how much of a RAID volume is in sync, or of a move is done; nil when the volume is not active,
	// when the kernel does not tell, and for other volumes.
	SyncPercent *float64
	// Parent is the volume that a hidden one is a part of, without brackets.
	Parent string
	// PVs are the UUIDs of the physical volumes on which the volume's own extents are, sorted. A RAID volume or a pool
	// has none itself: its parts have them.
	PVs []string
	// Created is when the volume was made, as LVM noted it; zero where it did not.
	Created time.Time
	// MoveSource is the UUID of the physical volume that a running move empties.
	MoveSource string
}

// IsRAID tells whether the volume itself is a RAID volume (a thin pool on RAID is not: its parts are).
func (l *LV) IsRAID() bool { return l.Attr.IsRAID() || strings.HasPrefix(l.SegType, "raid") }

// LVAttr are the ten characters of lv_attr (lvs(8)).
type LVAttr string

// at returns "-" where there is nothing.
func (a LVAttr) at(i int) byte {
	if i >= len(a) {
		return '-'
	}
	return a[i]
}

// IsThinPool tells whether it is a thin pool.
func (a LVAttr) IsThinPool() bool { return a.at(0) == 't' }

// IsThinVolume tells whether it is a volume, or a snapshot, in a thin pool.
func (a LVAttr) IsThinVolume() bool { return a.at(0) == 'V' }

// ReadOnly tells whether the metadata says that the volume is read-only.
func (a LVAttr) ReadOnly() bool { return a.at(1) == 'r' }

// Active tells whether the volume has a device. All states but "-", "X" (unknown) and "h" (historical) are active ones.
func (a LVAttr) Active() bool { return !strings.ContainsRune("-Xh", rune(a.at(4))) }

// Suspended tells whether input and output of the volume are held back.
func (a LVAttr) Suspended() bool { return strings.ContainsRune("sSM", rune(a.at(4))) }

// Open tells whether something has the volume open.
func (a LVAttr) Open() bool { return a.at(5) == 'o' }

// SkipsActivation tells whether "vgchange -ay" leaves the volume out.
func (a LVAttr) SkipsActivation() bool { return a.at(9) == 'k' }

// IsRAID tells whether it is a RAID volume.
func (a LVAttr) IsRAID() bool { return a.at(0) == 'r' || a.at(0) == 'R' }

// IsImage tells whether it is an image of a RAID volume or of a move.
func (a LVAttr) IsImage() bool { return a.at(0) == 'i' || a.at(0) == 'I' }

// Locked tells whether LVM refuses to change the volume's extents: they are being moved.
func (a LVAttr) Locked() bool { return a.at(2) >= 'A' && a.at(2) <= 'Z' }

// Health is the letter of the volume's health, "-" when all is well: p partial, X unknown; of RAID: r refresh needed, m
// mismatches exist, w writemostly (which is no fault), R reshaping or images to be removed; of thin pools and volumes:
// F failed, D out of data space, M metadata read-only, and E writecache error.
func (a LVAttr) Health() byte { return a.at(8) }

// Partial tells whether a physical volume that the volume needs is missing.
func (a LVAttr) Partial() bool { return a.Health() == 'p' }

// VGAttr are the six characters of vg_attr (vgs(8)).
type VGAttr string

// at returns "-" where there is nothing.
func (a VGAttr) at(i int) byte { return LVAttr(a).at(i) }

// Writable tells whether the metadata of the volume group may be changed.
func (a VGAttr) Writable() bool { return a.at(0) == 'w' }

// Exported tells whether the volume group is exported, and so out of use here.
func (a VGAttr) Exported() bool { return a.at(2) == 'x' }

// Shared tells whether the volume group belongs to a lock manager, and so to several hosts.
func (a VGAttr) Shared() bool { return strings.ContainsRune("sc", rune(a.at(5))) }

// Partial tells whether physical volumes of the volume group are missing.
func (a VGAttr) Partial() bool { return a.at(3) == 'p' }
