// Package suite has what the end-to-end tests share: how a suite runs, what it prints when a spec fails, the
// clusters of the lab, and the record of used permissions.
package suite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega/format"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// summary describes in a few lines what failed, and the state of the cluster, because the end of a long log is read
// first.
var summary strings.Builder

// ResponseTimeout is the time limit for a response of a server, or a TLS handshake. It ends only what would never end.
const ResponseTimeout = 2 * time.Minute

// Run runs the specs of a package.
func Run(t *testing.T, name string) {
	setUpGomega(ginkgo.Fail)
	format.MaxLength = 0 // Failures are printed completely.
	ginkgo.RunSpecs(t, name)
	if t.Failed() {
		t.Log(summary.String())
	}
}

// ReportFailure prints what a support engineer would ask for if the current spec has failed, and keeps all logs. more
// are additional kubectl commands.
func ReportFailure(ctx context.Context, cluster *story.Cluster, more ...string) {
	if !ginkgo.CurrentSpecReport().Failed() || cluster == nil {
		return
	}
	report := ginkgo.CurrentSpecReport()
	fmt.Fprintf(&summary, "%s\n%s\n", report.LeafNodeText, shortened(report.FailureMessage(), 1500))
	kubectl := func(args string) string {
		out, err := cluster.Kubectl(ctx, nil, strings.Fields(args)...)
		if err != nil {
			out += err.Error()
		}
		return out
	}
	for _, args := range []string{
		"get pods -n " + cluster.InstallNamespace(), "get logicalvolume --sort-by=.spec.nodeName -o wide",
		"get pvc -A --no-headers", "get events -A --field-selector=type=Warning --sort-by=.lastTimestamp --no-headers",
	} {
		fmt.Fprintf(&summary, "--- kubectl %s\n%s\n", args, shortened(kubectl(args), 3000))
	}
	for _, n := range cluster.Lab.Nodes() {
		text, err := n.Panic()
		if err != nil {
			fmt.Fprintf(&summary, "--- console of %s: %v\n", n.Name(), err)
		}
		if text != "" {
			fmt.Fprintf(&summary, "--- the kernel of %s, which ends the node\n%s\n", n.Name(), text)
		}
	}
	for _, args := range append([]string{
		"get pods -A -o wide", "get lvmcluster,lvmvg,lvmvgns -A -o yaml", "get pvc,pv,volumesnapshot,logicalvolume -A",
		"logs -n " + cluster.InstallNamespace() + " deployment/lvms-operator --tail=60",
		"logs -n " + cluster.InstallNamespace() + " -l app.kubernetes.io/name=vg-manager --tail=40 --prefix",
		"get events -A",
	}, more...) {
		fmt.Fprintf(ginkgo.GinkgoWriter, "--- kubectl %s\n%s\n", args, kubectl(args))
	}
	keepLogs(ctx, cluster)
}

func keepLogs(ctx context.Context, cluster *story.Cluster) {
	cache, err := lab.CacheDir()
	if err != nil {
		fmt.Fprintln(ginkgo.GinkgoWriter, err)
		return
	}
	dir := filepath.Join(cache, "e2e-logs", time.Now().UTC().Format("20060102T150405.000"))
	fmt.Fprintf(ginkgo.GinkgoWriter, "logs of the lab: %s %v\n", dir, cluster.Lab.CollectLogs(ctx, dir))
}

// shortened keeps the end of a text, which has the newest entries of a list.
func shortened(text string, limit int) string {
	text = strings.TrimSpace(text)
	if len(text) <= limit {
		return text
	}
	return "…" + text[len(text)-limit:]
}

// HasCertifiedModule returns whether the images were built with the certified FIPS 140-3 module of Go, as those of a
// release are. The environment variable LVMS_FIPS_MODULE says it: certified or off.
func HasCertifiedModule() bool { return os.Getenv("LVMS_FIPS_MODULE") == "certified" }

// Chapters fails if a spec of the package does not have exactly one of the labels, or a label has no spec. A label
// selects the specs of one invocation.
func Chapters(t *testing.T, labels ...string) {
	t.Helper()
	specs := map[string]int{}
	for _, spec := range ginkgo.PreviewSpecs("").SpecReports {
		if spec.LeafNodeType != types.NodeTypeIt {
			continue
		}
		chapters := slices.DeleteFunc(spec.Labels(), func(label string) bool { return !slices.Contains(labels, label) })
		if len(chapters) != 1 {
			t.Errorf("%q has the labels %q, not exactly one of %q", spec.FullText(), spec.Labels(), labels)
		}
		for _, chapter := range chapters {
			specs[chapter]++
		}
	}
	for _, label := range labels {
		if specs[label] == 0 {
			t.Errorf("no spec has the label %q", label)
		}
	}
}
