package volumespec

import (
	"math"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

func mountCapability(kind string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: kind}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func TestAnEncryptedVolumeHasRoomForItsHeader(t *testing.T) {
	block := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	for _, tt := range []struct {
		capability *csi.VolumeCapability
		want       int64
	}{{mountCapability("ext4"), 48 * mebi}, {mountCapability("xfs"), 316 * mebi}, {block, 24 * mebi}} {
		got, err := requestedSize(&csi.CapacityRange{RequiredBytes: 1}, []*csi.VolumeCapability{tt.capability},
			wellknown.EncryptionLUKS2)
		if err != nil || got != tt.want {
			t.Errorf("%v: got %d, %v, want %d", tt.capability, got, err, tt.want)
		}
	}
}

func TestSizes(t *testing.T) {
	mount := []*csi.VolumeCapability{mountCapability("ext4")}
	for name, tt := range map[string]struct {
		required, limit int64
		want            int64
		code            codes.Code
	}{
		"rounded up":         {33*mebi + 1, 0, 33*mebi + Sector, codes.OK},
		"nothing asked":      {0, 0, 1 << 30, codes.OK},
		"only a limit":       {0, 100*mebi + 1, 100 * mebi, codes.OK},
		"a high limit":       {0, 1 << 40, 1 << 30, codes.OK},
		"below the minimum":  {1, 0, 32 * mebi, codes.OK},
		"the limit is low":   {1, 2, 0, codes.OutOfRange},
		"rounded over":       {40*mebi + 1, 40*mebi + 2, 0, codes.OutOfRange},
		"exactly the limit":  {40 * mebi, 40 * mebi, 40 * mebi, codes.OK},
		"the largest":        {Maximum, 0, Maximum, codes.OK},
		"8Ei":                {math.MaxInt64, 0, 0, codes.OutOfRange},
		"8Ei of 8Ei":         {math.MaxInt64, math.MaxInt64, 0, codes.OutOfRange},
		"a limit of 8Ei":     {40 * mebi, math.MaxInt64, 40 * mebi, codes.OK},
		"a negative request": {-1, 0, 0, codes.InvalidArgument},
		"a negative limit":   {0, -1, 0, codes.InvalidArgument},
	} {
		got, err := requestedSize(&csi.CapacityRange{RequiredBytes: tt.required, LimitBytes: tt.limit}, mount, "")
		if got != tt.want || status.Code(err) != tt.code {
			t.Errorf("%s: got %d, %v", name, got, err)
		}
	}
}
