package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// CloneFence returns the value of FenceAnnotation, FencedAnnotation and FencedTagPrefix for a copy to the LogicalVolume
// with a UID.
func CloneFence(target types.UID) string { return wellknown.CloneFencePrefix + string(target) }

// IsCloneFence reports whether a fence is that of a copy, and not that of a VolumeMove.
func IsCloneFence(fence string) bool { return strings.HasPrefix(fence, wellknown.CloneFencePrefix) }
