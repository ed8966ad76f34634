package lvm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
)

func TestVolumesOnFollowsPartsOfParts(t *testing.T) {
	vg := &lvm.VG{
		LVs: []lvm.LV{
			{Name: "pool", Attr: "twi-aotz--"},
			{Name: "b", Attr: "Vwi-a-tz--", PoolName: "pool"},
			{Name: "a", Attr: "Vwi-a-tz--", PoolName: "pool"},
			{Name: "other", Attr: "-wi-a-----", PVs: []string{"3"}},
		},
		Hidden: []lvm.LV{
			{Name: "pool_tdata", Parent: "pool", Attr: "rwi-aor---"},
			{Name: "pool_tdata_rimage_0", Parent: "pool_tdata", Attr: "iwi-aor---", PVs: []string{"1"}},
			{Name: "pool_tmeta", Parent: "pool", Attr: "ewi-aor---", PVs: []string{"2"}},
			{Name: "lvol0_pmspare", Attr: "ewi-------", PVs: []string{"4"}},
			{Name: "x", Parent: "y", PVs: []string{"5"}},
			{Name: "y", Parent: "x"},
			{Name: "orphan", Parent: "gone", PVs: []string{"6"}},
		},
	}
	for uuid, want := range map[string][]string{"1": {"a", "b"}, "2": {"a", "b"}, "3": {"other"}, "4": nil, "5": nil,
		"6": nil, "": nil} {
		if diff := cmp.Diff(want, vg.VolumesOn(uuid)); diff != "" {
			t.Errorf("on %s: %s", uuid, diff)
		}
	}
}

// layoutOf returns a group with a volume of each kind, and what DataDevices returns for it.
func layoutOf() (vg *lvm.VG, want map[string][]string) {
	return &lvm.VG{
			LVs: []lvm.LV{
				{Name: "pool", Attr: "twi-aotz--"}, {Name: "b", Attr: "Vwi-a-tz--", PoolName: "pool"},
				{Name: "a", Attr: "Vwi-a-tz--", PoolName: "pool"},
				{Name: "inactive", Attr: "-wi-------", PVs: []string{"1"}},
				{Name: "thick", Attr: "-wi-a-----", PVs: []string{"1", "3"}}, {Name: "mirrored", Attr: "rwi-a-r---"},
				{Name: "without extents", Attr: "-wi-a-----"},
			},
			Hidden: []lvm.LV{
				{Name: "pool_tdata", Parent: "pool", Attr: "rwi-aor---"},
				{Name: "pool_tdata_rimage_0", Parent: "pool_tdata", Attr: "iwi-aor---", PVs: []string{"2"}},
				{Name: "pool_tdata_rimage_1", Parent: "pool_tdata", Attr: "iwi-aor---", PVs: []string{"1", "5"}},
				{Name: "pool_tdata_rmeta_1", Parent: "pool_tdata", Attr: "ewi-aor---", PVs: []string{"1"}},
				{Name: "pool_tmeta", Parent: "pool", Attr: "rwi-aor---"},
				{Name: "pool_tmeta_rimage_0", Parent: "pool_tmeta", Attr: "iwi-aor---", PVs: []string{"4"}},
				{Name: "mirrored_rimage_0", Parent: "mirrored", PVs: []string{"1"}},
				{Name: "mirrored_rimage_1", Parent: "mirrored", PVs: []string{"2"}},
				{Name: "mirrored_rmeta_0", Parent: "mirrored", PVs: []string{"6"}},
				{Name: "lvol0_pmspare", Attr: "ewi-------", PVs: []string{"7"}},
				{Name: "x", Parent: "y", PVs: []string{"8"}}, {Name: "y", Parent: "x"},
			},
		}, map[string][]string{"a": {"1", "2", "5"}, "b": {"1", "2", "5"}, "thick": {"1", "3"}, "inactive": {"1"},
			"mirrored": {"1", "2", "6"}}
}

