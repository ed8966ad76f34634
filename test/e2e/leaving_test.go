//go:build e2e

package e2e

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// leavesANode removes the node of a writing Pod from the device class of its volume, and adds it again later.
func leavesANode(ctx SpecContext) {
	const class = "thick-ext4"
	v := story.Volume{Namespace: namespace, Name: "left-behind", Class: "lvms-" + class, Size: "256Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "first")).To(Succeed())
	sum, err := cluster.Write(ctx, v, "first")
	Expect(err).NotTo(HaveOccurred())
	node := cluster.Run(ctx, "get", "pod", "-n", namespace, "first", "-o", "jsonpath={.spec.nodeName}")
	without := func(nodes ...string) {
		GinkgoHelper()
		change(ctx, func(storage *lvmv1alpha1.Storage) {
			at := slices.IndexFunc(storage.DeviceClasses,
				func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class })
			storage.DeviceClasses[at].NodeSelector = nil
			if len(nodes) > 0 {
				storage.DeviceClasses[at].NodeSelector = &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: nodes},
					}}}}
			}
		})
	}
	reason := func() string { return waitStatus(ctx, class, node, lvmv1alpha1.VGStatusReady).Reason }

	By("deselecting the node")
	without(node)
	Eventually(reason).WithContext(ctx).Should(
		ContainSubstring("no longer selects node " + node))
	Eventually(func() int64 { return scheduled(ctx, v.Class)[node] }).WithContext(ctx).
		Should(BeZero())
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())

	By("using the volume on the node")
	Expect(cluster.StopPod(ctx, namespace, "first")).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "second")).To(Succeed())
	Expect(cluster.Checksum(ctx, v, "second")).To(Equal(sum))

	By("evicting the Pod with a taint, while the agent stays and unmounts the volume")
	agent := func() string {
		return cluster.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-l", "app.kubernetes.io/name=vg-manager",
			"--field-selector", "spec.nodeName="+node, "-o", "name")
	}
	before := agent()
	cluster.Run(ctx, "taint", "node", node, "test=evict:NoExecute")
	DeferCleanup(func(ctx SpecContext) { _, _ = cluster.Kubectl(ctx, nil, "taint", "node", node, "test-") })
	cluster.Run(ctx, "wait", "pod/second", "-n", namespace, "--for=delete", story.Timeout)
	// The kubelet lets the Pod go once its own mount is gone, and unmounts the device's after that.
	Eventually(func() string { return cluster.OnNode(ctx, node, "sh", "-c", "grep topolvm /proc/mounts || true") }).
		WithContext(ctx).Should(BeEmpty())
	Expect(agent()).To(And(Equal(before), Not(BeEmpty())))

	By("deleting the last volume of the node")
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	Eventually(func() []string { return groups(ctx, node) }).WithContext(ctx).ShouldNot(ContainElement(class))
	Eventually(func() string { return cluster.OnNode(ctx, node, "wipefs", "--no-act", disks[1]) }).WithContext(ctx).
		Should(BeEmpty(), "the disk is blank again")

	By("selecting the node again, which gets its volume group when the taint is removed")
	without()
	Consistently(func() []string { return groups(ctx, node) }).WithContext(ctx).WithTimeout(10 * time.Second).
		ShouldNot(ContainElement(class))
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	cluster.Run(ctx, "taint", "node", node, "test-")
	Eventually(reason).WithContext(ctx).Should(BeEmpty())
	Expect(groups(ctx, node)).To(ContainElement(class))
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
}
