package output

import (
	"slices"
	"testing"
)

// cached is what LVM 2.03.16 reports of a thick volume to which an administrator attached a cache (lvconvert --type
// cache --cachevol), on two physical volumes, and of an ordinary one.
const cached = `  {
      "report": [
          {
              "vg": [
                  {"vg_name":"vg1", "vg_uuid":"u", "vg_seqno":"7", "vg_size":"830472192", "vg_free":"0", "vg_extent_size":"4194304", "vg_attr":"wz--n-", "vg_tags":"", "vg_missing_pv_count":"0", "vg_mda_size":"1044480", "vg_mda_free":"518144"}
              ]
              ,
              "pv": [
                  {"pv_name":"/dev/ubdb", "pv_uuid":"slow", "vg_name":"vg1", "pv_size":"415236096", "pv_free":"0", "pv_used":"41943040", "pv_major":"98", "pv_minor":"16", "pv_missing":"", "pv_in_use":"used", "pv_allocatable":"allocatable", "pv_tags":""},
                  {"pv_name":"/dev/ubdc", "pv_uuid":"fast", "vg_name":"vg1", "pv_size":"415236096", "pv_free":"0", "pv_used":"33554432", "pv_major":"98", "pv_minor":"32", "pv_missing":"", "pv_in_use":"used", "pv_allocatable":"allocatable", "pv_tags":""}
              ]
              ,
              "lv": [
                  {"lv_name":"[fast_cvol]", "lv_uuid":"1gcqis", "lv_path":"", "lv_size":"33554432", "lv_attr":"Cwi-aoC---", "lv_tags":"", "lv_kernel_major":"254", "lv_kernel_minor":"1", "pool_lv":"", "origin":"", "data_percent":"", "metadata_percent":"", "lv_metadata_size":"", "lv_health_status":"", "lv_check_needed":"unknown", "sync_percent":"", "lv_parent":"", "move_pv_uuid":"", "lv_time":"1795971600"},
                  {"lv_name":"vol", "lv_uuid":"q77RyJ", "lv_path":"/dev/vg1/vol", "lv_size":"41943040", "lv_attr":"Cwi-a-C---", "lv_tags":"a", "lv_kernel_major":"254", "lv_kernel_minor":"0", "pool_lv":"[fast_cvol]", "origin":"[vol_corig]", "data_percent":"0.00", "metadata_percent":"0.59", "lv_metadata_size":"", "lv_health_status":"", "lv_check_needed":"unknown", "sync_percent":"", "lv_parent":"", "move_pv_uuid":"", "lv_time":"1795971600"},
                  {"lv_name":"other", "lv_uuid":"o", "lv_path":"/dev/vg1/other", "lv_size":"41943040", "lv_attr":"-wi-a-----", "lv_tags":"", "lv_kernel_major":"254", "lv_kernel_minor":"5", "pool_lv":"", "origin":"", "data_percent":"", "metadata_percent":"", "lv_metadata_size":"", "lv_health_status":"", "lv_check_needed":"unknown", "sync_percent":"", "lv_parent":"", "move_pv_uuid":"", "lv_time":"1795971600"},
                  {"lv_name":"[vol_corig]", "lv_uuid":"WkGolW", "lv_path":"", "lv_size":"41943040", "lv_attr":"owi-aoC---", "lv_tags":"", "lv_kernel_major":"254", "lv_kernel_minor":"4", "pool_lv":"", "origin":"", "data_percent":"", "metadata_percent":"", "lv_metadata_size":"", "lv_health_status":"", "lv_check_needed":"unknown", "sync_percent":"", "lv_parent":"", "move_pv_uuid":"", "lv_time":"1795971600"}
              ]
              ,
              "pvseg": [
                  {"pv_uuid":"fast", "lv_uuid":"1gcqis", "pvseg_start":"0", "pvseg_size":"8"},
                  {"pv_uuid":"slow", "lv_uuid":"WkGolW", "pvseg_start":"0", "pvseg_size":"10"},
                  {"pv_uuid":"slow", "lv_uuid":"o", "pvseg_start":"10", "pvseg_size":"10"}
              ]
              ,
              "seg": [
                  {"lv_uuid":"1gcqis", "segtype":"linear", "stripes":"1", "chunk_size":"0", "zero":"unknown", "transaction_id":"", "discards":""},
                  {"lv_uuid":"WkGolW", "segtype":"linear", "stripes":"1", "chunk_size":"0", "zero":"unknown", "transaction_id":"", "discards":""},
                  {"lv_uuid":"o", "segtype":"linear", "stripes":"1", "chunk_size":"0", "zero":"unknown", "transaction_id":"", "discards":""},
                  {"lv_uuid":"q77RyJ", "segtype":"cache", "stripes":"1", "chunk_size":"65536", "zero":"unknown", "transaction_id":"", "discards":""}
              ]
          }
      ]
  }
`

func TestACachedVolumeHasItsDevices(t *testing.T) {
	report := mustDecode(t, cached)
	vg := report.VG("vg1")
	lv := vg.LV("vol")
	if lv.PoolName != "" || lv.Origin != "" || lv.DataPercent != nil || lv.MetadataPercent != nil {
		t.Errorf("got %+v", lv)
	}
	if !lv.IsCached() || lv.IsRAID() || lv.Attr.IsThinVolume() {
		t.Errorf("got the type %s of %+v", lv.SegType, lv)
	}
	for pv, want := range map[string][]string{"slow": {"other", "vol"}, "fast": {"vol"}} {
		if got := vg.VolumesOn(pv); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", pv, got, want)
		}
		if !vg.HasDataOn("vol", pv) || vg.HasDataOn("other", pv) != (pv == "slow") {
			t.Errorf("%s: HasDataOn is wrong", pv)
		}
	}
	if got := vg.DataDevices(); !slices.Equal(got["vol"], []string{"fast", "slow"}) ||
		!slices.Equal(got["other"], []string{"slow"}) {
		t.Errorf("got %v", got)
	}
	if got := vg.CachedVolumes(); !slices.Equal(got, []string{"vol"}) {
		t.Errorf("got %v", got)
	}
	if got := vg.Dependents(lv); len(got) > 0 {
		t.Errorf("got the dependents %v", got)
	}
	if got := mustDecode(t, reportText).VG("vg1").CachedVolumes(); len(got) > 0 {
		t.Errorf("got %v in an empty group", got)
	}
}
