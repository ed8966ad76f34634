//go:build e2e

package moves

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// movesBack loses the node to which a volume was moved, and uses the logical volume again that the old node has kept.
func movesBack(ctx SpecContext) {
	v := data("back", "node1")
	sum := begin(ctx, v)
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	lvms(ctx, "move", "-n", namespace, v.Name, "--to", "node2", "--yes")
	Eventually(func() bool { return moveOf(ctx, v.Name).Status.SourceRemovalTime != nil }).WithContext(ctx).
		Should(BeTrue())
	there := v
	there.Node = "node2"
	startsOn(ctx, there, sum)
	later, err := cluster.Write(ctx, there, v.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(later).NotTo(Equal(sum))

	By("losing the new node")
	node, err := cluster.Lab.Node("node2")
	Expect(err).NotTo(HaveOccurred())
	Expect(node.PowerCut(ctx)).To(Succeed())
	lvms(ctx, "move", "-n", namespace, v.Name, "--back", "--yes", "--wait=false")
	message := func() string { return moveOf(ctx, v.Name).Status.Message }
	Eventually(message).WithContext(ctx).WithTimeout(8 * time.Minute).Should(
		ContainSubstring("it is not known that node node2 is off"))
	_, logicalVolume := nodeOf(ctx, v.Name)
	Expect(logicalVolume).To(Equal("node2"))
	taint := corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute"
	Expect(message()).To(ContainSubstring("kubectl taint node node2 " + taint))

	By("saying that it is off")
	cluster.Run(ctx, "taint", "node", "node2", taint)
	Eventually(func() string { return moveOf(ctx, v.Name).Status.TargetNode }).WithContext(ctx).
		WithTimeout(8 * time.Minute).Should(Equal("node1"))
	reach(ctx, v.Name, v1alpha1.MoveKeepingSource)
	GinkgoWriter.Println(lvms(ctx, "moves", "-o", "wide"))
	startsOn(ctx, v, sum)

	By("starting the node again")
	Expect(node.Start(ctx)).To(Succeed())
	cluster.Run(ctx, "taint", "node", "node2", corev1.TaintNodeOutOfService+"-")
	Eventually(func() bool { return moveOf(ctx, v.Name).Status.SourceRemovalTime != nil }).WithContext(ctx).
		WithTimeout(8 * time.Minute).Should(BeTrue())
	onlyVolumes(ctx, "node2", 1)
	patch(ctx, v.Name, `{"keepSource":"0s"}`)
	reach(ctx, v.Name, v1alpha1.MoveCompleted)
	onlyVolumes(ctx, "node2", 0)
	onlyClaims(ctx)
	remove(ctx, v.Name)
	isOn(ctx, v, sum)
	removed(ctx, v)
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
}
