package view

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

func TestWrongs(t *testing.T) {
	percent := func(p float64) *float64 { return &p }
	for name, test := range map[string]struct {
		lv   lvm.LV
		pvs  []lvm.PV
		pool *lvm.ThinPool
		says []string
		// damaged: the volume is not trimmed.
		damaged bool
	}{
		"well": {},
		"well, in a pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", DataPercent: percent(94.9),
			MetadataPercent: percent(3)}}},
		"partial": {lv: lvm.LV{Health: "partial", PVs: []string{"u1"}},
			pvs: []lvm.PV{{UUID: "u1", Missing: true}}, says: []string{"u1 is missing", "vg/a is partial"},
			damaged: true},
		"another disk": {lv: lvm.LV{PVs: []string{"u2"}}, pvs: []lvm.PV{{UUID: "u1", Missing: true}, {UUID: "u2"}}},
		"full pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", DataPercent: percent(95),
			MetadataPercent: percent(100)}}, says: []string{"data of thin pool vg/pool is at least 95%",
			"metadata of thin pool vg/pool is at least 95%"}},
		"broken pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "metadata_read_only"}},
			says: []string{"vg/pool is broken: metadata_read_only"}, damaged: true},
		"pool without space": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "out_of_data"}},
			says: []string{"vg/pool is broken: out_of_data"}},
		"unchecked pool without space": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "out_of_data",
			CheckNeeded: true}}, says: []string{"vg/pool is broken: out_of_data"}, damaged: true},
		"unchecked pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", CheckNeeded: true}},
			says: []string{"check needed"}, damaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			test.lv.Name = "a"
			v := Class{VG: &lvm.VG{Name: "vg", LVs: []lvm.LV{test.lv}, PVs: test.pvs}, Pool: test.pool}
			v.ReadPool(t.Context(), nil)
			if damaged := v.IsDamaged(&v.VG.LVs[0]); damaged != test.damaged {
				t.Errorf("damaged: got %t", damaged)
			}
			got := v.wrongs(&v.VG.LVs[0])
			if len(got) != len(test.says) {
				t.Fatalf("got %q, want %q", got, test.says)
			}
			for _, s := range test.says {
				if !strings.Contains(strings.Join(got, "; "), s) {
					t.Errorf("got %q, want %q", got, s)
				}
			}
		})
	}
}

func TestMetadataMark(t *testing.T) {
	for size, want := range map[int64]float64{0: 95, 2 << 20: 75, 16 << 20: 75, 32 << 20: 87.5, 80 << 20: 95,
		1 << 30: 95} {
		if got := metadataMark(lvm.Bytes(size), deviceclass.DefaultHighWaterMark); got != want {
			t.Errorf("%d MiB: got %g, want %g", size>>20, got, want)
		}
	}
}
