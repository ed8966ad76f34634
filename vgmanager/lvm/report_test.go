package lvm

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded reads a report that LVM 2.03.16 printed on a lab node (User Mode Linux, ubd disks of 400 MiB).
func recorded(t *testing.T, name string) *Report {
	t.Helper()
	data, err := os.ReadFile("testdata/2.03.16/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	report, err := decodeReport(data)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func of(f float64) *float64 { return &f }

func TestDecodeBlankNode(t *testing.T) {
	report := recorded(t, "blank")
	if len(report.VGs) != 0 || len(report.PVs()) != 0 {
		t.Errorf("got %+v", report)
	}
}

func TestDecodeGroupsVolumesAndUnassignedPVs(t *testing.T) {
	report := recorded(t, "volumes")
	if got := []string{report.VGs[0].Name, report.VGs[1].Name}; !cmp.Equal(got, []string{"other", "vg1"}) {
		t.Fatalf("got the groups %v", got)
	}
	if len(report.Unassigned) != 1 || report.Unassigned[0].Name != "/dev/ubdf" || report.Unassigned[0].InUse {
		t.Errorf("got the unassigned %+v", report.Unassigned)
	}
	if len(report.PVs()) != 4 {
		t.Errorf("got %d physical volumes in all, want 4", len(report.PVs()))
	}
	vg := report.VG("vg1")
	if !vg.HasTag("lvms") || report.VG("other").HasTag("lvms") || report.VG("nosuch") != nil {
		t.Error("tags or names are mixed up")
	}
	want := VG{Size: 830472192, Free: 381681664, ExtentSize: 4 << 20, MissingPVs: 0, Attr: "wz--n-", Tags: []string{"lvms"}, Name: "vg1"}
	got := *vg
	got.UUID, got.PVs, got.LVs = "", nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if pv := vg.PVs[0]; pv.Name != "/dev/ubdb" || pv.Major != 98 || pv.Minor != 16 || pv.VGName != "vg1" || !pv.InUse || pv.Missing {
		t.Errorf("got %+v", pv)
	}
}

func TestDecodeVolumes(t *testing.T) {
	vg := recorded(t, "volumes").VG("vg1")
	tests := map[string]LV{
		"pool": {Name: "pool", Size: 398458880, Attr: "twi-aotz--", Major: 254, Minor: 2, DataPercent: of(0), MetadataPercent: of(10.45),
			MetadataSize: 8 << 20, ChunkSize: 128 << 10, Zeroes: true},
		"a": {Name: "a", Path: "/dev/vg1/a", Size: 64 << 20, Attr: "Vwi-a-tz--", Tags: []string{"foo"}, Major: 254, Minor: 4,
			PoolName: "pool", DataPercent: of(0)},
		"s1": {Name: "s1", Path: "/dev/vg1/s1", Size: 64 << 20, Attr: "Vri-a-tz--", Major: 254, Minor: 5, PoolName: "pool",
			Origin: "a", DataPercent: of(0)},
		"t1": {Name: "t1", Path: "/dev/vg1/t1", Size: 32 << 20, Attr: "-wi-a-----", Tags: []string{"t=1", "u"}, Major: 254, Minor: 6},
	}
	for name, want := range tests {
		got := *vg.LV(name)
		got.UUID = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(vg.LVs) != len(tests) {
		t.Errorf("got %d volumes; hidden ones should not be listed", len(vg.LVs))
	}
	pool := vg.ThinPool("pool")
	if pool == nil || len(pool.Volumes) != 2 || pool.VirtualSize() != 128<<20 {
		t.Errorf("got the pool %+v", pool)
	}
	if vg.ThinPool("t1") != nil || vg.ThinPool("nosuch") != nil {
		t.Error("something else was taken for a pool")
	}
}

func TestDecodeInactiveVolumesHaveNoDeviceAndNoFill(t *testing.T) {
	vg := recorded(t, "inactive").VG("vg1")
	for _, lv := range vg.LVs {
		if lv.Attr.Active() || lv.Major != 0 || lv.DataPercent != nil || lv.MetadataPercent != nil || lv.CheckNeeded {
			t.Errorf("got %+v", lv)
		}
	}
	if vg.ThinPool("pool").MetadataSize != 8<<20 {
		t.Error("the size of the metadata does not depend on activation")
	}
}

func TestDecodeMissingPV(t *testing.T) {
	vg := recorded(t, "missing").VG("vg1")
	if vg.MissingPVs != 1 || !vg.PVs[1].Missing || vg.PVs[1].Name != "[unknown]" || vg.PVs[1].Major != 0 || vg.PVs[0].Missing {
		t.Errorf("got %+v", vg.PVs)
	}
	for _, lv := range vg.LVs {
		if lv.Health != "partial" {
			t.Errorf("volume %s has the health %q", lv.Name, lv.Health)
		}
	}
}

func TestDecodeFullPool(t *testing.T) {
	pool := recorded(t, "full").VG("vg1").ThinPool("pool")
	if pool.Health != "out_of_data" || *pool.DataPercent != 100 || !pool.Attr.Active() {
		t.Errorf("got %+v", pool)
	}
}

// LVM does not mark a duplicate in its report (pv_duplicate is empty): only the devices themselves show it.
func TestDecodeDuplicatePVShowsOneOfTheDevices(t *testing.T) {
	report := recorded(t, "duplicate")
	var names []string
	for _, pv := range report.PVs() {
		names = append(names, pv.Name)
	}
	if diff := cmp.Diff([]string{"/dev/ubdd", "/dev/ubdb", "/dev/ubdc", "/dev/ubdf"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeTakesNumbersForStrings(t *testing.T) {
	data, err := os.ReadFile("testdata/2.03.16/volumes.json")
	if err != nil {
		t.Fatal(err)
	}
	// json_std, which LVM has since 2.03.17, prints numbers as numbers and nothing as null.
	std := string(data)
	for _, pair := range [][2]string{{`"830472192"`, "830472192"}, {`"254"`, "254"}, {`"10.45"`, "10.45"}, {`"origin":""`, `"origin":null`}} {
		if !strings.Contains(std, pair[0]) {
			t.Fatalf("the record has no %s", pair[0])
		}
		std = strings.ReplaceAll(std, pair[0], pair[1])
	}
	got, err := decodeReport([]byte(std))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recorded(t, "volumes"), got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRefusesWhatItDoesNotUnderstand(t *testing.T) {
	valid, err := os.ReadFile("testdata/2.03.16/volumes.json")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"nothing":             "",
		"half of it":          string(valid[:len(valid)/2]),
		"another document":    "{}",
		"a missing column":    strings.Replace(string(valid), `"vg_free"`, `"vg_fee"`, 1),
		"a size with a unit":  strings.Replace(string(valid), `"830472192"`, `"792.00m"`, 1),
		"a short attribute":   strings.Replace(string(valid), `"twi-aotz--"`, `"twi"`, 1),
		"a volume without ID": strings.Replace(string(valid), `"lv_name":"a"`, `"lv_name":""`, 1),
		"an object for text":  strings.Replace(string(valid), `"lvms"`, `{}`, 1),
	}
	for name, text := range tests {
		if got, err := decodeReport([]byte(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestLVAttr(t *testing.T) {
	tests := map[LVAttr]string{
		"twi-aotz--": "pool active open",
		"twi---tz--": "pool",
		"Vwi-aotz--": "volume active open",
		"Vri-a-tz-k": "volume ro active skip",
		"-wi-s-----": "active suspended",
		"-wi-XX--X-": "",
	}
	for attr, want := range tests {
		var words []string
		for _, f := range []struct {
			word string
			is   bool
		}{
			{"pool", attr.IsThinPool()}, {"volume", attr.IsThinVolume()}, {"ro", attr.ReadOnly()}, {"active", attr.Active()},
			{"open", attr.Open()}, {"suspended", attr.Suspended()}, {"skip", attr.SkipsActivation()},
		} {
			if f.is {
				words = append(words, f.word)
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: got %q, want %q", attr, got, want)
		}
	}
}

func TestBytesRoundUp(t *testing.T) {
	tests := []struct{ size, unit, want Bytes }{{1, 4, 4}, {4, 4, 4}, {5, 4, 8}, {0, 4, 0}, {5, 0, 5}}
	for _, tt := range tests {
		if got := tt.size.RoundUp(tt.unit); got != tt.want {
			t.Errorf("%d rounded up to %d: got %d, want %d", tt.size, tt.unit, got, tt.want)
		}
	}
}
