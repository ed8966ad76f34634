//go:build e2e

package copies

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const fullClass = `
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
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10, highWaterMarkPercent: 85}
`

// mostByCopies is the percentage of a thin pool up to which copies fill it: 5 points below highWaterMarkPercent. What
// the volumes write meanwhile comes on top.
const mostByCopies = 80

var _ = Describe("Copies and full thin pools", Ordered, Label("full"), func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		cluster = suite.UpAndRecord(ctx, lab.Options{Name: "e2e-copies-full", Nodes: 2, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 2 * lab.GiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, fullClass)
	}, NodeTimeout(20*time.Minute))

	It("discards a move before its snapshots fill the thin pool of the source", spareTheSource,
		NodeTimeout(25*time.Minute))
	It("fills no thin pool with restores, clones and moves", spareTheTarget, NodeTimeout(25*time.Minute))
})

// fill writes a file of random data to a volume.
func fill(ctx SpecContext, v story.Volume, file string, mebibytes int) {
	GinkgoHelper()
	_, err := cluster.Shell(ctx, v.Namespace, v.Name, "dd if=/dev/urandom of=/data/"+file+" bs=1M count="+
		strconv.Itoa(mebibytes)+" conv=notrunc,fsync 2>/dev/null")
	Expect(err).NotTo(HaveOccurred())
}

// used returns how many percent of the data of the thin pool of a node are used.
func used(ctx SpecContext, node string) float64 {
	GinkgoHelper()
	text := cluster.OnNode(ctx, node, "lvs", "--noheadings", "-o", "data_percent", "vg1/thin-pool-1")
	percent, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	Expect(err).NotTo(HaveOccurred())
	return percent
}

// bystander starts a Pod that has data on a node and writes to it all the time. ok checks that no write has failed, and
// that it still writes.
func bystander(ctx SpecContext, name, node string, mebibytes int) (v story.Volume, ok func()) {
	GinkgoHelper()
	v = story.Volume{Namespace: namespace, Name: name, Class: "lvms-vg1", Size: "1500Mi", Node: node}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	fill(ctx, v, "filler", mebibytes)
	fill(ctx, v, "steady", 8)
	_, err := cluster.Shell(ctx, namespace, name, `(i=0; while i=$((i+1)); do `+
		`dd if=/dev/zero of=/data/steady bs=4k count=1 seek=$((i%2000)) conv=notrunc,fsync 2>/tmp/last || `+
		`cat /tmp/last >>/tmp/failed; echo $i >/tmp/writes; done) >/dev/null 2>&1 &`)
	Expect(err).NotTo(HaveOccurred())
	written := func() int {
		out, err := cluster.Shell(ctx, namespace, name, "cat /tmp/writes; test ! -e /tmp/failed || cat /tmp/failed >&2")
		Expect(err).NotTo(HaveOccurred())
		count, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			return 0 // The file is empty for a moment before each number.
		}
		return count
	}
	return v, func() {
		GinkgoHelper()
		failed, err := cluster.Shell(ctx, namespace, name, "cat /tmp/failed 2>/dev/null || true")
		Expect(err).NotTo(HaveOccurred())
		Expect(failed).To(BeEmpty(), "writes of a volume that is not copied fail")
		before := written()
		Eventually(written).WithContext(ctx).Should(BeNumerically(">", before))
	}
}

// moveTo creates a VolumeMove of a claim to a node, and returns what reads it.
func moveTo(ctx SpecContext, claim, node string) func() v1alpha1.VolumeMoveStatus {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, `
apiVersion: lvm.topolvm.io/v1alpha1
kind: VolumeMove
metadata: {name: `+claim+`, namespace: openshift-lvm-storage}
spec: {claim: {namespace: default, name: `+claim+`}, nodeName: `+node+`, keepSource: 0s}
`)).To(Succeed())
	return func() v1alpha1.VolumeMoveStatus {
		var move v1alpha1.VolumeMove
		text := cluster.Run(ctx, "get", "volumemove", "-n", story.OperatorNamespace, claim, "-o", "json")
		Expect(json.Unmarshal([]byte(text), &move)).To(Succeed())
		return move.Status
	}
}

func isPending(why string) OmegaMatcher {
	return And(HaveField("Phase", v1alpha1.MovePending), HaveField("Message", ContainSubstring(why)))
}

