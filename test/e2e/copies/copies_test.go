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
		ShouldNot(ContainSubstring("copy-pvc"))
	removed(ctx, v)
}

// thick is a thick volume on node1 with data, and thickSum the checksum of its data.
var (
	thick    = story.Volume{Namespace: namespace, Name: "thick", Class: "lvms-thick", Size: "100Mi", Node: "node1"}
	thickSum string
)

// clonesThick clones a thick volume, of which there are no snapshots: the clone says which Pod it waits for, and has
// the data when the Pod has ended. The source can be used again after that.
func clonesThick(ctx SpecContext) {
	Expect(cluster.Claim(ctx, thick)).To(Succeed())
	Expect(cluster.StartPod(ctx, thick, thick.Name)).To(Succeed())
	thickSum = write(ctx, thick)
	v := clonedFromThick("clone-thick2", "lvms-thick", "node2")
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.CreatePod(ctx, v, v.Name)).To(Succeed())
	const why = "a thick volume has no snapshots, so volume .* of claim default/thick is copied only while no Pod uses it." +
		" To start the copy, end: default/thick"
	progress(ctx, v, why)
	for _, kind := range []string{"PersistentVolumeClaim", "Pod"} {
		Eventually(events(ctx, v, kind)).WithContext(ctx).Should(
			MatchRegexp(why), kind)
	}
	Expect(volumes(ctx)).To(MatchRegexp("clone-thick2.*Copying.*" + why))
	Expect(fenceOf(ctx)).To(BeEmpty())

	By("ending the Pod of the source")
	Expect(cluster.StopPod(ctx, namespace, thick.Name)).To(Succeed())
	Expect(cluster.WaitRunning(ctx, namespace, v.Name)).To(Succeed())
	sameData(ctx, v, thickSum)
	write(ctx, v)
	removed(ctx, v)
	for _, v := range []story.Volume{clonedFromThick("clone-thin1", "lvms-vg1", "node1"),
		clonedFromThick("clone-thick1", "lvms-thick", "node1")} {
		By("cloning to " + v.Name)
		has(ctx, v, thickSum)
		write(ctx, v)
		removed(ctx, v)
	}
	opensThick(ctx)
}

// clonedFromThick is a claim from the thick volume for a Pod on a node. It is larger than its source.
func clonedFromThick(name, class, node string) story.Volume {
	return story.Volume{Namespace: namespace, Name: name, Class: class, Size: "120Mi", Node: node, Clone: thick.Name}
}

// fenceOf returns the fence of the thick volume, or "".
func fenceOf(ctx SpecContext) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "logicalvolume", objectOf(ctx, thick), "-o",
		`jsonpath={.metadata.annotations.lvm\.topolvm\.io/fence}`)
}

// opensThick waits until nothing of a fence is left, and uses the thick volume. It has its data.
func opensThick(ctx SpecContext) {
	GinkgoHelper()
	Eventually(func() string { return fenceOf(ctx) }).WithContext(ctx).Should(BeEmpty())
	Eventually(func() string {
		return cluster.OnNode(ctx, thick.Node, "lvs", "--noheadings", "-o", "lv_tags", "thick")
	}).WithContext(ctx).ShouldNot(ContainSubstring("lvms.fenced="))
	Expect(cluster.StartPod(ctx, thick, thick.Name)).To(Succeed())
	sameData(ctx, thick, thickSum)
	Expect(cluster.StopPod(ctx, namespace, thick.Name)).To(Succeed())
}

// opensWhenTheCloneEnds starts a Pod of a thick volume while it is cloned. The Pod says why it waits, and runs when the
// claim of the clone is deleted.
func opensWhenTheCloneEnds(ctx SpecContext) {
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "1Mi")).To(Succeed())
	v := clonedFromThick("deleted", "lvms-thick", "node2")
	copying(ctx, v)
	Expect(fenceOf(ctx)).To(HavePrefix("clone-"))
	Expect(cluster.CreatePod(ctx, thick, thick.Name)).To(Succeed())
	Eventually(events(ctx, thick, "Pod")).WithContext(ctx).Should(
		ContainSubstring("a clone of it, and can be used when that is complete: to use it now, delete the clone's claim"))
	removed(ctx, v)
	Expect(cluster.WaitRunning(ctx, namespace, thick.Name)).To(Succeed())
	sameData(ctx, thick, thickSum)
	Expect(cluster.StopPod(ctx, namespace, thick.Name)).To(Succeed())
	opensThick(ctx)
	Eventually(func() string {
		return strings.TrimSpace(cluster.OnNode(ctx, "node2", "lvs", "--noheadings", "-o", "lv_name", "thick"))
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(BeEmpty())
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "")).To(Succeed())
	Expect(cluster.Unclaim(ctx, thick)).To(Succeed())
}

