package volume

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// MovedReason returns why a logical volume with these tags must not be used: it is fenced for a move or a clone, or
// does not have all its data yet. It returns "" if it can be used.
func MovedReason(tags []string) string {
	if fences := FenceTags(tags); len(fences) > 0 {
		move := strings.TrimPrefix(fences[0], wellknown.FencedTagPrefix)
		if clone, is := strings.CutPrefix(move, wellknown.CloneFencePrefix); is {
			return fmt.Sprintf("it is being copied to the LogicalVolume with the UID %s, a clone of it, and can be "+
				"used when that is complete: to use it now, delete the clone's claim", clone)
		}
		return fmt.Sprintf("it is being moved to another node by the VolumeMove with the UID %s, and its Pods get it "+
			"there: to keep it here, delete the VolumeMove; if that does not exist, see the condition of the volume",
			move)
	}
	if IsCopying(tags) {
		return "its data is being copied to this node, and is not complete yet"
	}
	return ""
}

// IsCopying reports whether a logical volume with these tags does not have all its data yet.
func IsCopying(tags []string) bool { return slices.Contains(tags, wellknown.CopyingTag) }

// FenceTags returns the tags that fence a volume.
func FenceTags(tags []string) []string {
	var list []string
	for _, tag := range tags {
		if strings.HasPrefix(tag, wellknown.FencedTagPrefix) {
			list = append(list, tag)
		}
	}
	return list
}
