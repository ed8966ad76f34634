package lvm

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Bytes is a size in bytes.
type Bytes int64

// RoundUp rounds the size up to a multiple of unit. A unit of 0 does not change the size.
func (b Bytes) RoundUp(unit Bytes) Bytes {
	if unit <= 0 || b%unit == 0 {
		return b
	}
	return (b/unit + 1) * unit
}

// Report is the state of LVM at one moment, from one read. Each volume group in it is consistent.
type Report struct {
	// VGs are the volume groups, in LVM's order.
	VGs []VG
	// Unassigned are the physical volumes that belong to no volume group.
	Unassigned []PV
}

// VG returns the volume group with this name. It returns nil if there is none, or if there are several.
func (r *Report) VG(name string) *VG {
	if named := r.Named(name); len(named) == 1 {
		return named[0]
	}
	return nil
}

// Named returns all volume groups with this name. LVM distinguishes them by UUID.
func (r *Report) Named(name string) []*VG {
	var named []*VG
	for i := range r.VGs {
		if r.VGs[i].Name == name {
			named = append(named, &r.VGs[i])
		}
	}
	return named
}

// PVs returns all physical volumes, including those without a volume group.
func (r *Report) PVs() []PV {
	var all []PV
	for i := range r.VGs {
		all = append(all, r.VGs[i].PVs...)
	}
	return append(all, r.Unassigned...)
}

// PV is a physical volume.
type PV struct {
	// Name is LVM's preferred path of the device. It is "[unknown]" if the device is missing.
	Name string
	// UUID identifies the physical volume even if its device name changes.
	UUID string
	// VGName is empty if the physical volume belongs to no volume group.
	VGName string
	Size   Bytes
	Free   Bytes
	// Used is the size of all extents that logical volumes use, including hidden ones.
	Used Bytes
	// FreeAreas are the sizes of the runs of free extents, in the order of the device. Their sum is Free.
	FreeAreas []Bytes
	Tags      []string
	// Allocatable: LVM may allocate new extents on the physical volume. If false, it is cordoned ("pvchange
	// --allocatable n"), and existing extents stay.
	Allocatable bool
	// Major and Minor are the device number, 0 if the device is missing.
	Major, Minor uint32
	// Missing: the volume group lists the physical volume, but no device has it.
	Missing bool
	// InUse is LVM's flag in the label that the physical volume belongs to a volume group. It stays set if LVM cannot
	// find the metadata of that group.
	InUse bool
}

// PVNames returns the names of physical volumes.
func PVNames(pvs []PV) []string {
	var names []string
	for _, pv := range pvs {
		names = append(names, pv.Name)
	}
	return names
}

// VG is a volume group with its physical and logical volumes.
type VG struct {
	Name string
	UUID string
	// Seqno counts the changes of the metadata. LVM never decreases it, unless earlier metadata is restored. A view
	// that is kept after a change of this LVM (Recent) has that of the last report.
	Seqno      uint64
	Size       Bytes
	Free       Bytes
	ExtentSize Bytes
	Tags       []string
	// Attr are the six characters of vg_attr.
	Attr VGAttr
	// MissingPVs is the number of its physical volumes that are on no device.
	MissingPVs int
	// MetadataArea is the space for LVM's metadata of the group.
	MetadataArea MetadataArea
	PVs          []PV
	// LVs are the visible logical volumes, thin pools included.
	LVs []LV
	// Hidden are the internal logical volumes: images of RAID volumes, data and metadata of pools, running moves.
	// Their names do not have the brackets that LVM prints around them.
	Hidden []LV
}

// HasTag returns true if the volume group has the tag.
func (v *VG) HasTag(tag string) bool { return slices.Contains(v.Tags, tag) }

// LV returns the visible logical volume with this name, or nil.
func (v *VG) LV(name string) *LV {
	for i := range v.LVs {
		if v.LVs[i].Name == name {
			return &v.LVs[i]
		}
	}
	return nil
}

// ThinPool returns the thin pool with this name. It returns nil if there is none or the volume is not a thin pool.
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

// ThinPool is a thin pool with its volumes.
type ThinPool struct {
	LV
	Volumes []LV
}

