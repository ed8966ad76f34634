package plan

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestTheStatusHasTheRoomForCopies: of a pool of 100 GiB whose data is used by a little less than 80%.
func TestTheStatusHasTheRoomForCopies(t *testing.T) {
	const gi = lvm.Bytes(1) << 30
	vg := &lvm.VG{Name: "vg1", ExtentSize: 4 << 20, Free: 50 * gi,
		PVs: []lvm.PV{{Name: "/dev/sda", UUID: "u", Free: 50 * gi, Size: 160 * gi, Allocatable: true}}}
	for name, test := range map[string]struct {
		config v1alpha1.ThinPoolConfig
		change func(*lvm.ThinPool)
		want   string
	}{
		"by default":      {v1alpha1.ThinPoolConfig{}, func(*lvm.ThinPool) {}, "10Gi"},
		"a lower mark":    {v1alpha1.ThinPoolConfig{HighWaterMarkPercent: 80}, func(*lvm.ThinPool) {}, "0"},
		"it is extended":  {v1alpha1.ThinPoolConfig{AutoExtend: &v1alpha1.AutoExtend{}}, func(*lvm.ThinPool) {}, "55Gi"},
		"metadata":        {v1alpha1.ThinPoolConfig{}, func(p *lvm.ThinPool) { p.MetadataPercent = new(90.0) }, "0"},
		"data not known":  {v1alpha1.ThinPoolConfig{}, func(p *lvm.ThinPool) { p.DataPercent = nil }, "<nil>"},
		"usage not known": {v1alpha1.ThinPoolConfig{}, func(p *lvm.ThinPool) { p.MetadataPercent = nil }, "<nil>"},
	} {
		pool := &lvm.ThinPool{LV: lvm.LV{Name: "pool", Size: 100 * gi, MetadataSize: gi, ChunkSize: 128 << 10,
			DataPercent: new(79.3), MetadataPercent: new(1.0)}}
		test.change(pool)
		for range 2 {
			if got := copyFree(&test.config, vg, pool).String(); got != test.want {
				t.Errorf("%s: got %s, want %s", name, got, test.want)
			}
		}
	}
}
