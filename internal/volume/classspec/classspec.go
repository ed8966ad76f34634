// Package classspec has what the fields of a device class mean: defaults, and over how many devices the data of its
// volumes is spread.
package classspec

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Sizes in bytes.
const (
	// DefaultStripeSize is the stripe size of a RAIDConfig, ThinPoolConfig or ThickConfig that sets none. MaxStripeSize
	// is the largest one that is used: LVM reduces a larger one to the size of an extent (lvcreate).
	DefaultStripeSize int64 = 64 << 10
	MaxStripeSize     int64 = 4 << 20
	// DefaultChunkSize and DefaultMetadataSize are those of a thin pool whose policy is Static and that sets none.
	DefaultChunkSize    int64 = 128 << 10
	DefaultMetadataSize int64 = 1 << 30
	// MinBandwidthLimit is the minimum of bandwidthLimit, per second. The agents send pieces of this size.
	MinBandwidthLimit int64 = 1 << 20
)

// Default returns the name of the device class that is the default: the only one, or the one that says so; "" if there
// is none.
func Default(s v1alpha1.Storage) string {
	for i := range s.DeviceClasses {
		if s.DeviceClasses[i].Default || len(s.DeviceClasses) == 1 {
			return s.DeviceClasses[i].Name
		}
	}
	return ""
}

// Retention returns how long a deleted volume is kept, and whether that is set and valid.
func Retention(p v1alpha1.RetentionPeriod) (time.Duration, bool) {
	d, err := time.ParseDuration(string(p))
	return d, err == nil && d > 0
}

// Reclaim returns the reclaim policy of a StorageClass.
func Reclaim(o *v1alpha1.StorageClassOptions) corev1.PersistentVolumeReclaimPolicy {
	return cmp.Or(ptr.Deref(o, v1alpha1.StorageClassOptions{}).ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
}

// Binding returns the binding mode of a StorageClass.
func Binding(o *v1alpha1.StorageClassOptions) storagev1.VolumeBindingMode {
	return cmp.Or(ptr.Deref(o, v1alpha1.StorageClassOptions{}).VolumeBindingMode,
		storagev1.VolumeBindingWaitForFirstConsumer)
}

// Parameters returns the parameters that are added to a StorageClass, or nil.
func Parameters(o *v1alpha1.StorageClassOptions) map[string]string {
	return ptr.Deref(o, v1alpha1.StorageClassOptions{}).AdditionalParameters
}

// Labels returns the labels that are added to a StorageClass, or nil.
func Labels(o *v1alpha1.StorageClassOptions) map[string]string {
	return ptr.Deref(o, v1alpha1.StorageClassOptions{}).AdditionalLabels
}

// Stripes returns the number of devices that the data of a thin pool or thick volume is striped over, 1 without
// stripes.
func Stripes(stripes *int32) int { return int(ptr.Deref(stripes, 1)) }

// StripeBytes returns the stripe size of a thin pool or thick volume, in bytes.
func StripeBytes(size *resource.Quantity) int64 {
	if size == nil {
		return DefaultStripeSize
	}
	return size.Value()
}

// RAIDStripeBytes returns the stripe size that is used for a RAID level, in bytes.
func RAIDStripeBytes(r *v1alpha1.RAIDConfig) int64 {
	return min(StripeBytes(r.StripeSize), MaxStripeSize)
}

// RAIDCopies returns how many copies of the data there are beside the first one; 0 for the levels with parity.
func RAIDCopies(r *v1alpha1.RAIDConfig) int {
	if r.Type != v1alpha1.RAIDType1 && r.Type != v1alpha1.RAIDType10 {
		return 0
	}
	return int(ptr.Deref(r.Mirrors, 1))
}

// RAIDStripes returns how many devices the data of one copy is spread over.
func RAIDStripes(r *v1alpha1.RAIDConfig) int {
	switch r.Type {
	case v1alpha1.RAIDType1:
		return 1
	case v1alpha1.RAIDType6:
		return int(ptr.Deref(r.Stripes, 3))
	}
	return int(ptr.Deref(r.Stripes, 2))
}

// raidParity returns how many devices of a volume hold parity.
func raidParity(r *v1alpha1.RAIDConfig) int {
	switch r.Type {
	case v1alpha1.RAIDType4, v1alpha1.RAIDType5:
		return 1
	case v1alpha1.RAIDType6:
		return 2
	}
	return 0
}

// MinimumDevices returns how many devices a device class requires on a node (lvmraid(7)), and what requires them. Each
// argument may be nil.
func MinimumDevices(raid *v1alpha1.RAIDConfig, pool *v1alpha1.ThinPoolConfig,
	thick *v1alpha1.ThickConfig) (number int, why string) {
	switch {
	case raid != nil:
		return RAIDStripes(raid)*(RAIDCopies(raid)+1) + raidParity(raid), string(raid.Type)
	case pool != nil && Stripes(pool.Stripes) > 1:
		return Stripes(pool.Stripes), "a striped thin pool"
	case thick != nil && Stripes(thick.Stripes) > 1:
		return Stripes(thick.Stripes), "a striped volume"
	}
	return 1, ""
}