func TestDataDevicesOfEachKindOfVolume(t *testing.T) {
	vg, want := layoutOf()
	for range 2 {
		if diff := cmp.Diff(want, vg.DataDevices()); diff != "" {
			t.Error(diff)
		}
	}
	if got := (&lvm.VG{}).DataDevices(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestDataDevicesDuringAMove(t *testing.T) {
	vg, want := layoutOf()
	vg.LV("thick").Attr, vg.LV("thick").PVs = "-wC-a-----", []string{"3"}
	vg.Hidden = append(vg.Hidden, lvm.LV{Name: "pvmove0", MoveSource: "1", Attr: "p-C-aom---"},
		lvm.LV{Name: "pvmove0_mimage_0", Parent: "pvmove0", PVs: []string{"1"}},
		lvm.LV{Name: "pvmove0_mimage_1", Parent: "pvmove0", PVs: []string{"9"}})
	want["thick"] = []string{"1", "3", "9"}
	if diff := cmp.Diff(want, vg.DataDevices()); diff != "" {
		t.Error(diff)
	}
}

func TestMoveOfAnInactiveVolumeHasNoPercentage(t *testing.T) {
	vg := &lvm.VG{Hidden: []lvm.LV{{Name: "pvmove0", MoveSource: "1"},
		{Name: "pvmove0_mimage_0", Parent: "pvmove0", PVs: []string{"1"}}}}
	if moves := vg.Moves(); len(moves) != 1 || moves[0].Percent != nil {
		t.Errorf("got %+v", moves)
	}
	if got := vg.VolumesOn("1"); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestRAIDFailed(t *testing.T) {
	tests := []struct {
		level        string
		data, images int
		lost         []int
		unused       []int
		failed       bool
	}{
		{level: "raid1", data: 1, images: 3, lost: []int{0, 2}},
		{level: "raid1", data: 1, images: 2, lost: []int{0, 1}, failed: true},
		{level: "raid4", data: 2, images: 3, lost: []int{2}},
		{level: "raid5_ls", data: 2, images: 3, lost: []int{2}},
		{level: "raid5_ls", data: 2, images: 3, lost: []int{0, 2}, failed: true},
		{level: "raid6_zr", data: 3, images: 5, lost: []int{0, 4}},
		{level: "raid6_zr", data: 3, images: 5, lost: []int{0, 1, 4}, failed: true},
		{level: "raid10", data: 2, images: 4, lost: []int{0, 2}},
		{level: "raid10", data: 2, images: 4, lost: []int{1, 2}},
		{level: "raid10", data: 2, images: 4, lost: []int{2, 3}, failed: true},
		{level: "raid10", data: 6, images: 12, lost: []int{9, 10}},
		{level: "raid10", data: 6, images: 12, lost: []int{10, 11}, failed: true},
		{level: "raid0", data: 2, images: 2, lost: []int{1}, failed: true},
		{level: "raid1", data: 1, images: 2, unused: []int{1}},
		{level: "raid5_ls", data: 2, images: 3, unused: []int{1}},
		{level: "raid5_ls", data: 2, images: 3, unused: []int{1, 2}, failed: true},
		{level: "raid5_ls", data: 2, images: 3, lost: []int{0}, unused: []int{1}, failed: true},
		{level: "raid5_ls", data: 2, images: 3, lost: []int{1}, unused: []int{1}},
		{level: "raid10", data: 2, images: 4, unused: []int{1, 2}},
		{level: "raid1", data: 1, images: 2},
		{level: "raid10", data: 2, images: 4},
	}
	for _, tt := range tests {
		lv := lvm.LV{Name: "a", SegType: tt.level, Size: lvm.Bytes(tt.data) << 22}
		vg := &lvm.VG{LVs: []lvm.LV{lv}}
		for i := range tt.images {
			uuid := fmt.Sprint(i)
			vg.PVs = append(vg.PVs, lvm.PV{UUID: uuid, Missing: slices.Contains(tt.lost, i)})
			image := lvm.LV{Name: "a_rimage_" + uuid, Parent: "a", Attr: "iwi-aor---", Size: 4 << 20, PVs: []string{uuid}}
			if slices.Contains(tt.unused, i) {
				image.Health = lvm.HealthRefreshNeeded
			}
			vg.Hidden = append(vg.Hidden, image)
		}
		slices.SortFunc(vg.Hidden, func(a, b lvm.LV) int { return strings.Compare(a.Name, b.Name) })
		if got := vg.RAIDFailed(&vg.LVs[0]); got != tt.failed {
			t.Errorf("%s without %v and %v of %d images: got %t", tt.level, tt.lost, tt.unused, tt.images, got)
		}
		var want []string
		for _, i := range tt.unused {
			if !slices.Contains(tt.lost, i) {
				want = append(want, fmt.Sprintf("a_rimage_%d", i))
			}
		}
		var unused []string
		for _, image := range vg.UnusedImages(&vg.LVs[0]) {
			unused = append(unused, image.Name)
		}
		if !slices.Equal(unused, want) {
			t.Errorf("%s: unused images %v, want %v", tt.level, unused, want)
		}
	}
}

func TestAttrOfNothingIsNoPanic(t *testing.T) {
	for _, text := range []string{"", "r", "rwi-a", "rwi-aor-r-", "Vwi-aotz--"} {
		touch(text)
	}
}

// touch calls all helpers.
func touch(text string) int {
	a := lvm.LVAttr(text)
	v := lvm.VGAttr(text)
	n := 0
	for _, is := range []bool{
		a.IsThinPool(), a.IsThinVolume(), a.ReadOnly(), a.Active(), a.Suspended(), a.Open(), a.SkipsActivation(),
		a.IsRAID(), a.IsImage(),
		a.Locked(), a.Partial(), v.Writable(), v.Exported(), v.Shared(), v.Partial(), a.Health() == '-',
		(&lvm.LV{Attr: a}).IsRAID(),
	} {
		if is {
			n++
		}
	}
	return n
}

func FuzzAttr(f *testing.F) {
	for _, text := range []string{"", "-wi-a-----", "twi-aotzD-", "wz-pn-", "\xff", "p-C-aom---"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a := lvm.LVAttr(text); a.IsThinPool() && (a.IsThinVolume() || a.IsRAID()) {
			t.Errorf("%q is of two kinds", text)
		}
		touch(text)
	})
}

func FuzzDecodeReport(f *testing.F) {
	files, err := filepath.Glob("output/testdata/*/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no records: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		// Without white space, on which a fuzzer would waste time.
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			f.Fatal(err)
		}
		f.Add(compact.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := output.DecodeReport(data)
		if (report == nil) != (err != nil) {
			t.Fatalf("got %+v and %v", report, err)
		}
		if err != nil {
			return
		}
		for i := range report.VGs {
			seeSane(t, &report.VGs[i])
		}
	})
}

// seeSane checks the properties that callers rely on, for any output of LVM.
func seeSane(t *testing.T, vg *lvm.VG) {
	expect.NotZero(t, "Name", vg.Name)
	expect.NotZero(t, "UUID", vg.UUID)
	if vg.Size < 0 {
		t.Errorf("got %+v", vg)
	}
	if vg.Free < 0 {
		t.Errorf("got %+v", vg)
	}
	if vg.FreeOn("") < 0 {
		t.Errorf("got %+v", vg)
	}
	for _, pv := range vg.PVs {
		for _, name := range vg.VolumesOn(pv.UUID) {
			if vg.LV(name) == nil {
				t.Errorf("%s is on %s and does not exist", name, pv.UUID)
			}
		}
	}
	for _, m := range vg.Moves() {
		if m.Name == "" || m.SourceUUID == "" {
			t.Errorf("got %+v", m)
		}
	}
	for i := range vg.LVs {
		touch(string(vg.LVs[i].Attr))
		vg.ThinPool(vg.LVs[i].Name)
	}
}

func FuzzNewLayout(f *testing.F) {
	for _, options := range []string{"--type raid1 -m 1", "--type=raid6 --stripes=4", "-i3", "-m", "--mirrors x", ""} {
		f.Add(options)
	}
	f.Fuzz(func(t *testing.T, options string) {
		layout, err := lvm.NewLayout(strings.Fields(options))
		if err == nil && (layout.Images < 1 || layout.Data < 1 || layout.Data > layout.Images) {
			t.Errorf("%q: got %+v", options, layout)
		}
	})
}

// largeReport returns the record "volumes" with n thin volumes.
func largeReport(n int) []byte {
	var lvs, segs strings.Builder
	for i := range n {
		if i > 0 {
			lvs.WriteString(",\n")
			segs.WriteString(",\n")
		}
		id := fmt.Sprintf("O8GY43-N5Se-08Re-PbIG-5LGl-2z39-%06d", i)
		fmt.Fprintf(&lvs,
			`{"lv_name":"7f6d8a40-5ab4-4ba2-90ab-%012d", "lv_uuid":"%s", "lv_path":"/dev/vg1/7f6d8a40-5ab4-4ba2-90ab-%012d", "lv_size":"67108864", "lv_attr":"Vwi-a-tz--", "lv_tags":"", "lv_kernel_major":"254", "lv_kernel_minor":"5", "pool_lv":"pool", "origin":"", "data_percent":"0.00", "metadata_percent":"", "lv_metadata_size":"", "lv_health_status":"", "lv_check_needed":"unknown", "sync_percent":"", "lv_parent":"", "move_pv_uuid":"", "lv_time":"1700000000"}`, i, id, i)
		fmt.Fprintf(&segs, `{"lv_uuid":"%s", "segtype":"thin", "stripes":"0", "chunk_size":"0", "zero":"zero", "transaction_id":"0", `+
			`"discards":""}`, id)
	}
	return fmt.Appendf(nil,
		`{"report":[{"vg":[{"vg_name":"vg1", "vg_uuid":"Q", "vg_seqno":"7", "vg_size":"830472192", "vg_free":"381681664", "vg_extent_size":"4194304", "vg_attr":"wz--n-", "vg_tags":"lvms", "vg_missing_pv_count":"0", "vg_mda_size":"1044480", "vg_mda_free":"518144"}],"pv":[],"lv":[%s],"seg":[%s]}]}`, lvs.String(), segs.String())
}

func BenchmarkDecode10000Volumes(b *testing.B) {
	data := largeReport(10000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if report, err := output.DecodeReport(data); err != nil || len(report.VGs[0].LVs) != 10000 {
			b.Fatal(err)
		}
	}
}
