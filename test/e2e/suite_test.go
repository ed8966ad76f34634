//go:build e2e

// Package e2e tells the stories of an administrator and a user on a lab's cluster with real LVM.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var (
	cluster  *story.Cluster
	suiteLab *lab.Lab
	image    = os.Getenv("LVMS_IMAGE")
)

func TestEndToEnd(t *testing.T) {
	RegisterFailHandler(Fail)
	format.MaxLength = 0 // What failed is read to its end.
	RunSpecs(t, "LVM Storage")
	if t.Failed() {
		t.Log(lastWords.String())
	}
}

// lastWords say in a few lines what failed, and how the cluster stood: the end of a long log is what is read first.
var lastWords strings.Builder

var _ = BeforeSuite(func(ctx SpecContext) {
	Expect(image).NotTo(BeEmpty(), "LVMS_IMAGE names the archive of the operator's image: run `make test-e2e`")
	l, err := lab.Up(ctx, lab.Options{
		Name: "e2e", Nodes: 2, Snapshots: true, Progress: GinkgoWriter, Flavor: os.Getenv("LVMS_TEST_FLAVOR"),
		Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}, {Size: 4 * lab.GiB}, {Size: 4 * lab.GiB}},
	})
	Expect(err).NotTo(HaveOccurred())
	suiteLab = l
	DeferCleanup(func(ctx SpecContext) { Expect(l.Down(ctx)).To(Succeed()) })
	cluster, err = story.Open(l)
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(10*time.Minute))

// When a spec fails, what a support engineer would ask for is printed, and all logs are kept.
var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() || cluster == nil {
		return
	}
	report := CurrentSpecReport()
	fmt.Fprintf(&lastWords, "%s\n%s\n", report.LeafNodeText, shortened(report.FailureMessage(), 1500))
	for _, args := range []string{
		"get pods -n " + story.OperatorNamespace, "get logicalvolume --sort-by=.spec.nodeName -o wide", "get pvc -A --no-headers",
		"get events -A --field-selector=type=Warning --sort-by=.lastTimestamp --no-headers",
	} {
		out, err := cluster.Kubectl(ctx, nil, strings.Fields(args)...)
		if err != nil {
			out = err.Error()
		}
		fmt.Fprintf(&lastWords, "--- kubectl %s\n%s\n", args, shortened(out, 3000))
	}
	for _, args := range []string{
		"get pods -A -o wide", "get lvmcluster,lvmvg,lvmvgns -A -o yaml", "get pvc,pv,volumesnapshot,logicalvolume -A",
		"logs -n " + story.OperatorNamespace + " deployment/lvms-operator --tail=40",
		"logs -n " + story.OperatorNamespace + " -l app.kubernetes.io/name=vg-manager --tail=40 --prefix", "get events -A",
	} {
		out, err := cluster.Kubectl(ctx, nil, strings.Fields(args)...)
		fmt.Fprintf(GinkgoWriter, "--- kubectl %s\n%s\n", args, out)
		if err != nil {
			fmt.Fprintln(GinkgoWriter, err)
		}
	}
	cache, err := lab.CacheDir()
	if err != nil {
		fmt.Fprintln(GinkgoWriter, err)
		return
	}
	dir := filepath.Join(cache, "e2e-logs", time.Now().UTC().Format("20060102T150405"))
	fmt.Fprintf(GinkgoWriter, "logs of the lab: %s %v\n", dir, cluster.Lab.CollectLogs(ctx, dir))
}, NodeTimeout(2*time.Minute))

// shortened keeps the end of a text, which is the newest of a list.
func shortened(text string, limit int) string {
	text = strings.TrimSpace(text)
	if len(text) <= limit {
		return text
	}
	return "…" + text[len(text)-limit:]
}

// onNode runs a command on a node and returns what it prints.
func onNode(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	node, err := cluster.Lab.Node(name)
	Expect(err).NotTo(HaveOccurred())
	result, err := node.Exec(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(result.Stdout)
}

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := cluster.Kubectl(ctx, nil, args...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}

// apply applies a manifest and returns kubectl's error, which is what a user reads.
func apply(ctx context.Context, manifest string) error {
	_, err := cluster.Kubectl(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}