// VirtualSize returns the sum of the virtual sizes of the volumes in the pool.
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
	// Path is /dev/VG/NAME. It is empty for a thin pool, which has no device node.
	Path string
	Size Bytes
	// Attr are the ten characters of lv_attr.
	Attr LVAttr
	Tags []string
	// Major and Minor are the device number, 0 if the volume is not active.
	Major, Minor uint32
	// PoolName is the thin pool of a thin volume.
	PoolName string
	// Origin is the source volume of a snapshot, while it exists.
	Origin string
	// DataPercent and MetadataPercent are nil if the volume is not active or does not have the property.
	DataPercent, MetadataPercent *float64
	// MetadataSize, ChunkSize and Zeroes are set for a thin pool. Zeroes: the pool zeroes new blocks before use.
	MetadataSize Bytes
	ChunkSize    Bytes
	Zeroes       bool
	// Discards is what a thin pool does with discards of its volumes (lvmthin(7)): DiscardsPassDown, DiscardsNoPassDown
	// or DiscardsIgnore.
	Discards string
	// TransactionID is set for thin pools and thin volumes. For a pool, it is the number of transactions that LVM has
	// committed. For a volume, it is that number at the time at which the volume was created. It is nil if the report
	// was changed by an effect instead of being read.
	TransactionID *uint64
	// Health is empty if the volume is healthy. Otherwise it is LVM's value, for example "partial", "out_of_data",
	// "metadata_read_only", HealthRefreshNeeded.
	Health string
	// CheckNeeded: the metadata of the active thin pool is marked for thin_check.
	CheckNeeded bool
	// SegType is LVM's segment type: "linear", "striped", "raid1", "thin-pool", "thin", "mirror" for a move, and so
	// on. If the segments have several types, it is the first one that is not "linear".
	SegType string
	// Stripes is the number of stripes or images of the last segment. LVM continues it when it extends the volume. It
	// is 1 for a linear volume.
	Stripes int
	// SyncPercent is the sync progress of a RAID volume or the progress of a move. It is nil if the volume is not
	// active, if the kernel does not report it, and for other volumes.
	SyncPercent *float64
	// Parent is the volume that contains a hidden one, without brackets.
	Parent string
	// PVs are the sorted UUIDs of the physical volumes that hold the volume's own extents. RAID volumes and pools
	// have no own extents: their hidden volumes have them.
	PVs []string
	// Created is the creation time that LVM recorded, or zero if LVM did not record it.
	Created time.Time
	// MoveSource is the UUID of the physical volume that a running move empties.
	MoveSource string
}

// IsRAID returns true for a RAID volume. It returns false for a thin pool on RAID, whose hidden volumes are RAID
// volumes.
func (l *LV) IsRAID() bool { return l.Attr.IsRAID() || strings.HasPrefix(l.SegType, "raid") }

// LVAttr is the ten characters of lv_attr (lvs(8)).
type LVAttr string

// at returns the character at index i, or "-" if the value is shorter.
func (a LVAttr) at(i int) byte {
	if i >= len(a) {
		return '-'
	}
	return a[i]
}

// IsThinPool returns true for a thin pool.
func (a LVAttr) IsThinPool() bool { return a.at(0) == 't' }

// IsThinVolume returns true for a volume or snapshot in a thin pool.
func (a LVAttr) IsThinVolume() bool { return a.at(0) == 'V' }

// IsCache returns true for a cache, for the hidden volume that has it, and for a volume with a cache.
func (a LVAttr) IsCache() bool { return a.at(0) == 'C' }

// ReadOnly returns true if the volume is read-only according to the metadata.
func (a LVAttr) ReadOnly() bool { return a.at(1) == 'r' }

// Active returns true if the volume has a device. All states except "-", "X" (unknown) and "h" (historical) are
// active.
func (a LVAttr) Active() bool { return !strings.ContainsRune("-Xh", rune(a.at(4))) }

// Suspended returns true if I/O of the volume is suspended.
func (a LVAttr) Suspended() bool { return strings.ContainsRune("sSM", rune(a.at(4))) }

// IsStateUnknown returns true if LVM could not read the state of the volume's device, for example because it is
// suspended without a usable table.
func (a LVAttr) IsStateUnknown() bool { return a.at(4) == 'X' }

// HasDevice returns true if the kernel has a mapped device of the volume, also one without a usable table, which a
// killed activation leaves.
func (a LVAttr) HasDevice() bool { return a.Active() || a.IsStateUnknown() }

