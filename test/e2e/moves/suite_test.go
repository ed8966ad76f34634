//go:build e2e

// Package moves tests moves of volumes to other nodes.
package moves

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var cluster suite.Cluster

func TestMoves(t *testing.T) { suite.Run(t, "Moves") }

const (
	namespace = "default"
	class     = "lvms-vg1"
)

var _ = Describe("Moves", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		cluster = suite.UpAndRecord(ctx, lab.Options{Name: "e2e-moves", Nodes: 2, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 2 * lab.GiB}, {Size: 500 * lab.MiB}}})
		// What a copy does not write is not zero by itself. The begin of the disk stays blank.
		cluster.OnNode(ctx, "node2", "dd", "if=/dev/urandom", "of=/dev/ubdc", "bs=4M", "seek=4", "count=110",
			"oflag=direct")
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, suite.ThinAndThick)
	}, NodeTimeout(20*time.Minute))

	It("moves a volume while a Pod writes, and keeps the old one for a time", moves, NodeTimeout(20*time.Minute))
	It("leaves the volume on its node if the move is deleted", undoes, NodeTimeout(30*time.Minute))
	It("ends on one node when agents and operator are killed", isKilled, NodeTimeout(30*time.Minute))
	It("empties a node for kubectl drain", evacuates, NodeTimeout(20*time.Minute))
	It("moves a volume back whose new node is lost", movesBack, Label("lost"),
		NodeTimeout(30*time.Minute))
	It("moves a thick volume while no Pod uses it", movesThick, NodeTimeout(30*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get volumemoves -A -o yaml", "get logicalvolumes -o yaml", "get pv -o yaml",
		"get events -A --sort-by=.lastTimestamp",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager --tail=80 --prefix",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=lvms-operator --tail=120 --prefix")
}, NodeTimeout(30*time.Minute))

// data is a claim whose Pod is on a node.
func data(name, node string) story.Volume {
	return story.Volume{Namespace: namespace, Name: name, Class: class, Size: "300Mi", Node: node}
}

// begin creates a volume with data and a Pod, and returns the checksum of the data.
func begin(ctx SpecContext, v story.Volume) string {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	sum, err := cluster.Write(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	return sum
}

// lvms runs a command of the kubectl plugin.
func lvms(ctx SpecContext, args ...string) string {
	GinkgoHelper()
	command, err := cluster.Lab.Command(ctx, suite.Archive("LVMS_PLUGIN"), args...)
	Expect(err).NotTo(HaveOccurred())
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	GinkgoWriter.Printf("kubectl lvms %s:\n%s\n", strings.Join(args, " "), out)
	return string(out)
}

// moveOf returns the only VolumeMove of a claim, or nil if there is none.
func moveOf(ctx SpecContext, claim string) *v1alpha1.VolumeMove {
	GinkgoHelper()
	var list v1alpha1.VolumeMoveList
	text := cluster.Run(ctx, "get", "volumemoves", "-n", story.OperatorNamespace, "-o", "json")
	Expect(json.Unmarshal([]byte(text), &list)).To(Succeed())
	var found []v1alpha1.VolumeMove
	for _, m := range list.Items {
		if m.Spec.Claim.Namespace == namespace && m.Spec.Claim.Name == claim {
			found = append(found, m)
		}
	}
	Expect(len(found)).To(BeNumerically("<=", 1))
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}

// reach waits until the move of a claim is in a phase, and returns it.
func reach(ctx SpecContext, claim string, phase v1alpha1.VolumeMovePhase) *v1alpha1.VolumeMove {
	GinkgoHelper()
	var move *v1alpha1.VolumeMove
	Eventually(func() v1alpha1.VolumeMovePhase {
		move = moveOf(ctx, claim)
		Expect(move).NotTo(BeNil())
		Expect(move.Status.Phase).NotTo(Equal(v1alpha1.MoveFailed), move.Status.Message)
		return move.Status.Phase
	}).WithContext(ctx).WithTimeout(10 * time.Minute).WithPolling(500 * time.Millisecond).Should(Equal(phase))
	return move
}

// nodeOf returns the nodes of a claim's PersistentVolume and LogicalVolume, which have the same name.
func nodeOf(ctx SpecContext, claim string) (persistentVolume, logicalVolume string) {
	GinkgoHelper()
	name := cluster.Run(ctx, "get", "pvc", "-n", namespace, claim, "-o", "jsonpath={.spec.volumeName}")
	Expect(name).NotTo(BeEmpty())
	return cluster.Run(ctx, "get", "pv", name, "--ignore-not-found", "-o",
			"jsonpath={.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]}"),
		cluster.Run(ctx, "get", "logicalvolume", name, "-o", "jsonpath={.spec.nodeName}")
}

// startsOn starts a Pod with a volume on its node, and checks its data.
func startsOn(ctx SpecContext, v story.Volume, sum string) {
	GinkgoHelper()
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	isOn(ctx, v, sum)
}

// isOn checks that a claim is bound to a volume on a node, and that its Pod reads its data.
func isOn(ctx SpecContext, v story.Volume, sum string) {
	GinkgoHelper()
	persistentVolume, logicalVolume := nodeOf(ctx, v.Name)
	Expect(persistentVolume).To(Equal(v.Node))
	Expect(logicalVolume).To(Equal(v.Node))
	Expect(cluster.Run(ctx, "get", "pvc", "-n", namespace, v.Name, "-o", "jsonpath={.status.phase}")).To(Equal("Bound"))
	got, err := cluster.Checksum(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(sum))
}

// volumesOn returns the logical volumes of the device class on a node, without its thin pool.
func volumesOn(ctx SpecContext, node string) []string {
	GinkgoHelper()
	var names []string
	for _, name := range strings.Fields(cluster.OnNode(ctx, node, "lvs", "--noheadings", "-o", "lv_name", "vg1")) {
		if name != "thin-pool-1" {
			names = append(names, name)
		}
	}
	return names
}

// onlyVolumes waits until a node has a number of logical volumes.
func onlyVolumes(ctx SpecContext, node string, count int) {
	GinkgoHelper()
	Eventually(func() []string { return volumesOn(ctx, node) }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(HaveLen(count))
}

// onlyClaims waits until no LogicalVolume exists for a move.
func onlyClaims(ctx SpecContext) {
	GinkgoHelper()
	Eventually(func() string { return cluster.Run(ctx, "get", "logicalvolumes", "-o", "name") }).WithContext(ctx).
		WithPolling(2 * time.Second).ShouldNot(MatchRegexp("/move"))
}

func removed(ctx SpecContext, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}
