//go:build e2e

// Package selinux tests the product on nodes that enforce SELinux and confine Pods, as those of OpenShift.
package selinux

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, overprovisionRatio: 10}
    - name: vg2
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc]}
`

var (
	cluster suite.Cluster
	// mounted has the context of its Pod as an option of its mount: the Pod is the only one that can have it.
	mounted = story.Volume{Namespace: "default", Name: "mounted", Class: "lvms-vg1", Size: "512Mi",
		AccessMode: corev1.ReadWriteOncePod, Level: "s0:c10,c20"}
	// labeled has the context of its Pod on each file.
	labeled = story.Volume{Namespace: "default", Name: "labeled", Class: "lvms-vg2", Size: "256Mi", Level: "s0:c11,c21"}
	block   = story.Volume{Namespace: "default", Name: "block", Class: "lvms-vg1", Size: "256Mi", Block: true}
	// restored is a copy of mounted for a Pod with another context.
	restored = story.Volume{Namespace: "default", Name: "restored", Class: "lvms-vg1", Size: "768Mi",
		Snapshot: "before", AccessMode: corev1.ReadWriteOncePod, Level: "s0:c12,c22"}
	volumes = []story.Volume{mounted, labeled, block, restored}
	sums    = map[string]string{}
)

func TestSELinux(t *testing.T) {
	suite.Run(t, "LVM Storage on nodes that enforce SELinux")
}

var _ = Describe("LVM Storage on a node that enforces SELinux", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-selinux", Flavor: "selinux", Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}, {Size: 2 * lab.GiB}}})
		Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
		cluster.Configure(ctx, classes)
	}, NodeTimeout(20*time.Minute))

	It("confines Pods, which write to volumes of each kind", func(ctx SpecContext) {
		for _, v := range []story.Volume{mounted, labeled, block} {
			starts(ctx, v)
			sum, err := cluster.Write(ctx, v, v.Name)
			Expect(err).NotTo(HaveOccurred())
			sums[v.Name] = sum
			Expect(cluster.Shell(ctx, v.Namespace, v.Name, "cat /proc/self/attr/current")).To(
				HavePrefix("system_u:system_r:container_t:s0:c"))
		}
	}, NodeTimeout(20*time.Minute))

	It("mounts a ReadWriteOncePod volume with the context of its Pod, also a restored one for another Pod", func(
		ctx SpecContext) {
		Expect(cluster.Snapshot(ctx, mounted, restored.Snapshot)).To(Succeed())
		Expect(cluster.WaitSnapshot(ctx, "default", restored.Snapshot)).To(Succeed())
		starts(ctx, restored)
		sums[restored.Name] = sums[mounted.Name]
		haveTheirData(ctx)
		Expect(contexts(ctx)).To(ConsistOf(contextOf(mounted), contextOf(restored)))
	}, NodeTimeout(20*time.Minute))

	It("expands volumes while Pods use them", func(ctx SpecContext) {
		for _, v := range []story.Volume{mounted, labeled} {
			size, err := cluster.Expand(ctx, v, v.Name, "768Mi")
			Expect(err).NotTo(HaveOccurred())
			Expect(size).To(BeNumerically(">", 600<<20), v.Name)
		}
	}, NodeTimeout(20*time.Minute))

	It("has its volumes with their contexts after a power cut", func(ctx SpecContext) {
		node, err := cluster.Lab.Node("node1")
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Restart(ctx)).To(Succeed())
		haveTheirData(ctx)
		Expect(contexts(ctx)).To(ConsistOf(contextOf(mounted), contextOf(restored)))
	}, NodeTimeout(20*time.Minute))

	It("was never denied access, and a container with other categories is", func(ctx SpecContext) {
		Expect(cluster.OnNode1(ctx, "cat /sys/fs/selinux/enforce")).To(Equal("1"))
		Expect(cluster.OnNode1(ctx, denials)).To(BeEmpty())
		for _, v := range []story.Volume{mounted, labeled} {
			read := "runcon system_u:system_r:container_t:" + v.Level + " head -c 1 " + fileOf(ctx, v)
			Expect(cluster.OnNode1(ctx, read+" | wc -c")).To(Equal("1"), v.Name)
			read = "runcon system_u:system_r:container_t:s0:c1,c2 head -c 1 " + fileOf(ctx, v)
			Expect(cluster.OnNode1(ctx, read+" 2>&1 || true")).To(ContainSubstring("Permission denied"), v.Name)
		}
		Expect(cluster.OnNode1(ctx, denials)).NotTo(BeEmpty())
	}, NodeTimeout(10*time.Minute))

	It("leaves nothing on the disks", func(ctx SpecContext) {
		for _, v := range volumes {
			Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
		}
		Expect(cluster.RemoveSnapshot(ctx, "default", restored.Snapshot)).To(Succeed())
		for _, v := range volumes {
			Expect(cluster.Unclaim(ctx, v)).To(Succeed())
		}
		cluster.Run(ctx, "-n", story.OperatorNamespace, "delete", "lvmcluster", "my-lvmcluster", story.Timeout)
		Expect(cluster.OnNode1(ctx, "blkid -p /dev/ubdb /dev/ubdc || true")).To(BeEmpty())
	}, NodeTimeout(20*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get pods,pvc -A")
}, NodeTimeout(30*time.Minute))

// denials prints what SELinux has denied since the node started.
const denials = `dmesg | grep -a "avc: *denied" || true`

func starts(ctx context.Context, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
}

func haveTheirData(ctx context.Context) {
	GinkgoHelper()
	for _, v := range volumes {
		Eventually(func() (string, error) { return cluster.Checksum(ctx, v, v.Name) }).WithContext(ctx).
			WithPolling(2*time.Second).Should(Equal(sums[v.Name]), v.Name)
	}
}

func contextOf(v story.Volume) string { return "system_u:object_r:container_file_t:" + v.Level }

// contexts returns the contexts that file systems of volumes were mounted with.
func contexts(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Fields(cluster.OnNode1(ctx,
		`grep globalmount /proc/mounts | grep -o ',context="[^"]*"' | grep -o 'system_u[^"]*' || true`))
}

// fileOf returns the path on the node of the file that a Pod wrote to a volume.
func fileOf(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	var claim corev1.PersistentVolumeClaim
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: v.Name}, &claim)).To(Succeed())
	return "/var/lib/kubelet/pods/*/volumes/kubernetes.io~csi/" + claim.Spec.VolumeName + "/mount/file"
}
