//go:build e2e

// Package alpha tests alpha features of Kubernetes that the product uses: the health of volumes in its API
// (CSIVolumeHealth), and PersistentVolumes that are moved without being recreated (MutablePVNodeAffinity).
package alpha

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	namespace = "default"
	node      = "node1"
	classes   = `
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
    - name: mirror
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}
      deviceSelector: {optionalPaths: [MIRROR1, MIRROR2]}
      raidConfig: {type: raid1}
`
	move = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: VolumeMove
metadata: {name: moved, namespace: openshift-lvm-storage}
spec: {claim: {namespace: default, name: moved}, nodeName: node2, keepSource: 0s}
`
	// soon is how long it may take from a disk to the status of a Pod, a claim and a CSINode on a machine that is busy.
	// The note of a run has the real time.
	soon = 2 * time.Minute
)

var (
	cluster suite.Cluster
	volume  = story.Volume{Namespace: namespace, Name: "data", Class: "lvms-mirror", Size: "256Mi"}
	disks   []lab.Disk
)

func TestAlpha(t *testing.T) { suite.Run(t, "LVM Storage with alpha features of Kubernetes") }

var _ = Describe("With alpha features of Kubernetes", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-alpha", Nodes: 2, AlphaFeatures: true,
			Disks: []lab.DiskSpec{{Size: 2 * lab.GiB}}})
		host, err := cluster.Lab.Node(node)
		Expect(err).NotTo(HaveOccurred())
		disks, err = host.AddSCSIDisks(ctx, 2, 512)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
		cluster.Configure(ctx,
			strings.NewReplacer("MIRROR1", disks[0].Device, "MIRROR2", disks[1].Device).Replace(classes))
		Expect(cluster.Claim(ctx, volume)).To(Succeed())
		cluster.StartWriting(ctx, volume.Name)
	}, NodeTimeout(20*time.Minute))

	It("a volume moves to another node, and its PersistentVolume stays", func(ctx SpecContext) {
		v := story.Volume{Namespace: namespace, Name: "moved", Class: "lvms-vg1", Size: "300Mi", Node: node}
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		sum, err := cluster.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
		before := persistentVolume(ctx, v.Name)
		Expect(cluster.ApplyManifest(ctx, move)).To(Succeed())
		cluster.Run(ctx, "-n", story.OperatorNamespace, "wait", "volumemove/moved",
			"--for=jsonpath={.status.phase}=Completed", story.Timeout)
		after := persistentVolume(ctx, v.Name)
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Spec.PersistentVolumeReclaimPolicy).To(Equal(before.Spec.PersistentVolumeReclaimPolicy))
		v.Node = "node2"
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sum))
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}, NodeTimeout(20*time.Minute))

	It("the health of a volume is not mentioned while it is healthy", func(ctx SpecContext) {
		Consistently(reports(ctx)).WithContext(ctx).WithTimeout(30 * time.Second).Should(Equal(report{}))
	}, NodeTimeout(5*time.Minute))

	It("a missing disk is in the status of the Pod, the claim and the CSINode", func(ctx SpecContext) {
		host, err := cluster.Lab.Node(node)
		Expect(err).NotTo(HaveOccurred())
		Expect(host.PullDisk(ctx, disks[1].Name)).To(Succeed())
		start := time.Now()
		Eventually(reports(ctx)).WithContext(ctx).WithTimeout(soon).Should(And(
			HaveField("Pod", ContainElement("Degraded DeviceMissing")),
			HaveField("Claim", ContainElement("Degraded DeviceMissing")),
			HaveField("Node", ContainElement("StorageDegraded DeviceMissing"))))
		AddReportEntry("from the pulled disk to the status", time.Since(start).Round(time.Second).String())
		AddReportEntry("claim", cluster.Run(ctx, "get", "pvc", volume.Name, "-o", "jsonpath={.status.healthStatus}"))
		cluster.StillWrites(ctx)
	}, NodeTimeout(10*time.Minute))

	It("it is no longer mentioned when the disk is back", func(ctx SpecContext) {
		host, err := cluster.Lab.Node(node)
		Expect(err).NotTo(HaveOccurred())
		_, err = host.PutDisk(ctx, disks[1].Name)
		Expect(err).NotTo(HaveOccurred())
		start := time.Now()
		Eventually(reports(ctx)).WithContext(ctx).WithTimeout(soon).Should(Equal(report{}))
		AddReportEntry("from the returned disk to the status", time.Since(start).Round(time.Second).String())
		cluster.StillWrites(ctx)
	}, NodeTimeout(10*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get pods,pvc,csinode -A -o yaml", "get logicalvolumes -o yaml")
}, NodeTimeout(30*time.Minute))

// persistentVolume returns the PersistentVolume of a claim.
func persistentVolume(ctx context.Context, claim string) *corev1.PersistentVolume {
	GinkgoHelper()
	c, pv := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: claim}, c)).To(Succeed())
	Expect(cluster.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, pv)).To(Succeed())
	return pv
}

// report has the conditions that the objects of Kubernetes have: status and reason.
type report struct{ Pod, Claim, Node []string }

func reports(ctx context.Context) func(g Gomega) report {
	return func(g Gomega) report {
		var r report
		pod := &corev1.Pod{}
		g.Expect(cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "writer"}, pod)).To(Succeed())
		for _, v := range pod.Status.VolumeHealth {
			for _, c := range v.HealthConditions {
				r.Pod = append(r.Pod, string(c.Status)+" "+c.Reason)
			}
		}
		claim := &corev1.PersistentVolumeClaim{}
		g.Expect(cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: volume.Name}, claim)).To(Succeed())
		if health := claim.Status.HealthStatus; health != nil {
			for _, c := range health.HealthConditions {
				r.Claim = append(r.Claim, string(c.Status)+" "+c.Reason)
			}
		}
		csiNode := &storagev1.CSINode{}
		g.Expect(cluster.Get(ctx, client.ObjectKey{Name: node}, csiNode)).To(Succeed())
		for _, driver := range csiNode.Status.StorageHealth {
			g.Expect(driver.Name).To(Equal(wellknown.DriverName))
			for _, c := range driver.HealthConditions {
				r.Node = append(r.Node, string(c.Status)+" "+c.Reason)
			}
		}
		return r
	}
}
