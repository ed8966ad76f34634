//go:build e2e

// Package replicas tests three operators: the leader is lost several times while claims are created and deleted.
package replicas

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	namespace   = "default"
	clusterName = "my-lvmcluster"
	group       = "vg1"
	// class is the StorageClass of the load. Its claims are bound before a Pod uses them.
	class = "load"
	// takeover is the time limit for another operator to serve claims.
	takeover = 3 * time.Minute
)

var cluster suite.Cluster

func TestReplicas(t *testing.T) { suite.Run(t, "Three operators") }

const lvmCluster = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: ext4
      deviceSelector: {paths: [DISK]}
`

var _ = Describe("Three operators", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-replicas", Nodes: 3, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
		Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
		cluster.Run(ctx, "-n", story.OperatorNamespace, "patch", "deployment", "lvms-operator", "--type=json", "-p",
			`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--standbys=2"}]`)
		node, err := cluster.Lab.Node("node1")
		Expect(err).NotTo(HaveOccurred())
		disks, err := node.Disks(ctx)
		Expect(err).NotTo(HaveOccurred())
		cluster.Configure(ctx, strings.ReplaceAll(lvmCluster, "DISK", disks[0].Device))
		immediate := storagev1.VolumeBindingImmediate
		Expect(cluster.Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: wellknown.DriverName,
			VolumeBindingMode: &immediate,
			Parameters:        map[string]string{wellknown.DeviceClassParameter: group},
		})).To(Succeed())
	}, NodeTimeout(20*time.Minute))

	JustAfterEach(func(ctx SpecContext) { suite.ReportFailure(ctx, cluster.Cluster) }, NodeTimeout(30*time.Minute))

	It("serve claims while one leader after another is lost", servesWithoutTheLeader, NodeTimeout(25*time.Minute))
})

// servesWithoutTheLeader loses the leader in each way, under load, and compares claims and logical volumes at the end.
func servesWithoutTheLeader(ctx SpecContext) {
	all := []string{"node1", "node2", "node3"}
	cluster.OperatorOnEach(ctx, all)
	load := startLoad()
	DeferCleanup(load.stop)
	servesAfter(ctx, "the start")

	By("killing the process of the leader, which its Pod starts again")
	_, node := cluster.Leader(ctx)
	_, err := node.Exec(ctx, "pkill", "-KILL", "-f", "^/lvms operator")
	Expect(err).NotTo(HaveOccurred())
	servesAfter(ctx, "the process was killed")
	cluster.OperatorOnEach(ctx, all)

	By("deleting the Pod of the leader")
	first, _ := cluster.Leader(ctx)
	cluster.Run(ctx, "-n", story.OperatorNamespace, "delete", "pod", first, "--grace-period=0", "--force")
	cluster.WaitForAnotherLeader(ctx, first)
	servesAfter(ctx, "the Pod was deleted")
	cluster.OperatorOnEach(ctx, all)

	By("cutting the power of two leaders' nodes, one after the other")
	first, one := cluster.Leader(ctx)
	Expect(one.PowerCut(ctx)).To(Succeed())
	cluster.WaitForAnotherLeader(ctx, first)
	second, two := cluster.Leader(ctx)
	Expect(two.PowerCut(ctx)).To(Succeed())
	cluster.WaitForAnotherLeader(ctx, second)
	Expect(one.Start(ctx)).To(Succeed())
	Expect(two.Start(ctx)).To(Succeed())
	servesAfter(ctx, "two of three nodes had no power")
	cluster.OperatorOnEach(ctx, all)

	By("comparing claims and logical volumes")
	created, failures := load.stop()
	AddReportEntry("load", fmt.Sprintf("%d claims created; %d requests failed, and were sent again", created, failures))
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	Eventually(func(g Gomega) {
		names := claims(ctx, "")
		g.Expect(names).NotTo(BeEmpty())
		g.Expect(claims(ctx, "Bound")).To(HaveLen(len(names)))
		g.Expect(logicalVolumes(ctx, all)).To(HaveLen(len(names)), "one logical volume for each claim")
		g.Expect(strings.Fields(cluster.Run(ctx, "get", "logicalvolume", "-o", "name"))).To(HaveLen(len(names)))
	}).WithContext(ctx).WithPolling(3 * time.Second).Should(Succeed())
	cluster.Run(ctx, "delete", "pvc", "-n", namespace, "--all", "--wait=false")
	Eventually(logicalVolumes).WithContext(ctx).WithArguments(ctx, all).
		WithPolling(3 * time.Second).Should(BeEmpty())
}

// servesAfter waits until a new claim is bound.
func servesAfter(ctx context.Context, what string) {
	GinkgoHelper()
	name, start := "after-"+strings.ToLower(strings.ReplaceAll(what, " ", "-")), time.Now()
	Expect(cluster.Claim(ctx, story.Volume{Namespace: namespace, Name: name, Class: class, Size: "16Mi"})).To(Succeed())
	Eventually(claims).WithContext(ctx).WithArguments(ctx, "Bound").WithTimeout(takeover).
		Should(ContainElement(name), "claims are served after "+what)
	AddReportEntry("after "+what, "a new claim was bound in "+time.Since(start).Round(100*time.Millisecond).String())
}

// claims returns the names of the claims of the load that have a phase; all of them if it is empty.
func claims(ctx context.Context, phase string) []string {
	GinkgoHelper()
	filter := "*"
	if phase != "" {
		filter = `?(@.status.phase=="` + phase + `")`
	}
	return strings.Fields(cluster.Run(ctx, "get", "pvc", "-n", namespace, "-o",
		"jsonpath={range .items["+filter+"]}{.metadata.name}{\"\\n\"}{end}"))
}

// logicalVolumes returns the logical volumes on all nodes.
func logicalVolumes(ctx context.Context, nodes []string) []string {
	GinkgoHelper()
	var all []string
	for _, node := range nodes {
		all = append(all, strings.Fields(cluster.OnNode(ctx, node, "lvm", "lvs", "--noheadings", "--options", "lv_name",
			group))...)
	}
	return all
}
