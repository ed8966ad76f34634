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
	"github.com/lvm-storage/lvm-operator/controllers/nodeprobe"
	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/internal/metrics/scrape"
	"github.com/lvm-storage/lvm-operator/test/reference"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/smart"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/capacity"
	nodemetrics "github.com/lvm-storage/lvm-operator/vgmanager/outside/metrics"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/audit"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/fstrim"
)

var update = flag.Bool("update", false, "write the pages of docs/reference")

const referenceFolder = "../../docs/reference/"

// chapters are the parts of the page.
var chapters = []struct {
	title    string
	families [][]metric.Family
}{
	{"Capacity (node agent)", [][]metric.Family{capacity.Families}},
	{"Volume groups and devices (node agent)", [][]metric.Family{nodemetrics.Families}},
	{"SMART health of disks (node agent, if SMART is enabled)", [][]metric.Family{smart.Families}},
	{"Volumes (node agent)", [][]metric.Family{audit.Families, fstrim.Families}},
	{"Commands (node agent)", [][]metric.Family{nodemetrics.CommandFamilies}},
	{"LVMCluster and its nodes (operator)", [][]metric.Family{lvmcluster.Families}},
	{"Probes of nodes (operator, if they are enabled)", [][]metric.Family{nodeprobe.Families}},
	{"OpenShift console plugin (operator)", [][]metric.Family{consoleplugin.Families}},
	{"Builds and certificates (operator and node agent)", [][]metric.Family{scrape.Families}},
}

const introduction = `# Metrics

The operator and each node agent serve metrics at ` + "`/metrics`" +
	` on port 8443, with TLS. A client authenticates with a client certificate that the API server accepts, or with a token, and needs permission to ` +
	"`get`" +
	` the path. For each client the API server is asked at most twice (TokenReview and SubjectAccessReview), and the answers are cached. OpenShift's own Prometheus always has access, without a request to the API server.

A scrape starts no process on the node and does not wait for LVM. An unknown value has no series: absent is not zero.

A node has at most 22 series for each of its device classes, five more if its volumes are trimmed, nine for each
of its volumes, one for each device that a volume is on, but at most 16, and up to five more for a volume with I/O
limits. The operator's flag ` +
	"`--volume-metrics`" + `, or its environment variable ` + "`VOLUME_METRICS`" + ` (` + "`spec.config.env`" +
	` of a Subscription), limits the number of volumes of a node that have series: 500 by default, 0 for none. For alerts, dashboards and the configuration of Prometheus, see [how to monitor](../how-to/monitor.md).
`

const others = `
## I/O of volumes

The kernel counts the I/O of each logical volume; a scrape reads ` + "`/proc/diskstats`" + ` once for all of them, and no disk.

- **The layer** is the logical volume: below the page cache and the file system, above thin pool, redundancy and
  disks. A write to a mirrored volume counts once. Of an encrypted volume, it is the logical volume below dm-crypt, as
  of any other: so its numbers can be compared with those of other volumes, and include its LUKS header. The time of
  encryption is not included, and dm-crypt can split requests, so there can be more of them than the file system has
  sent.
- **Requests** are counted when they complete, as they reach the volume. Disks merge and split them afterwards, so the
  sum of the requests of all volumes is not that of the disks. Discards and flushes are not counted.
- **Time** is from the start of a request in the volume to its end, including the time in the devices below. The average latency of reads is ` + "`rate(lvms_volume_read_seconds_total[5m]) / rate(lvms_volume_reads_total[5m])`" + `. A write is complete when the device has accepted it: its write cache can still have the data.
- **Devices**: ` + "`lvms_volume_device_info`" + ` is from the last report of LVM, which is at most about two minutes old. It has no series for a volume that was created since, if its devices are not known yet.
## Metrics of libraries

| metric | served by | meaning |
|---|---|---|
| ` + "`csi_sidecar_operations_seconds`" +
	` | operator | histogram of the duration of calls to the CSI controller, in seconds, by ` + "`method_name`" + ` and ` + "`grpc_status_code`" + ` |
| ` + "`csi_plugin_operations_seconds`" + ` | node agent | the same for calls of the kubelet to the CSI node service |
| ` + "`controller_runtime_reconcile_total`" + ` | both | number of reconciles, by ` + "`controller`" + ` and ` + "`result`" +
	` (success, error, requeue, requeue_after) |
| ` + "`workqueue_*`, `rest_client_requests_total`" + ` | both | the work queues of the controllers; requests to the API server |
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

Generated by ` + "`make references`" +
	` from the code. The operator sets the flags of the node agent. A Subscription can set environment variables of the operator in ` +
	"`spec.config.env`" + `, and they override the flags.
`

const runtimeVariables = `
## Environment variables of libraries

| variable | of | meaning |
|---|---|---|
| ` + "`GOGC`, `GOMEMLIMIT`" + ` | all programs | garbage collection of the Go runtime. The operator has ` + "`GOGC`" +
	`, and the node agent both |
| ` + "`KUBECONFIG`" + ` | ` + "`lvms operator`, `lvms vgmanager`" +
	` | the kubeconfig file of the cluster, if the program runs outside it |
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
	"node,device_class,result": 3,
}

// A class is thin or redundant, never both.
func TestADeviceClassHasAtMostTwentyTwoSeries(t *testing.T) {
	for _, without := range []string{"_raid_", "_thinpool_"} {
		n, trim := 0, 0
		for _, c := range chapters {
			for _, f := range slices.Concat(c.families...) {
				switch {
				case strings.Contains(f.Name, "_node_probe_"): // The operator has these.
				case strings.Contains(f.Name, "_trim"):
					trim += perClass[strings.Join(f.Labels, ",")]
				case !strings.Contains(f.Name, without):
					n += perClass[strings.Join(f.Labels, ",")]
				}
			}
		}
		if n < 10 || n > 22 {
			t.Errorf("%d series of a device class without %s, want 10 to 22", n, without)
		}
		if trim < 1 || trim > 5 {
			t.Errorf("%d more series of a device class whose volumes are trimmed, want at most 5", trim)
		}
	}
}
