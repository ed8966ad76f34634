// Package health has what is wrong with volumes, as Kubernetes reports it in the status of Pods, claims and CSINodes
// (KEP-1432, feature gate CSIVolumeHealth of Kubernetes 1.37) and CSI 1.13 in its calls for health.
package health

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// Condition is something that is wrong with a volume. DataLoss is never reported: a device that is missing can come
// back, and LVM metadata can be restored.
type Condition = corev1.VolumeHealthCondition

// Health is a condition of a volume: what is wrong with it, as Kubernetes reports it.
const Health = "Health"

// Reasons of conditions. Those that the conditions of a volume group have, too, have the same name.
const (
	// DeviceMissing sets Health to Degraded or Inaccessible: a device with data of the volume, or of its thin pool, is
	// missing. A volume with redundancy that still has all its data is degraded.
	// What to do: attach the device again; see the runbook LVMSDeviceMissing.
	DeviceMissing = "DeviceMissing"
	// DeviceClassUnavailable sets Health to Inaccessible: the device class is not set up on the node, or its volume
	// group or thin pool cannot be used. Of a node, it is degraded while another device class is available.
	// What to do: see the conditions of the volume group, with `kubectl lvms status`.
	DeviceClassUnavailable = "DeviceClassUnavailable"
	// LogicalVolumeMissing sets Health to Inaccessible: the volume group does not have the logical volume.
	// What to do: if somebody removed it or changed LVM metadata, create an LVMRecovery with the action
	// RestoreMetadata; otherwise restore the claim from a backup.
	LogicalVolumeMissing = "LogicalVolumeMissing"
	// LogicalVolumeUnhealthy sets Health to Degraded or Inaccessible: LVM reports a problem of the logical volume,
	// which the message has. A volume with redundancy that still has all its data is degraded.
	// What to do: see the conditions of the volume group, with `kubectl lvms status`.
	LogicalVolumeUnhealthy = "LogicalVolumeUnhealthy"
	// ThinPoolUnhealthy sets Health to Degraded or Inaccessible: the thin pool has no space, is read-only, has to be
	// checked, or, if it is inaccessible, has failed.
	// What to do: create an LVMRecovery with the action that the message of the condition ThinPoolHealthy names.
	ThinPoolUnhealthy = "ThinPoolUnhealthy"
	// ThinPoolOutOfData sets Health to Degraded: at least 95 % of the data space of the thin pool is used.
	// What to do: extend the pool, add a device to the device class, or delete volumes and snapshots; see the runbook
	// LVMSThinPoolDataFull.
	ThinPoolOutOfData = "ThinPoolOutOfData"
	// ThinPoolOutOfMetadata sets Health to Degraded: at least 95 % of the metadata space of the thin pool is used.
	// What to do: see the runbook LVMSThinPoolMetadataFull.
	ThinPoolOutOfMetadata = "ThinPoolOutOfMetadata"
	// FileSystemUnavailable sets Health to Inaccessible: the file system returns errors, does not answer, or was shut
	// down.
	// What to do: see the kernel's log on the node for the cause; then see the runbook LVMSFileSystemBroken.
	FileSystemUnavailable = "FileSystemUnavailable"
	// FileSystemReadOnly sets Health to Degraded: the file system became read-only after an error.
	// What to do: see the runbook LVMSFileSystemBroken.
	FileSystemReadOnly = "FileSystemReadOnly"
	// FileSystemErrors sets Health to Degraded: the file system has recorded errors.
	// What to do: see the runbook LVMSFileSystemBroken.
	FileSystemErrors = "FileSystemErrors"
	// DeviceInUse sets Health to Degraded: something on the node keeps a block volume open that its Pod no longer uses.
	// What to do: run the command that the message has.
	DeviceInUse = "DeviceInUse"
	// Fenced sets Health to Inaccessible: a fence that nobody requests any longer keeps the volume closed.
	// What to do: as the message says.
	Fenced = "Fenced"
)

// The limits of the API server: conditions of one volume, and bytes of a message.
const (
	maxConditions = 16
	maxMessage    = 1024
)

// Degraded returns a condition of a volume that can be used.
func Degraded(reason, message string) Condition {
	return Condition{Status: corev1.VolumeHealthDegraded, Reason: reason, Message: message}
}

// Inaccessible returns a condition of a volume of which at least a part cannot be used.
func Inaccessible(reason, message string) Condition {
	return Condition{Status: corev1.VolumeHealthInaccessible, Reason: reason, Message: message}
}

// Text returns the messages, or "" if there are none.
func Text(list []Condition) string {
	messages := make([]string, len(list))
	for i := range list {
		messages[i] = list[i].Message
	}
	return strings.Join(messages, "; ")
}

// Merged returns at most 16 conditions, each with another status or reason and at most 1,024 bytes of its messages,
// as the API server and CSI require. Those of volumes that cannot be used come first.
func Merged(list []Condition) []Condition {
	var merged []Condition
	for _, c := range list {
		same := slices.IndexFunc(merged, func(m Condition) bool { return m.Status == c.Status && m.Reason == c.Reason })
		if same < 0 {
			merged = append(merged, c)
		} else {
			merged[same].Message += "; " + c.Message
		}
	}
	for i := range merged {
		merged[i].Message = shortened(merged[i].Message)
	}
	slices.SortFunc(merged, func(a, b Condition) int {
		if a.Status != b.Status {
			return strings.Compare(string(b.Status), string(a.Status)) // Inaccessible is before Degraded.
		}
		return strings.Compare(a.Reason, b.Reason)
	})
	return merged[:min(len(merged), maxConditions)]
}

func shortened(text string) string {
	const end = "…"
	if len(text) <= maxMessage {
		return text
	}
	text = text[:maxMessage-len(end)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + end
}

// CSI returns the conditions of a volume as a CSI driver reports them.
func CSI(volumeID string, list []Condition) *csi.VolumeHealth {
	health := &csi.VolumeHealth{VolumeId: volumeID}
	for _, c := range Merged(list) {
		status := csi.VolumeHealthErrorType_DEGRADED
		if c.Status == corev1.VolumeHealthInaccessible {
			status = csi.VolumeHealthErrorType_INACCESSIBLE
		}
		health.HealthStatuses = append(health.HealthStatuses,
			&csi.VolumeHealth_VolumeHealthEntry{Status: status, Reason: c.Reason, Message: c.Message})
	}
	return health
}
