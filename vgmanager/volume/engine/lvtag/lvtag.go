// Package lvtag reads the LVM tags of volumes: what they say about the data of a volume, and for whom it was created.
package lvtag

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// formatPrefix is the prefix of FormattedTagPrefix and FormattingTagPrefix.
const formatPrefix = "lvms.format"

// ownerPrefixes are the prefixes of the tags that say for which object a logical volume was created.
var ownerPrefixes = []string{wellknown.VolumeUIDTagPrefix, wellknown.VolumeNameTagPrefix,
	wellknown.VolumeClaimTagPrefix, wellknown.ClusterTagPrefix, wellknown.SpreadTagPrefix}

// IsContent reports whether a tag says whether a volume has a file system, or is not used yet. These tags only
// change from new to formatting, and then to formatted or used.
func IsContent(tag string) bool {
	return tag == wellknown.NewTag || strings.HasPrefix(tag, formatPrefix)
}

// IsCopied reports whether a tag that describes the content of a volume also applies to a copy. FormattingTagPrefix
// does not: in earlier versions, it could be older than the data of the copy, which would be formatted.
func IsCopied(tag string) bool {
	return IsContent(tag) && !strings.HasPrefix(tag, wellknown.FormattingTagPrefix)
}

// Inherited returns the tags of a volume that describe its content, and so apply to a copy.
func Inherited(tags []string) []string {
	var list []string
	for _, tag := range tags {
		if IsCopied(tag) || strings.HasPrefix(tag, wellknown.EncryptionTagPrefix) {
			list = append(list, tag)
		}
	}
	return list
}

// IsCopying reports whether a volume with these tags does not have all data of its source yet.
func IsCopying(tags []string) bool { return slices.Contains(tags, wellknown.CopyingTag) }

// CopiedBytes returns up to which byte the data of a volume was copied, from its tags.
func CopiedBytes(tags []string) (int64, error) {
	var most int64
	for _, tag := range tags {
		text, is := strings.CutPrefix(tag, wellknown.CopiedTagPrefix)
		if !is {
			continue
		}
		done, err := strconv.ParseInt(text, 10, 64)
		if err != nil || done < 0 {
			return 0, errors.New("its tag " + tag + " is not a number of bytes: remove the tag with lvchange --deltag")
		}
		most = max(most, done)
	}
	return most, nil
}

// FencedBy returns for what a volume with these tags is fenced, or "": the UID of a VolumeMove, or the one of a clone
// after CloneFencePrefix.
func FencedBy(tags []string) string { return Value(tags, wellknown.FencedTagPrefix) }

// FenceText describes for what a volume is fenced.
func FenceText(fence string) string {
	if clone, is := strings.CutPrefix(fence, wellknown.CloneFencePrefix); is {
		return "the clone with the UID " + clone
	}
	return fmt.Sprintf("the VolumeMove with the UID %q", fence)
}

func Value(tags []string, prefix string) string {
	for _, tag := range tags {
		if value, is := strings.CutPrefix(tag, prefix); is {
			return value
		}
	}
	return ""
}

// Round is what the tags of a target say about its data.
type Round struct {
	// Source is the LogicalVolume that is being copied, "" if no round is in progress. Copied is up to which byte the
	// round has copied.
	Source string
	Copied int64
	// Base is the snapshot whose data the target has completely if no round is in progress. Otherwise the round copies
	// only the differences to it; without Base, it copies everything.
	Base string
	// Sparse: what was not written reads as zeros. Otherwise all chunks are provided, or have anything.
	Sparse bool
}

// RoundOf returns the Round of a target from its tags.
func RoundOf(tags []string) (Round, error) {
	copied, err := CopiedBytes(tags)
	return Round{Source: Value(tags, wellknown.CopyOfTagPrefix), Base: Value(tags, wellknown.BaseTagPrefix),
		Copied: copied, Sparse: slices.Contains(tags, wellknown.SparseTag)}, err
}

// IsReplaced reports whether a tag describes the data of the target of a move, which a complete round replaces.
func IsReplaced(tag string) bool {
	return IsRound(tag) || IsContent(tag) || strings.HasPrefix(tag, wellknown.EncryptionTagPrefix)
}

func IsRound(tag string) bool {
	return strings.HasPrefix(tag, wellknown.CopyOfTagPrefix) || strings.HasPrefix(tag, wellknown.CopiedTagPrefix) ||
		strings.HasPrefix(tag, wellknown.BaseTagPrefix)
}

// IsOwner reports whether a tag says for which object a logical volume was created.
func IsOwner(tag string) bool {
	return slices.ContainsFunc(ownerPrefixes, func(prefix string) bool { return strings.HasPrefix(tag, prefix) })
}
