package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// RAIDType is a RAID level.
type RAIDType string

// The RAID levels.
const (
	RAIDType1  RAIDType = "raid1"
	RAIDType4  RAIDType = "raid4"
	RAIDType5  RAIDType = "raid5"
	RAIDType6  RAIDType = "raid6"
	RAIDType10 RAIDType = "raid10"
)

// RAIDConfig is the redundancy of the volumes of a device class.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="raidConfig is immutable, because a change does not apply to existing volumes: create a new device class"
// +kubebuilder:validation:XValidation:rule="!has(self.mirrors) || self.type in ['raid1', 'raid10']",message="mirrors can only be set for raid1 and raid10"
// +kubebuilder:validation:XValidation:rule="!has(self.mirrors) || self.type != 'raid10' || self.mirrors == 1 || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="mirrors must be 1 for raid10: LVM does not support more"
// +kubebuilder:validation:XValidation:rule="!has(self.stripes) || self.type != 'raid1'",message="stripes cannot be set for raid1"
// +kubebuilder:validation:XValidation:rule="!has(self.stripes) || self.type != 'raid6' || self.stripes >= 3 || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="raid6 requires at least 3 stripes: LVM does not support fewer"
// +kubebuilder:validation:XValidation:rule="!has(self.stripeSize) || self.type != 'raid1'",message="stripeSize cannot be set for raid1"
type RAIDConfig struct {
	// type is the RAID level. raid1 mirrors data; raid4 and raid5 tolerate the loss of one device, and raid6 of two;
	// raid10 stripes data over mirrors.
	// +kubebuilder:validation:Enum=raid1;raid4;raid5;raid6;raid10
	Type RAIDType `json:"type"`

	// mirrors is the number of additional copies for raid1, and 1 for raid10. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Mirrors *int32 `json:"mirrors,omitempty"`

	// stripes is the number of devices that data is striped over, without the devices for redundancy. Defaults to 3 for
	// raid6, and to 2 for other levels.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=60
	Stripes *int32 `json:"stripes,omitempty"`

	// stripeSize is the amount of data that is written to one device before the next: a power of two of at least 4Ki.
	// Above 4Mi, the size of an extent, 4Mi is used. Defaults to 64Ki.
	StripeSize *resource.Quantity `json:"stripeSize,omitempty"`
}
