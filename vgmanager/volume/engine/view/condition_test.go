package view

import (
	"regexp"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

func TestProblemsOfVolumes(t *testing.T) {
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
			pvs: []lvm.PV{{UUID: "u1", Missing: true}}, says: []string{"^Inaccessible LogicalVolumeUnhealthy .*vg/a is partial", "^Inaccessible DeviceMissing .*u1 is missing"},
			damaged: true},
		"another disk": {lv: lvm.LV{PVs: []string{"u2"}}, pvs: []lvm.PV{{UUID: "u1", Missing: true}, {UUID: "u2"}}},
		"full pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", DataPercent: percent(95),
			MetadataPercent: percent(100)}}, says: []string{"^Degraded ThinPoolOutOfData .* data of",
			"^Degraded ThinPoolOutOfMetadata .* metadata of thin pool vg/pool is at least 95%"}},
		"broken pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "metadata_read_only"}},
			says: []string{"^Degraded ThinPoolUnhealthy .*vg/pool is broken: metadata_read_only"}, damaged: true},
		"RAID without a device": {lv: lvm.LV{Health: "partial", SegType: "raid1"},
			says: []string{"^Degraded LogicalVolumeUnhealthy"}, damaged: true},
		"failed pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "failed"}},
			says: []string{"^Inaccessible ThinPoolUnhealthy .*vg/pool is broken: failed"}, damaged: true},
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
			got := v.Problems(&v.VG.LVs[0])
			if len(got) != len(test.says) {
				t.Fatalf("got %q, want %q", got, test.says)
			}
			for i, s := range test.says {
				text := string(got[i].Status) + " " + got[i].Reason + " " + got[i].Message
				if !regexp.MustCompile(s).MatchString(text) {
					t.Errorf("got %q, want %q", text, s)
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
