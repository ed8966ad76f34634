package devicemapper

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

func TestParseThinPool(t *testing.T) {
	tests := map[string]struct {
		params string
		want   ThinPool
	}{
		"recorded, Linux 6.1": {"1 214/2048 0/1024 - rw discard_passdown queue_if_no_space - 512 ",
			ThinPool{Mode: "rw", TransactionID: 1, UsedMetadata: 214, TotalMetadata: 2048, TotalData: 1024,
				MetadataLowWaterMark: 512}},
		"out of data": {"4 20/1024 4096/4096 - out_of_data_space ignore_discard error_if_no_space - 1024",
			ThinPool{Mode: "out_of_data_space", ErrorIfNoSpace: true, TransactionID: 4, UsedMetadata: 20,
				TotalMetadata: 1024, UsedData: 4096, TotalData: 4096, MetadataLowWaterMark: 1024}},
		"read-only": {"0 512/512 10/4096 77 ro discard_passdown queue_if_no_space needs_check 0",
			ThinPool{Mode: "ro", NeedsCheck: true, UsedMetadata: 512, TotalMetadata: 512, UsedData: 10,
				TotalData: 4096, HeldRoot: 77}},
		"an old kernel": {"0 1/512 10/4096 - rw no_discard_passdown",
			ThinPool{Mode: "rw", UsedMetadata: 1, TotalMetadata: 512, UsedData: 10, TotalData: 4096}},
		"failed":    {"Fail", ThinPool{Mode: "Fail"}},
		"no answer": {"Error", ThinPool{Mode: "Error"}},
	}
	for name, tt := range tests {
		got, err := ParseThinPool(tt.params)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", name, err, diff)
		}
	}
	for _, bad := range []string{"", "1 2 3", "x 1/1 1/1 - rw", "1 x/1 1/1 - rw", "1 2/1 1/1 - rw -",
		"1 1/0 1/1 - rw -", "1 1/1 1/1 - - -",
		"1 1/1 1/1 x rw", "1 1/1 1/1 -1 rw", "1 1/1 -1/1 - rw", "1 1/1 1 - rw", "1 1/1 1/99999999999999999999 - rw",
		"1 1/1 1/1 - rw a b - x", "Fail Fail"} {
		if got, err := ParseThinPool(bad); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestParseThin(t *testing.T) {
	for params, want := range map[string]uint64{"0 -": 0, "128 16383": 128, " 16384 16383 ": 16384} {
		if got, err := ParseThin(params); err != nil || got != want {
			t.Errorf("%q: got %d, %v", params, got, err)
		}
	}
	for _, bad := range []string{"", "-", "Fail", "Error", "x 1", "-1 1", "1", "1 2 3"} {
		if got, err := ParseThin(bad); err == nil {
			t.Errorf("%q: got %d", bad, got)
		}
	}
}

func TestPercent(t *testing.T) {
	tests := []struct {
		p              ThinPool
		data, metadata int
	}{
		{ThinPool{Mode: "Fail"}, 0, 0},
		{ThinPool{UsedData: 4095, TotalData: 4096, UsedMetadata: 1, TotalMetadata: 3}, 99, 33},
		{ThinPool{UsedData: 1<<56 - 1, TotalData: 1<<56 - 1}, 100, 0},
	}
	for _, tt := range tests {
		if tt.p.DataPercent() != tt.data || tt.p.MetadataPercent() != tt.metadata {
			t.Errorf("%+v: %d, %d", tt.p, tt.p.DataPercent(), tt.p.MetadataPercent())
		}
	}
}

func TestParseRAID(t *testing.T) {
	tests := map[string]RAID{
		"raid1 2 AA 131072/131072 idle 0 0 -": {Level: "raid1", Health: "AA", SyncedSectors: 131072,
			TotalSectors: 131072, Action: "idle"},
		"raid1 2 AD 65536/65536 idle 0 0 -": {Level: "raid1", Health: "AD", SyncedSectors: 65536,
			TotalSectors: 65536, Action: "idle"},
		"raid5_ls 3 Aaa 1024/65536 recover 0 0 -": {Level: "raid5_ls", Health: "Aaa", SyncedSectors: 1024,
			TotalSectors: 65536, Action: "recover"},
		"raid6_zr 5 AA-AA 65536/65536 check 8 0 -": {Level: "raid6_zr", Health: "AA-AA", SyncedSectors: 65536,
			TotalSectors: 65536, Action: "check", MismatchCount: 8},
		"raid1 2 AA 5/9": {Level: "raid1", Health: "AA", SyncedSectors: 5, TotalSectors: 9},
	}
	for params, want := range tests {
		got, err := ParseRAID(params)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", params, err, diff)
		}
		if got.InSync() != (want.SyncedSectors == want.TotalSectors) {
			t.Errorf("%s: in sync %t", params, got.InSync())
		}
	}
	for _, bad := range []string{"", "raid1 2 A 1/1", "raid1 2 AX 1/1", "raid1 2 AA 1", "raid1 two AA 1/1",
		"raid1 2 AA 2/1", "raid1 2 AA 1/1 idle x"} {
		if got, err := ParseRAID(bad); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestParseMirror(t *testing.T) {
	tests := map[string]Mirror{
		"2 8:0 8:16 12/80 1 AA 1 core":                             {Health: "AA", SyncedRegions: 12, TotalRegions: 80},
		"2 8:0 8:16 80/80 1 AD 3 disk 254:0 A":                     {Health: "AD", SyncedRegions: 80, TotalRegions: 80},
		"3 8:0 8:16 8:32 1/80 1 ASR 3 clustered-disk 253:0 A more": {Health: "ASR", SyncedRegions: 1, TotalRegions: 80},
	}
	for params, want := range tests {
		got, err := ParseMirror(params)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", params, err, diff)
		}
	}
	for _, bad := range []string{"", "2", "0 1/1 1 A", "9 8:0 8:16 12/80 1 AA", "2 8:0 8:16 12 1 AA",
		"2 8:0 8:16 12/80 2 AA", "2 8:0 8:16 12/80 1 A", "2 8:0 8:16 12/80 1 AX", "-1 a b c d"} {
		if got, err := ParseMirror(bad); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func FuzzParseThinPool(f *testing.F) {
	f.Add("1 18/1024 512/4096 - rw discard_passdown queue_if_no_space - 1024")
	f.Add("Fail")
	f.Fuzz(func(t *testing.T, params string) {
		p, err := ParseThinPool(params)
		if err != nil && p != (ThinPool{}) || err == nil && p.Mode == "" {
			t.Errorf("%q: %+v, %v", params, p, err)
		}
		for _, full := range []int{p.DataPercent(), p.MetadataPercent()} {
			if full < 0 || full > 100 {
				t.Errorf("%q: %d %% full", params, full)
			}
		}
	})
}

func FuzzParseRAID(f *testing.F) {
	f.Add("raid1 2 AA 65536/65536 idle 0 0 -")
	f.Fuzz(func(t *testing.T, params string) {
		r, err := ParseRAID(params)
		if err != nil {
			expect.Equal(t, params, r, RAID{})
			return
		}
		expect.NotZero(t, params+": Level", r.Level)
		expect.Equal(t, params+": Health", strings.Trim(r.Health, "AaD-"), "")
		if r.SyncedSectors > r.TotalSectors {
			t.Errorf("%q: %+v", params, r)
		}
	})
}

func FuzzParseMirror(f *testing.F) {
	f.Add("2 8:0 8:16 12/80 1 AA 1 core")
	f.Fuzz(func(t *testing.T, params string) {
		m, err := ParseMirror(params)
		if err != nil {
			expect.Equal(t, params, m, Mirror{})
			return
		}
		expect.NotZero(t, params+": Health", m.Health)
		if m.SyncedRegions > m.TotalRegions {
			t.Errorf("%q: %+v", params, m)
		}
	})
}
