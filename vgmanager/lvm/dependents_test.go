package lvm

import (
	"errors"
	"slices"
	"testing"
)

// TestVolumesThatOthersNeed has each kind of volume that lvremove --yes removes with another one.
func TestVolumesThatOthersNeed(t *testing.T) {
	vg := &VG{Name: "vg1", LVs: []LV{
		{Name: "pool", UUID: "pool", Attr: "twi-aotz--"},
		{Name: "thin", UUID: "thin", Attr: "Vwi-a-tz--", PoolName: "pool"},
		{Name: "snap", UUID: "snap", Attr: "Vwi-a-tz--", PoolName: "pool", Origin: "thin"},
		{Name: "ext", UUID: "ext", Attr: "ori-------"},
		{Name: "reads", UUID: "reads", Attr: "Vwi-a-tz--", PoolName: "pool", Origin: "ext"},
		{Name: "other", UUID: "other", Attr: "twi-aotz--"},
		{Name: "far", UUID: "far", Attr: "Vwi-a-tz--", PoolName: "other", Origin: "snap"},
		{Name: "thick", UUID: "thick", Attr: "owi-a-s---"},
		{Name: "cow", UUID: "cow", Attr: "swi-a-s---", Origin: "thick"},
		{Name: "vpool", UUID: "vpool", Attr: "dwi-------"},
		{Name: "vdo", UUID: "vdo", Attr: "vwi-a-v---", PoolName: "vpool"},
	}}
	want := map[string][]string{"pool": {"thin", "snap", "reads"}, "other": {"far"}, "snap": {"far"}, "ext": {"reads"},
		"thick": {"cow"}, "vpool": {"vdo"}}
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if got := vg.Dependents(lv); !slices.Equal(got, want[lv.Name]) {
			t.Errorf("%s is needed by %v, want %v", lv.Name, got, want[lv.Name])
		}
		if err := vg.checkRemovable([]string{lv.UUID}); (err != nil) != (want[lv.Name] != nil) ||
			err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("the removal of %s: %v", lv.Name, err)
		}
	}
}
