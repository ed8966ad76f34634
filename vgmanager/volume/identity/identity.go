// Package identity ties LogicalVolume objects to logical volumes: by the name of the logical volume, and by the LVM
// tags that say for which object it was created.
package identity

import (
	"cmp"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Name returns the name of the logical volume of an object.
func Name(lv *topolvmv1.LogicalVolume) string {
	return cmp.Or(lv.Status.VolumeID, view.MoveVolume(lv), string(lv.UID))
}

// Tags returns the tags that identify the owner of a logical volume on a disk.
func Tags(lv *topolvmv1.LogicalVolume, cluster, claim string) []string {
	tags := []string{
		wellknown.VolumeUIDTagPrefix + string(lv.UID), wellknown.VolumeNameTagPrefix + lv.Name,
		wellknown.ClusterTagPrefix + cluster,
	}
	if isTag(claim) {
		tags = append(tags, wellknown.VolumeClaimTagPrefix+claim)
	}
	return tags
}

// EncryptionTags returns the tag that marks a logical volume as encrypted, if it is. A snapshot has it too.
func EncryptionTags(lv *topolvmv1.LogicalVolume) []string {
	method := view.Encryption(lv)
	if !isTag(method) {
		return nil
	}
	return []string{wellknown.EncryptionTagPrefix + method}
}

// IsTarget returns true for the target of a move.
func IsTarget(lv *topolvmv1.LogicalVolume) bool {
	return lv.Status.VolumeID == "" && view.MoveVolume(lv) != ""
}

// IsRetired returns true for an object that gets the earlier logical volume of a moved volume, until it has it.
func IsRetired(lv *topolvmv1.LogicalVolume) bool {
	return lv.Status.VolumeID == "" && view.IsRetired(lv)
}

// IsMoved returns true if something must be done for a move on the node of an object.
func IsMoved(lv *topolvmv1.LogicalVolume) bool {
	return IsTarget(lv) || IsRetired(lv) || view.Adopts(lv) != ""
}

// ChangedTags returns which tags to add and to remove, so that a logical volume has the wanted ones of tagsOf.
func ChangedTags(present, wanted []string) (add, remove []string) {
	for _, tag := range wanted {
		if !slices.Contains(present, tag) {
			add = append(add, tag)
		}
	}
	for _, tag := range present {
		if isOwnerTag(tag) && !slices.Contains(wanted, tag) {
			remove = append(remove, tag)
		}
	}
	return add, remove
}

// isOwnerTag returns true for tags that tagsOf sets.
func isOwnerTag(tag string) bool {
	for _, prefix := range []string{wellknown.VolumeUIDTagPrefix, wellknown.VolumeNameTagPrefix,
		wellknown.VolumeClaimTagPrefix, wellknown.ClusterTagPrefix} {
		if strings.HasPrefix(tag, prefix) {
			return true
		}
	}
	return false
}

// SpreadTags returns the tag that keeps a logical volume apart from the others of its spread group, if it has one. A
// copy has that of its own claim, not that of its source.
func SpreadTags(lv *topolvmv1.LogicalVolume) []string {
	spread := view.SpreadOf(lv)
	if !isTag(spread.Group) {
		return nil
	}
	return []string{wellknown.SpreadTagPrefix + spread.String()}
}

// isTag returns true if LVM accepts the text as part of a tag (lvm(8)). The annotation of a claim can be any text.
func isTag(text string) bool {
	for _, c := range text {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' ||
			c == '/' || c == '_') {
			return false
		}
	}
	const longest = 512 // of 1024 for the whole tag
	return text != "" && len(text) <= longest
}

// ObjectOf returns the name of the LogicalVolume for which a logical volume was created. It returns "" for a volume
// of an older version.
func ObjectOf(tags []string) string {
	for _, tag := range tags {
		if object, ok := strings.CutPrefix(tag, wellknown.VolumeNameTagPrefix); ok {
			return object
		}
	}
	return ""
}

// ClaimOf returns the claim of a logical volume as NAMESPACE/NAME, or "".
func ClaimOf(tags []string) string {
	for _, tag := range tags {
		if claim, ok := strings.CutPrefix(tag, wellknown.VolumeClaimTagPrefix); ok {
			return claim
		}
	}
	return ""
}
