//go:build e2e

package copies

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// restores copies a snapshot to the other node, thin and thick, and to a thick volume of the same node. The copies can
// be written, and their sources change without them.
func restores(ctx SpecContext) {
	Expect(cluster.Claim(ctx, source)).To(Succeed())
	Expect(cluster.StartPod(ctx, source, source.Name)).To(Succeed())
	sum = write(ctx, source)
	Expect(cluster.Snapshot(ctx, source, "snap")).To(Succeed())
	write(ctx, source)
	for _, v := range []story.Volume{restored("thin2", "snap", "lvms-vg1", "node2"),
		restored("thick2", "snap", "lvms-thick", "node2"), restored("thick1", "snap", "lvms-thick", "node1"),
		restored("thin1", "snap", "lvms-vg1", "node1")} {
		By("restoring " + v.Name)
		has(ctx, v, sum)
		write(ctx, v)
		removed(ctx, v)
	}
}

// restoresBlocks compares all of a block volume, of which a few parts are written, with copies of its snapshot.
func restoresBlocks(ctx SpecContext) {
	const whole = "head -c 134217728 /dev/data | sha256sum"
	blocks := story.Volume{Namespace: namespace, Name: "blocks", Class: "lvms-vg1", Size: "128Mi",
		Node: "node1", Block: true}
	Expect(cluster.Claim(ctx, blocks)).To(Succeed())
	Expect(cluster.StartPod(ctx, blocks, blocks.Name)).To(Succeed())
	sumOf := func(v story.Volume) string {
		out, err := cluster.Shell(ctx, v.Namespace, v.Name, whole)
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	_, err := cluster.Shell(ctx, namespace, blocks.Name, "for i in 0 1 7 300 301 2047 9999 32767; do dd if=/dev/urandom "+
		"of=/dev/data bs=4096 count=1 seek=$i conv=notrunc 2>/dev/null || exit 1; done; dd if=/dev/urandom "+
		"of=/dev/data bs=1M count=5 seek=60 conv=notrunc,fsync 2>/dev/null")
	Expect(err).NotTo(HaveOccurred())
	want := sumOf(blocks)
	Expect(cluster.Snapshot(ctx, blocks, "block-snap")).To(Succeed())
	removed(ctx, blocks)
	for _, class := range []string{"lvms-vg1", "lvms-thick"} {
		v := restored("blocks-"+class, "block-snap", class, "node2")
		v.Size = "128Mi"
		v.Block = true
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		Expect(sumOf(v)).To(Equal(want), class)
		removed(ctx, v)
	}
	Expect(cluster.RemoveSnapshot(ctx, namespace, "block-snap")).To(Succeed())
}

// clones copies a volume that a Pod uses. The snapshot for it is deleted afterwards.
func clones(ctx SpecContext) {
	want := write(ctx, source)
	v := story.Volume{Namespace: namespace, Name: "clone", Class: "lvms-vg1", Size: "300Mi", Node: "node2",
		Clone: source.Name}
	has(ctx, v, want)
	Eventually(func() string { return cluster.Run(ctx, "get", "logicalvolumes", "-o", "name") }).WithContext(ctx).
		WithTimeout(2 * time.Minute).WithPolling(time.Second).ShouldNot(ContainSubstring("copy-pvc"))
	removed(ctx, v)
}

// refusesThick clones a thick volume, of which there are no snapshots.
func refusesThick(ctx SpecContext) {
	thick := story.Volume{Namespace: namespace, Name: "thick", Class: "lvms-thick", Size: "100Mi", Node: "node1"}
	Expect(cluster.Claim(ctx, thick)).To(Succeed())
	Expect(cluster.StartPod(ctx, thick, thick.Name)).To(Succeed())
	v := story.Volume{Namespace: namespace, Name: "back", Class: "lvms-vg1", Size: "100Mi", Node: "node2",
		Clone: thick.Name}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.CreatePod(ctx, v, v.Name)).To(Succeed())
	Eventually(events(ctx, v, "PersistentVolumeClaim")).WithContext(ctx).WithTimeout(3 * time.Minute).WithPolling(time.Second).Should(
		ContainSubstring("device class thick is thick: only thin volumes support snapshots"))
	removed(ctx, v)
	removed(ctx, thick)
	Expect(cluster.Run(ctx, "get", "logicalvolumes", "-o", "name")).NotTo(ContainSubstring("copy-pvc"))
}