// spareTheSource moves a volume slowly whose Pod overwrites its data, so that the snapshot of the move grows. The copy
// is discarded before the thin pool is full, and complete when the Pod has ended.
func spareTheSource(ctx SpecContext) {
	v := story.Volume{Namespace: namespace, Name: "busy", Class: "lvms-vg1", Size: "500Mi", Node: "node1"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	fill(ctx, v, "overwritten", 350)
	other, otherWrites := bystander(ctx, "beside-source", "node1", 950)
	Expect(used(ctx, "node1")).To(And(BeNumerically(">", 65), BeNumerically("<", mostByCopies)))
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "1Mi")).To(Succeed())
	status := moveTo(ctx, v.Name, "node2")
	Eventually(status).WithContext(ctx).Should(And(HaveField("Phase", v1alpha1.MoveCopying),
		HaveField("CopiedBytes", BeNumerically(">", 0))))

	By("overwriting the volume")
	fill(ctx, v, "overwritten", 350)
	Eventually(status).WithContext(ctx).Should(isPending("the thin pool thin-pool-1 of node node1 fills"))
	Eventually(func() float64 { return used(ctx, "node1") }).WithContext(ctx).WithPolling(2 * time.Second).Should(
		BeNumerically("<", mostByCopies))
	otherWrites()
	sum := checksum(ctx, v)

	By("ending the Pod")
	Expect(cluster.LimitCopies(suite.Limited(ctx, 3*time.Minute), "")).To(Succeed())
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	Eventually(status).WithContext(ctx).WithTimeout(15 * time.Minute).Should(
		HaveField("Phase", v1alpha1.MoveCompleted))
	otherWrites()
	v.Node = "node2"
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	Expect(checksum(ctx, v)).To(Equal(sum))
	removed(ctx, v)
	removed(ctx, other)
	cluster.Run(ctx, "delete", "volumemove", "-n", story.OperatorNamespace, v.Name, story.Timeout)
}

func checksum(ctx SpecContext, v story.Volume) string {
	GinkgoHelper()
	out, err := cluster.Shell(ctx, namespace, v.Name, "sha256sum /data/overwritten")
	Expect(err).NotTo(HaveOccurred())
	return out
}

// spareTheTarget copies more data to a node than its thin pool has room for, in each way. The volumes there are not
// affected, and all copies wait and say why.
func spareTheTarget(ctx SpecContext) {
	v := story.Volume{Namespace: namespace, Name: "large", Class: "lvms-vg1", Size: "700Mi", Node: "node1"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	fill(ctx, v, "overwritten", 500)
	Expect(cluster.Snapshot(ctx, v, "large-snap")).To(Succeed())
	other, otherWrites := bystander(ctx, "beside-target", "node2", 1200)
	Expect(used(ctx, "node2")).To(And(BeNumerically(">", 60), BeNumerically("<", mostByCopies)))

	restore := story.Volume{Namespace: namespace, Name: "too-large", Class: "lvms-vg1", Size: "700Mi", Node: "node2",
		Snapshot: "large-snap"}
	clone := restore
	clone.Name, clone.Snapshot, clone.Clone = "clone-too-large", "", v.Name
	for _, c := range []story.Volume{restore, clone} {
		Expect(cluster.Claim(ctx, c)).To(Succeed())
		Expect(cluster.CreatePod(ctx, c, c.Name)).To(Succeed())
	}
	status := moveTo(ctx, v.Name, "node2")
	Eventually(status).WithContext(ctx).Should(isPending("node node2 has no room for the copy"))
	for _, c := range []story.Volume{restore, clone} {
		Eventually(events(ctx, c, "PersistentVolumeClaim")).WithContext(ctx).Should(ContainSubstring("thin-pool-1"))
		Expect(cluster.Run(ctx, "get", "pvc", "-n", namespace, c.Name, "-o", "jsonpath={.status.phase}")).To(
			Equal("Pending"))
	}
	Expect(used(ctx, "node2")).To(BeNumerically("<", mostByCopies+1))
	otherWrites()

	By("making room")
	for _, c := range []story.Volume{restore, clone, other} {
		removed(ctx, c)
	}
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	Eventually(status).WithContext(ctx).WithTimeout(15 * time.Minute).Should(
		HaveField("Phase", v1alpha1.MoveCompleted))
	v.Node = "node2"
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	removed(ctx, v)
	Expect(cluster.RemoveSnapshot(ctx, namespace, "large-snap")).To(Succeed())
	cluster.Run(ctx, "delete", "volumemove", "-n", story.OperatorNamespace, v.Name, story.Timeout)
}
