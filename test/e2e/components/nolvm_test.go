//go:build e2e

package components

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const twoClasses = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
    - name: vg2
      deviceSelector: {paths: [/dev/ubdc]}
`

var _ = Describe("LVM Storage on nodes without LVM", Label("nolvm"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image = suite.Archive("LVMS_IMAGE")
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-no-lvm", Flavor: "no-lvm", Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}, {Size: 2 * lab.GiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, twoClasses)
	}, NodeTimeout(20*time.Minute))

	It("uses LVM of the image, from the volume group to its removal", func(ctx SpecContext) {
		usesLVMOfTheImage(ctx)
	}, NodeTimeout(20*time.Minute))
})

func usesLVMOfTheImage(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.Run(ctx, "-n", namespace, "get", "lvmvolumegroupnodestatus", "node1", "-o",
		"jsonpath={.status.lvm.source}")).To(Equal("Image"))
	volumes := []story.Volume{
		{Namespace: "default", Name: "thin", Class: "lvms-vg1", Size: "512Mi"},
		{Namespace: "default", Name: "thick", Class: "lvms-vg2", Size: "256Mi"},
	}
	sums := map[string]string{}
	for _, v := range volumes {
		sums[v.Name] = startsAndWrites(ctx, v)
		size, err := cluster.Expand(ctx, v, v.Name, "768Mi")
		Expect(err).NotTo(HaveOccurred())
		Expect(size).To(BeNumerically(">", 600<<20))
	}
	Expect(cluster.Snapshot(ctx, volumes[0], "before")).To(Succeed())
	Expect(cluster.WaitSnapshot(ctx, "default", "before")).To(Succeed())
	restored := story.Volume{Namespace: "default", Name: "restored", Class: "lvms-vg1", Size: "768Mi", Snapshot: "before"}
	Expect(cluster.Claim(ctx, restored)).To(Succeed())
	Expect(cluster.StartPod(ctx, restored, restored.Name)).To(Succeed())
	Expect(cluster.Checksum(ctx, restored, restored.Name)).To(Equal(sums["thin"]))

	By("restarting the node")
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	Expect(node.Restart(ctx)).To(Succeed())
	for _, v := range volumes {
		Eventually(func() (string, error) { return cluster.Checksum(ctx, v, v.Name) }).WithContext(ctx).
			WithPolling(2 * time.Second).Should(Equal(sums[v.Name]))
	}

	By("removing everything")
	for _, v := range append(volumes, restored) {
		Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	}
	Expect(cluster.RemoveSnapshot(ctx, "default", "before")).To(Succeed())
	for _, v := range append(volumes, restored) {
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}
	// As in docs/how-to/other-distributions.md.
	Eventually(func() string {
		return strings.TrimSpace(cluster.Run(ctx, "-n", namespace, "exec", "daemonset/vg-manager", "--", "lvm", "lvs",
			"--noheadings", "-o", "lv_name"))
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(Equal("thin-pool-1"))
	cluster.Run(ctx, "-n", namespace, "delete", "lvmcluster", "my-lvmcluster", story.Timeout)
	Expect(cluster.OnNode1(ctx, "blkid -p /dev/ubdb /dev/ubdc || true")).To(BeEmpty(), "what the disks have in the end")
}
