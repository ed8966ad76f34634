//go:build e2e

// Package comeback tests that volumes come back with their data: after a node was reinstalled, etcd was restored from
// an older backup, also from one of before a VolumeMove, disks were moved to another node, the whole cluster was lost,
// a Node was deleted with its claims, or an image-based upgrade replaced etcd.
package comeback

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	clusterName = "comeback"
	namespace   = "comeback"
	// class is the thin device class, and its volume group.
	class = "vg1"
	// disk is the device of the first data disk of each node.
	disk     = "/dev/ubdb"
	diskSize = 4 * lab.GiB
)

// cluster is the cluster of the current story.
var cluster suite.Cluster

func TestComeback(t *testing.T) {
	suite.Run(t, "LVM Storage after a disaster")
}

func TestEachSpecIsInOneChapter(t *testing.T) {
	suite.Chapters(t, "reinstalled", "devicesfile", "etcd", "relocated", "moved", "cluster", "deleted", "image")
}

// Each story has its own cluster, and is selected by its label.
var _ = Describe("Volumes come back", func() {
	It("when their node is reinstalled", Label("reinstalled"), func(ctx SpecContext) { isReinstalled(ctx, "") },
		NodeTimeout(40*time.Minute))
	It("when their node with a devices file is reinstalled", Label("devicesfile"),
		func(ctx SpecContext) { isReinstalled(ctx, "devicesfile") }, NodeTimeout(40*time.Minute))
	It("when etcd is restored from an older backup", Label("etcd"), isRestored, NodeTimeout(40*time.Minute))
	It("when etcd is restored from a backup of before their move to another node", Label("relocated"), areRelocated,
		NodeTimeout(40*time.Minute))
	It("when their disks are moved to another node", Label("moved"), areMoved, NodeTimeout(40*time.Minute))
	It("in a new cluster when the whole cluster is lost", Label("cluster"), isLost, NodeTimeout(40*time.Minute))
	It("when their node was deleted with its claims", Label("deleted"), areDeleted, NodeTimeout(40*time.Minute))
	It("in a new system with the cluster ID and the restored objects of the former one", Label("image"),
		areRestoredAsObjects, NodeTimeout(40*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get lvmrecovery -A -o yaml")
}, NodeTimeout(30*time.Minute))

// bringUp starts a cluster for the current story, and installs the operator.
func bringUp(ctx context.Context, o lab.Options) {
	GinkgoHelper()
	cluster = suite.UpAndRecord(ctx, o)
	install(ctx)
}

func install(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
	cluster.Run(ctx, "create", "namespace", namespace)
}

const thinClass = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: comeback, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {optionalPaths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
`

// reportTimes reports how long after a disaster the status named it, and how long the action took.
func reportTimes(status, action time.Duration) {
	AddReportEntry(fmt.Sprintf("disaster: status after %s, action took %s, in which the agent was not killed",
		status.Round(time.Second), action.Round(time.Second)))
}

// createClasses creates the LVMCluster, and waits until it is ready.
func createClasses(ctx context.Context, manifest string) {
	GinkgoHelper()
	cluster.Configure(ctx, manifest)
}

// adopt allows a volume group of a device class, given by its index, to be used on a node.
func adopt(ctx context.Context, index int, node, uuid string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`[{"op":"add","path":"/spec/storage/deviceClasses/%d/adopt",`+
		`"value":[{"node":%q,"volumeGroupUUID":%q}]}]`, index, node, uuid)
	// After a node was lost, the connection of the API server to the operator there is broken, which its next call
	// notices.
	Eventually(func() error {
		_, err := cluster.Kubectl(ctx, nil, "-n", story.OperatorNamespace, "patch", "lvmcluster", clusterName,
			"--type", "json", "--patch", patch)
		return err
	}).WithContext(ctx).Should(Succeed())
}

// adoption returns the UUID in the entry for adopt that the reason of a status names for a node.
func adoption(reason, node string) string {
	GinkgoHelper()
	_, after, found := strings.Cut(reason, "adopt: [{node: "+node+", volumeGroupUUID: ")
	Expect(found).To(BeTrue(), "the reason names the entry for adopt: %s", reason)
	uuid, _, found := strings.Cut(after, "}]")
	Expect(found).To(BeTrue(), "the reason names the entry for adopt: %s", reason)
	return uuid
}

// statusOf returns the status of a device class on a node, or an empty one.
func statusOf(ctx context.Context, node, name string) lvmv1alpha1.VGStatus {
	GinkgoHelper()
	object := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	key := client.ObjectKey{Namespace: story.OperatorNamespace, Name: node}
	if err := cluster.Get(ctx, key, object); err != nil {
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return lvmv1alpha1.VGStatus{}
	}
	at := slices.IndexFunc(object.Status.NodeStatus, func(s lvmv1alpha1.VGStatus) bool { return s.Name == name })
	if at < 0 {
		return lvmv1alpha1.VGStatus{}
	}
	return object.Status.NodeStatus[at]
}

// reasonOf returns a function that returns the reason in the status of the device class on a node.
func reasonOf(node string) func(context.Context) string {
	return func(ctx context.Context) string { return statusOf(ctx, node, class).Reason }
}

// orphansOf returns a function that returns the orphans of all device classes on a node, as "KIND NAME CLAIM".
func orphansOf(node string) func(context.Context) []string {
	return func(ctx context.Context) []string {
		object := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		Expect(cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: node}, object)).To(Succeed())
		var all []string
		for _, s := range object.Status.NodeStatus {
			for _, o := range s.Orphans {
				all = append(all, fmt.Sprintf("%s %s %s", o.Kind, o.Name, o.Claim))
			}
		}
		return all
	}
}

// expectNoOrphan checks that a node has no orphan. An orphan is reported after 30 seconds.
func expectNoOrphan(ctx context.Context, node string) {
	GinkgoHelper()
	Consistently(orphansOf(node)).WithContext(ctx).WithTimeout(40 * time.Second).WithPolling(2 * time.Second).Should(
		BeEmpty())
}

// expectOrphansGone waits until the status of a node no longer lists imported volumes as orphans, and checks that it
// lists none later.
func expectOrphansGone(ctx context.Context, node string) {
	GinkgoHelper()
	Eventually(orphansOf(node)).WithContext(ctx).Should(BeEmpty())
	expectNoOrphan(ctx, node)
}

// volumesOn returns the UUIDs and names of all logical volumes of a node, and its physical volumes. They do not change
// unless a volume or a disk is created, removed or wiped.
func volumesOn(ctx context.Context, node string) []string {
	GinkgoHelper()
	lvs := cluster.OnNode(ctx, node, "lvs", "--all", "--noheadings", "-o", "lv_uuid,vg_uuid,lv_name")
	pvs := cluster.OnNode(ctx, node, "pvs", "--noheadings", "-o", "pv_uuid,vg_uuid")
	var lines []string
	for _, line := range strings.Split(lvs+"\n"+pvs, "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// written is a volume with data, and its Pod.
type written struct {
	story.Volume
	sum string
	// uid is the UID of the claim.
	uid string
}

func (w written) pod() string { return w.Name + "-pod" }

// write creates a claim, and a Pod that writes data to it and keeps running.
func write(ctx context.Context, v story.Volume) written {
	GinkgoHelper()
	v.Namespace = namespace
	w := written{Volume: v}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, w.pod())).To(Succeed())
	var err error
	w.sum, err = cluster.Write(ctx, v, w.pod())
	Expect(err).NotTo(HaveOccurred())
	claim := w.claim(ctx)
	Expect(claim.Spec.VolumeName).NotTo(BeEmpty())
	w.uid = string(claim.UID)
	return w
}

func (w written) claim(ctx context.Context) *corev1.PersistentVolumeClaim {
	GinkgoHelper()
	claim := &corev1.PersistentVolumeClaim{}
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, claim)).To(Succeed())
	return claim
}

// volume returns the PersistentVolume of the claim.
func (w written) volume(ctx context.Context) *corev1.PersistentVolume {
	GinkgoHelper()
	pv := &corev1.PersistentVolume{}
	Expect(cluster.Get(ctx, client.ObjectKey{Name: w.claim(ctx).Spec.VolumeName}, pv)).To(Succeed())
	Expect(pv.Spec.CSI).NotTo(BeNil())
	return pv
}

// isRead checks that the Pod, which may have been restarted, runs on a node and reads the data.
func (w written) isRead(ctx context.Context, node string) {
	GinkgoHelper()
	var sum string
	Eventually(func() (err error) {
		sum, err = cluster.Checksum(ctx, w.Volume, w.pod())
		return err
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(Succeed())
	Expect(sum).To(Equal(w.sum), "data of the claim %s", w.Name)
	Expect(cluster.Run(ctx, "get", "pod", "-n", w.Namespace, w.pod(), "-o", "jsonpath={.spec.nodeName}")).To(
		Equal(node))
}

// isReadAgain checks that a new Pod reads the data.
func (w written) isReadAgain(ctx context.Context, node string) {
	GinkgoHelper()
	Expect(cluster.StartPod(ctx, w.Volume, w.pod())).To(Succeed())
	w.isRead(ctx, node)
}
