package view

import (
	"strings"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// viewOf returns a thick class of a volume group. options begin with an allocation, or are only options of lvcreate.
func viewOf(vg *lvm.VG, options string) Class {
	class := deviceclass.Class{Name: "vg", VolumeGroup: "vg", Type: types.TypeThick}
	class.LVCreateOptions = strings.Fields(options)
	if len(class.LVCreateOptions) > 0 && !strings.HasPrefix(options, "-") {
		class.Allocation = class.LVCreateOptions[0]
		class.LVCreateOptions = class.LVCreateOptions[1:]
	}
	return Class{Config: &class, VG: vg}
}

func TestPlacementOfANewVolume(t *testing.T) {
	tests := map[string]struct {
		options string
		pvs     []string
		room    lvm.Bytes // extents
		devices string
	}{
		"any": {"Any", []string{"10", "7 2", "5 closed", "5 missing", ""}, 19, ""},
		"single device": {"SingleDevice", []string{"4", "7 2", "20 closed", "20 missing", "8"}, 9,
			"/dev/1"},
		"single device, all full":     {"SingleDevice", []string{"", ""}, 0, "/dev/0"},
		"single device, none":         {"SingleDevice", []string{"9 closed"}, 0, ""},
		"single device, no RAID":      {"SingleDevice --type raid1", []string{"10", "6"}, 5, "/dev/0 /dev/1"},
		"stripes":                     {"--stripes 2", []string{"10", "10", "10", "10"}, 40, ""},
		"stripes of unequal devices":  {"--stripes 2", []string{"10", "4", "9 closed"}, 8, ""},
		"more stripes than devices":   {"--stripes 3", []string{"10", "4", "9 closed"}, 0, ""},
		"an option without placement": {"SingleDevice --readahead=none", []string{"4", "9"}, 9, "/dev/1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := viewOf(groupOf(t, tt.pvs...), tt.options)
			layout, err := lvm.NewLayout(v.Config.CreateOptions())
			must(t, err)
			p := v.placeNew(layout, 1, AllDisks(v.VG))
			if p.Room>>22 != tt.room || strings.Join(p.Devices, " ") != tt.devices {
				t.Errorf("got %d extents on %v, want %d on %s", p.Room>>22, p.Devices, tt.room, tt.devices)
			}
			if got := v.freeSpace(); got != p.Room && v.VG.MissingPVs == 0 {
				t.Errorf("%d bytes are announced, and %d fit", got, p.Room)
			}
		})
	}
}

func TestPlacementOfAnExtension(t *testing.T) {
	tests := map[string]struct {
		options string
		lv      lvm.LV
		room    lvm.Bytes // extents
		devices string
	}{
		"any":                             {"Any", lvm.LV{Stripes: 1, PVs: []string{"1"}}, 19, ""},
		"a volume without redundancy yet": {"--type raid1", lvm.LV{Stripes: 1, PVs: []string{"1"}}, 19, ""},
		"single device":                   {"SingleDevice", lvm.LV{Stripes: 1, PVs: []string{"1"}}, 5, "/dev/1"},
		"its device is full":              {"SingleDevice", lvm.LV{Stripes: 1, PVs: []string{"3"}}, 0, "/dev/3"},
		"its device is cordoned":          {"SingleDevice", lvm.LV{Stripes: 1, PVs: []string{"4"}}, 0, ""},
		"on several devices already": {"SingleDevice", lvm.LV{Stripes: 1, PVs: []string{"1", "2"}}, 9,
			"/dev/1 /dev/2"},
		"locked by a move": {"SingleDevice", lvm.LV{Stripes: 1, Attr: "-wI-a-----"}, 19,
			""},
		"striped":                      {"--stripes 3", lvm.LV{Stripes: 2, SegType: "striped"}, 10, ""},
		"striped, the class no longer": {"SingleDevice", lvm.LV{Stripes: 2, SegType: "striped"}, 10, ""},
		"striped over too many":        {"Any", lvm.LV{Stripes: 4, SegType: "striped"}, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			vg := groupOf(t, "10", "2 3", "4", "", "7 closed")
			tt.lv.Name = "a"
			p := viewOf(vg, tt.options).PlaceGrowth(&tt.lv, AllDisks(vg))
			if p.Room>>22 != tt.room || strings.Join(p.Devices, " ") != tt.devices {
				t.Errorf("got %d extents on %v, want %d on %s", p.Room>>22, p.Devices, tt.room, tt.devices)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
