package volumespec

import (
	"slices"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Source is the source of a copy, and on which nodes the copy can be. A nil Source is that of an empty volume.
type Source struct {
	LV        *topolvmv1.LogicalVolume
	placement string
	// Thick: the source is a thick volume.
	Thick bool
}

// Node returns the node of the source.
func (c *Source) Node() string { return c.LV.Spec.NodeName }

// MustStay reports whether the copy can only be on the node of the source.
func (c *Source) MustStay() bool { return c != nil && c.placement == wellknown.SourceNodeOnly }

// Prefers reports whether the copy is on the node of the source if that has enough capacity.
func (c *Source) Prefers(allowed []string) bool {
	return c != nil && c.placement == wellknown.PreferSourceNode &&
		(len(allowed) == 0 || slices.Contains(allowed, c.Node()))
}

// IsElsewhere reports whether a LogicalVolume cannot be a snapshot of the source.
func (c *Source) IsElsewhere(lv *topolvmv1.LogicalVolume) bool {
	return c.IsCopiedTo(lv.Spec.NodeName, lv.Spec.DeviceClass)
}

// IsCopiedTo reports whether the data of the source is copied for a LogicalVolume on a node, in a device class.
func (c *Source) IsCopiedTo(node, class string) bool {
	return c != nil && (c.Thick || node != c.Node() || class != c.LV.Spec.DeviceClass)
}

func checkSourcePlacement(parameters map[string]string) error {
	value := parameters[wellknown.SourcePlacementParameter]
	known := []string{"", wellknown.SourceNodeOnly, wellknown.PreferSourceNode, wellknown.SourceAnyNode}
	if slices.Contains(known, value) {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "parameter %s of the StorageClass is %q, must be %s, %s or %s",
		wellknown.SourcePlacementParameter, value, wellknown.SourceNodeOnly, wellknown.PreferSourceNode,
		wellknown.SourceAnyNode)
}

// SetSource makes a LogicalVolume a copy. It returns an error if it cannot be one of this source. thick: the source is
// a thick volume.
func SetSource(desired, source *topolvmv1.LogicalVolume, thick bool,
	parameters map[string]string) (*Source, error) {
	if err := sameEncryption(source, view.Encryption(desired)); err != nil {
		return nil, err
	}
	desired.Spec.Source = source.Name
	desired.Spec.AccessType = "rw"
	if desired.Spec.DeviceClass == "" {
		desired.Spec.DeviceClass = source.Spec.DeviceClass
	}
	if desired.Spec.DeviceClass == source.Spec.DeviceClass && !thick {
		desired.Spec.LvcreateOptionClass = ""
	}
	placement := parameters[wellknown.SourcePlacementParameter]
	if placement == "" {
		placement = wellknown.PreferSourceNode
	}
	return &Source{LV: source, placement: placement, Thick: thick}, nil
}

// originOf returns the LogicalVolume of which another one is a copy, or "".
func originOf(lv *topolvmv1.LogicalVolume) string {
	if origin := view.CopyOf(lv); origin != "" {
		return origin
	}
	return lv.Spec.Source
}

// PreparationPrefix precedes the name of a LogicalVolume in that of the snapshot that is created to copy its source.
const PreparationPrefix = "copy-"

// IsPreparation reports whether a LogicalVolume is a snapshot that was created to copy its source. Its name and its
// access type must show this too: whoever can write the annotation must not have another volume deleted.
func IsPreparation(lv *topolvmv1.LogicalVolume) bool {
	copied := view.CopyFor(lv)
	return copied != "" && lv.Name == PreparationPrefix+copied && lv.Spec.AccessType == AccessSnapshot
}