// Open returns true if the volume is open.
func (a LVAttr) Open() bool { return a.at(5) == 'o' }

// SkipsActivation returns true if "vgchange -ay" skips the volume.
func (a LVAttr) SkipsActivation() bool { return a.at(9) == 'k' }

// IsRAID returns true for a RAID volume.
func (a LVAttr) IsRAID() bool { return a.at(0) == 'r' || a.at(0) == 'R' }

// IsImage returns true for an image of a RAID volume or of a move.
func (a LVAttr) IsImage() bool { return a.at(0) == 'i' || a.at(0) == 'I' }

// Locked returns true if a move locks the volume, so that LVM does not change its extents.
func (a LVAttr) Locked() bool { return a.at(2) >= 'A' && a.at(2) <= 'Z' }

// Health returns the health character of the volume, "-" if it is healthy. p: partial, X: unknown. RAID: r: refresh
// needed, m: mismatches exist, w: writemostly (not a fault), R: reshaping or images to remove. Thin pools and
// volumes: F: failed, D: out of data space, M: metadata read-only. E: writecache error.
func (a LVAttr) Health() byte { return a.at(8) }

// Partial returns true if a physical volume that the volume requires is missing.
func (a LVAttr) Partial() bool { return a.Health() == 'p' }

// VGAttr is the six characters of vg_attr (vgs(8)).
type VGAttr string

// at returns the character at index i, or "-" if the value is shorter.
func (a VGAttr) at(i int) byte { return LVAttr(a).at(i) }

// Writable returns true if the metadata of the volume group can be changed.
func (a VGAttr) Writable() bool { return a.at(0) == 'w' }

// Exported returns true if the volume group is exported and cannot be used on this host.
func (a VGAttr) Exported() bool { return a.at(2) == 'x' }

// Shared returns true if a lock manager shares the volume group among several hosts.
func (a VGAttr) Shared() bool { return strings.ContainsRune("sc", rune(a.at(5))) }

// Partial returns true if physical volumes of the volume group are missing.
func (a VGAttr) Partial() bool { return a.at(3) == 'p' }

// LabeledPV is a physical volume as its label describes it, even if LVM on the node does not list the device.
type LabeledPV struct {
	// Name is the path of the device. UUID is the UUID of the physical volume.
	Name, UUID string
	// Major and Minor are the device number.
	Major, Minor uint32
	// VGName and VGUUID are empty if the physical volume belongs to no volume group.
	VGName, VGUUID string
	// VGTags are the tags of the volume group.
	VGTags []string
	// SystemID is the host that owns the volume group (lvmsystemid(7)). It is empty if any host may use the group.
	SystemID string
	// Unresolved: according to the label the physical volume belongs to a volume group, but the devices that were
	// read do not identify the group.
	Unresolved bool
}

// OtherGroup is a volume group that no device class uses, and that another one can share the name of.
type OtherGroup struct {
	Name, UUID string
	// Devices have its physical volumes.
	Devices []string
}

// ThinVolume is a thin volume in LVM's metadata.
type ThinVolume struct {
	Name string
	// Device is the UUID of its mapped device, while it is active (lib/activate/dev_manager.c).
	Device string
	// Pool is the name of its thin pool, and ID its thin device there. Origin is the name of the source of a snapshot.
	Pool   string
	ID     uint64
	Origin string
	Tags   []string
	Active bool
}

// PoolState is the state of a thin pool in the kernel.
type PoolState struct {
	// Device is the UUID of the mapped device of the pool.
	Device        string
	TransactionID uint64
	Suspended     bool
}

// Pools reads the state of a thin pool from the kernel. It returns an error that wraps ErrNotFound if the pool is not
// active.
type Pools func(ctx context.Context, vg, pool string) (PoolState, error)

// Devices are the block devices of the node without logical volumes, by "MAJOR:MINOR", each with its paths.
type Devices struct {
	// Readable are the devices that LVM may read. Their paths are those with the names that LVM shows.
	Readable map[string][]string
	// Guests are the devices that are built on logical volumes, with all their paths. Their content belongs to whoever
	// uses a volume, who can write anything to it, such as a volume group with the name or the UUID of another one.
	Guests map[string][]string
}
