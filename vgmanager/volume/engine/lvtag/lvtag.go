// Package lvtag reads the LVM tags of volumes: what they say about the data of a volume, and for whom it was created.
//
// The engine does not import the API, which has the same tags.
package lvtag

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// New marks a volume from its creation until its first use. Discard can remove a volume with this tag, so that it
// is recreated. A request for a volume with this tag removes the tag (TagLV).
const New = "lvms.new"

const (
	FormattedPrefix  = "lvms.formatted="
	FormattingPrefix = "lvms.formatting="
	// ErasedPrefix precedes how many bytes of a volume are erased, from its beginning.
	ErasedPrefix = "lvms.erased="
	Copying      = "lvms.copying"
	CopiedPrefix = "lvms.copied="
	CopyOfPrefix = "lvms.copy-of="
	BasePrefix   = "lvms.base="
	Sparse       = "lvms.sparse"
	FencedPrefix = "lvms.fenced="
	// ClaimPrefix precedes the claim or VolumeSnapshot of a volume, as NAMESPACE/NAME.
	ClaimPrefix = "lvms.pvc="
	CloneFence  = "clone-"
	UIDPrefix   = "lvms.uid="
	// encryptionPrefix is the prefix of the tag that records how a volume is encrypted.
	encryptionPrefix = "lvms.encryption="
	// formatPrefix is the prefix of FormattedPrefix and FormattingPrefix.
	formatPrefix = "lvms.format"
)

// ownerPrefixes are the prefixes of the tags that say for which object a logical volume was created.
var ownerPrefixes = []string{UIDPrefix, "lvms.pv=", ClaimPrefix, "lvms.cluster=", "lvms.spread="}

// IsContent reports whether a tag says whether a volume has a file system, or is not used yet. These tags only
// change from new to formatting, and then to formatted or used.
func IsContent(tag string) bool { return tag == New || strings.HasPrefix(tag, formatPrefix) }

// IsCopied reports whether a tag that describes the content of a volume also applies to a copy. FormattingPrefix
// does not: in earlier versions, it could be older than the data of the copy, which would be formatted.
func IsCopied(tag string) bool {
	return IsContent(tag) && !strings.HasPrefix(tag, FormattingPrefix)
}

// Inherited returns the tags of a volume that describe its content, and so apply to a copy.
func Inherited(tags []string) []string {
	var list []string
	for _, tag := range tags {
		if IsCopied(tag) || strings.HasPrefix(tag, encryptionPrefix) {
			list = append(list, tag)
		}
	}
	return list
}

// IsCopying reports whether a volume with these tags does not have all data of its source yet.
func IsCopying(tags []string) bool { return slices.Contains(tags, Copying) }

// CopiedBytes returns up to which byte the data of a volume was copied, from its tags.
func CopiedBytes(tags []string) (int64, error) {
	var most int64
	for _, tag := range tags {
		text, is := strings.CutPrefix(tag, CopiedPrefix)
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
// after CloneFence.
func FencedBy(tags []string) string { return Value(tags, FencedPrefix) }

// FenceText describes for what a volume is fenced.
func FenceText(fence string) string {
	if clone, is := strings.CutPrefix(fence, CloneFence); is {
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
	return Round{Source: Value(tags, CopyOfPrefix), Base: Value(tags, BasePrefix), Copied: copied,
		Sparse: slices.Contains(tags, Sparse)}, err
}

// IsReplaced reports whether a tag describes the data of the target of a move, which a complete round replaces.
func IsReplaced(tag string) bool {
	return IsRound(tag) || IsContent(tag) || strings.HasPrefix(tag, encryptionPrefix)
}

func IsRound(tag string) bool {
	return strings.HasPrefix(tag, CopyOfPrefix) || strings.HasPrefix(tag, CopiedPrefix) ||
		strings.HasPrefix(tag, BasePrefix)
}

// IsOwner reports whether a tag says for which object a logical volume was created.
func IsOwner(tag string) bool {
	return slices.ContainsFunc(ownerPrefixes, func(prefix string) bool { return strings.HasPrefix(tag, prefix) })
}
