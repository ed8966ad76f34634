//go:build e2e

// Package copies tests restores and clones on other nodes, and in other device classes.
package copies

import (
	"strings"
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

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
    - name: thick
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc]}
`

var _ = Describe("Copies", Label("long"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-copies", Nodes: 2, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 2 * lab.GiB}, {Size: 700 * lab.MiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		Expect(cluster.ApplyManifest(ctx, classes)).To(Succeed())
		Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	}, NodeTimeout(20*time.Minute))

	It("restores a snapshot on another node, and in another device class", restores, NodeTimeout(20*time.Minute))
	It("clones a volume that is in use on another node", clones, NodeTimeout(15*time.Minute))
	It("continues a copy when both agents are killed", continues, NodeTimeout(15*time.Minute))
	It("removes a copy that is deleted before it is complete", forgets, NodeTimeout(10*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get logicalvolumes -o yaml", "get events -A --sort-by=.lastTimestamp",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager --tail=80 --prefix")
}, NodeTimeout(4*time.Minute))

// source is a volume on node1 with data, and sum the checksum of its data. The first spec creates both.
var (
	source = story.Volume{Namespace: namespace, Name: "source", Class: "lvms-vg1", Size: "300Mi", Node: "node1"}
	sum    string
)

// restored is a claim from the snapshot of the source for a Pod on a node.
func restored(name, class, node string) story.Volume {
	return story.Volume{Namespace: namespace, Name: name, Class: class, Size: "400Mi", Node: node, Snapshot: "snap"}
}

// nodeOf returns the node of the LogicalVolume of a claim.
func nodeOf(ctx SpecContext, v story.Volume) string {
	GinkgoHelper()
	volume := cluster.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o", "jsonpath={.spec.volumeName}")
	return cluster.Run(ctx, "get", "logicalvolume", volume, "-o", "jsonpath={.spec.nodeName}")
}

// has starts a Pod with a volume, and checks that it has the data.
func has(ctx SpecContext, v story.Volume, want string) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	got, err := cluster.Checksum(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(want))
	Expect(nodeOf(ctx, v)).To(Equal(v.Node))
}

func removed(ctx SpecContext, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

// restores copies a snapshot to the other node, thin and thick, and to a thick volume of the same node. The copies can
// be written, and their sources change without them.
func restores(ctx SpecContext) {
	Expect(cluster.Claim(ctx, source)).To(Succeed())
	Expect(cluster.StartPod(ctx, source, source.Name)).To(Succeed())
	var err error
	sum, err = cluster.Write(ctx, source, source.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Snapshot(ctx, source, "snap")).To(Succeed())
	Expect(cluster.WaitSnapshot(ctx, namespace, "snap")).To(Succeed())
	_, err = cluster.Write(ctx, source, source.Name)
	Expect(err).NotTo(HaveOccurred())
	for _, v := range []story.Volume{restored("thin2", "lvms-vg1", "node2"), restored("thick2", "lvms-thick", "node2"),
		restored("thick1", "lvms-thick", "node1"), restored("thin1", "lvms-vg1", "node1")} {
		By("restoring " + v.Name)
		has(ctx, v, sum)
		_, err := cluster.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
		removed(ctx, v)
	}
}

// clones copies a volume while its Pod writes. The snapshot for it is deleted afterwards.
func clones(ctx SpecContext) {
	want, err := cluster.Write(ctx, source, source.Name)
	Expect(err).NotTo(HaveOccurred())
	v := story.Volume{Namespace: namespace, Name: "clone", Class: "lvms-vg1", Size: "300Mi", Node: "node2",
		Clone: source.Name}
	has(ctx, v, want)
	Eventually(func() string { return cluster.Run(ctx, "get", "logicalvolumes", "-o", "name") }).WithContext(ctx).
		WithTimeout(2 * time.Minute).WithPolling(time.Second).ShouldNot(ContainSubstring("copy-pvc"))
	removed(ctx, v)
}

// copying waits until a claim is being copied, and returns the name of its LogicalVolume.
func copying(ctx SpecContext, v story.Volume) string {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.CreatePod(ctx, v, v.Name)).To(Succeed())
	name := ""
	Eventually(func() string {
		uid := cluster.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o", "jsonpath={.metadata.uid}")
		name = "pvc-" + uid
		return cluster.Run(ctx, "get", "logicalvolumes", "-o", "name")
	}).WithContext(ctx).WithTimeout(3*time.Minute).WithPolling(50*time.Millisecond).Should(ContainSubstring("pvc-"),
		"no LogicalVolume")
	Eventually(func() string { return cluster.Run(ctx, "get", "logicalvolumes", "-o", "name") }).WithContext(ctx).
		WithTimeout(3 * time.Minute).WithPolling(50 * time.Millisecond).Should(ContainSubstring(name))
	return name
}

// continues kills the agents of both nodes several times while they copy a volume.
func continues(ctx SpecContext) {
	v := restored("killed", "lvms-thick", "node2")
	copying(ctx, v)
	for range 3 {
		for _, node := range []string{"node1", "node2"} {
			cluster.OnNode(ctx, node, "sh", "-c", "pkill -9 -f 'lvms vgmanager' || true")
		}
	}
	Expect(cluster.WaitRunning(ctx, namespace, v.Name)).To(Succeed())
	got, err := cluster.Checksum(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(sum))
	removed(ctx, v)
}

// forgets deletes a claim while it is copied. Nothing of it remains on the node.
func forgets(ctx SpecContext) {
	v := restored("deleted", "lvms-thick", "node2")
	copying(ctx, v)
	removed(ctx, v)
	Eventually(func() string {
		return strings.TrimSpace(cluster.OnNode(ctx, "node2", "lvs", "--noheadings", "-o", "lv_name", "thick"))
	}).WithContext(ctx).WithTimeout(4 * time.Minute).WithPolling(2 * time.Second).Should(BeEmpty())
	Expect(cluster.Run(ctx, "get", "logicalvolumes", "-o", "name")).NotTo(ContainSubstring("copy-pvc"))
}
