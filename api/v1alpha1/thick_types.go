package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// ThickAllocation says on how many devices LVM can allocate a thick volume.
//
// +kubebuilder:validation:Enum=Any;SingleDevice
type ThickAllocation string

// The allocations of thick volumes. Not set is AllocationAny.
const (
	AllocationAny          ThickAllocation = "Any"
	AllocationSingleDevice ThickAllocation = "SingleDevice"
)

// ThickConfig has the placement of the volumes of a device class without thinPoolConfig, raidConfig and
// existingVolumeGroup.
//
// +kubebuilder:validation:XValidation:rule="!has(self.stripeSize) || has(self.stripes)",message="stripeSize requires stripes"
// +kubebuilder:validation:XValidation:rule="!has(self.stripes) || !has(self.allocation) || self.allocation != 'SingleDevice'",message="stripes and allocation SingleDevice are mutually exclusive: stripes are on several devices"
type ThickConfig struct {
	// allocation is SingleDevice if each volume is on one device of its volume group, the one with the most free space,
	// and is extended only there. Then the loss of a device affects only the volumes on it, and the largest volume of a
	// node is the largest free space of one device. With Any, a volume can continue on another device. Defaults to Any.
	// A change applies to new volumes, and to the extension of volumes without stripes: one on several devices is then
	// extended only on these.
	Allocation ThickAllocation `json:"allocation,omitempty"`

	// stripes is the number of devices that the data of a new volume is striped over, so that a volume has the
	// throughput of all of them. It is lost with the first of its devices. A volume that is extended keeps its stripes.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=128
	Stripes *int32 `json:"stripes,omitempty"`

	// stripeSize is the amount of data that is written to one device before the next: a power of two from 4Ki to 4Mi.
	// Defaults to 64Ki.
	StripeSize *resource.Quantity `json:"stripeSize,omitempty"`

	// lvcreateOptions are options of lvcreate for new volumes. Allowed is --readahead with auto, none or a number of
	// sectors of 512 bytes, for example --readahead=8192. Others are not allowed, because LVMS chooses type, size and
	// devices of a volume and whether it is active, and would not know its capacity.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^--readahead=(auto|none|[0-9]{1,6})$')",message="must be --readahead=auto, --readahead=none or --readahead= with a number of sectors, for example --readahead=8192"
	LVCreateOptions []string `json:"lvcreateOptions,omitempty"`
}
