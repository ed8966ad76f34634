package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster"
	"github.com/lvm-storage/lvm-operator/internal/metric"
	"github.com/lvm-storage/lvm-operator/internal/scrape"
	"github.com/lvm-storage/lvm-operator/vgmanager/capacity"
	"github.com/lvm-storage/lvm-operator/vgmanager/logicalvolume"
	nodemetrics "github.com/lvm-storage/lvm-operator/vgmanager/metrics"
	"github.com/lvm-storage/lvm-operator/vgmanager/smart"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const referenceFile = "../../docs/reference/metrics.md"

// chapters are the parts of the page.
var chapters = []struct {
	title    string
	families [][]metric.Family
}{
	{"Capacity, of each node agent", [][]metric.Family{capacity.Families}},
	{"Volume groups and devices, of each node agent", [][]metric.Family{nodemetrics.Families}},
	{"What disks say of themselves, of each node agent where S.M.A.R.T. is asked for",
		[][]metric.Family{smart.Families}},
	{"Volumes, of each node agent", [][]metric.Family{logicalvolume.Families}},
	{"Commands, of each node agent", [][]metric.Family{nodemetrics.CommandFamilies}},
	{"The LVMCluster and its nodes, of the operator", [][]metric.Family{lvmcluster.Families}},
	{"The plugin of OpenShift's console, of the operator", [][]metric.Family{consoleplugin.Families}},
	{"Of both", [][]metric.Family{scrape.Families}},
}

const introduction = `# Metrics

The operator and each node agent serve metrics at ` + "`/metrics`" +
	` on port 8443, with TLS. Who shows a client certificate that the API server would take, or a token, and may ` + "`get`" + ` the path, can read them; OpenShift's own Prometheus always can, and for it the API server is not asked: others cost it one question or two. To read them starts no program on the node and waits for no LVM. A value that is not known has no series: absent is not zero.

A node has at most 20 series for each of its device classes, and three for each of its volumes. The operator's flag ` +
	"`--volume-metrics`" + ` or its environment variable ` + "`VOLUME_METRICS`" + `, which a Subscription can set (` +
	"`spec.config.env`" +
	`), says for how many volumes of a node; 500 by default, 0 for none. [How to monitor](../how-to/monitor.md) has the alerts, dashboards and how they get into a Prometheus.
`

const others = `
## Of libraries

| metric | of | meaning |
|---|---|---|
| ` + "`csi_sidecar_operations_seconds`" +
	` | operator | histogram of the time that the calls of the CSI controller took, by ` + "`method_name`" + ` and ` + "`grpc_status_code`" + ` |
| ` + "`csi_plugin_operations_seconds`" + ` | agents | the same of the CSI node service, which the kubelet calls |
| ` + "`controller_runtime_reconcile_total`" + ` | both | reconciles by ` + "`controller`" + ` and ` + "`result`" +
	` (success, error, requeue, requeue_after) |
| ` + "`workqueue_*`, `rest_client_requests_total`" + ` | both | queues of the controllers, requests to the API server |
| ` + "`go_*`, `process_*`" + ` | both | the Go runtime and the process |
`

// The page is written with: go test ./cmd/lvms -update
func TestReferenceHasEveryMetric(t *testing.T) {
	var page strings.Builder
	page.WriteString(introduction)
	for _, c := range chapters {
		fmt.Fprintf(&page, "\n## %s\n\n| metric | labels | meaning |\n|---|---|---|\n", c.title)
		for _, f := range slices.Concat(c.families...) {
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", f.Name, strings.Join(f.Labels, ", "), f.Help)
		}
	}
	page.WriteString(others)
	if *update {
		if err := os.WriteFile(referenceFile, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page.String() {
		t.Errorf("%s is stale: run go test ./cmd/lvms -update", referenceFile)
	}
}

// perClass are the labels of a metric that has one series, or some, for each device class of a node.
var perClass = map[string]int{
	"node,device_class": 1, "node,device_class,state": 4, "node,device_class,kind": 3,
}

// A class is thin or redundant, never both.
func TestADeviceClassHasAtMostTwentySeries(t *testing.T) {
	for _, without := range []string{"_raid_", "_thinpool_"} {
		n := 0
		for _, c := range chapters {
			for _, f := range slices.Concat(c.families...) {
				if !strings.Contains(f.Name, without) {
					n += perClass[strings.Join(f.Labels, ",")]
				}
			}
		}
		if n < 10 || n > 20 {
			t.Errorf("%d series of a device class without %s, want 10 to 20", n, without)
		}
	}
}
