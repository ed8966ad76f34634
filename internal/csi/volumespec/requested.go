package volumespec

import (
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file lets a copy have the request of its source. A volume is larger than its request: the size is rounded up to
// the minimum of its file system, to sectors, and by LVM to extents. The request is often repeated for a copy, by a
// StatefulSet, a backup, or a Git repository, and then a copy of the size of the source is created for it.

// extent is the default size of LVM's extents in bytes. LVM rounds the sizes of volumes up to it.
const extent = 4 * mebi

// RequestedOf returns the size that was requested for a volume, or for the source of a snapshot, in bytes. It is at
// most the present size. If none is recorded, or if the recorded one is that of an expansion that was not made, it is
// the size in the spec, which is the request of a volume rounded up to sectors, and the size of a snapshot.
func RequestedOf(lv *topolvmv1.LogicalVolume) int64 {
	size := SizeOf(lv)
	if recorded := view.RequestedSize(lv); recorded > 0 && recorded <= size {
		return recorded
	}
	if spec := lv.Spec.Size.Value(); spec > 0 && spec < size {
		return spec
	}
	return size
}

// IsEnough reports whether a copy can be created for a request, which is rounded up as that for an empty volume: if at
// least as much was requested as for the source, or if an empty volume would be as large as the source.
func IsEnough(source *topolvmv1.LogicalVolume, size int64) bool {
	return size >= RequestedOf(source) || Sum(size, extent-1)/extent*extent >= SizeOf(source)
}

// SetSizeOfCopy gives a copy at least the size of its source. It returns OutOfRange if too little is requested for it,
// or if the source is larger than the limit of the request in bytes, 0 for none.
func SetSizeOfCopy(desired, source *topolvmv1.LogicalVolume, limit int64) error {
	size := desired.Spec.Size.Value()
	have := SizeOf(source)
	switch {
	case size >= have:
		return nil
	case !IsEnough(source, size):
		return status.Errorf(codes.OutOfRange, "%d bytes are requested, but the source %s has %d: request at least %d",
			size, source.Name, have, RequestedOf(source))
	case limit > 0 && have > limit:
		return status.Errorf(codes.OutOfRange, "a volume of at most %d bytes is requested, but the source %s has %d",
			limit, source.Name, have)
	}
	desired.Spec.Size = *resource.NewQuantity(have, resource.BinarySI)
	return nil
}

// isSameCopy reports whether two LogicalVolumes are copies for the same request. Their sizes can differ, because that
// of the source can have changed.
func isSameCopy(desired, present *topolvmv1.LogicalVolume) bool {
	requested := view.RequestedSize(desired)
	return originOf(desired) != "" && requested != 0 && requested == view.RequestedSize(present)
}
