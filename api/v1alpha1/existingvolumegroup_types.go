package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// ExistingVolumeGroupConfig has the settings of a device class on a volume group that an administrator created. They
// are the keys spare-gb, stripe, stripe-size and lvcreate-options of TopoLVM's lvmd.yaml, and allocation.
//
// +kubebuilder:validation:XValidation:rule="!has(self.stripeSize) || has(self.stripes)",message="stripeSize requires stripes"
// +kubebuilder:validation:XValidation:rule="!has(self.stripes) || !has(self.lvcreateOptions) || !self.lvcreateOptions.exists(o, o.startsWith('--stripes'))",message="stripes and --stripes or --stripesize in lvcreateOptions are mutually exclusive: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation) || self.allocation != 'SingleDevice' || (!has(self.stripes) && (!has(self.lvcreateOptions) || self.lvcreateOptions.all(o, o == '--type=linear' || o.startsWith('--readahead='))))",message="allocation SingleDevice and stripes, or options of lvcreate other than --readahead and --type=linear, are mutually exclusive: their volumes are on several devices"
type ExistingVolumeGroupConfig struct {
	// spareGiB is subtracted from the capacity that the scheduler sees, in GiB, so that this much space stays free for
	// an administrator or another program. The expansion of volumes and snapshots can use it. Defaults to 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048576
	SpareGiB int64 `json:"spareGiB,omitempty"`

	// allocation is SingleDevice if each volume is on one physical volume, the one with the most free space, and is
	// extended only there. Then the largest volume of a node is the largest free space of one physical volume. With
	// Any, a volume can continue on another physical volume. Defaults to Any. A change applies to new volumes, and to
	// the extension of volumes without stripes: one on several physical volumes is then extended only on these.
	Allocation ThickAllocation `json:"allocation,omitempty"`

	// stripes is the number of physical volumes that the data of a new volume is striped over.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=128
	Stripes *int32 `json:"stripes,omitempty"`

	// stripeSize is the amount of data that is written to one physical volume before the next: a power of two of at
	// least 4Ki. LVM reduces it to the size of an extent. Defaults to 64Ki.
	StripeSize *resource.Quantity `json:"stripeSize,omitempty"`

	// lvcreateOptions are options of lvcreate for new volumes, for example --type=raid1. Allowed are --type (linear,
	// striped, and the types raid0 to raid10), --mirrors, --stripes, --stripesize, --regionsize, --nosync, --readahead,
	// --minrecoveryrate and --maxrecoveryrate, each with its value after "=".
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^--(nosync|type=(linear|striped|raid0|raid0_meta|raid1|raid4|raid5(_[a-z]{1,2})?|raid6(_[a-z0-9_]{2,6})?|raid10)|(mirrors|stripes)=[0-9]{1,3}|(stripesize|regionsize|readahead|minrecoveryrate|maxrecoveryrate)=[0-9]{1,12}[a-zA-Z]{0,4}|readahead=(auto|none))$')",message="must be --nosync, or one of --type (linear, striped or a type of RAID), --mirrors, --stripes, --stripesize, --regionsize, --readahead, --minrecoveryrate and --maxrecoveryrate with = and a value, for example --type=raid1"
	LVCreateOptions []string `json:"lvcreateOptions,omitempty"`
}