// opensWhenTheNodeOfTheCloneIsLost cuts the power of the node to which a thick volume is cloned, after its agent was
// killed. A Pod gets the volume, and the copy begins again when the node is back and the Pod has ended.
func opensWhenTheNodeOfTheCloneIsLost(ctx SpecContext) {
	_, here := cluster.Leader(ctx)
	there := cluster.Lab.Nodes()[0]
	if there.Name() == here.Name() {
		there = cluster.Lab.Nodes()[1]
	}
	thick.Node = here.Name()
	Expect(cluster.Claim(ctx, thick)).To(Succeed())
	Expect(cluster.StartPod(ctx, thick, thick.Name)).To(Succeed())
	thickSum = write(ctx, thick)
	Expect(cluster.StopPod(ctx, namespace, thick.Name)).To(Succeed())
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "1Mi")).To(Succeed())
	v := clonedFromThick("lost", "lvms-thick", there.Name())
	copying(ctx, v)

	By("killing the agent of " + there.Name())
	killAgent(ctx, there.Name())
	awaitAgents(ctx)
	progress(ctx, v, `is copied from node `+here.Name()+`: [1-9][0-9]* of`)

	By("cutting the power of " + there.Name())
	Expect(there.PowerCut(ctx)).To(Succeed())
	Expect(cluster.CreatePod(ctx, thick, thick.Name)).To(Succeed())
	Eventually(events(ctx, thick, "Pod")).WithContext(ctx).Should(
		ContainSubstring("a clone of it, and can be used when that is complete"))
	Eventually(func() string { return fenceOf(ctx) }).WithContext(ctx).WithTimeout(8 * time.Minute).Should(BeEmpty())
	Expect(cluster.WaitRunning(ctx, namespace, thick.Name)).To(Succeed())
	sameData(ctx, thick, thickSum)
	progress(ctx, v, "node "+there.Name()+" is not ready since .* so the copy of volume .* of claim default/thick to "+
		"node "+there.Name()+" is discarded")

	By("starting " + there.Name())
	thickSum = write(ctx, thick)
	Expect(there.Start(ctx)).To(Succeed())
	progress(ctx, v, "copied only while no Pod uses it. To start the copy, end: default/thick")
	Expect(cluster.StopPod(ctx, namespace, thick.Name)).To(Succeed())
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "")).To(Succeed())
	Expect(cluster.WaitRunning(suite.Limited(ctx, 10*time.Minute), namespace, v.Name)).To(Succeed())
	sameData(ctx, v, thickSum)
	removed(ctx, v)
	opensThick(ctx)
	Expect(cluster.Unclaim(ctx, thick)).To(Succeed())
	// Pods are evicted from a node that is lost for five minutes.
	Expect(cluster.StopPod(ctx, namespace, source.Name)).To(Succeed())
	Expect(cluster.StartPod(ctx, source, source.Name)).To(Succeed())
}

// awaitAgents waits until the node agents are ready.
func awaitAgents(ctx SpecContext) {
	GinkgoHelper()
	cluster.Run(ctx, "wait", "--for=condition=Ready", "pods", "-l", "app.kubernetes.io/name=vg-manager", "-n",
		story.OperatorNamespace, story.Timeout)
}

// continues kills the agents of the target and of the source while they copy a volume, deletes the VolumeSnapshot, and
// removes the bandwidth limit. The user sees the progress.
func continues(ctx SpecContext) {
	Expect(cluster.RemoveSnapshot(ctx, namespace, "snap")).To(Succeed())
	sum = write(ctx, source)
	Expect(cluster.Snapshot(ctx, source, "snap")).To(Succeed())
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "1Mi")).To(Succeed())
	v := restored("killed", "snap", "lvms-thick", "node2")
	copying(ctx, v)

	By("deleting the snapshot")
	cluster.Run(ctx, "delete", "volumesnapshot", "-n", namespace, "snap", "--wait=false")

	By("showing the progress")
	Expect(volumes(ctx)).To(MatchRegexp(`killed.*Copying.*copied from node node1: [0-9]+ of [0-9]+ MiB`))
	for _, kind := range []string{"PersistentVolumeClaim", "Pod"} {
		Eventually(events(ctx, v, kind)).WithContext(ctx).Should(
			MatchRegexp(`copied from node node1: [0-9]+ of [0-9]+ MiB \([0-9]+ %\)`), kind)
	}

	for _, node := range []string{"node2", "node1"} {
		By("killing the agent of " + node)
		killAgent(ctx, node)
		awaitAgents(ctx)
		progress(ctx, v, `is copied from node node1: [1-9][0-9]* of`)
	}
	By("removing the limit")
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "")).To(Succeed())
	Expect(cluster.WaitRunning(ctx, namespace, v.Name)).To(Succeed())
	sameData(ctx, v, sum)
	Eventually(func() string {
		return cluster.Run(ctx, "get", "volumesnapshot", "-n", namespace, "-o", "name")
	}).WithContext(ctx).ShouldNot(ContainSubstring("/snap"))
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
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "1Mi")).To(Succeed())
	v := story.Volume{Namespace: namespace, Name: "deleted", Class: "lvms-thick", Size: "300Mi", Node: "node2",
		Clone: source.Name}
	copying(ctx, v)
	removed(ctx, v)
	Eventually(func() string {
		return strings.TrimSpace(cluster.OnNode(ctx, "node2", "lvs", "--noheadings", "-o", "lv_name", "thick"))
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(BeEmpty())
	Eventually(func() string { return cluster.Run(ctx, "get", "logicalvolumes", "-o", "name") }).WithContext(ctx).
		WithPolling(2 * time.Second).ShouldNot(ContainSubstring("copy-pvc"))
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "")).To(Succeed())
}

// survivesItsSource cuts the power of the node of the source while it is copied, and starts the node again.
func survivesItsSource(ctx SpecContext) {
	want := write(ctx, source)
	Expect(cluster.Snapshot(ctx, source, "outage")).To(Succeed())
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "1Mi")).To(Succeed())
	v := restored("outage", "outage", "lvms-vg1", "node2")
	copying(ctx, v)
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	Expect(node.PowerCut(ctx)).To(Succeed())
	progress(ctx, v, "from the node agent of node1: .*check that the node is running")
	Expect(node.Start(ctx)).To(Succeed())
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "")).To(Succeed())
	Expect(cluster.WaitRunning(suite.Limited(ctx, 10*time.Minute), namespace, v.Name)).To(Succeed())
	sameData(ctx, v, want)
	removed(ctx, v)
}
