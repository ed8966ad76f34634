//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// refusesDeletions deletes objects of a bound volume as an administrator does. Everything stays as it is. What nothing
// refers to can be deleted.
func refusesDeletions(ctx SpecContext) {
	const class = "thick-ext4"
	v := story.Volume{Namespace: namespace, Name: "protected", Class: "lvms-" + class, Size: "256Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "protected")).To(Succeed())
	sum, err := cluster.Write(ctx, v, "protected")
	Expect(err).NotTo(HaveOccurred())
	node := cluster.Run(ctx, "get", "pod", "-n", namespace, "protected", "-o", "jsonpath={.spec.nodeName}")
	object := cluster.Run(ctx, "get", "pvc", "-n", namespace, v.Name, "-o", "jsonpath={.spec.volumeName}")
	volume := cluster.Run(ctx, "get", "logicalvolume", object, "-o", "jsonpath={.status.volumeID}")
	refused := func(says string, args ...string) {
		GinkgoHelper()
		_, err := cluster.Kubectl(ctx, nil, append([]string{"delete", "--timeout=1m"}, args...)...)
		Expect(err).To(MatchError(ContainSubstring(says)))
	}

	By("deleting the LVMVolumeGroup")
	const remedy = "To remove a device class, remove it from the LVMCluster"
	refused(remedy, "lvmvolumegroup", "-n", story.OperatorNamespace, class)
	refused(remedy, "lvmvolumegroup", "-n", story.OperatorNamespace, "--all")
	refused("is part of the LVMCluster", "lvmvolumegroupnodestatus", "-n", story.OperatorNamespace, node)
	By("deleting the LogicalVolume")
	refused("to which these objects refer: PersistentVolume "+object+", PersistentVolumeClaim "+namespace+"/"+v.Name,
		"logicalvolume", object)
	for _, kind := range []string{"lvmvolumegroup/" + class, "lvmvolumegroupnodestatus/" + node,
		"logicalvolume/" + object} {
		Expect(cluster.Run(ctx, "get", "-n", story.OperatorNamespace, kind, "-o",
			"jsonpath={.metadata.deletionTimestamp}")).To(BeEmpty(), kind)
	}
	Expect(cluster.Checksum(ctx, v, "protected")).To(Equal(sum))
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())

	By("deleting the LogicalVolume after its claim and its retained PersistentVolume")
	cluster.Run(ctx, "patch", "pv", object, "--patch", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	Expect(cluster.StopPod(ctx, namespace, "protected")).To(Succeed())
	cluster.Run(ctx, "delete", "pvc", "-n", namespace, v.Name, story.Timeout)
	refused("PersistentVolume "+object, "logicalvolume", object)
	cluster.Run(ctx, "delete", "pv", object, story.Timeout)
	Expect(logicalVolumesOf(ctx, node, class)).To(ContainSubstring(volume))
	cluster.Run(ctx, "delete", "logicalvolume", object, story.Timeout)
	Expect(logicalVolumesOf(ctx, node, class)).NotTo(ContainSubstring(volume))
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}

// logicalVolumesOf returns the names of the logical volumes of a device class on a node.
func logicalVolumesOf(ctx context.Context, node, class string) string {
	GinkgoHelper()
	return cluster.OnNode(ctx, node, "lvs", "--noheadings", "-o", "lv_name", class)
}

const earlierMetadata = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMRecovery
metadata:
  name: earlier-metadata
  namespace: openshift-lvm-storage
spec:
  nodeName: node2
  deviceClassName: thick-xfs
  action: RestoreMetadata
`

// leavesWithOldMetadata removes the label that a device class selects from a node, after the metadata of its volume
// group was replaced with that of a time without volumes.
func leavesWithOldMetadata(ctx SpecContext) {
	const class, node, old = "thick-xfs", "node2", "/root/old.vg"
	cluster.OnNode(ctx, node, "vgcfgbackup", "--file", old, class)
	volumes := []story.Volume{
		{Namespace: namespace, Name: "rolled-back-1", Class: "lvms-" + class, Size: "256Mi"},
		{Namespace: namespace, Name: "rolled-back-2", Class: "lvms-" + class, Size: "256Mi"}}
	var sums []string
	for _, v := range volumes {
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		sum, err := cluster.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
		sums = append(sums, sum)
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
	}
	before := logicalVolumesOf(ctx, node, class)
	Eventually(func() string { return cluster.OnNode(ctx, node, "sh", "-c", "grep topolvm /proc/mounts || true") }).
		WithContext(ctx).Should(BeEmpty())
	uuid := func() string { return cluster.OnNode(ctx, node, "vgs", "--noheadings", "-o", "vg_uuid", class) }
	same := uuid()

	By("replacing the metadata, and removing the label")
	cluster.OnNode(ctx, node, "sh", "-c", "vgchange --activate n "+class+" && vgcfgrestore --file "+old+" "+class)
	Expect(logicalVolumesOf(ctx, node, class)).To(BeEmpty())
	cluster.Run(ctx, "label", "node", node, "zone-")
	DeferCleanup(func(ctx SpecContext) {
		_, _ = cluster.Kubectl(ctx, nil, "label", "--overwrite", "node", node, "zone=b")
	})
	Eventually(func() string { return waitStatus(ctx, class, node, lvmv1alpha1.VGStatusDegraded).Reason }).
		WithContext(ctx).Should(ContainSubstring(string(lvmv1alpha1.RecoveryRestoreMetadata)))
	Consistently(uuid).WithContext(ctx).WithTimeout(time.Minute).WithPolling(5*time.Second).Should(
		Equal(same), "nothing is removed")

	By("restoring the metadata")
	Expect(cluster.ApplyManifest(ctx, earlierMetadata)).To(Succeed())
	recovery := func(path string) func(context.Context) string {
		return func(ctx context.Context) string {
			return cluster.Run(ctx, "-n", story.OperatorNamespace, "get", "lvmrec", "earlier-metadata", "-o",
				"jsonpath="+path)
		}
	}
	Eventually(recovery("{.status.phase}")).WithContext(ctx).Should(Equal("AwaitingApproval"))
	cluster.Run(ctx, "-n", story.OperatorNamespace, "patch", "lvmrec", "earlier-metadata", "--type", "merge", "--patch",
		`{"spec":{"approvedPlan":"`+recovery("{.status.plan.id}")(ctx)+`"}}`)
	cluster.Run(ctx, "-n", story.OperatorNamespace, "wait", "lvmrec/earlier-metadata", "--for=condition=Succeeded",
		story.Timeout)
	AddReportEntry("its end", recovery("{.status.message}")(ctx))
	cluster.Run(ctx, "-n", story.OperatorNamespace, "delete", "lvmrec", "earlier-metadata")
	Expect(logicalVolumesOf(ctx, node, class)).To(Equal(before))

	By("selecting the node again")
	cluster.Run(ctx, "label", "node", node, "zone=b")
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	for i, v := range volumes {
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sums[i]))
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}
	cluster.OnNode(ctx, node, "rm", old)
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}
