package volumespec

import (
	"math"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// Sizes in bytes.
const (
	mebi = int64(1) << 20
	// defaultSize is the size if a request has none.
	defaultSize = int64(1) << 30
	// Sector is the unit of sizes: every size is a multiple of it.
	Sector = 4096
	// minimumBlock is the minimum size of a block volume.
	minimumBlock = 8 * mebi
	// Maximum is the maximum size of a volume. Sizes are int64 in CSI, and rounding or adding a header to one of at
	// most this size does not overflow. A claim can request up to 8Ei.
	Maximum = int64(1) << 62
	// headerSize is the size of the LUKS header of an encrypted volume: the default of cryptsetup.
	headerSize = 16 * mebi
)

// requestedSize returns the size in bytes for a request: at least the minimum of its file system, and a multiple of
// sector. An encrypted volume also has its header. It returns OutOfRange if that exceeds the limit of the request.
func requestedSize(r *csi.CapacityRange, capabilities []*csi.VolumeCapability, encryption string) (int64, error) {
	required, limit, err := Bounds(r)
	if err != nil {
		return 0, err
	}
	least := int64(0)
	for _, c := range capabilities {
		least = max(least, minimumOf(c))
	}
	if encryption != "" {
		least += headerSize
	}
	if required == 0 {
		required = defaultSize
		if limit > 0 {
			required = min(required, limit/Sector*Sector)
		}
	}
	size := (max(required, least, 1) + Sector - 1) / Sector * Sector
	if limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "a volume of at most %d bytes is requested, but it would have %d: "+
			"its file system requires %d, and sizes are multiples of %d",
			limit, size, least, Sector)
	}
	return size, nil
}

func minimumOf(c *csi.VolumeCapability) int64 {
	if c.GetBlock() != nil {
		return minimumBlock
	}
	kind := c.GetMount().GetFsType()
	if kind == "" {
		kind = service.DefaultFileSystem
	}
	return service.FileSystems[kind].Minimum
}

// Sum returns the sum of a size of at least 0 and another one, which counts as 0 if it is negative. A sum that is too
// large becomes the largest number.
func Sum(sum, size int64) int64 {
	if size = max(0, size); sum > math.MaxInt64-size {
		return math.MaxInt64
	}
	return sum + size
}

// Bounds returns the limits of a request in bytes; 0 for none. It returns OutOfRange for a size that no volume can
// have.
func Bounds(r *csi.CapacityRange) (required, limit int64, err error) {
	required = r.GetRequiredBytes()
	limit = r.GetLimitBytes()
	switch {
	case required < 0 || limit < 0:
		return 0, 0, status.Errorf(codes.InvalidArgument, "invalid capacity_range: required_bytes %d, limit_bytes %d",
			required, limit)
	case required > Maximum:
		return 0, 0, status.Errorf(codes.OutOfRange, "a volume of %d bytes is requested, and the maximum is %d (4Ei): "+
			"request less in the claim", required, Maximum)
	case limit > 0 && required > limit:
		return 0, 0, status.Errorf(codes.OutOfRange, "invalid capacity_range: required_bytes %d is greater than "+
			"limit_bytes %d", required, limit)
	}
	return required, limit, nil
}
