//go:build e2e

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// comesBack deletes the Node of a volume. The node returns with its disks and without its labels, as after a repair.
func comesBack(ctx SpecContext) {
	const (
		node  = "node2"
		class = "thick-xfs"
	)
	v := story.Volume{Namespace: namespace, Name: "comes-back", Class: "lvms-" + class, Size: "256Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "before")).To(Succeed())
	sum, err := cluster.Write(ctx, v, "before")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.StopPod(ctx, namespace, "before")).To(Succeed())
	uid := cluster.Run(ctx, "get", "pv", "-o", "jsonpath={.items[?(@.spec.claimRef.name=='comes-back')].metadata.uid}")
	Expect(uid).NotTo(BeEmpty())

	By("deleting the Node")
	cluster.Run(ctx, "delete", "node", node)
	Eventually(func() bool {
		err := cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: node},
			&lvmv1alpha1.LVMVolumeGroupNodeStatus{})
		return apierrors.IsNotFound(err)
	}).WithContext(ctx).Should(BeTrue(), "its node status goes")
	claim := func() string {
		GinkgoHelper()
		return cluster.Run(ctx, "get", "pvc", "-n", namespace, v.Name, "-o",
			"jsonpath={.metadata.uid} {.status.phase}{.metadata.deletionTimestamp}")
	}
	kept := claim()
	Expect(kept).To(HaveSuffix(" Bound"), "its claim stays")

	By("registering it again without its label")
	lab, err := cluster.Lab.Node(node)
	Expect(err).NotTo(HaveOccurred())
	Expect(lab.Restart(ctx)).To(Succeed())
	Eventually(func() error {
		return cluster.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{})
	}).WithContext(ctx).Should(Succeed())
	waitStatus(ctx, "thick-ext4", node, lvmv1alpha1.VGStatusReady)
	Expect(groups(ctx, node)).To(ContainElement(class),
		"nobody touches a volume group of a class that does not select the node")

	Expect(claim()).To(Equal(kept), "its claim stays")

	By("labeling it")
	cluster.Run(ctx, "label", "node", node, "zone=b")
	Expect(waitStatus(ctx, class, node, lvmv1alpha1.VGStatusReady).Devices).NotTo(BeEmpty())
	Expect(cluster.Run(ctx, "get", "pv", "-o",
		"jsonpath={.items[?(@.spec.claimRef.name=='comes-back')].metadata.uid}")).To(Equal(uid))
	Expect(cluster.StartPod(ctx, v, "after")).To(Succeed())
	Expect(cluster.Checksum(ctx, v, "after")).To(Equal(sum))
	Expect(cluster.StopPod(ctx, namespace, "after")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}
