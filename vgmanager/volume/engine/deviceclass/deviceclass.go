// Package deviceclass has the device classes of the engine as data. It is separate from the engine, so that the planner
// of volume groups can compute a class without a dependency on the engine's server and its files.
package deviceclass

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Class is a device class in TopoLVM's format: a volume group for thick volumes, or a thin pool for thin volumes. It
// has the keys of TopoLVM's lvmd.yaml (pkg/lvmd/types) and additional keys, which TopoLVM's lvmd ignores.
type Class struct {
	Name        string `json:"name"`
	VolumeGroup string `json:"volume-group"`
	Default     bool   `json:"default"`
	// SpareGB is the size in GiB that is subtracted from the capacity.
	SpareGB *uint64 `json:"spare-gb"`
	// Stripe is a number of devices. StripeSize is a number with a unit, for example 64k.
	Stripe          *uint    `json:"stripe"`
	StripeSize      string   `json:"stripe-size"`
	LVCreateOptions []string `json:"lvcreate-options"`
	// Type is thick if empty.
	Type           types.DeviceType `json:"type"`
	ThinPoolConfig *ThinPool        `json:"thin-pool"`
	// VolumeGroupUUID is the UUID of the volume group. If it is set, another volume group with the same name is not
	// used. If it is empty, any volume group with the name is used. TopoLVM does not have this key.
	VolumeGroupUUID string `json:"volume-group-uuid,omitempty"`
	// ExistingVolumeGroup: an administrator created the volume group, which can also have logical volumes of others.
	// The engine only uses the logical volumes for which IsClaimed returns true. TopoLVM does not have this key.
	ExistingVolumeGroup bool `json:"existing-volume-group,omitempty"`
	// Closed is the reason why the class refuses new volumes, snapshots and expansion. It is empty if the class
	// accepts them. TopoLVM does not have this key.
	Closed string `json:"closed,omitempty"`
	// NoRemoval is the reason why no volume of the class is erased or removed. It is empty if volumes can be removed.
	// TopoLVM does not have this key.
	NoRemoval string `json:"no-removal,omitempty"`
	// EraseOnDelete is what happens to the blocks of a volume before it is removed: EraseNone, EraseDiscard or
	// EraseZero. If empty, the default of Erase applies. TopoLVM does not have this key.
	EraseOnDelete string `json:"erase-on-delete,omitempty"`
	// Allocation says on how many physical volumes a thick volume with one image can be: AllocationAny or
	// AllocationSingleDevice. If empty, it is AllocationAny. It is set if the LVMCluster has the stripes and lvcreate
	// options of the class. TopoLVM does not have this key.
	Allocation string `json:"allocation,omitempty"`
	// NamespaceLimits are the limits of namespaces. TopoLVM does not have this key.
	NamespaceLimits []NamespaceLimit `json:"namespace-limits,omitempty"`
}

// NamespaceLimit is the limit for the total size of the volumes of a namespace in a class, in bytes.
type NamespaceLimit struct {
	// Namespace is empty for every namespace that no other limit names.
	Namespace    string `json:"namespace,omitempty"`
	PerNodeBytes uint64 `json:"per-node-bytes"`
}

// The values of Allocation.
const (
	AllocationAny          = "Any"
	AllocationSingleDevice = "SingleDevice"
)

// Spare returns the bytes that a class subtracts from the reported capacity. The default is 0. TopoLVM's default is
// 10 GiB, which would leave no capacity on a small disk.
func (c *Class) Spare() int64 {
	if c.SpareGB == nil {
		return 0
	}
	return int64(min(*c.SpareGB, maxSpareGB)) << 30
}

// maxSpareGB exceeds the size of any volume group, and its number of bytes does not overflow.
const maxSpareGB = 1 << 32

// IsThin returns true for a thin class. Like TopoLVM, it treats an empty type as thick.
func (c *Class) IsThin() bool { return c.Type == types.TypeThin }

// IsSingleDevice returns true if each thick volume with one image is on one physical volume.
func (c *Class) IsSingleDevice() bool { return c.Allocation == AllocationSingleDevice }

// The values of EraseOnDelete.
const (
	EraseNone    = "None"
	EraseDiscard = "Discard"
	EraseZero    = "Zero"
)

// Erase returns what happens to the blocks of a volume of the class before it is removed. The default for thick volumes
// is EraseZero: LVM gives their blocks to new volumes, which would show the data of the removed ones. A thin pool zeros
// the blocks that it allocates.
func (c *Class) Erase() string {
	switch {
	case c.EraseOnDelete != "":
		return c.EraseOnDelete
	case c.Type == types.TypeThin:
		return EraseNone
	}
	return EraseZero
}

