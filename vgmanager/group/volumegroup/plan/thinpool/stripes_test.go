package thinpool

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

const (
	extent = lvm.Bytes(4 << 20)
	gib    = lvm.Bytes(1 << 30)
)

// disksOf returns a volume group whose physical volumes have these free sizes in extents.
func disksOf(free ...lvm.Bytes) *lvm.VG {
	vg := &lvm.VG{Name: "vg1", ExtentSize: extent}
	for i, n := range free {
		vg.PVs = append(vg.PVs, lvm.PV{UUID: fmt.Sprint(i), Allocatable: true, Size: 1000 * extent, Free: n * extent,
			FreeAreas: []lvm.Bytes{n * extent}})
		vg.Size += 1000 * extent
		vg.Free += n * extent
	}
	return vg
}

func stripedOver(stripes int32, percent int) *v1alpha1.ThinPoolConfig {
	return &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: percent, Stripes: &stripes}
}

func cordoned(vg *lvm.VG) *lvm.VG {
	vg.PVs[0].Allocatable = false
	return vg
}

func TestChunkSizeFollowsThePool(t *testing.T) {
	const tib = 1 << 10 * gib
	largest := MaxPoolSize(128 << 10)
	if largest < 31*tib || largest > 32*tib {
		t.Errorf("with chunks of 128 KiB a pool can have %d bytes", largest)
	}
	fixed := resource.MustParse("64Ki")
	tests := map[string]struct {
		config v1alpha1.ThinPoolConfig
		size   lvm.Bytes
		want   lvm.Bytes
	}{
		"small":             {size: gib, want: 128 << 10},
		"can double":        {size: largest / 2, want: 128 << 10},
		"cannot double":     {size: largest/2 + gib, want: 256 << 10},
		"above the limit":   {size: 32 * tib, want: 512 << 10},
		"a shelf of disks":  {size: 1000 * tib, want: 8 << 20},
		"beyond LVM":        {size: 1 << 62, want: 1 << 30},
		"set, not computed": {config: v1alpha1.ThinPoolConfig{ChunkSize: &fixed}, size: 40 * tib, want: 64 << 10},
		"left to LVM":       {config: v1alpha1.ThinPoolConfig{ChunkSizeCalculationPolicy: "Host"}, size: 40 * tib},
	}
	for name, tt := range tests {
		if got := chunkWanted(&tt.config, tt.size); got != tt.want {
			t.Errorf("%s: got %d KiB, want %d KiB", name, got>>10, tt.want>>10)
		}
	}
}

func TestSizeOfAStripedPool(t *testing.T) {
	for name, test := range map[string]struct {
		vg      *lvm.VG
		stripes int32
		percent int
		want    lvm.Bytes // in extents
	}{
		// The metadata has one extent up to 8 GiB and two up to 16 GiB; each device keeps space for it and its spare.
		"equal devices":           {disksOf(1000, 1000), 2, 100, 1996},
		"a share":                 {disksOf(1000, 1000), 2, 50, 998},
		"the smaller one decides": {disksOf(1000, 400), 2, 100, 796},
		"of three, two at a time": {disksOf(1000, 1000, 1000), 2, 100, 1992},
		"four in two sets":        {disksOf(1000, 900, 500, 400), 2, 100, 2592},
		"over all":                {disksOf(1000, 1000, 1000, 1000), 4, 100, 3984},
		"too few devices":         {disksOf(1000), 2, 100, 0},
		"one has no space":        {disksOf(1000, 0), 2, 100, 0},
		"one is cordoned":         {cordoned(disksOf(1000, 1000)), 2, 100, 0},
		"no more than metadata":   {disksOf(2, 2), 2, 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := stripedSize(stripedOver(test.stripes, test.percent), test.vg)
			if got/extent != test.want || got%(extent*lvm.Bytes(test.stripes)) != 0 {
				t.Errorf("got %d extents", got/extent)
			}
		})
	}
	if got := stripedSize(stripedOver(2, 90), &lvm.VG{}); got != 0 {
		t.Errorf("a volume group without extents: got %d", got)
	}
}
