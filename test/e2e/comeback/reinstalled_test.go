//go:build e2e

package comeback

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	thickClass = "thick"
	bothClass  = thinClass + `    - name: thick
      deviceSelector: {paths: [/dev/ubdc]}
`
)

// isReinstalled reinstalls the only node of a cluster. If LVM there uses a devices file, the new one does not have the
// disks: the volume groups are used again after they were adopted.
func isReinstalled(ctx SpecContext, flavor string) {
	const node = "node1"
	bringUp(ctx, lab.Options{Name: "comeback-reinstalled" + flavor, Flavor: flavor,
		Disks: []lab.DiskSpec{{Size: diskSize}, {Size: diskSize}}})
	createClasses(ctx, bothClass)
	volumes := []written{
		write(ctx, story.Volume{Name: "thin", Class: "lvms-" + class, Size: "512Mi"}),
		write(ctx, story.Volume{Name: "block", Class: "lvms-" + thickClass, Size: "256Mi", Block: true}),
	}
	before := volumesOn(ctx, node)
	boots := func() string {
		return cluster.Run(ctx, "get", "node", node, "-o", "jsonpath={.status.nodeInfo.bootID}")
	}
	boot := boots()

	By("reinstalling the node")
	n, err := cluster.Lab.Node(node)
	Expect(err).NotTo(HaveOccurred())
	Expect(n.Reinstall(ctx)).To(Succeed())
	Expect(boots()).NotTo(Equal(boot))
	start := time.Now()
	if flavor != "" {
		adoptBoth(ctx, node)
	}

	By("waiting for the Pods")
	for _, w := range volumes {
		w.isRead(ctx, node)
	}
	AddReportEntry("from the reinstalled node to running Pods", time.Since(start).Round(100*time.Millisecond).String())
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	Expect(volumesOn(ctx, node)).To(ConsistOf(before), "nothing is created, removed or wiped")
	for _, w := range volumes {
		Expect(string(w.claim(ctx).UID)).To(Equal(w.uid))
	}
	expectNoOrphan(ctx, node)

	By("creating another volume")
	w := write(ctx, story.Volume{Name: "later", Class: "lvms-" + class, Size: "256Mi"})
	w.isRead(ctx, node)
	for _, w := range append(volumes, w) {
		Expect(cluster.StopPod(ctx, namespace, w.pod())).To(Succeed())
		Expect(cluster.Unclaim(ctx, w.Volume)).To(Succeed())
	}
}

// adoptBoth waits until the status of both classes names the volume group that LVM does not list, and adopts both.
func adoptBoth(ctx context.Context, node string) {
	GinkgoHelper()
	By("adopting the volume groups that the devices file hides")
	var uuids []string
	for _, name := range []string{class, thickClass} {
		hidden := func(ctx context.Context) string { return statusOf(ctx, node, name).Reason }
		Eventually(hidden).WithContext(ctx).Should(
			ContainSubstring("LVM there does not list it"))
		status := statusOf(ctx, node, name)
		Expect(status.Status).To(BeElementOf(lvmv1alpha1.VGStatusFailed, lvmv1alpha1.VGStatusDegraded))
		uuids = append(uuids, adoption(status.Reason, node))
	}
	Expect(cluster.OnNode(ctx, node, "vgs", "--noheadings")).To(BeEmpty(), "no volume group is created instead")
	adopt(ctx, 0, node, uuids[0])
	adopt(ctx, 1, node, uuids[1])
}