// CreateOptions returns the lvcreate options of new thick volumes. An option class replaces them.
func (c *Class) CreateOptions() []string {
	var options []string
	if c.Stripe != nil && *c.Stripe > 0 {
		options = append(options, "--stripes", strconv.FormatUint(uint64(*c.Stripe), 10))
		if c.StripeSize != "" {
			options = append(options, "--stripesize", c.StripeSize)
		}
	}
	return append(options, c.LVCreateOptions...)
}

// ThinPool is the thin pool of a device class and its limits.
type ThinPool struct {
	Name string `json:"name"`
	// OverprovisionRatio times the size of the pool is the limit for the total size of its volumes. It is at least 1.
	OverprovisionRatio float64 `json:"overprovision-ratio"`
	// HighWaterMarkPercent is the usage of data or metadata at which the pool refuses new volumes, snapshots and
	// expansion. 0 stands for DefaultHighWaterMark. At 100 it refuses them only when the pool is full.
	HighWaterMarkPercent int `json:"high-water-mark-percent,omitempty"`
}

// DefaultHighWaterMark is the default usage in percent of a pool's data or metadata at which the pool refuses new
// volumes, snapshots and expansion. The remaining space is for the existing volumes.
const DefaultHighWaterMark = 95

// belowMark is by how many percentage points copies stop below the high-water mark of a thin pool: the rest is for the
// volumes that are in use.
const belowMark = 5

// CopyMark returns the usage in percent at which copies stop, for a high-water mark in percent.
func CopyMark(mark float64) float64 { return max(mark-belowMark, mark/2) }

// LVM refuses new volumes in a pool whose metadata has less than 4 MiB or a quarter free, whichever is smaller
// (lib/metadata/thin_manip.c, pool_below_threshold).
const (
	metadataReserve      = 4 << 20
	metadataReserveShare = 0.25
)

// MetadataMark returns the high-water mark for the metadata of a pool in percent: the lower one of mark and LVM's
// limit. size is that of the metadata in bytes.
func MetadataMark(size int64, mark float64) float64 {
	if size <= 0 {
		return mark
	}
	reserve := min(metadataReserveShare, metadataReserve/float64(size))
	return min(mark, 100*(1-reserve))
}

// PoolUsage is what decides how much data copies can write to a thin pool. Sizes are in bytes.
type PoolUsage struct {
	Size, MetadataSize int64
	// Extendable is the free space that the data of the pool can be extended by.
	Extendable int64
	// Data and Metadata are the usage, and Mark is the high-water mark, in percent.
	Data, Metadata, Mark float64
}

// CopyFree returns how much data copies can write to the pool, in bytes. It is 0 if they have to wait.
func (u PoolUsage) CopyFree() int64 {
	if u.Data >= CopyMark(u.Mark) || u.Metadata >= CopyMark(MetadataMark(u.MetadataSize, u.Mark)) {
		return 0
	}
	return max(0, int64(float64(u.Size+u.Extendable)*CopyMark(u.Mark)/100-float64(u.Size)*u.Data/100))
}

// uidPattern matches a Kubernetes UID.
var uidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// IsClaimed returns true if a logical volume with this name and these tags was created for a LogicalVolume, here or by
// TopoLVM. TopoLVM sets no tags; its names are the UIDs of LogicalVolumes. In a volume group that an administrator
// created, other logical volumes are not used.
func IsClaimed(name string, tags []string) bool {
	return uidPattern.MatchString(name) || slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(tag, wellknown.VolumeUIDTagPrefix)
	})
}

// RAIDOptions returns the lvcreate options for volumes with redundancy, in the format of existing configurations.
// level is LVM's type, for example "raid1". mirrors is the number of additional copies. stripes is the number of
// images that hold data. stripeSize is in bytes, a multiple of 1024. LVM chooses values that are 0.
func RAIDOptions(level string, mirrors, stripes int, stripeSize int64) []string {
	options := []string{"--type", level}
	if mirrors > 0 {
		options = append(options, "-m", strconv.Itoa(mirrors))
	}
	if stripes > 0 {
		options = append(options, "--stripes", strconv.Itoa(stripes))
	}
	if stripeSize > 0 {
		options = append(options, "--stripesize", strconv.FormatInt(stripeSize>>10, 10)+"k")
	}
	return options
}
