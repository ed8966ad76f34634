// Package view is the typed view of the objects of a volume: it reads and writes what the annotations of LogicalVolumes
// and PersistentVolumes say. Package fence has those of fences.
package view

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
)

// set sets an annotation of a LogicalVolume, or removes it if the text is "".
func set(lv *topolvmv1.LogicalVolume, key, text string) {
	switch {
	case text != "":
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, key, text)
	case lv.Annotations[key] != "":
		delete(lv.Annotations, key)
	}
}

// Claim returns what a LogicalVolume was created for, as NAMESPACE/NAME: a claim, VolumeSnapshot or
// VolumeGroupSnapshot; "" if that is not known.
func Claim(lv *topolvmv1.LogicalVolume) string { return lv.Annotations[wellknown.ClaimAnnotation] }

// ClaimKey returns what a LogicalVolume was created for. known is false if it has no NAMESPACE/NAME.
func ClaimKey(lv *topolvmv1.LogicalVolume) (key types.NamespacedName, known bool) {
	key.Namespace, key.Name, known = strings.Cut(Claim(lv), "/")
	return key, known
}

// Condition returns what is wrong with a logical volume, or "".
func Condition(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.ConditionAnnotation]
}

// EncodeHealth returns the value of the annotation with the health of a volume, or "" for a healthy one.
func EncodeHealth(list []health.Condition) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	text, err := json.Marshal(health.Merged(list))
	return string(text), err
}

// Health returns what is wrong with a logical volume, as its agent has reported it. An agent before version 0.2 has
// reported the text alone.
func Health(lv *topolvmv1.LogicalVolume) []health.Condition {
	var list []health.Condition
	err := json.Unmarshal([]byte(lv.Annotations[wellknown.HealthAnnotation]), &list)
	if text := Condition(lv); text != "" && (err != nil || len(list) == 0) {
		return []health.Condition{health.Degraded(health.LogicalVolumeUnhealthy, text)}
	}
	return list
}

// MissingVolume returns the Condition of a LogicalVolume whose node does not have its logical volume. The agent of the
// node writes it; the operator and the agents of other nodes compare it.
func MissingVolume(node, volume string) string {
	return fmt.Sprintf("node %s has no logical volume %s", node, volume)
}

// Encryption returns how a volume is encrypted: EncryptionLUKS2, or "" if it is not.
func Encryption(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.EncryptionAnnotation]
}

// SetEncryption records how a volume is encrypted. It does nothing for "".
func SetEncryption(lv *topolvmv1.LogicalVolume, method string) {
	if method != "" {
		set(lv, wellknown.EncryptionAnnotation, method)
	}
}

// FileSystem returns the type of the file system of a volume; "" for a block volume, or if it is not recorded.
func FileSystem(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.FileSystemAnnotation]
}

// SetFileSystem records the type of the file system of a volume. It does nothing for "".
func SetFileSystem(lv *topolvmv1.LogicalVolume, kind string) {
	if kind != "" {
		set(lv, wellknown.FileSystemAnnotation, kind)
	}
}

// RequestedSize returns the size that was requested for a volume, in bytes; 0 if none is recorded, or no size.
func RequestedSize(lv *topolvmv1.LogicalVolume) int64 {
	size, err := strconv.ParseInt(lv.Annotations[wellknown.RequestedSizeAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, size)
}

// SetRequestedSize records the size that was requested for a volume, in bytes; 0 removes the record.
func SetRequestedSize(lv *topolvmv1.LogicalVolume, size int64) {
	if size == 0 {
		delete(lv.Annotations, wellknown.RequestedSizeAnnotation)
		return
	}
	set(lv, wellknown.RequestedSizeAnnotation, strconv.FormatInt(size, 10))
}

// Suspended reports whether somebody has suspended a volume, and returns what was written about it.
func Suspended(lv *topolvmv1.LogicalVolume) (text string, suspended bool) {
	text, suspended = lv.Annotations[wellknown.SuspendedAnnotation]
	return text, suspended
}

// SuspendedDevices returns the suspended devices that have data of a volume, or "".
func SuspendedDevices(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.SuspendedDevicesAnnotation]
}

// IsUnclaimed reports whether no PersistentVolume, snapshot or claim refers to a volume.
func IsUnclaimed(lv *topolvmv1.LogicalVolume) bool {
	_, unclaimed := lv.Annotations[wellknown.UnclaimedAnnotation]
	return unclaimed
}

// IsPendingDeletion reports whether node agents have to leave a LogicalVolume alone.
func IsPendingDeletion(lv *topolvmv1.LogicalVolume) bool {
	_, pending := lv.Annotations[wellknown.PendingDeletionAnnotation]
	return pending
}

// Import returns the existing logical volume that a LogicalVolume is for, or "".
func Import(lv *topolvmv1.LogicalVolume) string { return lv.Annotations[wellknown.ImportAnnotation] }

// ExistingVolume returns the logical volume that the node agent has found for a restored snapshot, or "".
func ExistingVolume(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.ExistingVolumeAnnotation]
}

// EarlierDriver returns the earlier driver if that is the one of the volume, or "".
func EarlierDriver(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.EarlierDriverAnnotation]
}

// EarlierStaged returns the path at which a volume is staged for the earlier driver, or "".
func EarlierStaged(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.EarlierStagedAnnotation]
}