// continues kills the agents of the target and of the source while they copy a volume, deletes the VolumeSnapshot, and
// removes the bandwidth limit. The user sees the progress.
func continues(ctx SpecContext) {
	Expect(cluster.RemoveSnapshot(ctx, namespace, "snap")).To(Succeed())
	sum = write(ctx, source)
	Expect(cluster.Snapshot(ctx, source, "snap")).To(Succeed())
	limit(ctx, "1Mi")
	v := restored("killed", "snap", "lvms-thick", "node2")
	copying(ctx, v)

	By("deleting the snapshot")
	cluster.Run(ctx, "delete", "volumesnapshot", "-n", namespace, "snap", "--wait=false")

	By("showing the progress")
	Expect(volumes(ctx)).To(MatchRegexp(`killed.*Copying.*copied from node node1: [0-9]+ of [0-9]+ MiB`))
	for _, kind := range []string{"PersistentVolumeClaim", "Pod"} {
		Eventually(events(ctx, v, kind)).WithContext(ctx).WithTimeout(3*time.Minute).WithPolling(time.Second).Should(
			MatchRegexp(`copied from node node1: [0-9]+ of [0-9]+ MiB \([0-9]+ %\)`), kind)
	}

	for _, node := range []string{"node2", "node1"} {
		By("killing the agent of " + node)
		killAgent(ctx, node)
		cluster.Run(ctx, "wait", "--for=condition=Ready", "pods", "-l", "app.kubernetes.io/name=vg-manager", "-n",
			story.OperatorNamespace, "--timeout=5m")
		progress(ctx, v, `is copied from node node1: [1-9][0-9]* of`)
	}
	By("removing the limit")
	limit(ctx, "")
	Expect(cluster.WaitRunning(ctx, namespace, v.Name)).To(Succeed())
	sameData(ctx, v, sum)
	Eventually(func() string {
		return cluster.Run(ctx, "get", "volumesnapshot", "-n", namespace, "-o", "name")
	}).WithContext(ctx).WithTimeout(2 * time.Minute).WithPolling(time.Second).ShouldNot(ContainSubstring("/snap"))
	removed(ctx, v)
}

// volumes returns what `kubectl lvms volumes -o wide` prints.
func volumes(ctx SpecContext) string {
	GinkgoHelper()
	command, err := cluster.Lab.Command(ctx, suite.Archive("LVMS_PLUGIN"), "volumes", "-o", "wide")
	Expect(err).NotTo(HaveOccurred())
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

// forgets deletes a claim while it is copied. Nothing of it remains on either node.
func forgets(ctx SpecContext) {
	limit(ctx, "1Mi")
	v := story.Volume{Namespace: namespace, Name: "deleted", Class: "lvms-thick", Size: "300Mi", Node: "node2",
		Clone: source.Name}
	copying(ctx, v)
	removed(ctx, v)
	Eventually(func() string {
		return strings.TrimSpace(cluster.OnNode(ctx, "node2", "lvs", "--noheadings", "-o", "lv_name", "thick"))
	}).WithContext(ctx).WithTimeout(4 * time.Minute).WithPolling(2 * time.Second).Should(BeEmpty())
	Eventually(func() string { return cluster.Run(ctx, "get", "logicalvolumes", "-o", "name") }).WithContext(ctx).
		WithTimeout(4 * time.Minute).WithPolling(2 * time.Second).ShouldNot(ContainSubstring("copy-pvc"))
	limit(ctx, "")
}

// survivesItsSource cuts the power of the node of the source while it is copied, and starts the node again.
func survivesItsSource(ctx SpecContext) {
	want := write(ctx, source)
	Expect(cluster.Snapshot(ctx, source, "outage")).To(Succeed())
	limit(ctx, "1Mi")
	v := restored("outage", "outage", "lvms-vg1", "node2")
	copying(ctx, v)
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	Expect(node.PowerCut(ctx)).To(Succeed())
	progress(ctx, v, "from the node agent of node1: .*check that the node is running")
	Expect(node.Start(ctx)).To(Succeed())
	limit(ctx, "")
	Expect(cluster.WaitRunning(suite.Limited(ctx, 10*time.Minute), namespace, v.Name)).To(Succeed())
	sameData(ctx, v, want)
	removed(ctx, v)
}
