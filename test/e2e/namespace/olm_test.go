//go:build e2e

package namespace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/olm"
)

var _ = Describe("LVM Storage from a catalog in the namespace of another operator", Label("olm"), func() {
	It("serves volumes in each install mode, and leaves the other operator alone", livesWithOLM,
		NodeTimeout(50*time.Minute))
})

// The published manifests of upstream for ZTP, ACM and image-based upgrades have a Subscription in openshift-storage,
// and an OperatorGroup that selects this namespace.
func livesWithOLM(ctx SpecContext) {
	cluster = suite.Up(ctx, lab.Options{Name: "namespace-olm", OLM: true, OpenShift: true,
		Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
	cluster.PrepareOpenShift(ctx)
	cluster.Namespace = namespace
	c := olm.Cluster{Cluster: cluster.Cluster}
	Expect(cluster.ApplyManifest(ctx, neighbors)).To(Succeed())
	Expect(cluster.WaitRunning(ctx, namespace, "neighbor")).To(Succeed())
	objects, err := c.Objects(ctx)
	Expect(err).NotTo(HaveOccurred())
	before := neighborsNow(ctx)
	publish(ctx, c)

	By("installing the operator for its own namespace")
	Expect(c.Subscribe(ctx, olm.OwnNamespace, "stable-0.2")).To(Succeed())
	Expect(c.WaitInstalled(ctx, "0.2.0")).To(Succeed())
	refusesWrongClusters(ctx)
	cluster.Configure(ctx, strings.ReplaceAll(manifest, "NAMESPACE", namespace))
	sum := startUsing(ctx)
	gathers(ctx)

	By("installing it for another namespace, while a Pod writes")
	Expect(c.Unsubscribe(ctx)).To(Succeed())
	Expect(c.Subscribe(ctx, olm.SingleNamespace, "stable-0.2")).To(Succeed())
	Expect(c.WaitInstalled(ctx, "0.2.0")).To(Succeed())
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	stillUsing(ctx, sum)
	refusesWrongClusters(ctx)
	Eventually(cluster.Run).WithContext(ctx).WithTimeout(time.Minute).WithArguments("get", "events.events.k8s.io",
		"-n", namespace, "-o", "jsonpath={.items[?(@.reason=='AdmissionNotChecked')].note}").Should(
		ContainSubstring("spec.targetNamespaces of the OperatorGroup to [" + namespace + "]"))

	alerts(ctx)

	By("removing it")
	stopUsing(ctx)
	cluster.Run(ctx, "delete", "lvmcluster", "my-lvmcluster", "-n", namespace, "--timeout=3m")
	Expect(c.Unsubscribe(ctx)).To(Succeed())
	cluster.Run(ctx, "delete", "catalogsource.operators.coreos.com", "--all", "-n", "olm", "--timeout=1m")
	kinds := strings.Fields(cluster.Run(ctx, "get", "crd", "-o", "name"))
	cluster.Run(ctx, append([]string{"delete", "--timeout=1m"}, ours(kinds)...)...)
	Eventually(func() ([]string, error) {
		after, err := c.Objects(ctx)
		return olm.LeftOver(objects, after), err
	}).WithContext(ctx).WithTimeout(3*time.Minute).WithPolling(2*time.Second).Should(BeEmpty(),
		"what is left in the API")
	Expect(neighborsNow(ctx)).To(Equal(before), "the other operator's objects are the same, and its Pod never stopped")
}

// publish creates a catalog with one version.
func publish(ctx context.Context, c olm.Cluster) {
	GinkgoHelper()
	publisher, err := olm.NewPublisher(ctx, c.Lab, GinkgoT().TempDir(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	image, err := publisher.PublishImage(ctx, suite.Archive("LVMS_IMAGE"), "0.2.0")
	Expect(err).NotTo(HaveOccurred())
	Expect(publisher.Publish(ctx, olm.Release{Version: "0.2.0", Image: image})).To(Succeed())
	catalog, err := publisher.PublishCatalog(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(c.Serve(ctx, catalog)).To(Succeed())
}

// refusesWrongClusters checks that an LVMCluster is refused in another namespace, and that the webhook checks those in
// the operator's.
func refusesWrongClusters(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, strings.ReplaceAll(manifest, "NAMESPACE", "default"))).To(
		MatchError(ContainSubstring(namespace)))
	wrong := strings.NewReplacer("NAMESPACE", namespace, "my-lvmcluster", "wrong", "vg1", "other", "/dev/ubdb",
		"/etc/passwd").Replace(manifest)
	Expect(cluster.ApplyManifest(ctx, wrong)).To(MatchError(ContainSubstring("/etc/passwd")))
}

// gathers runs must-gather, which must find the operator in its namespace and only what belongs to it.
func gathers(ctx context.Context) {
	GinkgoHelper()
	program := os.Getenv("LVMS_GATHER")
	Expect(program).NotTo(BeEmpty(), "LVMS_GATHER names the program of must-gather: run `make test-long ITEMS=e2e/`")
	folder := filepath.Join(GinkgoT().TempDir(), "must-gather")
	command, err := cluster.Lab.Command(ctx, program, "--dest-dir", folder)
	Expect(err).NotTo(HaveOccurred())
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	summary, err := os.ReadFile(filepath.Join(folder, "summary.md"))
	Expect(err).NotTo(HaveOccurred())
	Expect(string(summary)).To(HavePrefix("# LVM Storage: healthy: 0 critical, 0 warnings"))
	pods, err := filepath.Glob(filepath.Join(folder, "namespaces", namespace, "pods", "*"))
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).To(ContainElement(ContainSubstring("vg-manager-")))
}
