//go:build e2e

package namespace

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

func servesBesideAnother(ctx SpecContext) {
	cluster = suite.Up(ctx, lab.Options{Name: "namespace", Snapshots: true, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
	cluster.Namespace = namespace
	Expect(cluster.ApplyManifest(ctx, neighbors)).To(Succeed())
	Expect(cluster.WaitRunning(ctx, namespace, "neighbor")).To(Succeed())
	before := neighborsNow(ctx)

	By("installing the operator")
	Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
	Expect(cluster.Run(ctx, "get", "namespace", "-o", "name")).NotTo(ContainSubstring(story.OperatorNamespace))
	Expect(cluster.Run(ctx, "get", "namespace", namespace, "-o", "jsonpath={.metadata.labels.neighbor}")).To(
		Equal("yes"))

	By("creating an LVMCluster elsewhere, which is refused with the name of the namespace")
	cluster.Run(ctx, "create", "namespace", "elsewhere")
	err := cluster.ApplyManifest(ctx, strings.ReplaceAll(manifest, "NAMESPACE", "elsewhere"))
	Expect(err).To(MatchError(ContainSubstring(namespace)))

	By("using volumes")
	cluster.Configure(ctx, strings.ReplaceAll(manifest, "NAMESPACE", namespace))
	cluster.Run(ctx, "create", "namespace", "shop")
	v := story.Volume{Namespace: "shop", Name: "data", Class: "lvms-vg1", Size: "256Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "pod")).To(Succeed())
	_, err = cluster.Write(ctx, v, "pod")
	Expect(err).NotTo(HaveOccurred())
	_, err = cluster.Expand(ctx, v, "pod", "512Mi")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Snapshot(ctx, v, "snap")).To(Succeed())
	Expect(cluster.WaitSnapshot(ctx, "shop", "snap")).To(Succeed())

	By("removing the operator too early, which is refused")
	out, err := cluster.Undeploy(ctx)
	Expect(err).To(HaveOccurred())
	Expect(out).To(ContainSubstring("lvmcluster.lvm.topolvm.io/my-lvmcluster still exists"))
	Expect(cluster.Run(ctx, "get", "crd", "-o", "name")).To(ContainSubstring("logicalvolumes.topolvm.io"))

	By("removing everything")
	Expect(cluster.RemoveSnapshot(ctx, "shop", "snap")).To(Succeed())
	Expect(cluster.StopPod(ctx, "shop", "pod")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	cluster.Run(ctx, "delete", "lvmcluster", "my-lvmcluster", "-n", namespace, story.Timeout)
	_, err = cluster.Undeploy(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Run(ctx, "get", "crd", "-o", "name")).NotTo(ContainSubstring("topolvm.io"))
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "pods", "-n", namespace, "-o", "name").
		Should(Equal("pod/neighbor"))
	Expect(neighborsNow(ctx)).To(Equal(before), "the other operator's objects are the same, and its Pod never stopped")
}

// neighborsNow returns the identities of the other operator's objects, and how often its Pod was restarted.
func neighborsNow(ctx context.Context) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "pod/neighbor", "configmap/neighbor", "-n", namespace, "-o",
		"jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[0].restartCount};{end}")
}
