package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WipedDevicesConfigMap is the ConfigMap, in the namespace of the product, that knows the devices which were wiped on
// nodes that are gone.
const WipedDevicesConfigMap = "lvms-wiped-devices"

// WipedDeviceKey is the key of a device in WipedDevicesConfigMap: 32 hexadecimal digits.
func WipedDeviceKey(deviceClass, id string) string {
	sum := sha256.Sum256([]byte(deviceClass + "/" + id))
	return hex.EncodeToString(sum[:16])
}

// WipedDeviceRecord is the record of a device in WipedDevicesConfigMap, as JSON.
//
// +kubebuilder:object:generate=false
type WipedDeviceRecord struct {
	DeviceClass string    `json:"deviceClass"`
	ClassUID    string    `json:"classUID"`
	ID          string    `json:"id"`
	Names       []string  `json:"names,omitempty"`
	Node        string    `json:"node"`
	Time        time.Time `json:"time"`
}

// DeletedVolumesConfigMap is the ConfigMap, in the namespace of the product, with the volumes whose LogicalVolumes
// were deleted while their Node did not exist.
const DeletedVolumesConfigMap = "lvms-deleted-volumes"

// DeletedVolume is the record of such a volume in DeletedVolumesConfigMap, as JSON.
//
// +kubebuilder:object:generate=false
type DeletedVolume struct {
	// Volume is the name of the logical volume. UID and LogicalVolume are the UID and the name of its deleted
	// LogicalVolume.
	Volume        string    `json:"volume"`
	UID           types.UID `json:"uid"`
	LogicalVolume string    `json:"logicalVolume"`
	Node          string    `json:"node"`
	DeviceClass   string    `json:"deviceClass"`
	// Time is when the deletion was requested.
	Time time.Time `json:"time"`
}

// DeletedVolumeKey is the key of a logical volume in DeletedVolumesConfigMap: 32 hexadecimal digits.
func DeletedVolumeKey(volume string) string {
	sum := sha256.Sum256([]byte(volume))
	return hex.EncodeToString(sum[:16])
}
