//go:build e2e

// Package copies tests restores and clones on other nodes, and in other device classes.
package copies

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var cluster suite.Cluster

func TestCopies(t *testing.T) { suite.Run(t, "Copies") }

const namespace = "default"

var _ = Describe("Copies", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		cluster = suite.UpAndRecord(ctx, lab.Options{Name: "e2e-copies", Nodes: 2, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 2 * lab.GiB}, {Size: 700 * lab.MiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, suite.ThinAndThick)
	}, NodeTimeout(20*time.Minute))

	It("restores a snapshot on another node, and in another device class", restores, NodeTimeout(20*time.Minute))
	It("restores each byte of a block volume", restoresBlocks, NodeTimeout(30*time.Minute))
	It("clones a volume that is in use on another node", clones, NodeTimeout(30*time.Minute))
	It("clones a thick volume while no Pod uses it", clonesThick, NodeTimeout(20*time.Minute))
	It("opens a thick volume when its clone is deleted", opensWhenTheCloneEnds, NodeTimeout(30*time.Minute))
	It("opens a thick volume when the node of its clone is lost and a Pod waits", opensWhenTheNodeOfTheCloneIsLost,
		NodeTimeout(40*time.Minute))
	It("continues a copy when the agents are killed and its snapshot is deleted", continues, NodeTimeout(
		20*time.Minute))
	It("removes a copy that is deleted before it is complete", forgets, NodeTimeout(20*time.Minute))
	It("continues a copy when the node of the source is back", survivesItsSource, NodeTimeout(25*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get logicalvolumes -o yaml", "get events -A --sort-by=.lastTimestamp",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager --tail=80 --prefix")
}, NodeTimeout(30*time.Minute))

// source is a volume on node1 with data, and sum the checksum of its data in the snapshot. The first spec creates them.
var (
	source = story.Volume{Namespace: namespace, Name: "source", Class: "lvms-vg1", Size: "300Mi", Node: "node1"}
	sum    string
)

// restored is a claim from a snapshot for a Pod on a node.
func restored(name, snapshot, class, node string) story.Volume {
	return story.Volume{Namespace: namespace, Name: name, Class: class, Size: "400Mi", Node: node, Snapshot: snapshot}
}

// objectOf returns the name of the LogicalVolume of a claim, which may not exist yet.
func objectOf(ctx SpecContext, v story.Volume) string {
	GinkgoHelper()
	return "pvc-" + cluster.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o", "jsonpath={.metadata.uid}")
}

// has starts a Pod with a volume, and checks that it has the data, on the node.
func has(ctx SpecContext, v story.Volume, want string) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	sameData(ctx, v, want)
}

func sameData(ctx SpecContext, v story.Volume, want string) {
	GinkgoHelper()
	got, err := cluster.Checksum(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(want))
	Expect(cluster.Run(ctx, "get", "logicalvolume", objectOf(ctx, v), "-o", "jsonpath={.spec.nodeName}")).To(
		Equal(v.Node))
}

func write(ctx SpecContext, v story.Volume) string {
	GinkgoHelper()
	written, err := cluster.Write(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	return written
}

func removed(ctx SpecContext, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

// copying creates a claim and a Pod, and waits until data of the claim is copied.
func copying(ctx SpecContext, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.CreatePod(ctx, v, v.Name)).To(Succeed())
	progress(ctx, v, `is copied from node node[12]: [1-9][0-9]* of [0-9]+ MiB \([0-9]+ %\)`)
}

// progress waits until the message in the status of the LogicalVolume of a claim matches a pattern.
func progress(ctx SpecContext, v story.Volume, pattern string) {
	GinkgoHelper()
	Eventually(func() string {
		return cluster.Run(ctx, "get", "logicalvolume", "--ignore-not-found", objectOf(ctx, v), "-o",
			"jsonpath={.status.message}")
	}).WithContext(ctx).WithPolling(200 * time.Millisecond).Should(MatchRegexp(pattern))
}

// events returns the messages of the events of a claim, or of the Pod with its name.
func events(ctx SpecContext, v story.Volume, kind string) func() string {
	return func() string {
		return cluster.Run(ctx, "get", "events", "-n", v.Namespace, "--field-selector",
			"involvedObject.kind="+kind+",involvedObject.name="+v.Name, "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	}
}

// killAgent kills the node agent of a node. It starts again at once.
func killAgent(ctx SpecContext, node string) {
	GinkgoHelper()
	cluster.OnNode(ctx, node, "pkill", "-KILL", "-f", "^/lvms vgmanager")
}
