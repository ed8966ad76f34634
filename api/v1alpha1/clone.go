package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// CloneFencePrefix precedes the UID of a LogicalVolume in the fence of a thick volume that is copied to it. The fence
// of a VolumeMove is only its UID.
const CloneFencePrefix = "clone-"

// CloneFence returns the value of FenceAnnotation, FencedAnnotation and FencedTagPrefix for a copy to the LogicalVolume
// with a UID.
func CloneFence(target types.UID) string { return CloneFencePrefix + string(target) }

// IsCloneFence reports whether a fence is that of a copy, and not that of a VolumeMove.
func IsCloneFence(fence string) bool { return strings.HasPrefix(fence, CloneFencePrefix) }
