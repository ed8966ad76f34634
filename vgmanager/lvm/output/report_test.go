package output

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// recorded returns a report that LVM 2.03.16 printed on a lab node (User Mode Linux, ubd disks of 400 MiB).
func recorded(t *testing.T, name string) *lvm.Report {
	t.Helper()
	data, err := os.ReadFile("testdata/2.03.16/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	report, err := DecodeReport(data)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func of(f float64) *float64 { return &f }

// scenarios check each record, and real LVM in the same state (record_lab_test.go, which creates the records).
var scenarios = map[string]func(*testing.T, *lvm.Report){
	"blank":       seeBlank,
	"volumes":     seeVolumes,
	"inactive":    seeInactive,
	"full":        seeFull,
	"no-metadata": seeNoMetadata,
	"duplicate":   seeDuplicate,
	"cordoned":    seeCordoned,
	"moving":      seeMoving,
	"raid":        seeRAID,
	"degraded":    seeDegraded,
	"missing":     seeMissing,
}

func TestDecodeRecords(t *testing.T) {
	for name, see := range scenarios {
		t.Run(name, func(t *testing.T) { see(t, recorded(t, name)) })
	}
}

func seeBlank(t *testing.T, report *lvm.Report) {
	if len(report.VGs) != 0 || len(report.PVs()) != 0 {
		t.Errorf("got %+v", report)
	}
}

func seeVolumes(t *testing.T, report *lvm.Report) {
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
	// How often LVM writes the metadata of a thin volume depends on its configuration.
	if vg.Seqno < 7 {
		t.Errorf("got the seqno %d", vg.Seqno)
	}
	want := lvm.VG{Seqno: vg.Seqno, Size: 830472192, Free: 381681664, ExtentSize: 4 << 20, MissingPVs: 0, Attr: "wz--n-",
		Tags: []string{"lvms"}, Name: "vg1"}
	got := *vg
	got.UUID = ""
	got.MetadataArea = lvm.MetadataArea{}
	got.PVs = nil
	got.LVs = nil
	got.Hidden = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	pv := vg.PVs[0]
	expect.Equal(t, "Name", pv.Name, "/dev/ubdb")
	expect.Equal(t, "Major", pv.Major, 98)
	expect.Equal(t, "Minor", pv.Minor, 16)
	expect.Equal(t, "VGName", pv.VGName, "vg1")
	expect.Equal(t, "InUse", pv.InUse, true)
	expect.Equal(t, "Missing", pv.Missing, false)
	for _, pv := range vg.PVs {
		expect.Equal(t, "Allocatable", pv.Allocatable, true)
		if pv.Tags != nil {
			t.Errorf("got %+v", pv)
		}
		expect.NotZero(t, "Used", pv.Used)
		expect.Equal(t, "Used", pv.Used, pv.Size-pv.Free)
		expect.Equal(t, "sum(pv.FreeAreas)", sum(pv.FreeAreas), pv.Free)
	}
	seeVolumesOfGroup(t, vg)
}

func sum(areas []lvm.Bytes) (all lvm.Bytes) {
	for _, a := range areas {
		all += a
	}
	return all
}

func seeVolumesOfGroup(t *testing.T, vg *lvm.VG) {
	tests := map[string]lvm.LV{
		"pool": {Name: "pool", Size: 398458880, Attr: "twi-aotz--", Major: 254, DataPercent: of(0),
			MetadataPercent: of(10.45),
			MetadataSize:    8 << 20, ChunkSize: 128 << 10, Zeroes: true, Discards: "passdown", SegType: "thin-pool",
			Stripes: 1, TransactionID: number(2)},
		"a": {Name: "a", Path: "/dev/vg1/a", Size: 64 << 20, Attr: "Vwi-a-tz--", Tags: []string{"foo"}, Major: 254,
			PoolName: "pool", DataPercent: of(0), SegType: "thin", TransactionID: number(0)},
		"s1": {Name: "s1", Path: "/dev/vg1/s1", Size: 64 << 20, Attr: "Vri-a-tz--", Major: 254, PoolName: "pool",
			Origin: "a", DataPercent: of(0), SegType: "thin", TransactionID: number(1)},
		"t1": {Name: "t1", Path: "/dev/vg1/t1", Size: 32 << 20, Attr: "-wi-a-----", Tags: []string{"t=1", "u"},
			Major: 254, SegType: "linear", Stripes: 1},
	}
	for name, want := range tests {
		got := *vg.LV(name)
		if got.Created.Year() < 2000 {
			t.Errorf("%s was made %s", name, got.Created)
		}
		got.UUID = ""
		got.Minor = 0
		got.PVs = nil
		got.Created = time.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(vg.LVs) != len(tests) {
		t.Errorf("got %d visible volumes, want %d", len(vg.LVs), len(tests))
	}
	pool := vg.ThinPool("pool")
	if pool == nil || len(pool.Volumes) != 2 || pool.VirtualSize() != 128<<20 {
		t.Errorf("got the pool %+v", pool)
	}
	if vg.ThinPool("t1") != nil || vg.ThinPool("nosuch") != nil {
		t.Error("something else was taken for a pool")
	}
	var hidden []string
	for _, lv := range vg.Hidden {
		hidden = append(hidden, lv.Name+" of "+lv.Parent)
	}
	if diff := cmp.Diff([]string{"lvol0_pmspare of ", "pool_tdata of pool", "pool_tmeta of pool"}, hidden); diff != "" {
		t.Error(diff)
	}
}

// seeInactive checks that inactive volumes have no device and no usage.
func seeInactive(t *testing.T, report *lvm.Report) {
	vg := report.VG("vg1")
	for _, lv := range vg.LVs {
		expect.Equal(t, "Attr.Active()", lv.Attr.Active(), false)
		expect.Equal(t, "Major", lv.Major, 0)
		if lv.DataPercent != nil {
			t.Errorf("got %+v", lv)
		}
		if lv.MetadataPercent != nil {
			t.Errorf("got %+v", lv)
		}
		expect.Equal(t, "CheckNeeded", lv.CheckNeeded, false)
	}
	if vg.ThinPool("pool").MetadataSize != 8<<20 {
		t.Error("the size of the metadata does not depend on activation")
	}
}

func seeFull(t *testing.T, report *lvm.Report) {
	pool := report.VG("vg1").ThinPool("pool")
	if pool.Health != "out_of_data" || pool.Attr.Health() != 'D' || *pool.DataPercent != 100 || !pool.Attr.Active() {
		t.Errorf("got %+v", pool)
	}
}

func seeNoMetadata(t *testing.T, report *lvm.Report) {
	pool := report.VG("vg1").ThinPool("pool")
	if pool.Health != "metadata_read_only" || pool.Attr.Health() != 'M' || *pool.DataPercent >= 100 {
		t.Errorf("got %s, %q, data %g %%, metadata %g %%", pool.Attr, pool.Health, *pool.DataPercent,
			*pool.MetadataPercent)
	}
}

// seeDuplicate checks that LVM does not mark a duplicate in its report. Only the devices show it.
func seeDuplicate(t *testing.T, report *lvm.Report) {
	var names []string
	for _, pv := range report.PVs() {
		names = append(names, pv.Name)
	}
	if diff := cmp.Diff([]string{"/dev/ubdd", "/dev/ubdb", "/dev/ubdc", "/dev/ubdf"}, names); diff != "" {
		t.Error(diff)
	}
}

// on returns the volumes on each physical volume. Missing physical volumes share a name.
func on(vg *lvm.VG) map[string]string {
	found := map[string]string{}
	for _, pv := range vg.PVs {
		volumes := strings.Join(vg.VolumesOn(pv.UUID), " ")
		name := pv.Name
		if pv.Missing {
			name = "missing with " + volumes
		}
		found[name] = volumes
	}
	return found
}

func seeCordoned(t *testing.T, report *lvm.Report) {
	vg := report.VG("vg1")
	want := map[string]string{"/dev/ubdb": "lin m t1 t2", "/dev/ubdc": "", "/dev/ubdd": "m other"}
	if diff := cmp.Diff(want, on(vg)); diff != "" {
		t.Error(diff)
	}
	closed := vg.PVs[1]
	open := vg.PVs[0]
	if closed.Allocatable || !open.Allocatable || !cmp.Equal(closed.Tags, []string{"lvms.cordoned"}) ||
		open.Tags != nil {
		t.Errorf("got %+v and %+v", closed, open)
	}
	if got, want := vg.FreeOn(open.UUID), vg.PVs[2].Free; got != want || want == 0 {
		t.Errorf("beside %s %d bytes are free, want %d", open.Name, got, want)
	}
	if got, want := vg.FreeOn(""), vg.PVs[0].Free+vg.PVs[2].Free; got != want {
		t.Errorf("on all %d bytes are free, want %d", got, want)
	}
	if len(vg.Moves()) != 0 || vg.VolumesOn("nosuch") != nil {
		t.Error("something was found where nothing is")
	}
}

// seeMoving checks that all volumes that are moved count for the source and the target. Images that are not moved
// only count for their own physical volume.
func seeMoving(t *testing.T, report *lvm.Report) {
	vg := report.VG("vg1")
	want := map[string]string{"/dev/ubdb": "lin m t1 t2", "/dev/ubdc": "", "/dev/ubdd": "m other",
		"/dev/mapper/slow": "lin m t1 t2"}
	if diff := cmp.Diff(want, on(vg)); diff != "" {
		t.Error(diff)
	}
	moves := vg.Moves()
	if len(moves) != 1 || moves[0].Name != "pvmove0" || moves[0].Percent == nil || *moves[0].Percent >= 100 {
		t.Fatalf("got %+v", moves)
	}
	for _, pv := range vg.PVs {
		if (pv.UUID == moves[0].SourceUUID) != (pv.Name == "/dev/ubdb") {
			t.Errorf("the move is from %s, is that %+v?", moves[0].SourceUUID, pv)
		}
	}
	if lin, other := vg.LV("lin"), vg.LV("other"); !lin.Attr.Locked() || other.Attr.Locked() {
		t.Errorf("got %s and %s", lin.Attr, other.Attr)
	}
}

func seeRAID(t *testing.T, report *lvm.Report) {
	vg := report.VG("vg1")
	want := map[string]string{"/dev/sda": "five one", "/dev/sdb": "five one", "/dev/sdc": "five thin",
		"/dev/sdd": "lin thin"}
	if diff := cmp.Diff(want, on(vg)); diff != "" {
		t.Error(diff)
	}
	for name, kind := range map[string]string{"one": "raid1", "five": "raid5", "pool": "thin-pool", "thin": "thin",
		"lin": "linear"} {
		lv := vg.LV(name)
		if lv.SegType != kind && !strings.HasPrefix(lv.SegType, kind+"_") {
			t.Errorf("%s: got %+v", name, lv)
		}
		if raid := strings.HasPrefix(kind, "raid"); lv.IsRAID() != raid ||
			(lv.SyncPercent != nil && *lv.SyncPercent == 100) != raid || len(lv.PVs) != len(one(name == "lin")) {
			t.Errorf("%s: got %+v", name, lv)
		}
		if lv.Health != "" || lv.Attr.Partial() || lv.Attr.Health() != '-' {
			t.Errorf("%s: got %+v", name, lv)
		}
	}
}

func one(is bool) []int {
	if is {
		return []int{1}
	}
	return nil
}

func seeDegraded(t *testing.T, report *lvm.Report) {
	vg := report.VG("vg1")
	if !vg.Attr.Partial() || vg.MissingPVs != 1 {
		t.Errorf("got %+v", vg)
	}
	want := map[string]string{"missing with five one": "five one", "/dev/sdb": "five one", "/dev/sdc": "five thin",
		"/dev/sdd": "lin thin"}
	if diff := cmp.Diff(want, on(vg)); diff != "" {
		t.Error(diff)
	}
	for name, partial := range map[string]bool{"one": true, "five": true, "thin": false, "lin": false, "pool": false} {
		if lv := vg.LV(name); lv.Attr.Partial() != partial || (lv.Health == "partial") != partial || vg.RAIDFailed(lv) {
			t.Errorf("%s: got %+v", name, lv)
		}
	}
}

// seeMissing checks two missing physical volumes of one group and one of another, all with the same name.
func seeMissing(t *testing.T, report *lvm.Report) {
	vg := report.VG("vg1")
	want := map[string]string{
		"missing with five one": "five one", "/dev/sdb": "five one", "missing with five thin": "five thin",
		"/dev/sdd": "lin thin",
	}
	if diff := cmp.Diff(want, on(vg)); diff != "" || vg.MissingPVs != 2 {
		t.Error(vg.MissingPVs, diff)
	}
	if vg.RAIDFailed(vg.LV("one")) || !vg.RAIDFailed(vg.LV("five")) {
		t.Error("raid5 does not tolerate the loss of two devices, and raid1 lost one")
	}
	vg = report.VG("vg2")
	there := vg.PVs[0]
	lost := vg.PVs[1]
	if there.Missing {
		there, lost = lost, there
	}
	expect.Equal(t, "MissingPVs", vg.MissingPVs, 1)
	expect.Equal(t, "Missing", there.Missing, false)
	expect.Equal(t, "Missing", lost.Missing, true)
	expect.Equal(t, "Name", lost.Name, "[unknown]")
	expect.Equal(t, "Major", lost.Major, 0)
	if diff := cmp.Diff([]string{"t1"}, vg.VolumesOn(lost.UUID)); diff != "" {
		t.Error(diff)
	}
	for _, lv := range vg.LVs {
		if (lv.Health == "partial") != (lv.Name == "t1") {
			t.Errorf("volume %s has the health %q", lv.Name, lv.Health)
		}
	}
	if free := vg.FreeOn(""); free != there.Free {
		t.Errorf("%d bytes are free; those of a missing device do not count", free)
	}
}

func TestDecodeTakesNumbersForStrings(t *testing.T) {
	data, err := os.ReadFile("testdata/2.03.16/volumes.json")
	if err != nil {
		t.Fatal(err)
	}
	// json_std, since LVM 2.03.17, prints numbers as numbers and missing values as null.
	std := string(data)
	for _, pair := range [][2]string{{`"830472192"`, "830472192"}, {`"254"`, "254"}, {`"10.45"`, "10.45"},
		{`"origin":""`, `"origin":null`}} {
		if !strings.Contains(std, pair[0]) {
			t.Fatalf("the record has no %s", pair[0])
		}
		std = strings.ReplaceAll(std, pair[0], pair[1])
	}
	got, err := DecodeReport([]byte(std))
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
		if got, err := DecodeReport([]byte(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func number(n uint64) *uint64 { return &n }
