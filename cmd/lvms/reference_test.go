package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster"
	"github.com/lvm-storage/lvm-operator/internal/metric"
	"github.com/lvm-storage/lvm-operator/internal/reference"
	"github.com/lvm-storage/lvm-operator/internal/scrape"
	"github.com/lvm-storage/lvm-operator/vgmanager/capacity"
	"github.com/lvm-storage/lvm-operator/vgmanager/logicalvolume"
	nodemetrics "github.com/lvm-storage/lvm-operator/vgmanager/metrics"
	"github.com/lvm-storage/lvm-operator/vgmanager/smart"
)

var update = flag.Bool("update", false, "write the pages of docs/reference")

const referenceFolder = "../../docs/reference/"

// chapters are the parts of the page.
var chapters = []struct {
	title    string
	families [][]metric.Family
}{
	{"Capacity, of each node agent", [][]metric.Family{capacity.Families}},
	{"Volume groups and devices, of each node agent", [][]metric.Family{nodemetrics.Families}},
	{"SMART health of disks, of each node agent if SMART is enabled",
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

// `make references` writes the page.
func TestReferenceOfMetricsIsFresh(t *testing.T) {
	var page strings.Builder
	page.WriteString(introduction)
	for _, c := range chapters {
		var rows [][]string
		for _, f := range slices.Concat(c.families...) {
			rows = append(rows, []string{reference.Code(f.Name), strings.Join(f.Labels, ", "), f.Help})
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s", c.title, reference.Table([]string{"metric", "labels", "meaning"}, rows))
	}
	page.WriteString(others)
	if err := reference.Check(referenceFolder+"metrics.md", page.String(), *update); err != nil {
		t.Error(err)
	}
}

const flagsIntroduction = `# Flags and environment variables

Written by ` + "`make references`" +
	` from the code. The operator sets the flags of the node agent. A Subscription can set environment variables of the operator in ` +
	"`spec.config.env`" + `, and they override the flags.
`

const runtimeVariables = `
## Of the libraries

| variable | of | meaning |
|---|---|---|
| ` + "`GOGC`, `GOMEMLIMIT`" + ` | all programs | garbage collection of the Go runtime; the manifests set ` + "`GOGC`" +
	` for the operator and ` + "`GOMEMLIMIT`" + ` for the node agent |
| ` + "`KUBECONFIG`" + ` | ` + "`lvms operator`, `lvms vgmanager`" +
	` | the configuration of a client of the API server, outside a cluster |
`

// `make references` writes the page.
func TestReferenceOfFlagsIsFresh(t *testing.T) {
	source, err := reference.Parse("../..", reference.Folders...)
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(flagsIntroduction)
	writeFlags(&page, command())
	var rows [][]string
	for _, v := range reference.Variables(source) {
		rows = append(rows, []string{reference.Code(v.Name), v.Programs, v.Means})
	}
	page.WriteString("\n## Environment variables\n\n" + reference.Table([]string{"variable", "of", "meaning"}, rows))
	page.WriteString(runtimeVariables)
	if err := reference.Check(referenceFolder+"flags.md", page.String(), *update); err != nil {
		t.Error(err)
	}
}

// writeFlags writes a section for a command and for each of its subcommands.
func writeFlags(page *strings.Builder, c *cobra.Command) {
	inherited := ""
	if c.HasPersistentFlags() && c.HasSubCommands() {
		inherited = " Its commands have these flags too."
	}
	fmt.Fprintf(page, "\n## %s\n\n%s.%s\n", c.CommandPath(), c.Short, inherited)
	var rows [][]string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		rows = append(rows, []string{reference.Code("--" + f.Name), f.Value.Type(),
			reference.Code(f.DefValue), f.Usage})
	})
	if len(rows) > 0 {
		page.WriteString("\n" + reference.Table([]string{"flag", "type", "default", "meaning"}, rows))
	}
	for _, below := range c.Commands() {
		writeFlags(page, below)
	}
}

// perClass is the number of series of a metric for each device class of a node, by its labels.
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
