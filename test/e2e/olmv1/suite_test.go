//go:build e2e

// Package olmv1 tests the installation with OLM v1 on a cluster with OpenShift's service CA, as documented, from a
// catalog in a mirror.
package olmv1

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
	"github.com/lvm-storage/lvm-operator/test/olm"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	namespace   = story.OperatorNamespace
	clusterName = "my-lvmcluster"
	// first and next are the versions of LVMS_IMAGE and LVMS_NEXT_IMAGE.
	first = "0.2.0"
	next  = "0.3.0"
	// soon is the timeout for changes that a controller makes in a few seconds.
	soon = time.Minute
)

var (
	cluster   olm.V1
	publisher olm.Publisher
	// images has the images of the operator by version.
	images = map[string]string{}
)

func TestOLMv1(t *testing.T) {
	RegisterFailHandler(Fail)
	format.MaxLength = 0 // Failures are printed completely.
	RunSpecs(t, "LVM Storage with OLM v1")
}

// bringUp starts a cluster with OLM v1, and publishes the images of the operator.
func bringUp(ctx context.Context, o lab.Options) {
	GinkgoHelper()
	o.OLMv1 = true
	o.Progress = GinkgoWriter
	l, err := lab.Up(ctx, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(l.Down(ctx)).To(Succeed()) })
	opened, err := story.Open(l)
	Expect(err).NotTo(HaveOccurred())
	cluster = olm.V1{Cluster: olm.Cluster{Cluster: opened}}
	publisher, err = olm.NewPublisher(ctx, l, GinkgoT().TempDir(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	for version, variable := range map[string]string{first: "LVMS_IMAGE", next: "LVMS_NEXT_IMAGE"} {
		archive := os.Getenv(variable)
		Expect(archive).NotTo(BeEmpty(), "%s names an archive of the operator's image: run `make test-e2e`", variable)
		images[version], err = publisher.PublishImage(ctx, archive, version)
		Expect(err).NotTo(HaveOccurred())
	}
}

// likeOpenShift creates a cluster with OpenShift's CRDs and service CA, and other objects of an OpenShift installation.
func likeOpenShift(ctx context.Context, name string) {
	GinkgoHelper()
	bringUp(ctx, lab.Options{Name: name, OpenShift: true, ServiceCA: true, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
	kubectl(ctx, "create", "namespace", "openshift-config-managed")
	kubectl(ctx, "create", "priorityclass", "openshift-user-critical", "--value=1000000000")
}

// publish adds a version to the catalog, and returns the catalog's image.
func publish(ctx context.Context, version string) string {
	GinkgoHelper()
	Expect(publisher.Publish(ctx, olm.Release{Version: version, Image: images[version]})).To(Succeed())
	catalog, err := publisher.PublishCatalog(ctx)
	Expect(err).NotTo(HaveOccurred())
	return catalog
}

// If a spec fails, print what a support engineer would ask for, and keep all logs.
var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() || cluster.Cluster.Cluster == nil {
		return
	}
	for _, args := range []string{
		"get clustercatalog,clusterextension -o yaml", "get pods -A -o wide", "get lvmcluster,lvmvgns -A -o yaml",
		"get pvc,pv,logicalvolume -A",
		"get events -A --field-selector=type=Warning --sort-by=.lastTimestamp --no-headers",
		"logs -n olmv1-system deployment/operator-controller-controller-manager --tail=60",
		"logs -n " + namespace + " -l app.kubernetes.io/name=lvms-operator --tail=30 --prefix",
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

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := cluster.Kubectl(ctx, nil, args...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}

// runDocumented runs a documented command in a shell, like an administrator.
func runDocumented(ctx context.Context, page, beginning string) {
	GinkgoHelper()
	line, err := olm.DocumentedCommand(page, beginning)
	Expect(err).NotTo(HaveOccurred())
	command, err := cluster.Lab.Command(ctx, "sh", "-c", line)
	Expect(err).NotTo(HaveOccurred())
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
}

// onNode runs a shell line on the node, and returns its output.
func onNode(ctx context.Context, line string) string {
	GinkgoHelper()
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	result, err := node.Exec(ctx, "/bin/sh", "-c", line)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(result.Stdout)
}
