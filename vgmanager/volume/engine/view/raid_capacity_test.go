package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// groupOf returns a volume group with extents of 4 MiB. Each text is a physical volume: its free areas, and "closed"
// or "missing".
func groupOf(t *testing.T, pvs ...string) *lvm.VG {
	t.Helper()
	vg := &lvm.VG{Name: "vg", ExtentSize: 4 << 20}
	for i, text := range pvs {
		pv := lvm.PV{Name: fmt.Sprintf("/dev/%d", i), UUID: fmt.Sprint(i), Allocatable: true}
		for _, word := range strings.Fields(text) {
			var n lvm.Bytes
			switch _, err := fmt.Sscan(word, &n); {
			case word == "closed":
				pv.Allocatable = false
			case word == "missing":
				pv.Missing = true
				vg.MissingPVs++
			case err != nil:
				t.Fatal(err)
			default:
				pv.FreeAreas = append(pv.FreeAreas, n<<22)
				pv.Free += n << 22
			}
		}
		vg.Free += pv.Free
		vg.PVs = append(vg.PVs, pv)
	}
	return vg
}

func TestCreateRoom(t *testing.T) {
	tests := []struct {
		options string
		pvs     []string
		want    lvm.Bytes // extents
	}{
		{"", []string{"10", "7 2", "5 closed", "5 missing", ""}, 19},
		{"--type raid1", []string{"10", "10"}, 9},
		{"--type raid1", []string{"10", "6"}, 5},
		{"--type raid1", []string{"10", "6", "8"}, 7},
		{"--type raid1", []string{"10", "10", "4", "4"}, 13},
		{"--type raid1", []string{"10"}, 0},
		{"--type raid1", []string{"10", "10 closed"}, 0},
		{"--type raid1", []string{"10", "10 missing"}, 0},
		{"--type raid1", []string{"10", "1"}, 0},
		{"--type raid1", []string{"6 4", "10", "9", "9"}, 9},
		{"--type raid1", []string{"1 1 1 1 1 1 1 1", "10", "4"}, 3},
		{"--type raid1 -m 2", []string{"10", "9", "8", "7"}, 7},
		{"--type raid5", []string{"10", "9", "8", "7"}, 14},
		{"--type raid5 --stripes 3", []string{"10", "9", "8", "7"}, 18},
		{"--type raid6", []string{"10", "10", "10", "10", "10"}, 27},
		{"--type raid10", []string{"10", "10", "10", "10"}, 18},
		{"--type raid10", []string{"10", "10", "10"}, 0},
		{"--stripes 2", []string{"10", "10", "10", "10"}, 40},
		{"--stripes 2", []string{"10", "4"}, 8},
	}
	for _, tt := range tests {
		layout, err := lvm.NewLayout(strings.Fields(tt.options))
		must(t, err)
		if got := createRoom(layout, 4<<20, groupOf(t, tt.pvs...).FreeDisks()) >> 22; got != tt.want {
			t.Errorf("%s on %q: got %d extents, want %d", tt.options, tt.pvs, got, tt.want)
		}
	}
}

func TestSmallExtentsHaveMoreMetadata(t *testing.T) {
	layout, err := lvm.NewLayout([]string{"--type", "raid1"})
	must(t, err)
	vg := groupOf(t, "2", "2")
	vg.ExtentSize = 256 << 10
	if got, want := createRoom(layout, vg.ExtentSize, vg.FreeDisks()), lvm.Bytes(7<<20); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
}

func TestOnePerImageNamesTheLargest(t *testing.T) {
	layout, err := lvm.NewLayout([]string{"--type", "raid1"})
	must(t, err)
	vg := groupOf(t, "4", "9", "1 1 1 1 1 1 1 1 1 1", "8", "20 closed")
	if diff := cmp.Diff([]string{"/dev/1", "/dev/3"}, onePerImage(layout, vg.ExtentSize, vg.FreeDisks(), 7)); diff != "" {
		t.Error(diff)
	}
	if got := onePerImage(layout, vg.ExtentSize, vg.FreeDisks(), 8); got != nil {
		t.Errorf("got %v where one device for each image is not enough", got)
	}
}

// withImages adds a RAID volume with images of n extents, each on the physical volumes of a text.
func withImages(vg *lvm.VG, data, n lvm.Bytes, on ...string) *lvm.LV {
	vg.LVs = append(vg.LVs, lvm.LV{Name: "a", Attr: "rwi-a-r---", SegType: "raid5", Size: data * n << 22})
	for i, uuids := range on {
		vg.Hidden = append(vg.Hidden,
			lvm.LV{Name: fmt.Sprintf("a_rimage_%d", i), Parent: "a", Attr: "iwi-aor---", Size: n << 22,
				PVs: strings.Fields(uuids)},
			lvm.LV{Name: fmt.Sprintf("a_rmeta_%d", i), Parent: "a", Attr: "ewi-aor---", Size: 4 << 20,
				PVs: strings.Fields(uuids)})
	}
	return &vg.LVs[0]
}

func TestGrowthOfAVolumeWithImages(t *testing.T) {
	tests := map[string]struct {
		pvs     []string
		data    lvm.Bytes
		images  []string
		want    lvm.Bytes
		devices string
	}{
		"where it is": {[]string{"5", "9"}, 1, []string{"0", "1"}, 5, "/dev/1 /dev/0"},
		"an image on two": {[]string{"5", "9", "1"}, 1, []string{"0 2", "1"}, 6,
			"/dev/1 /dev/0 /dev/2"},
		"parity": {[]string{"5", "9", "7"}, 2, []string{"0", "1", "2"}, 10,
			"/dev/1 /dev/2 /dev/0"},
		"elsewhere": {[]string{"5", "1", "7", "6"}, 1, []string{"0", "1"}, 6, "/dev/2 /dev/3"},
		"its device is closed": {[]string{"5", "5 closed", "7", "6"}, 1, []string{"0", "1"}, 6,
			"/dev/2 /dev/3"},
		"its device is closed, one other": {[]string{"5", "5 closed", "7"}, 1, []string{"0", "1"}, 0, "/dev/0"},
		"an image is being moved":         {[]string{"5", "5"}, 1, []string{"0", ""}, 0, ""},
		"its parts are not known":         {[]string{"5", "5"}, 1, nil, 0, ""},
	}
	for name, tt := range tests {
		vg := groupOf(t, tt.pvs...)
		g := imageGrowth(vg, withImages(vg, tt.data, 4, tt.images...), AllDisks(vg))
		if g.Room>>22 != tt.want || strings.Join(g.Devices, " ") != tt.devices {
			t.Errorf("%s: got %d on %v, want %d on %s", name, g.Room>>22, g.Devices, tt.want, tt.devices)
		}
	}
}
