package lvmexec

import (
	"context"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestThinPoolRestore(t *testing.T) {
	const pool = `{"report": [{"vg": [{"vg_name":"vg1", "vg_uuid":"u", "vg_seqno":"7", "vg_size":"0", "vg_free":"0", ` +
		`"vg_extent_size":"4194304", "vg_attr":"wz--n-", "vg_tags":"", "vg_missing_pv_count":"0", "vg_mda_size":"1044480", "vg_mda_free":"518144"}], "pv": [], ` +
		`"lv": [{"lv_name":"pool", "lv_uuid":"p", "lv_path":"", "lv_size":"0", "lv_attr":"twi---tz--", "lv_tags":"", ` +
		`"lv_kernel_major":"-1", "lv_kernel_minor":"-1", "pool_lv":"", "origin":"", "data_percent":"", ` +
		`"metadata_percent":"", "lv_metadata_size":"4194304", "lv_health_status":"", "lv_check_needed":"", ` +
		`"sync_percent":"", "lv_parent":"", "move_pv_uuid":"", "lv_time":"0"}], "seg": [{"lv_uuid":"p", ` +
		`"segtype":"thin-pool", "stripes":"1", "chunk_size":"65536", "zero":"zero", "transaction_id":"1", ` +
		`"discards":"passdown"}], "pvseg": []}]}`
	for file, err := range map[string]string{
		"/etc/topolvm/salvaged-vg1.xml": "",
		"salvaged.xml":                  "must be absolute",
		`/etc/a"b`:                      "can have only",
		"/etc/a b":                      "can have only",
		"/etc/$(reboot)":                "can have only",
	} {
		r := &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
			if args[0] == "fullreport" {
				return []byte(pool), nil
			}
			return nil, nil
		}}
		got := New(r).Apply(t.Context(), lvm.ThinPoolRestore{VG: "vg1", Pool: "pool", File: file})
		if (got == nil) != (err == "") || got != nil && !strings.Contains(got.Error(), err) {
			t.Errorf("%s: got %v, want %q", file, got, err)
		}
		if got != nil && len(r.commands) > 0 {
			t.Errorf("%s: got the commands %v", file, r.commands)
		}
		want := `thin_repair_options=["-c","[ \"$0 $2\" = \"-i -o\" ] && exec /usr/sbin/thin_restore -i ` + file +
			` -o \"$3\""]`
		if got == nil && (len(r.changes()) != 1 || !strings.Contains(r.changes()[0], want)) {
			t.Errorf("got the commands %v, want %s", r.changes(), want)
		}
	}
}
