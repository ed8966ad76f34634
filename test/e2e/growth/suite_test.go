//go:build e2e

// Package growth tests a cluster that begins with one node and grows, as single-node OpenShift does: to a second node,
// and an arbiter, which has storage only if the administrator selects it.
package growth

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	storagev1 "k8s.io/api/storage/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	namespace   = "default"
	clusterName = "my-lvmcluster"
	classes     = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {optionalPaths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
`
	// arbiter is the Node of an arbiter with the label and the taint that OpenShift gives it. The kubelet keeps them.
	arbiter = `
apiVersion: v1
kind: Node
metadata:
  name: node3
  labels: {kubernetes.io/hostname: node3, node-role.kubernetes.io/arbiter: ""}
spec:
  taints: [{key: node-role.kubernetes.io/arbiter, effect: NoSchedule}]
`
	tolerate = `{"spec":{"tolerations":[{"key":"node-role.kubernetes.io/arbiter","operator":"Exists"}]}}`
)

var (
	cluster suite.Cluster
	first   = story.Volume{Namespace: namespace, Name: "first", Class: "lvms-vg1", Size: "512Mi"}
)

func TestGrowth(t *testing.T) { suite.Run(t, "LVM Storage on a cluster that grows") }

var _ = Describe("LVM Storage on a single node", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-growth", Nodes: 3, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
		for _, name := range []string{"node2", "node3"} {
			Expect(node(name).PowerOff(ctx)).To(Succeed())
			cluster.Run(ctx, "delete", "node", name)
		}
		Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
		cluster.Configure(ctx, classes)
		Expect(cluster.Claim(ctx, first)).To(Succeed())
		cluster.StartWriting(ctx, first.Name)
	}, NodeTimeout(20*time.Minute))

	It("has volumes on a second node that joins", func(ctx SpecContext) {
		Expect(node("node2").Start(ctx)).To(Succeed())
		ready(ctx, "node1", "node2")
		hasVolumes(ctx, "node2")
		cluster.StillWrites(ctx)
	}, NodeTimeout(20*time.Minute))

	It("leaves an arbiter alone", func(ctx SpecContext) {
		Expect(cluster.ApplyManifest(ctx, arbiter)).To(Succeed())
		Expect(node("node3").Start(ctx)).To(Succeed())
		cluster.Run(ctx, "wait", "--for=condition=Ready", "node/node3", story.Timeout)
		// The operator has seen the node when its next volume is ready.
		hasVolumes(ctx, "node1")
		ready(ctx, "node1", "node2")
		Expect(agents(ctx)).To(ConsistOf("node1", "node2"))
		Expect(cluster.OnNode(ctx, "node3", "/bin/sh", "-c", "blkid -p /dev/ubdb || true")).To(BeEmpty())
	}, NodeTimeout(20*time.Minute))

	It("uses the arbiter's disk if the administrator tolerates its taint", func(ctx SpecContext) {
		cluster.Run(ctx, "patch", "lvmcluster", clusterName, "-n", story.OperatorNamespace, "--type=merge", "-p", tolerate)
		ready(ctx, "node1", "node2", "node3")
		Expect(agents(ctx)).To(ConsistOf("node1", "node2", "node3"))
		cluster.StillWrites(ctx)
	}, NodeTimeout(20*time.Minute))

	It("leaves nothing on any node", func(ctx SpecContext) {
		Expect(cluster.StopPod(ctx, namespace, "writer")).To(Succeed())
		Expect(cluster.Unclaim(ctx, first)).To(Succeed())
		cluster.Run(ctx, "-n", story.OperatorNamespace, "delete", "lvmcluster", clusterName, story.Timeout)
		for _, name := range []string{"node1", "node2", "node3"} {
			Expect(cluster.OnNode(ctx, name, "/bin/sh", "-c", "blkid -p /dev/ubdb || true")).To(BeEmpty(), name)
		}
	}, NodeTimeout(20*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get nodes,pods -A -o wide", "get lvmcluster,lvmvolumegroupnodestatus -A -o yaml")
}, NodeTimeout(30*time.Minute))

func node(name string) *lab.Node {
	GinkgoHelper()
	n, err := cluster.Lab.Node(name)
	Expect(err).NotTo(HaveOccurred())
	return n
}

// agents returns the nodes that have a node agent.
func agents(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Fields(cluster.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-l", "app.kubernetes.io/name=vg-manager",
		"-o", "jsonpath={.items[*].spec.nodeName}"))
}

// ready waits until the volume group is ready on these nodes and on no other, and the LVMCluster is ready.
func ready(ctx context.Context, nodes ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		list := &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}
		g.Expect(cluster.List(ctx, list)).To(Succeed())
		var found []string
		for _, status := range list.Items {
			for _, group := range status.Status.NodeStatus {
				found = append(found, fmt.Sprint(status.Name, " ", group.Status))
			}
		}
		var want []string
		for _, name := range nodes {
			want = append(want, fmt.Sprint(name, " ", lvmv1alpha1.VGStatusReady))
		}
		g.Expect(found).To(ConsistOf(want))
	}).WithContext(ctx).WithTimeout(4 * time.Minute).WithPolling(time.Second).Should(Succeed())
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	Eventually(func(g Gomega) {
		list := &storagev1.CSIStorageCapacityList{}
		g.Expect(cluster.List(ctx, list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(len(nodes)))
	}).WithContext(ctx).WithTimeout(time.Minute).WithPolling(time.Second).Should(Succeed())
}

// hasVolumes writes to a new volume on a node, and deletes it.
func hasVolumes(ctx context.Context, name string) {
	GinkgoHelper()
	v := story.Volume{Namespace: namespace, Name: "on-" + name, Class: "lvms-vg1", Size: "256Mi", Node: name}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	_, err := cluster.Write(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}
