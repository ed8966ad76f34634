//go:build e2e

package moves

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// thickVolumesOn returns the logical volumes of the thick device class on a node.
func thickVolumesOn(ctx SpecContext, node string) []string {
	GinkgoHelper()
	return strings.Fields(cluster.OnNode(ctx, node, "lvs", "--noheadings", "-o", "lv_name", "thick"))
}

func onlyThickVolumes(ctx SpecContext, node string, count int) {
	GinkgoHelper()
	Eventually(func() []string { return thickVolumesOn(ctx, node) }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(HaveLen(count))
}

// bytesOn returns the checksum of the only thick logical volume of a node, read from the disk.
func bytesOn(ctx SpecContext, node string) string {
	GinkgoHelper()
	onlyThickVolumes(ctx, node, 1)
	path := "/dev/thick/" + thickVolumesOn(ctx, node)[0]
	cluster.OnNode(ctx, node, "blockdev", "--flushbufs", path)
	sum, _, _ := strings.Cut(cluster.OnNode(ctx, node, "sha256sum", path), " ")
	Expect(sum).To(HaveLen(64))
	return sum
}

// isCopying waits until the copy of a thick volume is in progress.
func isCopying(ctx SpecContext, claim string) {
	GinkgoHelper()
	Eventually(func() int64 {
		move := moveOf(ctx, claim)
		Expect(move.Status.Phase).To(BeElementOf(v1alpha1.MoveWaitingForPods, v1alpha1.MoveCopying),
			move.Status.Message)
		return move.Status.CopiedBytes
	}).WithContext(ctx).WithPolling(500 * time.Millisecond).Should(BeNumerically(">", 0))
}

// movesThick moves a thick volume to a disk with random data. The first move is undone while it copies, and everything
// is killed during the second one. The copy has the same bytes.
func movesThick(ctx SpecContext) {
	v := story.Volume{Namespace: namespace, Name: "thick", Class: "lvms-thick", Size: "300Mi", Node: "node1"}
	sum := begin(ctx, v)

	By("waiting for the Pod")
	Expect(lvms(ctx, "evacuate", "node1", "--dry-run")).To(ContainSubstring(
		"move  default/thick: thick, 300Mi, its Pods cannot start for about 6s"))
	Expect(lvms(ctx, "move", "-n", namespace, v.Name, "--yes", "--wait=false")).To(ContainSubstring(
		"is thick: it is copied to another node only while no Pod uses it"))
	move := reach(ctx, v.Name, v1alpha1.MoveWaitingForPods)
	Expect(move.Status.Thick).To(BeTrue())
	Expect(move.Status.Pods).To(Equal([]string{namespace + "/" + v.Name}))
	Expect(move.Status.Message).To(ContainSubstring("a thick volume is copied only while no Pod uses it"))
	onlyThickVolumes(ctx, "node2", 0)
	isOn(ctx, v, sum)

	By("undoing the move while it copies")
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "10Mi")).To(Succeed())
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	isCopying(ctx, v.Name)
	onlyThickVolumes(ctx, "node2", 1)
	remove(ctx, v.Name)
	startsOn(ctx, v, sum)
	onlyThickVolumes(ctx, "node2", 0)
	onlyThickVolumes(ctx, "node1", 1)
	onlyClaims(ctx)

	By("killing everything while it copies")
	lvms(ctx, "move", "-n", namespace, v.Name, "--to", "node2", "--yes", "--wait=false")
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	isCopying(ctx, v.Name)
	kill(ctx)
	cluster.Run(suite.Limited(ctx, 6*time.Minute), "rollout", "status", "-n", story.OperatorNamespace,
		"deployment/lvms-operator", story.Timeout)
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "")).To(Succeed())
	reach(ctx, v.Name, v1alpha1.MoveKeepingSource)
	onlyThickVolumes(ctx, "node1", 1)
	Expect(bytesOn(ctx, "node2")).To(Equal(bytesOn(ctx, "node1")))
	Expect(moveOf(ctx, v.Name).Status.CopiedBytes).To(BeEquivalentTo(300 << 20))
	v.Node = "node2"
	startsOn(ctx, v, sum)

	By("removing the old logical volume")
	patch(ctx, v.Name, `{"keepSource":"0s"}`)
	reach(ctx, v.Name, v1alpha1.MoveCompleted)
	onlyThickVolumes(ctx, "node1", 0)
	onlyClaims(ctx)
	remove(ctx, v.Name)
	isOn(ctx, v, sum)
	removed(ctx, v)
	onlyThickVolumes(ctx, "node2", 0)
}
