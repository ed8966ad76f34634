// Package removednode has what is remembered of nodes that are gone: the operator writes it to ConfigMaps in the
// namespace of the product, and node agents read it.
package removednode

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WipedDevices is the ConfigMap that knows the devices which were wiped on nodes that are gone.
const WipedDevices = "lvms-wiped-devices"

// WipedDeviceKey is the key of a device in WipedDevices: 32 hexadecimal digits.
func WipedDeviceKey(deviceClass, id string) string {
	sum := sha256.Sum256([]byte(deviceClass + "/" + id))
	return hex.EncodeToString(sum[:16])
}

// WipedDevice is the record of a device in WipedDevices, as JSON.
type WipedDevice struct {
	DeviceClass string    `json:"deviceClass"`
	ClassUID    string    `json:"classUID"`
	ID          string    `json:"id"`
	Names       []string  `json:"names,omitempty"`
	Node        string    `json:"node"`
	Time        time.Time `json:"time"`
}

// DeletedVolumes is the ConfigMap with the volumes whose LogicalVolumes were deleted while their Node did not exist.
const DeletedVolumes = "lvms-deleted-volumes"

// DeletedVolume is the record of such a volume in DeletedVolumes, as JSON.
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

// DeletedVolumeKey is the key of a logical volume in DeletedVolumes: 32 hexadecimal digits.
func DeletedVolumeKey(volume string) string {
	sum := sha256.Sum256([]byte(volume))
	return hex.EncodeToString(sum[:16])
}
