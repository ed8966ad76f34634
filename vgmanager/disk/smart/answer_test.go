package smart

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// The first three were printed by smartctl 7.3 in a lab. The others have the fields that smartctl documents for disks
// that the lab does not have.
const (
	wellSCSI    = `{"json_format_version":[1,0],"smartctl":{"version":[7,3],"svn_revision":"5338","platform_info":"x86_64-linux-6.1.176","build_info":"(local build)","argv":["smartctl","--json=c","--nocheck=standby","--health","--attributes","/dev/sda"],"exit_status":0},"local_time":{"time_t":1795352426,"asctime":"Sun Nov 22 13:00:26 2026 UTC"},"device":{"name":"/dev/sda","info_name":"/dev/sda","type":"scsi","protocol":"SCSI"},"smart_status":{"passed":true},"temperature":{"current":38,"drive_trip":65}}`
	failingSCSI = `{"json_format_version":[1,0],"smartctl":{"version":[7,3],"svn_revision":"5338","platform_info":"x86_64-linux-6.1.176","build_info":"(local build)","argv":["smartctl","--json=c","--nocheck=standby","--health","--attributes","/dev/sda"],"exit_status":8},"local_time":{"time_t":1795352426,"asctime":"Sun Nov 22 13:00:26 2026 UTC"},"device":{"name":"/dev/sda","info_name":"/dev/sda","type":"scsi","protocol":"SCSI"},"smart_status":{"passed":false,"scsi":{"asc":93,"ascq":255,"ie_string":"FAILURE PREDICTION THRESHOLD EXCEEDED (FALSE)"}},"temperature":{"current":38,"drive_trip":65}}`
	virtual     = `{"json_format_version":[1,0],"smartctl":{"version":[7,3],"svn_revision":"5338","platform_info":"x86_64-linux-6.1.176","build_info":"(local build)","argv":["smartctl","--json=c","--nocheck=standby","--health","--attributes","/dev/ubdb"],"messages":[{"string":"/dev/ubdb: Unable to detect device type","severity":"error"}],"exit_status":1},"local_time":{"time_t":1795352426,"asctime":"Sun Nov 22 13:00:26 2026 UTC"}}`
	wornSCSI    = `{"smart_status":{"passed":true},"scsi_percentage_used_endurance_indicator":12}`
	ata         = `{"smart_status":{"passed":true},"temperature":{"current":31},"endurance_used":{"current_percent":4}}`
	nvme        = `{"smart_status":{"passed":false,"nvme":{"value":4}},"nvme_smart_health_information_log":{"critical_warning":4,"temperature":41,"percentage_used":103},"temperature":{"current":41}}`
)

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		code   int
		want   Answer
		reason string // of the error
		is     error
	}{
		"well":                 {text: wellSCSI, want: Answer{Healthy: true, Celsius: ptr.To(38)}},
		"predicts its failure": {text: failingSCSI, code: 8, want: Answer{Celsius: ptr.To(38)}},
		"worn":                 {text: wornSCSI, want: Answer{Healthy: true, UsedPercent: ptr.To(12)}},
		"ATA, newer smartctl": {text: ata,
			want: Answer{Healthy: true, Celsius: ptr.To(31), UsedPercent: ptr.To(4)}},
		"ATA, was hot once": {text: ata, code: 32,
			want: Answer{Healthy: true, Celsius: ptr.To(31), UsedPercent: ptr.To(4)}},
		"ATA, a log is missing": {text: ata, code: 4,
			want: Answer{Healthy: true, Celsius: ptr.To(31), UsedPercent: ptr.To(4)}},
		"NVMe with a warning": {text: nvme, code: 8,
			want: Answer{Celsius: ptr.To(41), UsedPercent: ptr.To(103)}},
		"virtual":                    {text: virtual, code: 1, reason: "Unable to detect device type"},
		"not opened":                 {text: `{}`, code: 2, reason: "ended with 2: no reason given"},
		"sleeps":                     {text: `{}`, code: 3, is: errAsleep},
		"sleeps, and says nothing":   {code: 3, is: errAsleep},
		"no verdict":                 {text: `{"temperature":{"current":31}}`, is: errSilent},
		"a verdict without a value":  {text: `{"smart_status":{}}`, code: 4, is: errSilent},
		"a failed read is not well":  {text: ``, reason: "cannot be read"},
		"half an answer is not well": {text: `{"smart_status":{"passed":true`, reason: "cannot be read"},
		"no code makes a bad one":    {text: `{"smart_status":{"passed":true}}`, code: 2, reason: "ended with 2"},
	} {
		got, err := decode([]byte(c.text), c.code)
		switch {
		case c.is != nil:
			if !errors.Is(err, c.is) {
				t.Errorf("%s: %v", name, err)
			}
		case c.reason != "":
			if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// FuzzDecode: the health of a disk causes alerts, so output that is not understood must not produce a health status.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{wellSCSI, failingSCSI, virtual, nvme, "", "null", "[]"} {
		f.Add([]byte(text), 0)
		f.Add([]byte(text), 8)
	}
	f.Fuzz(func(t *testing.T, text []byte, code int) {
		answer, err := decode(text, code)
		if err != nil && answer != (Answer{}) {
			t.Fatalf("an answer %+v with %v", answer, err)
		}
		if err == nil && !strings.Contains(strings.ToLower(string(text)), "passed") &&
			!strings.Contains(string(text), `\u`) {
			t.Fatalf("a verdict from %q", text)
		}
	})
}
