//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const lostDisk = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMRecovery
metadata:
  name: lost-disk
  namespace: openshift-lvm-storage
spec:
  nodeName: node1
  deviceClassName: doomed
  action: RemoveLostDevices
`

// losesADisk pulls one of the two disks of a thin pool for good, while a Pod writes, and follows the how-to "Recover
// from lost disks".
func losesADisk(ctx SpecContext) {
	node, err := cluster.Lab.Node("node1")
	Expect(err).NotTo(HaveOccurred())
	scsi, err := node.AddSCSIDisks(ctx, 2, 512)
	Expect(err).NotTo(HaveOccurred())
	change(ctx, func(storage *lvmv1alpha1.Storage) {
		storage.DeviceClasses = append(storage.DeviceClasses, doomed(scsi))
	})
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	v := story.Volume{Namespace: namespace, Name: "on-a-lost-disk", Class: "lvms-doomed", Size: "256Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "unlucky")).To(Succeed())
	_, err = cluster.Write(ctx, v, "unlucky")
	Expect(err).NotTo(HaveOccurred())

	By("pulling a disk for good")
	Expect(node.PullDisk(ctx, scsi[1].Name)).To(Succeed())
	start := time.Now()
	Eventually(func() string { return waitStatus(ctx, "doomed", "node1", lvmv1alpha1.VGStatusDegraded).Reason }).
		WithContext(ctx).Should(And(ContainSubstring("create an LVMRecovery"),
		ContainSubstring(namespace+"/"+v.Name)))
	AddReportEntry("from the lost disk to the status", time.Since(start).Round(100*time.Millisecond).String())

	By("planning the recovery")
	Expect(cluster.ApplyManifest(ctx, lostDisk)).To(Succeed())
	recovery := func(path string) func(context.Context) string {
		return func(ctx context.Context) string {
			return cluster.Run(ctx, "-n", story.OperatorNamespace, "get", "lvmrec", "lost-disk", "-o", "jsonpath="+path)
		}
	}
	Eventually(recovery("{.status.phase}")).WithContext(ctx).Should(
		Equal("AwaitingApproval"))
	Expect(recovery("{.status.plan.lostVolumes[*].claim}")(ctx)).To(Equal(namespace + "/" + v.Name))
	AddReportEntry("kubectl get lvmrec", cluster.Run(ctx, "-n", story.OperatorNamespace, "get", "lvmrec"))

	By("approving the plan while a Pod still uses the volume")
	cluster.Run(ctx, "-n", story.OperatorNamespace, "patch", "lvmrec", "lost-disk", "--type", "merge", "--patch",
		`{"spec":{"approvedPlan":"`+recovery("{.status.plan.id}")(ctx)+`"}}`)
	Eventually(recovery("{.status.message}")).WithContext(ctx).Should(
		ContainSubstring("still in use"))
	Expect(cluster.StopPod(ctx, namespace, "unlucky")).To(Succeed())
	cluster.Run(ctx, "-n", story.OperatorNamespace, "wait", "lvmrec/lost-disk", "--for=condition=Succeeded",
		story.Timeout)
	AddReportEntry("its end", recovery("{.status.message}")(ctx))

	By("deleting the lost claim, and using the device class again")
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	again := v
	again.Name = "on-the-other-disk"
	Expect(cluster.Claim(ctx, again)).To(Succeed())
	Expect(cluster.StartPod(ctx, again, "lucky")).To(Succeed())
	_, err = cluster.Write(ctx, again, "lucky")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.StopPod(ctx, namespace, "lucky")).To(Succeed())
	Expect(cluster.Unclaim(ctx, again)).To(Succeed())
	cluster.Run(ctx, "-n", story.OperatorNamespace, "delete", "lvmrec", "lost-disk")
	removeClass(ctx, "doomed")
	Eventually(func() []string { return groups(ctx, "node1") }).WithContext(ctx).ShouldNot(
		ContainElement("doomed"))
	for _, disk := range scsi {
		Expect(node.RemoveDisk(ctx, disk.Name)).To(Succeed())
	}
}

// doomed is a thin device class on disks of node1.
func doomed(disks []lab.Disk) lvmv1alpha1.DeviceClass {
	selector := &lvmv1alpha1.DeviceSelector{}
	for _, disk := range disks {
		selector.OptionalPaths = append(selector.OptionalPaths, lvmv1alpha1.DevicePath(disk.Device))
	}
	return lvmv1alpha1.DeviceClass{
		Name: "doomed", DeviceSelector: selector,
		ThinPoolConfig: &lvmv1alpha1.ThinPoolConfig{Name: "thin-pool-1", OverprovisionRatio: 10},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname,
				Operator: corev1.NodeSelectorOpIn, Values: []string{"node1"}}}}}},
	}
}
