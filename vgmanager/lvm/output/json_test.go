package output

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// advice are lines that LVM 2.03 prints on stdout, to prune an archive.
const advice = "  Consider pruning vg1 VG archive with more then 12 MiB in 8929 files (check archiving is needed in " +
	"lvm.conf).\n  Consider pruning vg-1 VG archive with more then 1032 MiB in 11272 files (check archiving is needed " +
	"in lvm.conf).\n"

func TestDecodeJSONIgnoresAdvice(t *testing.T) {
	out := strings.ReplaceAll(reportText, "\n", "\n"+advice)
	for name, out := range map[string]string{"in each place": advice + out, "at the end": reportText + advice,
		"none": reportText} {
		report, err := DecodeReport([]byte(out))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(mustDecode(t, reportText), report); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDecodeJSONStillFails(t *testing.T) {
	for name, out := range map[string]string{
		"advice only":     advice,
		"nothing":         "",
		"cut off":         reportText[:len(reportText)/2],
		"advice in a row": strings.Replace(reportText, `"vg_uuid"`, advice+`"vg_uuid"`, 1),
		"not JSON":        "{\n  no report\n",
	} {
		if _, err := DecodeReport([]byte(out)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func mustDecode(t *testing.T, out string) *lvm.Report {
	t.Helper()
	report, err := DecodeReport([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// reportText is a report in the lines in which LVM prints it.
const reportText = `  {
      "report": [
          {
              "vg": [
                  {"vg_name":"vg1", "vg_uuid":"u", "vg_seqno":"7", "vg_size":"0", "vg_free":"0", "vg_extent_size":"4194304", ` +
	`"vg_attr":"wz--n-", "vg_tags":"lvms", "vg_missing_pv_count":"0", "vg_mda_size":"1044480", "vg_mda_free":"518144"}
              ]
              ,
              "pv": [
              ],
              "lv": [
              ],
              "seg": [
              ],
              "pvseg": [
                  {}
              ]
          }
      ]
  }
`
